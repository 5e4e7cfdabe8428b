"""Exit codes of records: a result that cannot be trusted comes before one that is incomplete."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import records
import why_records

import laptime
from absent_sensor import ABSENT
from laptime.analysis.diagnosis.findings import find_unreliable
from laptime.cli.questions import exit_code
from laptime.model.errors import ExitCode

BUSY = ("other processes took 0.9 cores", "other processes took 0.8 cores", None)


def lanes_with(flags):
    return (replace(records.FIRST, heats=(records.heat(92.2, flags=flags),)), records.BEST)


@pytest.mark.parametrize(
    ("expected", "record"),
    [
        (0, records.two_lanes()),
        (3, records.failed_lanes()),
        (4, records.differing()),
        (4, replace(records.two_lanes(), findings=find_unreliable(lanes_with(BUSY)))),
        (0, replace(records.two_lanes(), findings=find_unreliable(lanes_with((BUSY[0], None, None))))),
        (4, why_records.not_trusted()),
        (130, records.interrupted()),
    ],
    ids=["answered", "failed lane", "other work", "busy", "hardly busy", "noise in why", "interrupted"],
)
def test_a_record_ends_in_its_exit_code(expected, record):
    assert exit_code(record, saved=True) == expected


def test_a_race_on_a_busy_machine_says_which_lane_was_disturbed():
    """Two in five of its windows; the finding has the figures."""
    (found,) = find_unreliable(lanes_with(BUSY))
    assert (
        found.says
        == "2 of 3 windows of torch/cpu/as-written that count were disturbed (other processes took 0.8 cores)."
    )
    assert found.evidence == {"disturbed": 2, "windows": 3}


def test_what_could_not_be_saved_is_not_a_success():
    assert exit_code(records.two_lanes(), saved=False) == 3


# The table, and real commands that end with each of its numbers.

HOUSE = Path(laptime.__file__).parent
HANGS = '["fake/*"]\nfail = { how = "hang", phase = "timing", heat = 0 }\n'
RACE = ("race", "cifar-mlp", "fake/cpu", "fake/cpu/best", "--heats", "1", "-q")
# A number, written where a command or an error ends with it.
WRITTEN = re.compile(r"exit_code\S* = \d|\bEXIT_\w+ = \d|sys\.exit\(\d|return [1-9]\d*$", re.MULTILINE)


def test_no_command_has_a_number_of_its_own():
    """Commands and errors name a row of the table."""
    commands = [*(HOUSE / "cli").glob("*.py"), *HOUSE.glob("questions/*/command.py"), HOUSE / "model" / "errors.py"]
    assert {place.name: WRITTEN.findall(place.read_text(encoding="utf-8")) for place in commands} == {
        place.name: [] for place in commands
    }
    assert WRITTEN.findall("    exit_code = 3\nEXIT_NOT_WELL = 5\n    return 1\n") != []


def test_help_prints_the_table(house):
    said = house.done("help", "exit-codes").out
    rows = house.done("help", "exit-codes", "--json").json
    assert [(row["exit_code"], row["when"]) for row in rows] == [(code, code.when) for code in ExitCode]
    assert all(f"\n  {code:<5}{code.when}" in said for code in ExitCode)


@pytest.mark.parametrize(
    ("words", "script", "code"),
    [
        (("list",), "", ExitCode.ANSWERED),
        (("validate", "nothing.json"), "", ExitCode.NO),
        (("show", "r-2020"), "", ExitCode.USAGE),
        (RACE, '["fake/cpu/best"]\nfail = { how = "raise", phase = "build" }\n', ExitCode.UNFINISHED),
        (RACE, '["fake/cpu/best"]\nstray = 1e-3\n', ExitCode.NOT_RELIABLE),
        ((*RACE, "--sensors", ABSENT), "", ExitCode.NOT_WELL),
    ],
    ids=lambda each: each.name if isinstance(each, ExitCode) else "",
)
def test_a_real_command_ends_with_it(house, words, script, code):
    if script:
        house.script(script)
    house.done(*words, code=code)


@pytest.mark.long
@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)]
)
def test_a_signal_ends_a_race_with_it(house, sent, code):
    house.script(HANGS)
    process = house.start(*RACE[:-1])
    house.read_until(process, "round 1 of 1")
    process.send_signal(sent)
    assert house.finish(process).code == code


def test_a_reader_that_has_ended(house):
    ours, theirs = os.pipe()
    process = house.start("list", stdout=theirs)
    os.close(theirs)
    os.close(ours)
    assert house.finish(process).code == ExitCode.READER_GONE


BROKEN = """
import sys
from laptime.cli import main
main.COMMANDS["list"] = ("no_such_module:command", "", "")
main.main()
"""


@pytest.mark.parametrize("option", [(), ("--json",)], ids=["words", "json"])
def test_a_bug_is_no_answer(house, option):
    """Python's own exit code is 1, which is DISCARD to a program. A person sees where it was, a program an error."""
    ended = subprocess.run(
        [sys.executable, "-c", BROKEN, "list", *option],
        env=house.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == ExitCode.BUG
    assert "laptime: a bug of laptime: ModuleNotFoundError: No module named 'laptime.no_such_module'" in ended.stderr
    assert ("Traceback" in ended.stderr) is not bool(option)
    assert ('"kind": "bug"' in ended.stdout) is bool(option)


@pytest.mark.parametrize(("words", "code"), [(("list",), ExitCode.ANSWERED), (RACE, ExitCode.UNFINISHED)])
def test_memory_that_is_too_little_to_start_is_no_bug(house, words, code):
    """NumPy's import would fail, or OpenBLAS would end the process with 1, which is DISCARD to a program."""
    answer = house.finish(
        house.start(*words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (60 << 20,) * 2))
    )
    assert answer.code == code, answer.err
    assert ("`ulimit -v` allows 60 MB, and laptime needs 200 MB to start" in answer.err) is bool(code)


CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int answer = real(id, now);
    if (id == CLOCK_REALTIME) now->tv_sec += 8000L * 31556952L;
    return answer;
}
"""


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="no compiler for a wrong clock")
def test_a_clock_that_cannot_be_read_is_no_bug(house, tmp_path):
    """8000 years ahead, which are more nanoseconds than 64 bits hold."""
    source, library = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    answer = house.finish(house.start("list", env={"LD_PRELOAD": str(library)}))
    assert answer.code == ExitCode.UNFINISHED
    assert "the clock of this machine cannot be read: it is beyond the year 2262" in answer.err
