"""Heats of many lanes, of which only some race in a round -> how fast each is, and how sure that is.

In each round, lanes are compared with one of them, turn by turn. These comparisons make a net, and the speeds are those
that fit all of them best (least squares of logarithms).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from laptime.analysis.heats import bounds, noise_of_ratio, pairs_of_heats, step_ratio
from laptime.analysis.lanes import compare_lanes
from laptime.analysis.usage import summarise_usage
from laptime.model.interval import Factor
from laptime.model.missing import Missing
from laptime.model.record import HeatResult, LaneResult
from laptime.stats import log_mean_interval

SettingSet = TypeVar("SettingSet", bound=tuple[Any, ...])  # a set of settings

# How much heats of one lane differ is assumed until enough were seen: two observations of this size, besides what the
# turns of single heats show.
USUAL_SPREAD, USUAL_WEIGHT = 0.02, 2
SWEEPS = 200
WORTH_SETTING = 0.01  # what each setting of a winner has to add, as a logarithm


@dataclass(frozen=True, slots=True)
class Rating:
    """How many times as fast as the base a lane is, as a logarithm, with its standard error."""

    log: float
    error: float
    heats: int

    @property
    def factor(self) -> float:
        return math.exp(self.log)


@dataclass(frozen=True, slots=True)
class Gain:
    """How many times as much a lane does per unit of the aim as another, and from how many rounds that is known."""

    factor: Factor
    pairs: int


@dataclass(frozen=True, slots=True)
class _Link:
    """One heat against another of its round."""

    lane: str
    anchor: str
    log: float
    noise: float  # the variance that the turns of the two heats show


def rate_lanes(lanes: Sequence[LaneResult], base: str) -> dict[str, Rating]:
    """Return the rating of each lane that is linked with the base, by its name; none without a heat of the base."""
    if all(lane.name != base for lane in lanes):
        return {}
    links = _links(lanes, base)
    logs = _fit(links, base)
    residuals = [link.log - (logs[link.lane] - logs[link.anchor]) for link in links if link.lane in logs]
    counts = Counter(link.lane for link in links) + Counter(link.anchor for link in links)
    freedom = max(0, len(residuals) - (len(logs) - 1))
    usual = USUAL_SPREAD**2 + sum(link.noise for link in links) / max(1, len(links))
    spread = USUAL_WEIGHT * usual + sum(each**2 for each in residuals)
    variance = spread / (USUAL_WEIGHT + freedom)
    heats = {name: max(1, counts[name]) for name in logs}
    own = {lane.name: sum(heat.step_ms is not None for heat in lane.heats) for lane in lanes}
    return {
        name: Rating(log, 0.0 if name == base else math.sqrt(variance / min(heats[name], own[name])), own[name])
        for name, log in logs.items()
    }


def _links(lanes: Sequence[LaneResult], base: str) -> list[_Link]:
    rounds: dict[int, dict[str, HeatResult]] = {}
    for lane in lanes:
        for result in lane.heats:
            if result.step_ms is not None:
                rounds.setdefault(result.heat.round, {})[lane.name] = result
    items = {lane.name: lane.items_per_step or 1 for lane in lanes}
    often = Counter(name for heats in rounds.values() for name in heats)
    links = []
    for heats in rounds.values():
        anchor = base if base in heats else max(heats, key=lambda name: often[name])
        links += [
            _Link(
                name,
                anchor,
                math.log(step_ratio(heat, heats[anchor]) * items[name] / items[anchor]),
                noise_of_ratio(heat, heats[anchor]),
            )
            for name, heat in heats.items()
            if name != anchor
        ]
    return links


def _fit(links: Sequence[_Link], base: str) -> dict[str, float]:
    """Return the logarithms that fit best, of the lanes that are linked with the base."""
    reached, grows = {base}, True
    while grows:
        ends = [(link.lane, link.anchor) for link in links]
        new = {name for pair in ends if reached & set(pair) for name in pair} - reached
        reached |= new
        grows = bool(new)
    used = [link for link in links if link.lane in reached]
    logs = dict.fromkeys(reached, 0.0)
    for _ in range(SWEEPS):
        for name in reached - {base}:
            told = [link.log + logs[link.anchor] for link in used if link.lane == name]
            told += [logs[link.lane] - link.log for link in used if link.anchor == name]
            logs[name] = sum(told) / len(told)
    return logs


def weigh(ratings: Mapping[str, Rating], per_s: Mapping[str, float | Missing], base: str) -> dict[str, Rating]:
    """Return the ratings by what lanes take a second, against the base; none of a lane of which that is not known."""
    known = {name: each for name, each in per_s.items() if not isinstance(each, Missing) and each > 0}
    if base not in known:
        return {}
    return {
        name: replace(rating, log=rating.log + math.log(known[base] / known[name]))
        for name, rating in ratings.items()
        if name in known
    }


def choose(ratings: Mapping[SettingSet, Rating]) -> SettingSet:
    """Return the set of settings that is surely the fastest, when each of its settings has to be worth a percent.

    A set with one heat may seem fast by chance, so a set counts as fast as its standard error allows. A setting that
    adds nothing is left out, although a set with it may by chance have had the faster heats.
    """
    return max(ratings, key=lambda words: score(ratings, words) - ratings[words].error)


def score(ratings: Mapping[SettingSet, Rating], words: SettingSet) -> float:
    """Return how good a set of settings is, as a logarithm, when each of its settings costs what it has to be worth."""
    return ratings[words].log - WORTH_SETTING * len(words)


def find_gain(
    lane: LaneResult, reference: LaneResult, per_s: Callable[[LaneResult], float | Missing], alpha: float
) -> Gain | Missing | None:
    """Compare what two lanes do per unit, by the rounds that both finished; None where there is none.

    Each round gives a ratio of times, and one of what a second took in its two heats. The interval is of the products.
    """
    times = compare_lanes(lane, reference, margin=1.0, alpha=alpha)
    if times is None:
        return None
    pairs = pairs_of_heats(lane.heats, reference.heats)
    taken = [(per_s(_in_heat(lane, ours)), per_s(_in_heat(reference, theirs))) for ours, theirs in pairs]
    ratios = [
        ratio * theirs / ours
        for ratio, (ours, theirs) in zip(times.ratios, taken, strict=True)
        if not isinstance(ours, Missing) and not isinstance(theirs, Missing)
    ]
    if not ratios:
        return next(each for pair in taken for each in pair if isinstance(each, Missing))
    interval = log_mean_interval(ratios, alpha)
    return Gain(Factor(interval.estimate, *bounds(interval)), len(ratios))


def _in_heat(lane: LaneResult, heat: HeatResult) -> LaneResult:
    """Return a lane with one of its heats alone, and what it used there."""
    usage = summarise_usage((heat,), lane.devices or (lane.device,), 1, None, None)
    return replace(lane, heats=(heat,), usage=usage)
