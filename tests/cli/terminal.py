"""A real pseudo-terminal on which a command runs, and what a person would see on it: its screen and its history."""

from __future__ import annotations

import os
import re
import select
import subprocess
import termios
import time
from typing import Any

from house import House, hear_interrupts

LONGEST_S = 60.0
PARTS = re.compile(r"(\x1b\[[0-9;]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+)")
DRAWING = re.compile(r"(?=\r\x1b\[K\x1b\[\d+A)")  # how a live view begins to draw over its last lines


class Terminal:
    """The rows of a screen, and those that were scrolled off it. It knows the few codes that laptime prints.

    As in tmux, what is erased from the first row on to the end of the screen goes to the history.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.screen, self.history = [""] * rows, []
        self.row = self.column = 0

    def write(self, text: str) -> None:
        for part in PARTS.findall(text):
            match part[0], part[-1]:
                case "\r", _:
                    self.column = 0
                case "\n", _:
                    self._next_row()
                case "\x1b", "A":
                    self.row = max(self.row - int(part[2:-1] or 1), 0)
                case "\x1b", "K":
                    assert part == "\x1b[K"
                    self.screen[self.row] = self.screen[self.row][: self.column]
                case "\x1b", "J":
                    if self.row == self.column == 0:
                        self.history += self.screen
                    self.screen[self.row :] = [self.screen[self.row][: self.column]] + [""] * (self.rows - self.row - 1)
                case "\x1b", "m":
                    pass
                case _:
                    assert part[0] != "\x1b", part
                    self._print(part)

    def _print(self, text: str) -> None:
        for letter in text:
            if self.column == self.columns:
                self.column = 0
                self._next_row()
            row = self.screen[self.row].ljust(self.column)
            self.screen[self.row] = row[: self.column] + letter + row[self.column + 1 :]
            self.column += 1

    def _next_row(self) -> None:
        self.row += 1
        if self.row == self.rows:
            self.row -= 1
            self.history.append(self.screen.pop(0))
            self.screen.append("")

    @property
    def all_rows(self) -> list[str]:
        """The history and the screen, without the empty rows at its end."""
        rows = [row.rstrip() for row in (*self.history, *self.screen)]
        while rows and not rows[-1]:
            rows.pop()
        return rows


class OnTerminal:
    """A command with all its streams on a pseudo-terminal, which also is its controlling one: a key may be pressed."""

    def __init__(self, house: House, *words: str, columns: int = 80, rows: int = 24, **env: str) -> None:
        self._ours, theirs = os.openpty()
        self.columns, self.rows = columns, rows
        termios.tcsetwinsize(theirs, (rows, columns))

        def take_terminal() -> None:
            hear_interrupts()
            os.login_tty(theirs)

        env = {"TERM": "xterm-256color", **env}
        streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        self.process = house.start(*words, env=env, preexec_fn=take_terminal, pass_fds=(theirs,), **streams)
        os.close(theirs)
        self._seen = b""

    @property
    def sent(self) -> str:
        return self._seen.decode("utf-8", "replace")

    def read_until(self, words: str) -> None:
        deadline = time.monotonic() + LONGEST_S
        while words not in self.sent:
            assert self._read(deadline), f"'{words}' was never shown, only: {self.sent}"

    def press(self, key: str) -> None:
        os.write(self._ours, key.encode())

    def finish(self) -> int:
        """Read to the end, and return the exit code."""
        deadline = time.monotonic() + LONGEST_S
        while self._read(deadline):
            pass
        os.close(self._ours)
        return self.process.wait(timeout=LONGEST_S)

    def shown(self) -> tuple[Terminal, list[list[str]]]:
        """Return the terminal at the end, and its rows after each drawing."""
        terminal, frames = Terminal(self.columns, self.rows), []
        for drawing in DRAWING.split(self.sent):
            terminal.write(drawing)
            frames.append(terminal.all_rows)
        return terminal, frames

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing more came within {LONGEST_S:g} s after: {self.sent}"
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # how Linux reports that no process has the other end any more
            return False
        self._seen += data
        return bool(data)
