"""Where a heat's steady state begins: found, not assumed (Barrett et al. 2017, "Warmup blows hot and cold").

The series of window times is cut where its level changes. Levels that are too close to matter are joined again. One or
two odd windows inside a level are ignored (a shared machine has them). What remains is classified.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, takewhile
from math import isfinite, log, sqrt
from typing import Literal

from laptime.stats.cuts import cut, noise_of
from laptime.stats.sample import MAD_TO_SD, mad, median

Kind = Literal["flat", "warm-up", "slowing", "unsteady"]

_FEWEST_STEADY = 3
_MOST_ODD = 2
_SAME_LEVEL = log(1.02)
_WIDEST_SPREAD = 0.15
# Chance moves the level of a few windows by up to this many times noise / sqrt(windows).
_CHANCE = 3.0
# Cutting is quadratic in the length: 400 windows take some 10 ms, 2000 would take 25 times as long.
_MOST_WINDOWS = 400


@dataclass(frozen=True, slots=True)
class Steady:
    """How a heat behaved, and the index of its first steady window."""

    kind: Kind
    start: int


@dataclass(frozen=True, slots=True)
class _Level:
    """The windows [first, end) and the median logarithm of their times."""

    first: int
    end: int
    height: float

    @property
    def windows(self) -> int:
        return self.end - self.first

    @property
    def lasts(self) -> bool:
        return self.windows >= _FEWEST_STEADY


def find_steady(values: Sequence[float]) -> Steady:
    """Return from which window on a heat's window times are steady, and whether it had warmed up or slowed down."""
    if not all(isfinite(value) and value > 0 for value in values):
        raise ValueError("window times must be positive and finite")
    if len(values) < _FEWEST_STEADY:
        return Steady("unsteady", 0)
    edges = _pool_edges(len(values))
    logs = [log(median(values[first:end])) for first, end in pairwise(edges)]
    found = _name(_levels(logs))
    start = edges[found.start]
    steady = values[start:]
    if mad(steady) * MAD_TO_SD > _WIDEST_SPREAD * median(steady):
        return Steady("unsteady", start)
    return Steady(found.kind, start)


def _pool_edges(count: int) -> list[int]:
    """Divide a long series into blocks of neighbours, few enough for a fast cut.

    Blocks have 3, 5, ... windows, the last one more: the median of two would let half of an odd window through.
    """
    width = 1
    while count // width > _MOST_WINDOWS:
        width += 2
    return [*range(0, count - width + 1, width), count]


def _levels(logs: list[float]) -> list[_Level]:
    """Cut the series, then join what is one level, the closest pair first: so a slope is not joined step by step."""
    noise = noise_of(logs)
    levels = [_level(logs, first, end) for first, end in cut(logs, noise)]
    while pairs := [pair for pair in _near(levels) if _distance(levels, pair) < _same(levels, pair, noise)]:
        left, right = min(pairs, key=lambda pair: _distance(levels, pair))
        levels[left : right + 1] = [_level(logs, levels[left].first, levels[right].end)]
    return levels


def _level(logs: list[float], first: int, end: int) -> _Level:
    return _Level(first, end, median(logs[first:end]))


def _near(levels: list[_Level]) -> Iterator[tuple[int, int]]:
    """Pair each level with the next, and with those after one or two odd windows, if the odd windows are fewer."""
    for left, level in enumerate(levels):
        for right in range(left + 1, len(levels)):
            between = levels[right].first - level.end
            if between > _MOST_ODD:
                break
            if level.windows + levels[right].windows > 2 * between:
                yield left, right


def _distance(levels: list[_Level], pair: tuple[int, int]) -> float:
    return abs(levels[pair[0]].height - levels[pair[1]].height)


def _same(levels: list[_Level], pair: tuple[int, int], noise: float) -> float:
    """Return the distance within which two levels are one: 2 %, the noise, or the effect of chance on few windows."""
    fewest = min(levels[place].windows for place in pair)
    return max(_SAME_LEVEL, noise, _CHANCE * noise / sqrt(fewest))


def _name(levels: list[_Level]) -> Steady:
    """Classify the behaviour by how the last lasting level compares with those before it."""
    odd_end = sum(level.windows for level in takewhile(lambda level: not level.lasts, reversed(levels)))
    lasting = [index for index, level in enumerate(levels) if level.lasts]
    if not lasting:
        return Steady("unsteady", 0)
    last = levels[lasting[-1]]
    if odd_end > _MOST_ODD:
        return Steady("unsteady", last.first)
    earlier = _heights_before(levels[: lasting[-1]])
    if any(last.height - height > _SAME_LEVEL for height in earlier):
        return Steady("slowing", last.first)
    if any(height - last.height > _SAME_LEVEL for height in earlier):
        return Steady("warm-up", last.first)
    return Steady("flat", 0)


def _heights_before(levels: list[_Level]) -> list[float]:
    """List the levels that the last one is compared with: a cold start counts however short, an odd window never.

    Between lasting levels, a run of short ones that is too long to be odd counts once, by its median.
    """
    heights: list[float] = []
    for place, (lasts, group) in enumerate(groupby(levels, key=lambda level: level.lasts)):
        run = list(group)
        if lasts or place == 0:
            heights += [level.height for level in run]
        elif sum(level.windows for level in run) > _MOST_ODD:
            heights.append(median([level.height for level in run]))
    return heights
