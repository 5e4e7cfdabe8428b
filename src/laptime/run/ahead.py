"""Children started before their turn: they import their frameworks side by side, and then wait while others are timed.

A framework takes seconds to import, on one core. Each heat still has a process of its own in which nothing was built
and no device touched. Two cores for each child keep its start-up as long as it would be alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from laptime import wire
from laptime.errors import WireError
from laptime.model.plan import PlannedLane
from laptime.run.child import Child, Silence
from laptime.run.following import Started

CORES_A_CHILD = 2
MOST_AT_ONCE = 8  # each holds some hundred megabytes


class Ahead:
    """Gives each lane a child that is ready for its order; ends those that nobody took."""

    def __init__(self, cores: int, patience_s: float) -> None:
        self._at_once = max(1, min(cores // CORES_A_CHILD, MOST_AT_ONCE))
        self._patience_s = patience_s
        self._waiting: list[PlannedLane] = []
        self._held: dict[str, Started] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for started in self._held.values():
            started.child.abandon()

    def line_up(self, lanes: Iterable[PlannedLane]) -> None:
        """Say whose children will be taken next, in order."""
        self._waiting = list(lanes)

    def take(self, lane: PlannedLane) -> Started:
        """Give the lane's child; where it is not there yet, start as many of those in line as may start at once."""
        if lane.name not in self._held:
            coming, self._waiting = self._waiting[: self._at_once], self._waiting[self._at_once :]
            self._start(coming)
        return self._held.pop(lane.name)

    def pass_over(self, lane: PlannedLane) -> None:
        """Leave out the lane whose turn it would be; if its child is there, it waits for nothing."""
        self._waiting = [each for each in self._waiting if each.name != lane.name]
        if lane.name in self._held:
            self._held.pop(lane.name).child.abandon()

    def _start(self, lanes: list[PlannedLane]) -> None:
        for lane in lanes:
            child = Child(lane.environment)
            self._held[lane.name] = Started(child)
            child.say(wire.Warm(lane.framework))
        for lane in lanes:
            self._held[lane.name] = self._await(self._held[lane.name].child)

    def _await(self, child: Child) -> Started:
        """Hear a child out until it is warm; what goes wrong is for the heat to tell."""
        heard: list[wire.FromChild] = []
        try:
            while (message := child.hear(self._patience_s)) is not None:
                heard.append(message)
                if isinstance(message, wire.Warmed | wire.Failed):
                    break
        except Silence:
            return Started(child, tuple(heard), f"hung: no word for {self._patience_s:.3g} s")
        except WireError as error:
            return Started(child, tuple(heard), str(error))
        return Started(child, tuple(heard))
