"""One small tree of errors; each says what was given, what was expected and the way out, and knows its exit code.

LaptimeError
├── UsageError      2  the request cannot be understood or cannot be met here
├── RecordError     2  a saved record is not there or cannot be read
├── StoreError      3  a result could not be saved
├── TrainingError   3  a user's own function raised or returned the wrong thing
├── LaneError       3  a back end could not do what a lane asks
├── SensorError     5  an instrument that was asked for is not there, or was lost
└── WireError       3  parent and child did not understand each other
"""

from __future__ import annotations


class LaptimeError(Exception):
    """The root: catch this to catch all that laptime raises on purpose."""

    exit_code = 3

    def __init__(self, says: str, hint: str = "") -> None:
        super().__init__(says)
        self.says = says
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.says}\n{self.hint}" if self.hint else self.says


class UsageError(LaptimeError):
    """The request cannot be understood, or this machine cannot meet it."""

    exit_code = 2


class RecordError(LaptimeError):
    """A saved record is not there, cannot be read, or was written by a newer laptime."""

    exit_code = 2


class StoreError(LaptimeError):
    """A result could not be written; it was shown, but it is not kept."""


class TrainingError(LaptimeError):
    """The user's own training function raised, or returned something that is not a training."""


class LaneError(LaptimeError):
    """A back end could not build or run what the lane asks for."""


class WireError(LaptimeError):
    """A message between parent and child could not be read, or speaks another version."""


class SensorError(LaptimeError):
    """An instrument that was asked for is not there, or was lost while it was read."""

    exit_code = 5
