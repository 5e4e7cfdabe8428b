"""What is finished is kept, however a race is ended: Ctrl-C, SIGTERM, or kill -9."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from house import hear_interrupts
from long_cases import cases

pytestmark = pytest.mark.usefixtures("known_references")

# The fourth heat (the second of the second lane) hangs in its build until the race is ended.
HANGS_IN_THE_FOURTH = '["fake/*"]\nfail = { how = "hang", phase = "build", heat = 3 }\n'
HANGS_IN_THE_FIRST = '["fake/*"]\nfail = { how = "hang", phase = "build", heat = 0 }\n'


@pytest.fixture
def start(house):
    """Start a race and wait until the heat is under way in which it hangs."""

    def start_race(script=HANGS_IN_THE_FOURTH, until="round 2 of 3", processes=5):
        house.script(script)
        process = house.start("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "3")
        house.read_until(process, until)
        house.wait_for_processes(processes)  # the race, two heats and the guardian of each
        time.sleep(0.1)
        return process

    return start_race


def heats_of(record):
    return {lane["name"]: [result["heat"]["order"] for result in lane["heats"]] for lane in record["lanes"]}


KEPT = {"fake/cpu/as-written": [0], "fake/cpu/best": [1]}  # the duet before


@pytest.mark.parametrize(("sent", "code"), cases(("SIGTERM", 143), long=[("SIGINT", 130), ("SIGHUP", 129)]))
def test_a_signal_keeps_finished_heats_and_shows_them(house, start, sent, code):
    """A partial table, a record that is "interrupted", and the signal's code; the hanging heat is not waited for."""
    process = start()
    began_s = time.monotonic()
    process.send_signal(getattr(signal, sent))
    answer = house.finish(process)
    assert time.monotonic() - began_s < 20.0
    assert answer.code == code
    assert "100 ms a step 50.0 s a lap" in " ".join(answer.out.split())
    assert "2.00x (one pair, no interval)" in answer.out
    assert "interrupted: 2 of 6 heats kept, " in answer.out
    assert (house.kept()["status"], heats_of(house.kept())) == ("interrupted", KEPT)
    assert house.is_empty_within(10)


def test_a_second_signal_ends_at_once(house, start):
    """The first one has begun an end that takes long: the guardian of a heat is stopped, and is waited for."""
    process = start(HANGS_IN_THE_FIRST, "round 1 of 3", processes=3)
    guardians = [each for each in house.processes() if "guardian.py" in " ".join(each.cmdline())]
    guardians[0].suspend()
    process.send_signal(signal.SIGTERM)
    time.sleep(1.0)
    assert process.poll() is None
    began_s = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert house.finish(process).code == 143
    assert time.monotonic() - began_s < 3.0
    guardians[0].resume()
    assert house.is_empty_within(10)


@pytest.mark.long
def test_an_interrupt_before_the_first_heat_has_finished_keeps_the_race(house, start):
    """The record says that nothing was measured."""
    process = start(HANGS_IN_THE_FIRST, "round 1 of 3", processes=3)
    process.send_signal(signal.SIGINT)
    answer = house.finish(process)
    assert answer.code == 130
    assert "interrupted: 0 of 6 heats kept, " in answer.out
    assert house.kept()["status"] == "interrupted"
    assert house.is_empty_within(10)


@pytest.mark.long
@pytest.mark.parametrize("pause_s", cases(0.02, long=[0, 0.005, 0.05, 0.08]))
def test_two_interrupts_end_a_race_as_one_does(house, pause_s):
    """Whatever the first one had begun: the second does not break into it."""
    house.script('["fake/*"]\nfail = { how = "hang", phase = "build", heat = 1 }\n')
    process = house.start("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "2")
    house.read_until(process, "round 1 of 2")
    house.wait_for_processes(5)
    process.send_signal(signal.SIGINT)
    time.sleep(pause_s)
    process.send_signal(signal.SIGINT)
    began_s = time.monotonic()
    assert house.finish(process).code == 130
    assert time.monotonic() - began_s < 20.0
    assert heats_of(house.kept()) == {"fake/cpu/as-written": [], "fake/cpu/best": []}
    assert house.is_empty_within(10)


@pytest.mark.long
def test_the_journal_of_a_killed_race_can_be_read(house, start):
    """Kill -9 in the second duet leaves the first, which `show` and `list` know as a race that did not end.

    Its children end by themselves; the one that hangs does, and the one that is stopped.
    """
    process = start()
    assert len(house.processes()) == 5
    process.kill()
    assert house.finish(process).code == -signal.SIGKILL
    assert house.is_empty_within(10)
    assert (house.kept()["status"], heats_of(house.kept())) == ("running", KEPT)
    shown = house.run("show", "latest")
    assert shown.code == 0
    assert "ended: its process is gone (killed or crashed): 2 of 6 heats kept, " in " ".join(shown.out.split())
    (row,) = house.run("list", "--json").json
    assert (row["status"], row["unreadable"]) == ("ended", None)


@pytest.mark.long
def test_the_journal_grows_with_every_duet_and_can_be_shown_meanwhile(house, start):
    """While the fourth heat hangs, the duet before is on disk already, and another terminal reads them."""
    process = start()
    record = json.loads(house.files()[0].read_bytes())
    shown = house.run("show", "latest")
    process.kill()
    house.finish(process)
    assert (record["status"], heats_of(record)) == ("running", KEPT)
    assert shown.code == 0
    assert "running: 2 of 6 heats kept" in shown.out


LOST = """
import os, signal, sys, time, weakref
from laptime.cli.interrupts import INTERRUPTS

class Gone: ...

def callback(_):
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    time.sleep(0.01)

INTERRUPTS.listen()
gone = Gone()
reference = weakref.ref(gone, callback)
del gone
try:
    time.sleep(20)
except KeyboardInterrupt:
    sys.exit(INTERRUPTS.exit_code)
"""


@pytest.mark.parametrize(("sent", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_that_python_drops_is_heard_all_the_same(sent, code):
    """It came while a callback ran: what its handler raises there is dropped, without this with a traceback."""
    began_s = time.monotonic()
    command = [sys.executable, "-c", LOST, sent]  # also where the tests themselves run without SIGINT
    ended = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=hear_interrupts)
    assert (ended.returncode, ended.stderr) == (code, "")
    assert time.monotonic() - began_s < 15


WRAPPED = """
import dataclasses, os, signal, sys

set_name = dataclasses.Field.__set_name__

def is_told_to_end(field, owner, name):
    os.kill(os.getpid(), signal.SIGTERM)
    set_name(field, owner, name)

from laptime.cli.main import main

dataclasses.Field.__set_name__ = is_told_to_end
sys.argv = ["laptime", "race", "--help"]
main()
"""


def test_a_signal_while_a_class_is_made_is_no_bug_of_laptime():
    """As a command imports what it needs: Python makes a RuntimeError of what is raised there."""
    ended = subprocess.run([sys.executable, "-c", WRAPPED], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (143, "", "")
