"""Where a heat's steady state begins: found, not assumed (Barrett et al. 2017, "Warmup blows hot and cold").

The series of window times is cut where its level changes. Levels that are too close to matter are joined again. One or
two odd windows inside a level are ignored (a shared machine has them). What remains is classified.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise, takewhile
from math import isfinite, log, sqrt
from typing import Literal

from laptime.stats.interval import MAD_TO_SD, mad, median

SteadyKind = Literal["flat", "warm-up", "slowing", "unsteady"]

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

    kind: SteadyKind
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


# Where the level of a series changes: the best of all partitions, with a charge for every cut.

# Even an exactly repeating clock is given this much noise; otherwise every flicker would be a level.
_LEAST_NOISE = 0.003
# The Bayesian information criterion charges 2, for the place of a cut and for its new level. Here windows are
# correlated, and their noise is known from few of them. At 5, simulated heats of 4 to 150 windows without a
# change stay whole in 89 to 100 % of cases (80 to 100 % at a correlation of 0.5) for noise of up to 6 %, and
# with 1 % noise a first window that is 10 % slow is found in 87 % of heats of 6 windows and 93 % of 8.
_CHARGE = 5.0
# (lag, fewest windows): at a long lag a change affects more differences than a short series can spare.
_LAGS = ((1, 2), (2, 8), (3, 18))
# Factors that correct the median absolute deviation of 5 to 9 normal values for the sample size (Croux and
# Rousseeuw 1992).
_SMALL_SAMPLE = {5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}


def noise_of(logs: Sequence[float]) -> float:
    """Estimate the standard deviation around the level from differences of nearby windows, which share a level.

    Between direct neighbours, correlated noise looks smaller than it is, so longer series are compared at several lags.
    """
    return max([_LEAST_NOISE, *(_noise_at(lag, logs) for lag, fewest in _LAGS if len(logs) >= fewest)])


def cut(logs: Sequence[float], noise: float) -> list[tuple[int, int]]:
    """Cut a series into the segments [first, end) with the least squared error plus a charge for every cut.

    Dynamic programming over all positions of the last cut (Jackson et al. 2005): exact, quadratic in the length.
    """
    charge = _CHARGE * noise**2 * log(len(logs))
    centre = median(logs)  # near zero, sums keep their digits
    sums = list(accumulate((value - centre for value in logs), initial=0.0))
    # Squared errors are the squares, the same for every partition, less (sum of a segment)^2 / its length.
    least, origin = [0.0], [0]
    for end, total in enumerate(sums[1:], start=1):
        costs = [
            cost - (rise := total - before) * rise / length
            for cost, before, length in zip(least, sums, range(end, 0, -1), strict=False)
        ]
        best = min(costs)
        least.append(best + charge)
        origin.append(costs.index(best))
    return _trace(origin)


def _trace(origin: list[int]) -> list[tuple[int, int]]:
    """Follow the best last cuts back from the end."""
    segments = []
    end = len(origin) - 1
    while end > 0:
        segments.append((origin[end], end))
        end = origin[end]
    return segments[::-1]


def _noise_at(lag: int, logs: Sequence[float]) -> float:
    """Estimate noise from differences; around their median if there are enough, so that a slope is not noise."""
    steps = [after - before for before, after in zip(logs, logs[lag:], strict=False)]
    if len(steps) < min(_SMALL_SAMPLE):
        return median([abs(step) for step in steps]) * MAD_TO_SD / sqrt(2)
    count = len(steps)
    return mad(steps) * _SMALL_SAMPLE.get(count, count / (count - 0.8)) * MAD_TO_SD / sqrt(2)


# How strict each look at a growing race must be, so that stopping early keeps the error rate.
#
# A race is examined after every round of heats and stops when its intervals are narrow enough. Each look is a chance to
# be wrong, so each spends a share of the error rate. By the union bound the shares may not add up to more than the
# whole, whatever the rule for stopping. The rate holds for each ratio separately, as long as what ends a race early (a
# time budget) does not depend on the ratio.

FIRST_LOOK = 3

# Each look before the last gets the same small share. A race on a quiet machine (a spread of 0.5 % from round to round)
# stops at 4 rounds, one of 1.5 % at 5; a noisy race, which needs all its rounds, keeps most for the last look:
# its interval of 7 rounds is 5 % wider than without looks. Checked by bench/coverage.py.
_EARLY_SHARE = 0.04
_MOST_SPENT_EARLY = 0.24


def alpha_for_look(heats: int, *, planned: int, final: bool, total: float = 0.05, adaptive: bool = True) -> float:
    """Return the error rate for the intervals of a look after `heats` heats per lane, of at most `planned`.

    The last look (at the planned heats, or `final` because the budget is used up) gets what earlier ones left. Without
    an adaptive stop there are no earlier looks, and the only one gets everything.
    """
    _check(heats, planned, total)
    if not adaptive:
        return total
    last = final or heats == planned
    if not last and heats < FIRST_LOOK:
        raise ValueError(f"the first look is after {FIRST_LOOK} heats, not after {heats}")
    shares = _early_shares(planned)
    early = heats - FIRST_LOOK
    return total * (1 - sum(shares[: max(early, 0)])) if last else total * shares[early]


def _early_shares(planned: int) -> list[float]:
    """Divide what the looks before the last may spend: equally, and not too much in all."""
    looks = planned - FIRST_LOOK
    return [min(_EARLY_SHARE, _MOST_SPENT_EARLY / looks)] * looks if looks > 0 else []


def _check(heats: int, planned: int, total: float) -> None:
    """Reject a look that is not in the plan."""
    if not 0 < total < 1:
        raise ValueError(f"an error rate between 0 and 1 is needed, not {total}")
    if not 1 <= heats <= planned:
        raise ValueError(f"a look after {heats} heats does not fit a plan of at most {planned}")
