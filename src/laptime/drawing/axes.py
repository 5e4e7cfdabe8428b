"""Scales and ticks: from a plane's values to places in a picture, linear or logarithmic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from laptime.model.figure import Axis, Plane, Point

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
TICKS = 5
EDGE = 0.04  # share of the range that is left free on each side


@dataclass(frozen=True, slots=True)
class Scale:
    """The range of an axis. Where it is logarithmic, `low` and `high` are powers of ten."""

    low: float
    high: float
    is_log: bool
    is_whole: bool = False

    def share(self, value: float) -> float:
        """Return where a value is between both ends, from 0 to 1."""
        place = math.log10(value) if self.is_log else value
        return (place - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """Return where ticks are, in the units of the range, with their words."""
        return _log_ticks(self.low, self.high) if self.is_log else _ticks(self.low, self.high, whole=self.is_whole)


def scales_of(plane: Plane) -> tuple[Scale, Scale]:
    """Return the scales of a plane's two axes."""
    points = [point for curve in plane.curves for point in drawable(curve.points, plane)]
    ends = [each for band in plane.bands for each in (band.start, band.end)]
    across = _scale([point[0] for point in points] + ends, plane.across, free=0.0)
    return across, _scale([point[1] for point in points], plane.up, free=EDGE)


def drawable(points: Iterable[Point], plane: Plane) -> list[Point]:
    """Leave out what has no place: values that are no numbers, and 0 or less on a logarithmic axis."""
    return [
        (across, up)
        for across, up in points
        if math.isfinite(across)
        and math.isfinite(up)
        and (across > 0 or not plane.across.is_log)
        and (up > 0 or not plane.up.is_log)
    ]


def places(points: Iterable[Point], plane: Plane) -> list[Point]:
    """Return points in the units of both ranges: logarithms where an axis is logarithmic."""
    return [(_place(across, plane.across), _place(up, plane.up)) for across, up in drawable(points, plane)]


def _place(value: float, axis: Axis) -> float:
    return math.log10(value) if axis.is_log else value


def _scale(values: Sequence[float], axis: Axis, free: float) -> Scale:
    if axis.is_log:
        values = [math.log10(value) for value in values if value > 0]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if axis.from_zero and not axis.is_log:
        low = min(low, 0.0)
    if high - low < 1e-12 * max(abs(high), 1e-12):
        low, high = low - (abs(low) / 2 or 0.5), high + (abs(high) / 2 or 0.5)
    space = (high - low) * free
    return Scale(low if axis.from_zero and low == 0.0 else low - space, high + space, axis.is_log, axis.is_whole)


def _ticks(low: float, high: float, *, whole: bool) -> list[tuple[float, str]]:
    rough = max((high - low) / TICKS, 1.0 if whole else 0.0)
    size = 10 ** math.floor(math.log10(rough))
    step = size * next(
        each for each in STEPS if each * size >= rough * (1 - 1e-9) and (each * size % 1 == 0 or not whole)
    )
    first = math.ceil(low / step - 1e-9)
    places = [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]
    return [(place, words(place)) for place in places]


def _log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return powers of ten; where fewer than two are in the range, also twice and five times these."""
    whole = range(math.floor(low), math.ceil(high) + 1)
    for factors in ((1,), (1, 2, 5)):
        found = [math.log10(each) + power for power in whole for each in factors]
        shown = [place for place in found if low <= place <= high]
        if len(shown) > 1:
            return [(place, words(10**place)) for place in shown[:: max(1, len(shown) // (TICKS + 1))]]
    return _words_of_ends(low, high)


def _words_of_ends(low: float, high: float) -> list[tuple[float, str]]:
    return [(place, words(10**place)) for place in (low, high)]


def words(value: float) -> str:
    """Return a tick's number, short: 12000 as 12k."""
    if value == 0:
        return "0"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * size or (abs(value) >= size and value % size == 0):
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"
