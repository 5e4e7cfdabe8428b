"""The edges of the command: interrupted twice, nowhere to write, nobody reading, numbers nobody means."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from laptime.model.errors import UsageError
from laptime.planner.lanes import parse_lane

pytestmark = pytest.mark.usefixtures("known_references")


@pytest.mark.long
def test_the_watchdog_is_in_force_from_the_first_window_on(house):
    """The first step is taken: from here on silence is a hang, whatever patience there is for compiling."""
    house.script('["fake/cpu/best"]\nfirst_ms = 10\nfail = { how = "hang", phase = "timing" }\n')
    began_s = time.monotonic()
    answer = house.race("cifar-cnn", "fake/cpu/best", "--heats", "1", "--watchdog", "1s", "--patience", "12s")
    assert answer.code == 3
    assert time.monotonic() - began_s < 10


def test_a_result_that_was_not_saved_is_not_called_saved(house):
    """Stdout must not claim what stderr denies."""
    house.home.write_text("not a folder")
    answer = house.race("fake/cpu", "--heats", "1")
    assert answer.code == 3
    assert "Saved as" not in answer.out


@pytest.mark.parametrize("words", [("race", "fake/cpu", "--heats", "1"), ("list",), ("workloads",)])
def test_an_output_that_is_full_is_an_error_in_words(house, words):
    """`laptime race > file` on a full disk."""
    with Path("/dev/full").open("w") as full:
        assert house.run(*words, stdout=full).code == 3


def test_a_closed_output_is_no_traceback(house):
    """`laptime list >&-`."""
    done = subprocess.run(
        f"exec {sys.executable} -m laptime list >&-",
        shell=True,
        check=False,
        env=house.environment(),
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("key", ["threads", "workers", "batch"])
def test_a_number_of_5000_digits_is_absurd(key):
    """Python refuses to read it, with a ValueError."""
    with pytest.raises(UsageError, match="cannot be"):
        parse_lane(f"fake/cpu/{key}={'9' * 5000}")


@pytest.mark.parametrize("value", ["\uff11", "\u0663", "01"])
def test_a_number_is_written_in_one_way(value):
    """Otherwise the same lane has two names, and races itself."""
    with pytest.raises(UsageError, match="cannot be"):
        parse_lane(f"fake/cpu/threads={value}")


@pytest.mark.parametrize(
    "words", [("list",), ("workloads",), ("race", "fake/cpu", "--dry-run"), ("devices", "--framework", "fake")]
)
def test_an_answer_does_not_end_with_an_empty_line(house, words):
    """One line end is enough."""
    assert not house.run(*words).out.endswith("\n\n")


def test_a_reader_who_has_had_enough_gives_141(house):
    """128 + SIGPIPE, as a shell would say it."""
    ours, theirs = os.pipe()
    process = house.start("list", stdout=theirs)
    os.close(theirs)
    os.close(ours)
    assert house.finish(process).code == 141


def test_weights_are_refused_for_a_network_that_has_none(house):
    """Installing torchvision would not help."""
    answer = house.race("cifar-cnn", "fake/cpu", "--pretrained")
    assert "there are no pre-trained weights for cifar-cnn" in answer.err


def test_a_training_of_ones_own_on_the_fake_back_end_is_refused_before_it_runs(house):
    """It runs no code, so each of its heats could only fail."""
    (house.folder / "mine.py").write_text("def training(): ...\n")
    assert house.race("mine.py:training", "fake/cpu").code == 2


@pytest.mark.long
def test_a_device_alone_is_a_lane(house):
    """`laptime race cpu cpu/best`: design.md writes a lane as [framework/]device[/settings]."""
    assert house.run("race", "cpu", "cpu/best", "--dry-run").code == 0


def test_the_hint_for_the_fake_back_end_can_be_followed(house):
    """There is no extra laptime[fake]."""
    env = house.environment()
    del env["LAPTIME_FAKE"]
    done = subprocess.run(
        [sys.executable, "-m", "laptime", "race", "fake/cpu"], env=env, check=False, capture_output=True, text=True
    )
    assert "laptime[fake]" not in done.stderr
