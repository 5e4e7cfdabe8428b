"""Start children before their turn: they import their frameworks in parallel, and wait while others are timed.

A framework takes seconds to import, on one core. Each heat still has its own process, in which nothing was built and
no device was used. With two cores per child, its start-up takes no longer than alone. Where rounds are worth more than
that, there is a child on each core, and the start-up of a lane is the shortest of its heats. Where a framework bears
it, only a lane's first heats import: the others are forked (laptime.run.templates).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from laptime import wire
from laptime.errors import LaneError, WireError
from laptime.model.digits import brief
from laptime.model.plan import PlannedLane
from laptime.run.child import Silence
from laptime.run.launchers import LOCAL, Launcher
from laptime.run.runner import Started
from laptime.run.templates import ForkedChild, HeatTemplate, HeatTemplates, may_fork

CORES_A_CHILD = 2
MOST_AT_ONCE = 8  # each holds some hundred megabytes


class Prestarter:
    """Starts a child for each lane that is ready for its order, and ends the children that were not taken.

    `importing_s` is how long it has waited so far for templates that heats are then forked from, once each.
    """

    def __init__(
        self, cores: int, patience_s: float, cores_a_child: int = CORES_A_CHILD, launcher: Launcher = LOCAL
    ) -> None:
        self._launcher = launcher
        # A child on a cluster that waits for its turn holds a place that another may wait for.
        self._at_once = 1 if launcher.is_elsewhere else max(1, min(cores // cores_a_child, MOST_AT_ONCE))
        self._patience_s = patience_s
        self._waiting: list[PlannedLane] = []
        self._held: dict[str, Started] = {}
        self._templates = HeatTemplates()
        self.importing_s, self._imports = 0.0, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for started in self._held.values():
            started.child.abandon()
        self._templates.close()

    def line_up(self, lanes: Iterable[PlannedLane]) -> None:
        """Set the lanes whose children will be taken next, in order."""
        self._waiting = list(lanes)

    def start_ahead(self, lanes: Iterable[PlannedLane]) -> None:
        """Start the templates of the first heats of these lanes, as many as may start at once; wait for none."""
        begun = 0
        with contextlib.suppress(LaneError):  # the heats will report it
            for lane in () if self._launcher.is_elsewhere else lanes:
                begun += begun < self._at_once and self._templates.begin_ahead(lane)

    def take_alone(self, lane: PlannedLane) -> Started | None:
        """Return a child for what is no heat, forked like the heats of this lane; None where these are no forks."""
        if self._launcher.is_elsewhere or not may_fork(lane):
            return None
        self.line_up([lane])
        return self.take(lane)

    def take(self, lane: PlannedLane) -> Started:
        """Return the lane's child. If it does not exist yet, start the next children, as many as may start at once."""
        if lane.name not in self._held:
            coming, self._waiting = self._waiting[: self._at_once], self._waiting[self._at_once :]
            self._start(coming)
        return self._held.pop(lane.name)

    def expect_imports_s(self, lanes: Iterable[PlannedLane]) -> float:
        """Return how long the templates take that the next heats of these lanes lack, by those before."""
        return self._templates.missing(lanes) * self.importing_s / max(1, self._imports)

    def pass_over(self, lane: PlannedLane) -> None:
        """Skip a lane. End its child if it was started."""
        self._waiting = [each for each in self._waiting if each.name != lane.name]
        if lane.name in self._held:
            self._held.pop(lane.name).child.abandon()

    def _start(self, lanes: list[PlannedLane]) -> None:
        """Start these children, or as many as the system allows. All have the same deadline."""
        deadline = time.monotonic() + self._patience_s
        begun: list[tuple[PlannedLane, HeatTemplate | None]] = []
        for lane in lanes:
            try:
                template = None if self._launcher.is_elsewhere else self._templates.begin(lane)
                if template is None:
                    self._begin_fresh(lane)
            except LaneError:
                if not begun:
                    raise
                self._waiting = [*lanes[len(begun) :], *self._waiting]
                break
            begun.append((lane, template))
        for lane, template in begun:
            self._held[lane.name] = self._fork(lane, template, deadline) or self._await(lane, deadline)

    def _begin_fresh(self, lane: PlannedLane) -> None:
        child = self._launcher.start(lane.environment, lane)
        self._held[lane.name] = Started(child)
        child.say(wire.Warm(lane.framework))

    def _fork(self, lane: PlannedLane, template: HeatTemplate | None, deadline: float) -> Started | None:
        """Fork a heat; if that is not possible, begin a fresh process. The heat then reports what goes wrong."""
        if template is None:
            return None
        began_s, is_new = time.monotonic(), template.told is None
        is_ready = template.make_ready(deadline)
        if is_new:
            self._imports += 1
            self.importing_s += time.monotonic() - began_s
        if is_ready:
            with contextlib.suppress(LaneError):
                return Started(ForkedChild(template))
        self._begin_fresh(lane)
        return None

    def _await(self, lane: PlannedLane, deadline: float) -> Started:
        """Wait until a child is warm. The heat reports what goes wrong."""
        child = self._held[lane.name].child
        heard: list[wire.FromChild] = []
        try:
            while (message := child.hear(deadline - time.monotonic())) is not None:
                heard.append(message)
                if isinstance(message, wire.Warmed | wire.Failed):
                    break
        except Silence:
            return Started(child, tuple(heard), f"no message for {brief(self._patience_s)} s; stopped")
        except WireError as error:
            return Started(child, tuple(heard), str(error))
        return Started(child, tuple(heard))
