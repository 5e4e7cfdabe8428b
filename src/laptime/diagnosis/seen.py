"""What a rule looks at: one lane, its machine, and the readings of its heats while they were timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from laptime.analysis.readings import Point, Span, growth_per_s, within
from laptime.analysis.usage import card_of, span_of
from laptime.model.machine import Machine
from laptime.model.missing import Missing
from laptime.model.record import Finding, HeatResult, LaneResult
from laptime.model.timeline import Timeline
from laptime.stats import median


@dataclass(frozen=True, slots=True)
class Timed:
    """A heat's readings, and the part of them that was timed."""

    timeline: Timeline
    span: Span
    step_ms: float


@dataclass(frozen=True, slots=True)
class Seen:
    """A lane with everything that its rules may stand on."""

    lane: LaneResult
    machine: Machine
    heats: tuple[Timed, ...]
    card: str | None

    def readings(self, device: str, name: str) -> list[tuple[Point, ...]]:
        """Give a channel's readings, heat by heat; those heats are left out that have none."""
        told = [within(heat.timeline, device, name, heat.span) for heat in self.heats]
        return [points for points in told if not isinstance(points, Missing)]

    def values(self, device: str, name: str) -> list[float]:
        return [value for points in self.readings(device, name) for _, value in points]

    def growth_per_s(self, device: str, name: str) -> float | None:
        """Give how fast a counter grew, the median over the heats."""
        told = [growth_per_s(points) for points in self.readings(device, name)]
        known = [each for each in told if not isinstance(each, Missing)]
        return median(known) if known else None


Rule = Callable[[Seen], "Finding | None"]


def see(lane: LaneResult, machine: Machine) -> Seen:
    finished = [heat for heat in lane.heats if heat.status == "ok" and heat.windows]
    heats = tuple(each for each in map(_timed, finished) if each is not None)
    return Seen(lane, machine, heats, card_of(lane.device, heats[0].timeline) if heats else None)


def share_of(values: Sequence[float], is_so: Callable[[float], bool]) -> float:
    return sum(map(is_so, values)) / len(values) if values else 0.0


def _timed(heat: HeatResult) -> Timed | None:
    if heat.timeline is None or heat.timeline.clock is not None or heat.step_ms is None:
        return None
    return Timed(heat.timeline, span_of(heat), heat.step_ms)
