"""The steps of a race: their times over each heat, with warm-up and disturbances marked, and their distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import exp, log

from laptime.analysis.heats import steady_windows
from laptime.model.figure import Axis, Band, Curve, Figure, Plane, Point
from laptime.model.record import HeatResult, LaneResult
from laptime.model.sample import Window
from laptime.pages.words import short_name
from laptime.stats import quantile

GAP_NS = 50_000_000  # a longer one between two windows is not bridged
COLUMNS = 40  # of the distribution
OUTERMOST = 0.002  # share of the steps on each side that the distribution leaves out
STEP_AXIS = Axis("ms a step", from_zero=True)


def step_figures(lanes: Sequence[LaneResult]) -> list[Figure]:
    """Return a figure for each lane that ran, and one of all their distributions."""
    ran = [lane for lane in lanes if any(result.heat.windows for result in lane.heats)]
    return [*(_over_time(lane) for lane in ran), *_distribution(ran)]


def _over_time(lane: LaneResult) -> Figure:
    heats = [result for result in lane.heats if result.heat.windows]
    curves, bands = [], []
    at_s = 0.0
    for result in heats:
        start_ns, end_ns = result.heat.windows[0].start_ns, result.heat.windows[-1].end_ns
        for stretch in _stretches(result):
            points = tuple((at_s + seconds, ms) for seconds, ms in _points(stretch, start_ns))
            curves.append(Curve(f"heat {result.heat.order + 1}", points))
        bands += _bands(result, at_s)
        at_s += (end_ns - start_ns) / 1e9
    said = [f"{len(heats)} heat{'s' * (len(heats) != 1)}, one after another"]
    said += ["warm-up, which does not count, is marked"] if any(each.kind == "warm-up" for each in bands) else []
    said += ["disturbed windows are marked"] if any(each.kind == "disturbed" for each in bands) else []
    plane = Plane(Axis("seconds of the lane's heats"), STEP_AXIS, tuple(curves), tuple(bands))
    return Figure(f"Steps of {short_name(lane.name)}", plane, f"{'; '.join(said)}.")


def _stretches(result: HeatResult) -> list[list[Window]]:
    """Return the windows in stretches without a gap: between two of them another heat had its turn."""
    stretches = [[result.heat.windows[0]]]
    for before, after in pairwise(result.heat.windows):
        if after.start_ns - before.end_ns > GAP_NS:
            stretches.append([])
        stretches[-1].append(after)
    return stretches


def _points(windows: Sequence[Window], start_ns: int) -> list[Point]:
    """Return when each step ended, in seconds from `start_ns`, and its time; or the windows' means."""
    points = []
    for window in windows:
        if not window.step_ns:
            middle_ns = (window.start_ns + window.end_ns) / 2
            points.append(((middle_ns - start_ns) / 1e9, _mean_ms(window)))
        at_ns = float(window.start_ns)
        for step_ns in window.step_ns:
            at_ns += step_ns
            points.append(((at_ns - start_ns) / 1e9, step_ns / 1e6))
    return points


def _mean_ms(window: Window) -> float:
    return (window.end_ns - window.start_ns) / 1e6 / max(window.steps, 1)


def _bands(result: HeatResult, at_s: float) -> list[Band]:
    start_ns = result.heat.windows[0].start_ns

    def place(ns: int) -> float:
        return at_s + (ns - start_ns) / 1e9

    found = [
        Band(place(each.start_ns), place(each.end_ns), "disturbed", each.flag)
        for each in result.heat.windows
        if each.flag
    ]
    if result.steady_from:
        found.append(Band(at_s, place(result.heat.windows[result.steady_from - 1].end_ns), "warm-up", "warm-up"))
    return found


def _distribution(lanes: Sequence[LaneResult]) -> list[Figure]:
    """Return how often steps of the windows that count took how long; on a logarithmic scale if lanes are far apart."""
    steps = {short_name(lane.name): _steady_steps(lane) for lane in lanes}
    steps = {name: found for name, found in steps.items() if len(found) >= COLUMNS}
    if not steps:
        return []
    low = min(quantile(found, OUTERMOST) for found in steps.values())
    high = max(quantile(found, 1 - OUTERMOST) for found in steps.values())
    if not 0 < low < high:
        return []
    is_log = high / low > 8
    edges = _edges(low, high, is_log=is_log)
    curves = tuple(Curve(name, _histogram(found, edges), "steps") for name, found in steps.items())
    count = sum(map(len, steps.values()))
    says = f"{count:,} steps of the windows that count; the outermost {200 * OUTERMOST:.1f} % are not shown."
    across = Axis("ms a step", is_log=is_log)
    return [Figure("How long steps take", Plane(across, Axis("% of the steps", from_zero=True), curves), says)]


def _steady_steps(lane: LaneResult) -> list[float]:
    heats = [result for result in lane.heats if result.heat.process.status == "ok"]
    return [ns / 1e6 for heat in heats for window in steady_windows(heat) for ns in window.step_ns]


def _edges(low: float, high: float, *, is_log: bool) -> list[float]:
    shares = [column / COLUMNS for column in range(COLUMNS + 1)]
    if is_log:
        return [exp(log(low) + (log(high) - log(low)) * share) for share in shares]
    return [low + (high - low) * share for share in shares]


def _histogram(values: Sequence[float], edges: Sequence[float]) -> tuple[Point, ...]:
    """Return the left edge of each column with its share in percent, and the last edge with 0."""
    ordered, counts, place = sorted(values), [], 0
    while place < len(ordered) and ordered[place] < edges[0]:
        place += 1
    for _, right in pairwise(edges):
        begin = place
        while place < len(ordered) and ordered[place] < right:
            place += 1
        counts.append(place - begin)
    shares = [100 * count / len(ordered) for count in counts]
    return (*zip(edges[:-1], shares, strict=True), (edges[-1], 0.0))


# Fewer points that look the same: each stretch of a long curve keeps its lowest and its highest point.

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
    for place in range(stretches):
        stretch = points[len(points) * place // stretches : len(points) * (place + 1) // stretches]
        lowest, highest = min(stretch, key=lambda point: point[1]), max(stretch, key=lambda point: point[1])
        kept += sorted({lowest, highest})
    return replace(curve, points=tuple(kept), of_points=max(curve.of_points, len(points)), ends=())


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
