"""Progress on a terminal and off one; that of a notebook is in test_library_notebook.py."""

from __future__ import annotations

import io

import pytest

from laptime.library.notebook import progress_shown
from laptime.model.protocol import Moment


class Screen(io.TextIOWrapper):
    """A stream that is a terminal, of an encoding that lacks some characters."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="ascii", newline="")
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def shown(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode()


@pytest.fixture
def screen(monkeypatch):
    """Return a function that puts a stream in place of stderr, where pytest puts its own before each test."""

    def take(*, is_terminal: bool) -> Screen:
        made = Screen(is_terminal=is_terminal)
        monkeypatch.setattr("sys.stderr", made)
        monkeypatch.setenv("COLUMNS", "41")
        return made

    return take


def test_a_terminal_has_one_line_that_is_written_over(screen):
    """No note is wider than the terminal, is written twice, or is left at the end."""
    terminal = screen(is_terminal=True)
    with progress_shown(wanted=True) as line:
        line.write("heat 1 of at most 7: fake/cpu \xb1 \x1b[2J")
        line.write("heat 2")
        line.write("heat 2")
        line.write("heat 3" * 20)
    assert terminal.shown() == (
        f"\rheat 1 of at most 7: fake/cpu \\xb1 \\x1b[2J\x1b[K\rheat 2\x1b[K\r{'heat 3' * 6}heat\x1b[K\r\x1b[K"
    )


def test_a_file_has_a_line_for_each_note(screen):
    file = screen(is_terminal=False)
    with progress_shown(wanted=True) as line:
        line.write("heat 1")
        line.tell(Moment("fake/cpu/best", None, "lap", 3, number=2, step=40, steps=500))
    assert file.shown() == "heat 1\nfake/cpu/best: lap 2 of 3, step 40 of 500\n"


@pytest.mark.parametrize("wanted", [None, False])
def test_outside_a_notebook_nothing_is_shown_by_default(screen, wanted):
    terminal = screen(is_terminal=True)
    with progress_shown(wanted=wanted) as line:
        line.write("heat 1")
    assert terminal.shown() == ""
