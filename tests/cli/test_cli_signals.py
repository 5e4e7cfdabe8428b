"""What is finished is kept, however a race is ended: Ctrl-C, SIGTERM, or kill -9."""

from __future__ import annotations

import json
import signal
import time

import pytest

# The fourth heat (the second of the first lane) hangs in its build until somebody ends the race.
HANGS_IN_THE_FOURTH = '["fake/*"]\nfail = { how = "hang", phase = "build", heat = 3 }\n'
HANGS_IN_THE_FIRST = '["fake/*"]\nfail = { how = "hang", phase = "build", heat = 0 }\n'


@pytest.fixture
def start(house):
    """Start a race and wait until the heat is under way in which it hangs."""

    def start_race(script=HANGS_IN_THE_FOURTH, until="heat 4 of at most 6: fake/cpu/as-written"):
        house.script(script)
        process = house.start("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "3")
        house.read_until(process, until)
        time.sleep(0.1)
        return process

    return start_race


def heats_of(record):
    return {lane["name"]: [heat["order"] for heat in lane["heats"]] for lane in record["lanes"]}


KEPT = {"fake/cpu/as-written": [0], "fake/cpu/best": [1, 2]}


def test_one_interrupt_keeps_finished_heats_and_shows_them(house, start):
    """A partial table, a record that says so, and exit code 130."""
    process = start()
    process.send_signal(signal.SIGINT)
    answer = house.finish(process)
    assert answer.code == 130
    assert "fake/cpu 50.0 s 100 ms" in " ".join(answer.out.split())
    assert "2.00x (one pair, no interval)" in answer.out
    assert "interrupted: 3 of 6 heats kept, " in answer.out
    assert (house.kept()["status"], heats_of(house.kept())) == ("interrupted", KEPT)
    assert house.is_empty_within(2)


def test_an_interrupt_before_the_first_heat_has_finished_keeps_the_race(house, start):
    """The record says that nothing was measured."""
    process = start(HANGS_IN_THE_FIRST, "heat 1 of at most 6")
    process.send_signal(signal.SIGINT)
    answer = house.finish(process)
    assert answer.code == 130
    assert "interrupted: 0 of 6 heats kept, " in answer.out
    assert house.kept()["status"] == "interrupted"
    assert house.is_empty_within(2)


def test_an_interrupt_does_not_wait_for_the_hanging_heat(house, start):
    """The heat is ended, not waited for."""
    process = start()
    began_s = time.monotonic()
    process.send_signal(signal.SIGINT)
    house.finish(process)
    assert time.monotonic() - began_s < 3.0


@pytest.mark.parametrize("pause_s", [0, 0.005, 0.02, 0.05, 0.08])
def test_two_interrupts_end_a_race_as_one_does(house, pause_s):
    """Whatever the first one had begun: the second does not break into it."""
    house.script('["fake/*"]\nfail = { how = "hang", phase = "build", heat = 1 }\n')
    process = house.start("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "2")
    house.read_until(process, "heat 2 of at most 4")
    process.send_signal(signal.SIGINT)
    time.sleep(pause_s)
    process.send_signal(signal.SIGINT)
    began_s = time.monotonic()
    assert house.finish(process).code == 130
    assert time.monotonic() - began_s < 3.0
    assert heats_of(house.kept()) == {"fake/cpu/as-written": [0], "fake/cpu/best": []}
    assert house.is_empty_within(2)


def test_a_request_to_end_is_obeyed(house, start):
    """SIGTERM ends the race at once with 143; the journal has the finished heats."""
    process = start()
    began_s = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert house.finish(process).code == 143
    assert time.monotonic() - began_s < 3.0
    assert heats_of(house.kept()) == KEPT
    assert house.is_empty_within(2)


def test_the_journal_of_a_killed_race_can_be_read(house, start):
    """Kill -9 in the fourth heat leaves three, which `show` and `list` know as a race that did not end."""
    process = start()
    process.kill()
    assert house.finish(process).code == -signal.SIGKILL
    assert (house.kept()["status"], heats_of(house.kept())) == ("running", KEPT)
    shown = house.run("show", "latest")
    assert shown.code == 0
    assert "running, or ended unawares: 3 of 6 heats kept, " in shown.out
    (row,) = house.run("list", "--json").json
    assert (row["status"], row["unreadable"]) == ("running", None)


def test_the_children_of_a_killed_race_end_by_themselves(house, start):
    """The one that hangs does, too."""
    process = start()
    assert len(house.processes()) == 3, "the race, the heat and the heat's guardian"
    process.kill()
    house.finish(process)
    assert house.is_empty_within(2)


def test_the_journal_grows_with_every_heat(house, start):
    """While the fourth heat hangs, three are on disk already."""
    process = start()
    record = json.loads(house.files()[0].read_bytes())
    process.kill()
    house.finish(process)
    assert (record["status"], heats_of(record)) == ("running", KEPT)


def test_a_race_can_be_shown_while_it_runs(house, start):
    """Another terminal reads the journal."""
    process = start()
    shown = house.run("show", "latest")
    process.kill()
    house.finish(process)
    assert shown.code == 0
    assert "running, or ended unawares: 3 of 6 heats kept" in shown.out
