"""Whether blocks may be drawn, and how a live view draws over what it drew before."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import pytest

from laptime.cli import progress
from long_cases import cases

ASK = "from laptime.cli.output import may_draw; print(may_draw())"


@pytest.mark.parametrize(
    ("expected", "encoding"), cases(("False", "ascii"), long=[("True", "utf-8"), ("False", "latin-1")])
)
def test_blocks_are_drawn_where_there_are_some(expected, encoding):
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    answer = subprocess.run([sys.executable, "-c", ASK], capture_output=True, check=True, env=environment)
    assert answer.stdout.decode(encoding).strip() == expected


class Screen:
    """Rows of a terminal as the few codes of a live view change them."""

    def __init__(self, width):
        self.rows, self.at, self.width = [""], 0, width

    def write(self, text):
        for part in re.split(r"(\x1b\[\d*[A-Z]|\r|\n)", text):
            if part.endswith("A") and part.startswith("\x1b"):
                self.at -= int(part[2:-1])
                assert self.at >= 0
            elif part == "\x1b[K":
                self.rows[self.at] = ""
            elif part == "\n":
                self.at += 1
                self.rows += [""] * (self.at >= len(self.rows))
            elif part != "\r":
                for start in range(0, len(part), self.width):
                    self.at += start > 0
                    self.rows[self.at] = part[start : start + self.width]
                    self.rows += [""] * (self.at + 1 == len(self.rows))

    def shown(self):
        """Return the rows down to that of the cursor; those below it have to be empty."""
        assert not any(self.rows[self.at :])
        return self.rows[: self.at + 1]

    def narrow(self, width):
        """Break every row again, as terminals do when their window becomes narrower."""
        rows = [row[start : start + width] for row in self.rows for start in range(0, max(len(row), 1), width)]
        self.rows, self.at, self.width = rows, len(rows) - 1, width


@pytest.fixture
def live(monkeypatch):
    """Make a live view that draws on a screen of 20 columns and 6 rows."""
    screen = Screen(20)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "6")
    monkeypatch.setattr(progress, "MESSAGES", screen)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    screen.encoding = "utf-8"
    return progress.LiveView(), screen


def test_each_drawing_takes_the_place_of_the_last(live):
    """Whether it has more lines or fewer; and nothing is left at the end but what was there before."""
    view, screen = live
    screen.write("before\n")
    for lines in (["one", "two"], ["three"], ["four", "five", "six"]):
        view.draw(lines)
        assert screen.shown() == ["before", *lines, ""]
    view.erase()
    view.erase()
    assert screen.shown() == ["before", ""]


def test_a_window_that_became_narrower_leaves_nothing_behind(live, monkeypatch):
    """The terminal has broken the old lines: they are erased all the same."""
    view, screen = live
    screen.write("before\n")
    view.draw(["0123456789abcde", "short"])
    screen.narrow(10)
    monkeypatch.setenv("COLUMNS", "10")
    assert screen.rows == ["before", "0123456789", "abcde", "short", ""]
    view.draw(["new"])
    assert screen.shown() == ["before", "new", ""]


def test_what_is_taller_than_the_terminal_keeps_its_first_and_its_last_line(live):
    """How far it is and its notes; two rows of the screen stay free."""
    view, screen = live
    view.draw([str(number) for number in range(9)])
    assert screen.shown() == ["0", "1", "2", "8", ""]


def test_a_window_that_became_lower_is_erased_as_far_as_it_is_there(live, monkeypatch):
    """The terminal has moved the first lines into its history; nothing above the screen is touched."""
    view, screen = live
    view.draw(["1", "2", "3", "4"])
    screen.rows, screen.at = ["3", "4", ""], 2
    monkeypatch.setenv("LINES", "3")
    view.erase()
    assert screen.shown() == [""]


def test_a_wide_line_is_counted_by_the_rows_it_takes(live):
    """Wide letters take two places."""
    view, screen = live
    view.draw(["a" * 45, "now"])
    view.draw(["now"])
    assert screen.shown() == ["now", ""]


def test_no_name_steers_the_drawing(live):
    """A name from outside is text."""
    view, screen = live
    view.draw(["\x1b[3Aup"])
    assert screen.shown() == ["\\x1b[3Aup", ""]
