"""What more devices would bring: a model of a step, from what was measured on a few.

A step takes what one device computes, what the ranks lose to their host and to each other, and that part of an
all-reduce which computing does not hide. An all-reduce of S bytes on N devices takes 2(N-1) hops of a ring and moves
2(N-1)/N x S bytes over each link; by a tree it takes 2 log2(N) hops. What is hidden does not grow with N.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2

from laptime.model.missing import Missing
from laptime.model.ranks import Exchange
from laptime.questions.scale.nouns import Bounded, HeldOut, LinkCost, LostTo, Mode, Projection
from laptime.questions.scale.parts import ScaleRound
from laptime.stats import mean_interval

ALPHA = 0.05
BEYOND = (2, 4, 8, 16, 32, 64, 256, 1024, 4096)
FURTHER = 0.03  # by how much a prediction may be wrong for each doubling beyond what was measured
NO_EXCHANGE = Missing("what the devices exchange was not timed alone: they are used by one process")
ONE_COUNT = Missing("one count alone was measured")
ROUNDS_LEAST = 2  # for an interval


@dataclass(frozen=True, slots=True)
class AllReduceCost:
    """What an all-reduce costs: `hop_ms` a hop, and `byte_ms` a byte that a link of a ring carries."""

    size_bytes: int
    hop_ms: float
    byte_ms: float

    def takes_ms(self, devices: int, *, by_tree: bool = False) -> float:
        if devices < 2:
            return 0.0
        hops = 2 * log2(devices) if by_tree else 2 * (devices - 1)
        return hops * self.hop_ms + _share_sent(devices) * self.size_bytes * self.byte_ms


@dataclass(frozen=True, slots=True)
class StepModel:
    """A step on `count` devices in one round.

    `more_ms` is what it pays beyond an all-reduce alone; below 0, it hides so much of one.
    """

    mode: Mode
    count: int
    one_ms: float
    fixed_ms: float
    lost_ms: dict[LostTo, float]
    draws: tuple[float, ...]
    reduce: AllReduceCost
    more_ms: float

    def parts_ms(self, devices: int, *, by_tree: bool = False) -> dict[LostTo, float]:
        parts = dict(self.lost_ms)
        parts["computing"] = self.one_ms if self.mode == "weak" else self.one_ms / devices
        if self.mode == "strong":
            parts["smaller batch"] = self.fixed_ms * (1 - 1 / devices)
        if "waiting" in parts and self.draws:
            more = expected_slowest(self.draws, devices) - expected_slowest(self.draws, self.count)
            parts["waiting"] = max(0.0, parts["waiting"] + (self.one_ms if self.mode == "weak" else 0.0) * more)
        parts["exchange"] = max(0.0, self.reduce.takes_ms(devices, by_tree=by_tree) + self.more_ms)
        return parts

    def speedup(self, devices: int, *, by_tree: bool = False) -> float:
        step_ms = sum(self.parts_ms(devices, by_tree=by_tree).values())
        times = devices if self.mode == "weak" else 1
        return times * self.one_ms / step_ms


def fit(seen: ScaleRound, count: int) -> StepModel | None:
    """Fit the model to one device and to `count` in one round; None if their exchange was not timed."""
    reduce = fit_all_reduce(seen.exchanges.get(count, ()), count)
    step_ms = seen.several_ms.get(count)
    if reduce is None or step_ms is None:
        return None
    alone_ms = reduce.takes_ms(count)
    if count == seen.count and seen.alone is not None:
        parts = seen.parts_ms()
        exposed_ms = parts.pop("exchange")
    else:
        parts = {"computing": seen.one_ms if seen.mode == "weak" else seen.one_ms / count}
        exposed_ms = step_ms - parts["computing"]
    fixed_ms = 0.0
    if seen.part_ms is not None:
        fixed_ms = max(0.0, (seen.part_ms * seen.count - seen.one_ms) / (seen.count - 1))
    kept = {name: ms for name, ms in parts.items() if name not in {"computing", "smaller batch"}}
    draws = seen.apart.draws if seen.apart is not None else ()
    more_ms = exposed_ms - alone_ms
    return StepModel(seen.mode, count, seen.one_ms, fixed_ms, kept, tuple(sorted(draws)), reduce, more_ms)


def fit_all_reduce(exchanges: Sequence[Exchange], devices: int) -> AllReduceCost | None:
    """Return what a hop and a byte cost, from an exchange of next to nothing and one of all gradients."""
    if devices < 2 or not exchanges:
        return None
    small, large = min(exchanges, key=lambda each: each.size_bytes), max(exchanges, key=lambda each: each.size_bytes)
    hops = 2 * (devices - 1)
    hop_ms = small.ns / 1e6 / hops
    byte_ms = max(0.0, large.ns - small.ns) / 1e6 / (_share_sent(devices) * large.size_bytes)
    return AllReduceCost(large.size_bytes, hop_ms, byte_ms)


def expected_slowest(draws: Sequence[float], devices: int) -> float:
    """Return the mean of the greatest of this many draws, from draws in ascending order."""
    count = len(draws)
    chances = [(place / count) ** devices for place in range(count + 1)]
    return sum(draw * (high - low) for draw, (low, high) in zip(draws, pairwise(chances), strict=True))


def describe_link(rounds: Sequence[ScaleRound], count: int) -> LinkCost | Missing:
    """Return what an all-reduce costs among the measured devices: the means of the rounds."""
    fits = [each for each in (fit(one, count) for one in rounds) if each is not None]
    if not fits:
        return NO_EXCHANGE
    hop_ms = sum(each.reduce.hop_ms for each in fits) / len(fits)
    byte_ms = sum(each.reduce.byte_ms for each in fits) / len(fits)
    rate = 1e-6 / byte_ms if byte_ms else float("inf")
    hidden_ms = -sum(each.more_ms for each in fits) / len(fits)
    return LinkCost(hop_ms * 1e3, rate, fits[0].reduce.size_bytes, hidden_ms)


def project(rounds: Sequence[ScaleRound], count: int, held_out: HeldOut | Missing) -> tuple[Projection, ...] | Missing:
    """Predict the speed-up of more devices than were measured."""
    fits = [each for each in (fit(one, count) for one in rounds) if each is not None]
    if not fits:
        return NO_EXCHANGE if rounds else ONE_COUNT
    off = 0.0 if isinstance(held_out, Missing) else abs(held_out.error)
    return tuple(_project(fits, devices, off) for devices in BEYOND if devices > count)


def hold_out(rounds: Sequence[ScaleRound]) -> HeldOut | Missing:
    """Predict the largest count from the one below it, and compare with what was measured."""
    counts = sorted({count for each in rounds for count in each.several_ms})
    if len(counts) < 2:
        return Missing("the smaller counts are one device alone: none could be held out")
    largest, below = counts[-1], counts[-2]
    pairs = [
        (model.speedup(largest), _speedup(each, largest))
        for each in rounds
        if largest in each.several_ms and (model := fit(each, below)) is not None
    ]
    if not pairs:
        return NO_EXCHANGE
    predicted, measured = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    return HeldOut(largest, predicted, measured)


def _speedup(seen: ScaleRound, count: int) -> float:
    return (count if seen.mode == "weak" else 1) * seen.one_ms / seen.several_ms[count]


def _project(fits: Sequence[StepModel], devices: int, off: float) -> Projection:
    rings = [each.speedup(devices) for each in fits]
    trees = [each.speedup(devices, by_tree=True) for each in fits]
    middle = sum(rings + trees) / 2 / len(fits)
    further = 1 + off + FURTHER * log2(devices / fits[0].count)
    low = max(0.0, mean_interval(rings, ALPHA)[1]) if len(fits) >= ROUNDS_LEAST else min(rings)
    high = mean_interval(trees, ALPHA)[2] if len(fits) >= ROUNDS_LEAST else max(trees)
    span = Bounded(middle, min(low, middle) / further, max(high, middle) * further)
    parts = fits[0].parts_ms(devices)
    lost = {name: sum(each.parts_ms(devices).get(name, 0.0) for each in fits) for name in parts if name != "computing"}
    binds = max(lost, key=lambda name: lost[name], default=None)
    return Projection(devices, span, binds if binds is not None and lost[binds] > 0 else None)


def _share_sent(devices: int) -> float:
    """Return how many times its size a ring sends over each link."""
    return 2 * (devices - 1) / devices
