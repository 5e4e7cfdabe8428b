"""On a terminal there is colour and a live table; off it there is neither, and NO_COLOR is obeyed."""

from __future__ import annotations

import os
import subprocess
import threading

import pytest

from long_cases import cases

pytestmark = pytest.mark.usefixtures("known_references")

ESCAPE = "\x1b["
RACE = ("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "1")


class Screen:
    """A pseudo-terminal, and what was written on it."""

    def __init__(self) -> None:
        self._ours, self.theirs = os.openpty()
        self._seen = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            while data := os.read(self._ours, 65_536):
                self._seen += data
        except OSError:
            pass  # Linux raises this when nobody holds the other end any more

    def text(self) -> str:
        os.close(self.theirs)
        self._reader.join()
        os.close(self._ours)
        return self._seen.decode().replace("\r\n", "\n")


@pytest.fixture
def on_screen(house):
    """Run a race with one of its outputs on a terminal, and give what came out at all ends."""

    def run(stream, *words, stderr=subprocess.PIPE, **env):
        screen = Screen()
        env = {"TERM": "xterm-256color", "COLUMNS": "100", **env}
        answer = house.finish(house.start(*RACE, *words, env=env, **{"stderr": stderr, stream: screen.theirs}))
        return screen.text(), answer

    return run


@pytest.mark.long
def test_a_table_on_a_terminal_is_coloured_and_a_quiet_race_draws_nothing(on_screen):
    """The factor is coloured; next to the table nothing is drawn, not even where stderr is a terminal too."""
    beside = Screen()
    seen, answer = on_screen("stdout", "-q", stderr=beside.theirs)
    assert answer.code == 0
    assert ESCAPE in seen
    assert "2.00x" in seen
    assert beside.text() == ""


@pytest.mark.long
@pytest.mark.parametrize(
    "env",
    cases({"NO_COLOR": "1"}, long=[{"NO_COLOR": ""}, {"TERM": "dumb"}]),
)
def test_colour_can_be_declined(on_screen, env):
    """By NO_COLOR, whatever its value, or by a terminal that knows none."""
    seen, _ = on_screen("stdout", "-q", **env)
    assert ESCAPE not in seen
    assert "2.00x" in seen


def test_json_is_never_coloured(on_screen):
    """It is for programs, on a terminal too."""
    seen, _ = on_screen("stdout", "-q", "--json")
    assert ESCAPE not in seen


@pytest.mark.long
def test_a_live_table_is_drawn_on_stderr_and_leaves_stdout_alone(on_screen):
    """It shows the running heat, and is gone when the table comes."""
    seen, answer = on_screen("stderr")
    assert "round 1 of 1" in seen
    assert ESCAPE in seen
    assert ESCAPE not in answer.out
    assert answer.out.startswith("cifar-cnn on ")
    assert "round 1" not in answer.out


def test_off_a_terminal_nothing_is_animated(house):
    """A log holds words only."""
    answer = house.run(*RACE)
    assert ESCAPE not in answer.out + answer.err


@pytest.mark.long
@pytest.mark.parametrize("words", [("list",), ("workloads", "--json"), ("race", "fake/cpu", "--heats", "1")])
def test_a_reader_who_has_had_enough_is_no_error(house, words):
    """`laptime list | head -1` ends without a word of complaint."""
    ours, theirs = os.pipe()
    process = house.start(*words, stdout=theirs)
    os.close(theirs)
    os.close(ours)
    answer = house.finish(process)
    assert "Error" not in answer.err


def test_a_width_of_5000_digits_is_none(house):
    """Python refuses to read such a number."""
    assert house.done("workloads", env={"COLUMNS": "9" * 5_000}).out == house.done("workloads").out
