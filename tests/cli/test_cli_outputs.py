"""Outputs that cannot be written, or that hold ASCII alone: the run goes on, and no result is lost."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from laptime.cli.progress import Display
from laptime.model.protocol import Moment

pytestmark = pytest.mark.usefixtures("known_references")

FULL_DEVICE = Path("/dev/full")
RACE = ("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats")
FULL = ("train", "cifar-cnn", "fake/cpu", "--laps", "2", "--steps-per-lap", "5")


def test_a_long_lap_gives_signs_of_life_where_there_is_no_terminal(capsys, monkeypatch):
    """After a silence, and then after ever longer ones: a training may take days."""
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    with Display(quiet=False) as progress, Display(quiet=True) as quiet:
        progress.tell(Moment("torch/cpu/as-written", None, "begins", 1, is_news=True))
        for at_s, step in ((4.0, 1), (5.0, 40), (14.0, 41), (15.0, 90)):
            now_s[0] = at_s
            for each in (progress, quiet):
                each.tell(Moment("torch/cpu/as-written", None, "lap", 1, False, 1, step, 100, 390.0))
    assert capsys.readouterr().err.splitlines() == [
        "torch/cpu: begins",
        "torch/cpu: lap 1 of 1, step 40 of 100",
        "torch/cpu: lap 1 of 1, step 90 of 100",
    ]


def full_device(house, *words):
    """Let stderr be a device on which there is never room."""
    with FULL_DEVICE.open("w", encoding="utf-8") as full:
        return house.finish(house.start(*words, stderr=full))


def left_at_once(house, *words):
    """Let the program that reads stderr have ended."""
    ours, theirs = os.pipe()
    process = house.start(*words, stderr=theirs)
    os.close(theirs)
    os.close(ours)
    return house.finish(process)


def left_after_a_line(house, *words):
    ours, theirs = os.pipe()
    process = house.start(*words, stderr=theirs)
    os.close(theirs)
    os.read(ours, 1)
    os.close(ours)
    return house.finish(process)


def closed_terminal(house, *words):
    """Let stderr be a terminal whose window is closed after the first letters were drawn."""
    ours, theirs = os.openpty()
    process = house.start(*words, stderr=theirs, env={"TERM": "xterm-256color"})
    os.close(theirs)
    os.read(ours, 1)
    os.close(ours)
    return house.finish(process)


@pytest.mark.parametrize("words", [(*RACE, "1"), pytest.param(FULL, marks=pytest.mark.long)], ids=["race", "full"])
@pytest.mark.parametrize(
    "spoil",
    [
        full_device,
        pytest.param(left_at_once, marks=pytest.mark.long),
        pytest.param(left_after_a_line, marks=pytest.mark.long),
        closed_terminal,
    ],
)
def test_progress_that_cannot_be_shown_ends_no_run(house, spoil, words):
    """The result is on stdout, and the exit code is that of the race."""
    answer = spoil(house, *words)
    assert (answer.code, "cifar-cnn" in answer.out) == (0, True)
    assert house.kept()["status"] == "finished"


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "words"), [(0, ("devices", "--check", "--framework", "fake")), (2, ("show", "nothing"))]
)
def test_a_message_that_cannot_be_shown_changes_no_exit_code(house, code, words):
    """Every command says its messages in the one way."""
    assert full_device(house, *words).code == code


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("race", "--help"), ("list",)])
def test_output_that_cannot_be_written_is_a_sentence(house, words):
    """Help is printed by click, and must not end in a traceback either."""
    with FULL_DEVICE.open("w", encoding="utf-8") as full:
        answer = house.finish(house.start(*words, stdout=full))
    assert answer.code == 3
    assert answer.err.startswith("laptime: ")
    assert "No space left on device" in answer.err


ASCII = [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]


@pytest.mark.long
@pytest.mark.parametrize("env", ASCII, ids=["PYTHONIOENCODING", "C locale"])
def test_an_output_of_ascii_alone_loses_no_result(house, env):
    """What it lacks is spelt: a page in letters that read, JSON in JSON's own escapes."""
    page = house.done(*RACE, "2", "--quiet", "--details", env=env)
    assert "+-" in page.out
    assert page.out.isascii()
    kept = house.kept()
    kept["machine"]["processor"]["name"] = "Prozessor für 训练"
    (place,) = house.files()
    place.write_text(json.dumps(kept), encoding="utf-8")
    shown = house.done("show", kept["id"], "--json", env=env)
    assert shown.out.isascii()
    assert shown.json["machine"]["processor"]["name"] == "Prozessor für 训练"
    assert house.done("show", kept["id"], env=env).out.isascii()
