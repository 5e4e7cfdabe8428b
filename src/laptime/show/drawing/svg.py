"""Charts as SVG. A curve's points are the record's own numbers, and a matrix moves them to their places."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from laptime.model.figure import Axis, Band, Curve, Plane, Point
from laptime.model.visible import visible

CHART_WIDTH = 640
CHART_HEIGHT = 280
LEFT = 88
RIGHT = 14
TOP = 12
BOTTOM = 46
INNER_WIDTH = CHART_WIDTH - LEFT - RIGHT
INNER_HEIGHT = CHART_HEIGHT - TOP - BOTTOM
SERIES_COLOURS = 8
TICK_LETTER = 12  # units that a letter of a tick takes on a narrow screen, where words are largest
ACROSS_LETTERS = 52  # of the label of an axis, on a narrow screen
UP_LETTERS = 23


def plane_svg(plane: Plane, title: str, says: str, numbers: Mapping[str, int]) -> str:
    """Return a plane as an SVG element of a page; `numbers` has the number of each curve's colour."""
    return (
        f'<svg viewBox="0 0 {CHART_WIDTH} {CHART_HEIGHT}" role="img" aria-label="{safe(f"{title}. {says}")}" '
        f'class="plane" tabindex="0">{plane_inside(plane, in_values(plane), numbers)}</svg>'
    )


def numbers_of(plane: Plane, lanes: Mapping[str, int]) -> dict[str, int]:
    """Return the number of each label's colour: a lane has its own everywhere, and what is no lane follows."""
    numbers: dict[str, int] = {}
    following = itertools.count(max(lanes.values(), default=-1) + 1)
    for label in curve_labels(plane):
        numbers[label] = lanes[label] if label in lanes else next(following)
    return numbers


@dataclass(frozen=True, slots=True)
class Frame:
    """How curves come to their places: what points are multiplied and moved by, and the matrix that does the rest.

    A page holds the record's own values, and the browser's matrix moves them. Other programs draw lines that are too
    thick under a matrix, so a file of its own holds places.
    """

    wide: float
    high: float
    left: float
    top: float
    matrix: str

    def place(self, across: float, up: float) -> tuple[float, float]:
        return self.left + self.wide * across, self.top + self.high * up


def in_values(plane: Plane) -> Frame:
    """Return a frame whose points are values."""
    wide, high, left, bottom = _map(*scales_of(plane))
    return Frame(1.0, 1.0, 0.0, 0.0, f"matrix({wide:.9g} 0 0 {high:.9g} {left:.9g} {bottom:.9g})")


def in_pixels(plane: Plane) -> Frame:
    """Return a frame whose points are places in the picture."""
    return Frame(*_map(*scales_of(plane)), "translate(0 0)")


def _map(across: Scale, up: Scale) -> tuple[float, float, float, float]:
    """Return by what values are multiplied and moved; the picture's vertical axis points down."""
    wide = INNER_WIDTH / (across.high - across.low)
    high = INNER_HEIGHT / (up.high - up.low)
    return wide, -high, LEFT - across.low * wide, TOP + INNER_HEIGHT + up.low * high


def plane_inside(plane: Plane, frame: Frame, numbers: Mapping[str, int]) -> str:
    """Return axes, bands and curves."""
    across, up = scales_of(plane)
    parts = []
    for band in plane.bands:
        start, end = _sides(band, across)
        parts.append(
            f'<rect class="band {band.kind}" x="{start:.2f}" y="{TOP}" width="{max(end - start, 0.5):.2f}" '
            f'height="{INNER_HEIGHT}"><title>{safe(band.label or band.kind)}</title></rect>'
        )
    for place, tick in across.ticks():
        x = LEFT + INNER_WIDTH * (place - across.low) / (across.high - across.low)
        middle = min(x, CHART_WIDTH - len(tick) * TICK_LETTER / 2)
        parts.append(f'<path class="grid" d="M{x:.1f} {TOP}v{INNER_HEIGHT}"/>')
        parts.append(f'<text x="{middle:.1f}" y="{TOP + INNER_HEIGHT + 18}" text-anchor="middle">{tick}</text>')
    for place, tick in up.ticks():
        y = TOP + INNER_HEIGHT * (1 - (place - up.low) / (up.high - up.low))
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}h{INNER_WIDTH}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>')
    if plane.at is not None:  # the value that curves are compared with
        y = TOP + INNER_HEIGHT * (1 - up.share(plane.at))
        parts.append(f'<path class="one" d="M{LEFT} {y:.1f}h{INNER_WIDTH}"/>')
    parts += [
        f'<path class="axis" d="M{LEFT} {TOP}V{TOP + INNER_HEIGHT}H{LEFT + INNER_WIDTH}"/>',
        _label(f'x="{LEFT + INNER_WIDTH / 2:g}" y="{CHART_HEIGHT - 5}"', plane.across.words(ACROSS_LETTERS)),
        _label(f'transform="translate(17 {TOP + INNER_HEIGHT / 2:g})rotate(-90)"', plane.up.words(UP_LETTERS)),
        f'<g transform="{frame.matrix}">',
        *(_curve(curve, numbers[curve.label], plane, frame) for curve in plane.curves),
        "</g>",
    ]
    for band in plane.bands:
        if band.kind == "crossover":  # its words are on the side where there is more room
            start, end = _sides(band, across)
            is_left = start - LEFT > LEFT + INNER_WIDTH - end
            at = f'x="{start - 6:.1f}" text-anchor="end"' if is_left else f'x="{end + 6:.1f}"'
            parts.append(f'<text class="of-band" {at} y="{TOP + 14}">{safe(band.label)}</text>')
    return "".join(parts)


def _label(place: str, label: str) -> str:
    return f'<text {place} text-anchor="middle">{safe(label)}</text>'


def curve_labels(plane: Plane) -> list[str]:
    """Return the names of a plane's curves, each once."""
    return list(dict.fromkeys(curve.label for curve in plane.curves))


def _curve(curve: Curve, number: int, plane: Plane, frame: Frame) -> str:
    points = [frame.place(*place) for place in places(curve.points, plane)]
    if not points:
        return ""
    if curve.kind in {"dots", "predicted"} or len(points) == 1:
        path = "".join(f"M{x:.7g} {y:.7g}h0" for x, y in points)
        kind = f"dots{' predicted' * (curve.kind == 'predicted')}"
    elif curve.kind == "steps":
        path = f"M{points[0][0]:.7g} {points[0][1]:.7g}" + "".join(f"H{x:.7g}V{y:.7g}" for x, y in points[1:])
        kind = "steps"
    else:
        path = "M" + " ".join(f"{x:.7g} {y:.7g}" for x, y in points)
        kind = "line"
    marks = ""
    if curve.kind in {"marked", "banded"} and len(points) > 1:
        dots = "".join(f"M{x:.7g} {y:.7g}h0" for x, y in points)
        marks = (
            f'<path class="marks c{number % SERIES_COLOURS}" data-key="{number}" '
            f'vector-effect="non-scaling-stroke" d="{dots}"/>'
        )
    line = (
        f'<path class="curve {kind} c{number % SERIES_COLOURS}" data-key="{number}" '
        f'vector-effect="non-scaling-stroke" d="{path}"><title>{safe(curve.label)}</title></path>'
    )
    return _ends(curve, number, plane, frame) + line + marks


def _ends(curve: Curve, number: int, plane: Plane, frame: Frame) -> str:
    """Return a line from the low to the high end of each point, or a band between all low and all high ends."""
    both = []
    for (across, _), ends in zip(curve.points, curve.ends, strict=False):
        found = places([(across, end) for end in ends or ()], plane)
        if len(found) == 2:
            both.append([frame.place(*place) for place in found])
    if not both:
        return ""
    if curve.kind == "banded" and len(both) > 1:
        around = [low for low, _ in both] + [high for _, high in reversed(both)]
        path = " ".join(f"{x:.7g} {y:.7g}" for x, y in around)
        return f'<path class="ends f{number % SERIES_COLOURS}" data-key="{number}" d="M{path}Z"/>'
    lines = [f"M{x:.7g} {low:.7g}L{x:.7g} {high:.7g}" for (x, low), (_, high) in both]
    kind = " predicted" * (curve.kind == "predicted")
    return (
        f'<path class="curve-ends{kind} c{number % SERIES_COLOURS}" data-key="{number}" '
        f'vector-effect="non-scaling-stroke" d="{"".join(lines)}"/>'
    )


def _sides(band: Band, across: Scale) -> tuple[float, float]:
    """Return where a band begins and ends in the picture, of which no part is outside of the axes."""
    start = min(max(across.share(band.start), 0.0), 1.0)
    end = min(max(across.share(band.end), 0.0), 1.0)
    return LEFT + INNER_WIDTH * start, LEFT + INNER_WIDTH * end


def safe(text: str) -> str:
    """Return words that no reader takes for markup, nor a terminal for a command."""
    return escape(visible(text), quote=True)


# Scales and ticks: from a plane's values to places in a picture, linear or logarithmic.

TICK_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
TICKS = 5
EDGE_SHARE = 0.04  # share of the range that is left free on each side


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
        if not self.is_log:
            return linear_ticks(self.low, self.high, whole=self.is_whole)
        if self.is_whole:
            # 1, 2, 4, 8 and so on: what is counted in devices and batches is mostly doubled
            two = math.log10(2)
            powers = range(max(math.ceil(self.low / two - 1e-9), 0), math.floor(self.high / two + 1e-9) + 1)
            doubled = powers[:: max(1, math.ceil(len(powers) / 9))]
            if len(doubled) > 1:
                return [(power * two, words(2.0**power)) for power in doubled]
        # Powers of ten; where fewer than two are in the range, also twice and five times these, and so on
        whole = range(math.floor(self.low), math.ceil(self.high) + 1)
        for factors in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8), [tenths / 10 for tenths in range(10, 100)]):
            found = [math.log10(factor) + power for power in whole for factor in factors]
            shown = [place for place in found if self.low <= place <= self.high]
            if len(shown) > 1:
                return [(place, words(10**place)) for place in shown[:: max(1, len(shown) // (TICKS + 1))]]
        return [(place, words(10**place)) for place in (self.low, self.high)]


def scales_of(plane: Plane) -> tuple[Scale, Scale]:
    """Return the scales of a plane's two axes."""
    points: list[Point] = []
    for curve in plane.curves:
        ends = [(x, end) for (x, _), both in zip(curve.points, curve.ends, strict=False) for end in both or ()]
        points += drawable([*curve.points, *ends], plane)
    edges = [edge for band in plane.bands for edge in (band.start, band.end)]
    compared = [] if plane.at is None else [plane.at]
    across = _scale([point[0] for point in points] + edges, plane.across, free=0.0)
    return across, _scale([point[1] for point in points] + compared, plane.up, free=EDGE_SHARE)


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
        low -= abs(low) / 2 or 0.5
        high += abs(high) / 2 or 0.5
    space = (high - low) * free
    return Scale(low if axis.from_zero and low == 0.0 else low - space, high + space, axis.is_log, axis.is_whole)


def linear_ticks(low: float, high: float, *, whole: bool = False) -> list[tuple[float, str]]:
    rough = max((high - low) / TICKS, 1.0 if whole else 0.0)
    size = 10 ** math.floor(math.log10(rough))
    steps = [size * times for times in TICK_STEPS]
    step = min(step for step in steps if step >= rough * (1 - 1e-9) and (step % 1 == 0 or not whole))
    first = math.ceil(low / step - 1e-9)
    places = [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]
    return [(place, words(place)) for place in places]


def words(value: float) -> str:
    """Return a tick's number, short: 12000 as 12k."""
    if value == 0:
        return "0"
    value = float(f"{value:.10g}")  # a tick of a logarithmic axis is 10 to some power, and 2000 is then not quite whole
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * size or (abs(value) >= size and value % size == 0):
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"
