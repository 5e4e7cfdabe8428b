"""Steps of one rank that wait for the other ranks before each step, off the clock.

Ranks that exchange nothing would drift apart, and no longer read from one disk at the same time as they do in training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from laptime.backends.base import Exercise, Runner


class LockstepSteps:
    """Takes a runner's steps. What it waits before each of them is no step, and is in `outside_ns`."""

    def __init__(self, runner: Runner, meeting: Exercise, clock: Callable[[], int]) -> None:
        self._runner, self._meeting, self._clock = runner, meeting, clock
        self.outside_ns = 0

    def run(self, steps: int) -> None:
        self.run_marked(steps)

    def run_marked(self, steps: int) -> list[int]:
        """Return how long each step took; these are its marks."""
        stride = self._runner.stride
        return [self._run(min(stride, steps - done)) for done in range(0, steps, stride)]

    def fence(self) -> None:
        self._runner.fence()

    def step_ns(self, marks: Sequence[Any]) -> tuple[int, ...]:
        return tuple(marks)

    def _run(self, steps: int) -> int:
        waits_ns = self._clock()
        self._meeting.once()
        self._meeting.fence()
        began_ns = self._clock()
        self._runner.run(steps)
        self._runner.fence()
        self.outside_ns += began_ns - waits_ns
        return self._clock() - began_ns
