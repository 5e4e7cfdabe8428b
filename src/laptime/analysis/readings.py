"""What an instrument showed between two moments: the mean and the most of a gauge, the growth of a counter, a slope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from laptime.model.missing import Missing
from laptime.model.timeline import Timeline

Point = tuple[float, float]
"""Seconds on the parent's clock, and what was shown."""
ENERGY_LEAST_S = 2.0
ENERGY_LEAST_READINGS = 10


@dataclass(frozen=True, slots=True)
class Span:
    """From the first window that counts to the end of the last."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s


Pair = tuple[Timeline, Span]
"""What was read, and which part of it counts."""


def points_of(timeline: Timeline, device: str, name: str) -> tuple[Point, ...] | Missing:
    """Give all that a channel told, with its times."""
    if timeline.clock is not None:
        return timeline.clock
    found = timeline.find(device, name)
    if found is None:
        return timeline.why_not(device, name)
    track, series = found
    pairs = zip(track.times_ns(), series.values(), strict=True)
    return tuple((time_ns / 1e9, value) for time_ns, value in pairs if value is not None)


def within(timeline: Timeline, device: str, name: str, span: Span) -> tuple[Point, ...] | Missing:
    """Give what a channel told in a span; none at all is a reason."""
    points = points_of(timeline, device, name)
    if isinstance(points, Missing):
        return points
    inside = tuple(point for point in points if span.start_s <= point[0] <= span.end_s)
    return inside or Missing(f"no reading fell into the {span.length_s:.1f} s that were timed")


def mean_of(points: tuple[Point, ...] | Missing) -> float | Missing:
    return points if isinstance(points, Missing) else sum(value for _, value in points) / len(points)


def most_of(points: tuple[Point, ...] | Missing) -> float | Missing:
    return points if isinstance(points, Missing) else max(value for _, value in points)


def growth_per_s(points: tuple[Point, ...] | Missing) -> float | Missing:
    """Give how fast a counter grew from the first reading to the last; of one that was set back nothing is known."""
    return points if isinstance(points, Missing) else pooled_growth_per_s((points,))


def pooled_growth_per_s(stretches: Sequence[tuple[Point, ...]]) -> float | Missing:
    """Give how fast a counter grew within all stretches together; what it did between them is left out."""
    long = [points for points in stretches if len(points) > 1]
    if not long:
        return Missing("a single reading of a counter tells no growth")
    if any(after[1] < before[1] for points in long for before, after in pairwise(points)):
        return Missing("the counter was set back meanwhile")
    return sum(points[-1][1] - points[0][1] for points in long) / lasted_s(long)


def lasted_s(stretches: Sequence[tuple[Point, ...]]) -> float:
    """Give the time between first and last readings."""
    return sum(points[-1][0] - points[0][0] for points in stretches if points)


def slope_per_min(points: tuple[Point, ...] | Missing) -> float | Missing:
    """Give the slope of the straight line through the readings."""
    if isinstance(points, Missing):
        return points
    if len(points) < 3 or points[-1][0] - points[0][0] < 1:
        return Missing("too few readings for a slope")
    middle_s = sum(time_s for time_s, _ in points) / len(points)
    middle = sum(value for _, value in points) / len(points)
    spread = sum((time_s - middle_s) ** 2 for time_s, _ in points)
    return 60 * sum((time_s - middle_s) * (value - middle) for time_s, value in points) / spread


def trapezoid_mean(points: Sequence[Point]) -> float:
    """Give the mean over time of what was sampled: readings are not evenly apart."""
    return pooled_trapezoid_mean((tuple(points),))


def pooled_trapezoid_mean(stretches: Sequence[tuple[Point, ...]]) -> float:
    area = sum(
        (after[0] - before[0]) * (before[1] + after[1]) / 2
        for points in stretches
        for before, after in pairwise(points)
    )
    return area / lasted_s(stretches)


def why_no_energy(stretches: Sequence[tuple[Point, ...]], readings: int) -> Missing | None:
    """Refuse what two seconds or a few readings cannot tell: meters are brought up to date ten times a second."""
    spent_s, count = lasted_s(stretches), sum(map(len, stretches))
    if spent_s < ENERGY_LEAST_S:
        return Missing(f"{spent_s:.1f} s between its first and last reading, and energy needs {ENERGY_LEAST_S:g} s")
    if count < readings:
        return Missing(f"{count} readings, and energy needs {readings}")
    return None
