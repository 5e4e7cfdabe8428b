"""The exit codes and the errors of laptime. Each error says what was given, what was expected and what to do.

LaptimeError
├── UsageError      2  the request cannot be understood or cannot be met here
├── RecordError     2  a saved record is not there or cannot be read
├── StoreError      3  a result could not be saved
├── TrainingError   3  a user's own function raised or returned the wrong thing
├── LaneError       3  a back end could not do what a lane asks
│   └── RankGoneError   3  the process of another rank is gone
├── SensorError     5  an instrument that was asked for is not there, or was lost
├── CopyError       70  laptime's own copy of a commit or patch was lost while it was used
└── WireError       3  parent and child did not understand each other
    └── NodeGoneError   3  the node of a cluster is gone
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    """Every number with which a command ends, and when. `laptime watch` ends with the code of what it watches."""

    when: str

    def __new__(cls, number: int, when: str) -> Self:
        made = int.__new__(cls, number)
        made._value_ = number
        made.when = when
        return made

    ANSWERED = 0, "answered; KEEP (verdict)"
    NO = 1, "the answer is no: DISCARD (verdict), slower than --fail-above allows, not valid, a row disagrees"
    USAGE = 2, "wrong usage, or something that cannot run here"
    UNFINISHED = (
        3,
        "a lane did not finish, or nothing was saved, or changed (apply); UNDECIDED (verdict)",
    )
    NOT_RELIABLE = 4, "not to be relied on: a lane did not do the same work, or the machine was too busy"
    NOT_WELL = 5, "an instrument that --sensors names is missing, or a device cannot be used (devices --check)"
    BUG = 70, "a bug of laptime: nothing is known of what was asked"
    TERMINAL_GONE = 129, "the terminal was closed (SIGHUP); what was measured is saved"
    INTERRUPTED = 130, "interrupted by Ctrl-C; what was measured is saved"
    READER_GONE = 141, "the program that read the output has ended"
    TERMINATED = 143, "asked to end (SIGTERM); what was measured is saved"


@dataclass(frozen=True, slots=True)
class ErrorFields:
    """An error for programs. `says` is what is wrong, `hint` the way out, or empty. `kind` is one of a few words."""

    kind: str
    says: str
    hint: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """What a command prints on stdout in place of its answer, where --json was given. Its exit code is never 0."""

    error: ErrorFields


LONGEST_SENTENCE = 2_000  # characters: an error may quote a file, a command line or another program's message


class LaptimeError(Exception):
    """The base class: catch it to catch every error that laptime raises on purpose."""

    exit_code: int = ExitCode.UNFINISHED

    def __init__(self, says: str, hint: str = "") -> None:
        self.says = _bounded(says)
        self.hint = _bounded(hint)
        super().__init__(self.says)

    @property
    def kind(self) -> str:
        """The error's name for other programs: usage, record, store, training, lane, wire, sensor, copy."""
        return type(self).__name__.removesuffix("Error").lower()

    def __str__(self) -> str:
        return f"{self.says}\n{self.hint}" if self.hint else self.says

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows: a mistake in a cell needs no traceback of laptime."""
        return [f"{type(self).__name__}: {self}"]


def _bounded(sentence: str) -> str:
    """Shorten a sentence that is too long. Both ends stay, because what is wrong often comes last."""
    left_out = len(sentence) - LONGEST_SENTENCE
    if left_out <= 0:
        return sentence
    half = LONGEST_SENTENCE // 2
    return f"{sentence[:half]} ... ({left_out:,} characters left out) ... {sentence[-half:]}"


class UsageError(LaptimeError):
    """The request cannot be understood, or this machine cannot meet it."""

    exit_code = ExitCode.USAGE


class RecordError(LaptimeError):
    """A saved record is not there, cannot be read, or was written by a newer laptime.

    `place` is what is wrong inside the file, as a JSON path, where that is known. `is_lasting` is whether this laptime
    will never read the file, unless the file changes.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, says: str, hint: str = "", place: str = "", *, is_lasting: bool = False) -> None:
        super().__init__(says, hint)
        self.place = _bounded(place)
        self.is_lasting = is_lasting


class StoreError(LaptimeError):
    """A result could not be saved. It may have been shown, but it is not kept."""


class TrainingError(LaptimeError):
    """The user's own training function raised, or returned something that is not a training: of this name, if known."""

    def __init__(self, says: str, hint: str = "", training: str = "") -> None:
        super().__init__(says, hint)
        self.training = training


class LaneError(LaptimeError):
    """A back end could not build or run what the lane asks for."""


class WireError(LaptimeError):
    """A message between parent and child could not be read, or is of another version."""


class NodeGoneError(WireError):
    """The node of a cluster on which a heat ran is gone, or the connection to it."""


class RankGoneError(LaneError):
    """The process of another rank is gone, and no more is known here."""


class SensorError(LaptimeError):
    """A requested instrument is not there, or was lost while it was read."""

    exit_code = ExitCode.NOT_WELL


class CopyError(LaptimeError):
    """laptime's own copy of a commit or patch was lost while it was used: nothing is known of what was asked."""

    exit_code = ExitCode.BUG
