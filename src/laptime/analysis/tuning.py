"""Heats of many lanes, of which only some race in a round -> how fast each is, and how sure that is.

In each round, lanes are compared with one of them, turn by turn. These comparisons make a net, and the speeds are those
that fit all of them best (least squares of logarithms).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from laptime.analysis.heats import step_ratio
from laptime.model.record import HeatResult, LaneResult

# How much heats of one lane differ is assumed until enough were seen: two observations of this size.
USUAL_SPREAD, USUAL_WEIGHT = 0.02, 2
SWEEPS = 200


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
class _Link:
    """One heat against another of its round."""

    lane: str
    anchor: str
    log: float


def rate_lanes(lanes: Sequence[LaneResult], base: str) -> dict[str, Rating]:
    """Return the rating of each lane that is linked with the base, by its name; none without a heat of the base."""
    if all(lane.name != base for lane in lanes):
        return {}
    links = _links(lanes, base)
    logs = _fit(links, base)
    residuals = [link.log - (logs[link.lane] - logs[link.anchor]) for link in links if link.lane in logs]
    counts = Counter(link.lane for link in links) + Counter(link.anchor for link in links)
    freedom = max(0, len(residuals) - (len(logs) - 1))
    spread = USUAL_WEIGHT * USUAL_SPREAD**2 + sum(each**2 for each in residuals)
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
        for heat in lane.heats:
            if heat.step_ms is not None:
                rounds.setdefault(heat.round, {})[lane.name] = heat
    items = {lane.name: lane.items_per_step or 1 for lane in lanes}
    often = Counter(name for heats in rounds.values() for name in heats)
    links = []
    for heats in rounds.values():
        anchor = base if base in heats else max(heats, key=lambda name: often[name])
        links += [
            _Link(name, anchor, math.log(step_ratio(heat, heats[anchor]) * items[name] / items[anchor]))
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
