"""Cells of a sweep -> where one lane overtakes another, where more gains little, what an empty step takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from laptime.analysis.heats import ALPHA, ONE_ROUND
from laptime.model.quantities import Bounded, IntervalFigure, Missing, brief
from laptime.model.record import HeatResult
from laptime.model.stats import mean_interval, median

PLATEAU = 0.9
EMPTY_POINTS, EMPTY_POINTS_MOST = 3, 5


@dataclass(frozen=True, slots=True)
class RatioPoint(IntervalFigure):
    """How many times as fast one lane is as another at one value of an axis."""

    value: float
    ratio: float
    low: float | Missing
    high: float | Missing


def find_crossovers(points: Sequence[RatioPoint]) -> list[tuple[Bounded, bool]]:
    """Return where the ratio passes 1, by lines between logarithms, and whether it rises there.

    The ends of the interval are where the ratio's own bounds pass 1: beyond them, the lane is surely slower or faster.
    """
    found: list[tuple[Bounded, bool]] = []
    for before, after in pairwise(points):
        if (before.ratio < 1) == (after.ratio < 1):
            continue
        rises = before.ratio < 1
        at = _passes(before.value, before.ratio, after.value, after.ratio)
        upper = _crossing(points, at, "high")
        lower = _crossing(points, at, "low")
        low, high = (upper, lower) if rises else (lower, upper)
        at_most = low if isinstance(low, Missing) else min(low, at)
        at_least = high if isinstance(high, Missing) else max(high, at)
        found.append((Bounded(at, at_most, at_least), rises))
    return found


def _crossing(points: Sequence[RatioPoint], near: float, bound: str) -> float | Missing:
    """Return where one bound of the ratio passes 1, nearest to a value; Missing where it does not."""
    ends = [(point.value, getattr(point, bound)) for point in points]
    known = [(value, end) for value, end in ends if not isinstance(end, Missing) and end > 0]
    if len(known) < 2:
        return ONE_ROUND
    passes = [
        _passes(value, end, after, later)
        for (value, end), (after, later) in pairwise(known)
        if (end < 1) != (later < 1)
    ]
    if not passes:
        return Missing("it is outside of the values that were raced")
    return min(passes, key=lambda pass_: abs(math.log(pass_ / near)))


def _passes(before: float, ratio: float, after: float, later: float) -> float:
    """Return where the line between two ratios is 1, on logarithmic axes."""
    share = math.log(ratio) / (math.log(ratio) - math.log(later))
    return math.exp(math.log(before) + share * (math.log(after) - math.log(before)))


def find_knee(rates: Sequence[tuple[str, float]]) -> str | Missing:
    """Return the first value with 90 % of the highest rate. There is none if the last value is much the fastest."""
    most = max(rate for _, rate in rates)
    knee = next(value for value, rate in rates if rate >= PLATEAU * most)
    if knee == rates[-1][0] and len(rates) > 1:
        return Missing(f"its rate still grows at {knee}")
    return knee


def find_empty_step(heats: Sequence[tuple[float, Sequence[HeatResult]]]) -> Bounded | Missing:
    """Return what a step without items would take: where lines through the smallest batches meet 0.

    Each round has one figure: the median of the lines through each two batches, so that one noisy heat spoils nothing
    where there are five.
    """
    smallest = sorted(heats, key=lambda pair: pair[0])[:EMPTY_POINTS_MOST]
    steps = [(value, [heat.step_ms for heat in heats if heat.step_ms is not None]) for value, heats in smallest]
    rounds = min((len(steps_ms) for _, steps_ms in steps), default=0)
    if len(steps) < EMPTY_POINTS or not rounds:
        return Missing(f"fewer than {EMPTY_POINTS} batches were raced")
    ends = [_at_zero([(value, steps_ms[number]) for value, steps_ms in steps]) for number in range(rounds)]
    if len(ends) == 1:
        return Bounded(ends[0], ONE_ROUND, ONE_ROUND)
    return Bounded(*mean_interval(ends, ALPHA))


def _at_zero(points: Sequence[tuple[float, float]]) -> float:
    """Return where the usual line through two of the points meets 0."""
    return median(
        [(ms * later - after * value) / (later - value) for (value, ms), (later, after) in combinations(points, 2)]
    )


def bounded_words(at: Bounded) -> str:
    """Return a place on an axis with its interval: 48 (40-58)."""
    if at.ends is None:
        return f"about {brief(at.value)}"
    low, high = at.ends
    return f"{brief(at.value)} ({brief(low)}-{brief(high)})"


def is_of_one_round(at: Bounded) -> bool:
    """Whether one round alone gave a figure: it only seems so."""
    return ONE_ROUND in {at.low, at.high}
