"""The work of making a set, cut into pieces that any thread can do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from laptime.model.dataset import Part


@dataclass(frozen=True, slots=True)
class Counts:
    """How many items a set has."""

    train: int
    test: int


@dataclass(frozen=True, slots=True)
class Task:
    """Some items that are made in one go, by one thread."""

    part: Part
    start: int
    stop: int


class Maker(Protocol):
    """Makes items in any thread; `collect` is told of each finished task in order, in one thread."""

    trial: Task

    def tasks(self, counts: Counts) -> Iterator[Task]: ...
    def make(self, task: Task) -> int:
        """Make these items and give their bytes."""

    def collect(self, task: Task, counts: Counts) -> None: ...
