"""Fewer points that look the same: each stretch of a long curve keeps its lowest and its highest point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from laptime.model.figure import Curve, Figure, Plane, Point

POINTS_MOST = 12_000  # of all curves of a report together
CURVE_LEAST = 8  # points that every curve keeps


def thin(figures: Sequence[Figure]) -> tuple[Figure, ...]:
    """Return figures with at most `POINTS_MOST` points together, so that a file stays small."""
    curves = [curve for each in figures if isinstance(each.chart, Plane) for curve in each.chart.curves]
    if sum(len(curve.points) for curve in curves) <= POINTS_MOST:
        return tuple(figures)
    most = _fair_share([len(curve.points) for curve in curves])
    return tuple(
        replace(each, chart=replace(each.chart, curves=tuple(thin_curve(curve, most) for curve in each.chart.curves)))
        if isinstance(each.chart, Plane)
        else each
        for each in figures
    )


def thin_curve(curve: Curve, most: int) -> Curve:
    """Return a curve with at most `most` points: the lowest and the highest of each stretch, in their order."""
    points = curve.points
    if len(points) <= most:
        return curve
    stretches = max(most // 2, 1)
    kept: list[Point] = []
    for number in range(stretches):
        stretch = points[len(points) * number // stretches : len(points) * (number + 1) // stretches]
        lowest, highest = min(stretch, key=lambda point: point[1]), max(stretch, key=lambda point: point[1])
        kept += sorted({lowest, highest})
    return replace(curve, points=tuple(kept), of_points=max(curve.of_points, len(points)))


def _fair_share(lengths: Sequence[int]) -> int:
    """Return how many points a curve may keep, where short curves leave their share to the longer ones."""
    left, share = POINTS_MOST, CURVE_LEAST
    for done, length in enumerate(ordered := sorted(lengths)):
        share = max(left // (len(ordered) - done), CURVE_LEAST)
        if length > share:
            return share
        left -= length
    return share


def thinned_words(figures: Sequence[Figure]) -> str:
    """Return a sentence on how many points are drawn of how many; empty if all are."""
    curves = [curve for each in figures if isinstance(each.chart, Plane) for curve in each.chart.curves]
    drawn = sum(len(curve.points) for curve in curves)
    all_points = sum(max(curve.of_points, len(curve.points)) for curve in curves)
    if not any(curve.is_thinned for curve in curves):
        return ""
    return (
        f"Thinned: {drawn:,} of {all_points:,} points are drawn, of each stretch the lowest and the highest. "
        "The record holds all of them."
    )
