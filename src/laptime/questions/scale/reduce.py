"""The lanes of a scale -> a curve for each asked lane: speed-ups, what is lost, and what more devices would bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite, log2
from typing import Any

from laptime.analysis.heats import ALPHA, ONE_ROUND, bounds, steady_windows, step_ratio
from laptime.model.process import Exchange
from laptime.model.quantities import Bounded, Missing
from laptime.model.record import Comparison, HeatResult, LaneResult
from laptime.model.stats import mean_interval, median, weighted_interval
from laptime.questions.scale.nouns import (
    WORTH_NAMING,
    HeldOut,
    LinkCost,
    LostPart,
    LostTime,
    LostTo,
    ProfiledExchange,
    Projection,
    RankRow,
    Role,
    ScaleCurve,
    ScaleLane,
    ScalePoint,
    Scaling,
    Straggler,
)
from laptime.questions.scale.options import Mode

NOT_ALONE = Missing("its devices are used by one process, whose exchange cannot be left out")
NOT_RANKED = Missing("its devices are used by one process, and only ranks are profiled")
NO_GROUP_HEAT = Missing("no heat on all of them finished")
NO_ALONE = Missing("no round finished without the exchange")
NO_ROUND = Missing("no round finished on one device and on all of them")
SLOWER_LEAST = 0.02  # a rank is no straggler if it is only this much slower than the others


def summarise_scaling(
    roles: Sequence[ScaleLane], lanes: Sequence[LaneResult], comparisons: Sequence[Comparison]
) -> Scaling:
    """Return a curve for each asked lane and mode."""
    named = {lane.name: lane for lane in lanes}
    compared = {comparison.lane: comparison for comparison in comparisons}
    groups = dict.fromkeys((role.of, role.mode) for role in roles)
    curves = [_curve([role for role in roles if (role.of, role.mode) == group], named, compared) for group in groups]
    most = max((role.devices for role in roles), default=0)
    names = dict.fromkeys(role.name for role in roles if role.role == "several" and role.devices == most)
    rows: list[RankRow] = []
    for name in names:
        result = next((result for result in reversed(named[name].heats) if result.heat.ranks), None)
        for rank in result.heat.ranks if result is not None else ():
            first_ms = rank.first_step_ns / 1e6
            memory = rank.peak_memory_bytes
            rows.append(RankRow(name, rank.rank, rank.device, rank.host, first_ms, memory, rank.device_memory_bytes))
    return Scaling("", tuple(curves), tuple(rows))


def _curve(
    roles: Sequence[ScaleLane], lanes: Mapping[str, LaneResult], compared: Mapping[str, Comparison]
) -> ScaleCurve:
    rounds = rounds_of(roles, lanes)
    one = next(role for role in roles if role.role == "one")
    points = [_point(role, lanes[role.name], compared, one.name) for role in roles if role.role in {"one", "several"}]
    whole = next((role for role in roles if role.role == "all cores"), None)
    count = max(point.devices for point in points)
    held_out = hold_out(rounds)
    found = {
        "lost": _lost(roles, rounds, lanes),
        "link": describe_link(rounds, count),
        "beyond": project(rounds, count, held_out),
        "held_out": held_out,
        "profiled": profiled_exchange(lanes[max(points, key=lambda point: point.devices).lane].heats),
    }
    known: dict[str, Any] = {name: figure for name, figure in found.items() if not isinstance(figure, Missing)}
    return ScaleCurve(
        one.of,
        one.mode,
        tuple(points),
        **known,
        all_cores=None if whole is None else _point(whole, lanes[whole.name], compared, one.name),
        absent={name: figure for name, figure in found.items() if isinstance(figure, Missing)},
    )


def _point(role: ScaleLane, lane: LaneResult, compared: Mapping[str, Comparison], one: str) -> ScalePoint:
    step_ms = None if lane.step_ms is None else lane.step_ms.median
    if lane.name == one:
        speedup = Bounded(1.0, 1.0, 1.0)
    else:
        found = compared.get(lane.name)
        first = compared.get(one)
        if found is None:
            speedup = None
        elif first is None:
            speedup = Bounded(found.ratio, found.low, found.high)
        else:
            pairs = [mine / theirs for mine, theirs in zip(found.ratios, first.ratios, strict=False)]
            weights = [heat.counts for heat in lane.heats if heat.step_ms is not None]
            speedup = _span_of_ratios(pairs, weights if len(weights) == len(pairs) else ()) if pairs else None
    return ScalePoint(role.devices, role.name, step_ms, lane.items_per_step, speedup, lane.reason)


def _span_of_ratios(ratios: Sequence[float], weights: Sequence[float] = ()) -> Bounded:
    """Return their geometric mean, as of every factor: it is the quotient of two steps."""
    found = weighted_interval(ratios, weights or [1.0] * len(ratios), ALPHA)
    return Bounded(found.estimate, *bounds(found, ONE_ROUND))


def _span(values: Sequence[float]) -> Bounded:
    mean, low, high = mean_interval(values, ALPHA)
    return Bounded(mean, low, high) if isfinite(low) else Bounded(mean, ONE_ROUND, ONE_ROUND)


def _lost(
    roles: Sequence[ScaleLane], rounds: Sequence[ScaleRound], lanes: Mapping[str, LaneResult]
) -> LostTime | Missing:
    if not rounds:
        return NO_ROUND
    alone = [scale_round for scale_round in rounds if scale_round.alone is not None]
    if not alone:
        return NO_ALONE if any(role.role == "alone" for role in roles) else NOT_ALONE
    count = alone[0].count
    shares: dict[LostTo, list[float]] = {}
    for scale_round in alone:
        for name, ms in scale_round.parts_ms().items():
            shares.setdefault(name, []).append(ms / scale_round.several_ms[count])
    computing = _span_of_ratios(shares.pop("computing"))
    computing = replace(computing, value=min(1.0, computing.value))  # above 1 is noise: then nothing is lost
    parts = [LostPart("computing", computing), *_share_out(shares, 1 - computing.value)]
    parts.sort(key=lambda part: (part.of != "computing", -part.share.value))
    lane = next(role.name for role in roles if role.role == "several" and role.devices == count)
    alone_lane = lanes[next(role.name for role in roles if role.role == "alone")]
    # The largest loss that is surely one
    lost = [part for part in parts if part.of != "computing" and part.share.value >= WORTH_NAMING]
    sure = [lost_part for lost_part in lost if lost_part.share.ends is None or lost_part.share.is_above(0)]
    first = sure[0].of if sure else None
    return LostTime(count, lane, tuple(parts), find_straggler(alone_lane.heats), first)


def _share_out(shares: Mapping[LostTo, Sequence[float]], lost: float) -> list[LostPart]:
    """Return the parts of what is lost, which add up to it. A part below 0 is noise, and is no part."""
    spans = {name: _span(values) for name, values in shares.items()}
    total = sum(max(span.value, 0.0) for span in spans.values())
    times = max(lost, 0.0) / total if total > 0 else 0.0

    def scaled(end: float | Missing) -> float | Missing:
        return end if isinstance(end, Missing) else end * times

    return [
        LostPart(name, Bounded(max(span.value, 0.0) * times, scaled(span.low), scaled(span.high)))
        for name, span in spans.items()
    ]


def profiled_exchange(heats: Sequence[HeatResult]) -> ProfiledExchange | Missing:
    """Return the mean over the heats of what the profiler saw in their first ranks."""
    done = [heat for heat in heats if heat.step_ms is not None]
    first = [result.heat.ranks[0] for result in done if result.heat.ranks]
    reports = [report.collectives for report in first if report.collectives is not None]
    if not reports:
        absent = [report.absent.get("collectives", NOT_RANKED) for report in first]
        return absent[-1] if absent else NOT_RANKED if done else NO_GROUP_HEAT
    in_progress = _span([report.in_progress_ns / report.step_ns for report in reports])
    return ProfiledExchange(
        reports[-1].by, in_progress, _span([report.exposed_ns / report.step_ns for report in reports])
    )


def find_straggler(heats: Sequence[HeatResult]) -> Straggler | None:
    """Return the rank that is slower than the others in every heat, if there is one."""
    found = [(heat, alone) for heat in heats if heat.step_ms is not None and (alone := ranks_alone(heat, 1.0))]
    slowest = {max(range(len(alone.rank_ms)), key=lambda rank: alone.rank_ms[rank]) for _, alone in found}
    slower = median([alone.straggler_ms / alone.usual_ms for _, alone in found]) if found else 0.0
    if len(slowest) != 1 or slower < SLOWER_LEAST:
        return None
    rank = slowest.pop()
    reports = [result.heat.ranks for result, _ in found if result.heat.ranks]
    if not reports:
        return Straggler(rank, "", "", slower, ONE_ROUND, ONE_ROUND)
    own = reports[-1][rank]
    waited = [[_waited(report.waited_s, report.timed_s) for report in ranks] for ranks in reports]
    known = [row for row in waited if not any(isinstance(share, Missing) for share in row)]
    if not known:
        return Straggler(rank, own.device, own.host, slower, waited[0][rank], waited[0][rank])
    shares = [[share for share in row if not isinstance(share, Missing)] for row in known]
    mean = sum(sum(row) / len(row) for row in shares) / len(shares)
    return Straggler(rank, own.device, own.host, slower, sum(row[rank] for row in shares) / len(shares), mean)


def _waited(waited_s: float | Missing, timed_s: float) -> float | Missing:
    if isinstance(waited_s, Missing):
        return waited_s
    return waited_s / timed_s if timed_s else 0.0


# What one round of a scale shows: the steps of its lanes, measured in turns, and where a step's time goes.


@dataclass(frozen=True, slots=True)
class AloneRanks:
    """What the ranks take that exchange nothing, in milliseconds a step: each one, and the slowest of each step."""

    rank_ms: tuple[float, ...]
    slowest_ms: float
    draws: tuple[float, ...]

    @property
    def usual_ms(self) -> float:
        """What a rank takes: the median of all but the slowest."""
        return median(sorted(self.rank_ms)[:-1] or self.rank_ms)

    @property
    def straggler_ms(self) -> float:
        """How much longer than the others the slowest rank takes."""
        return max(self.rank_ms) - self.usual_ms

    @property
    def waiting_ms(self) -> float:
        """How much longer the slowest rank of each single step takes than the slowest rank does."""
        return max(0.0, self.slowest_ms - max(self.rank_ms))

    @property
    def all_ms(self) -> float:
        """What a step takes until the last rank is done."""
        return self.usual_ms + self.straggler_ms + self.waiting_ms


@dataclass(frozen=True, slots=True)
class ScaleRound:
    """One round of one curve, in milliseconds a step. `count` is the largest count of devices."""

    mode: Mode
    count: int
    one_ms: float
    several_ms: Mapping[int, float]
    alone: AloneRanks | None
    part_ms: float | None
    one_ready_ms: float | None
    alone_ready: AloneRanks | None
    exchanges: Mapping[int, tuple[Exchange, ...]]

    @property
    def computing_ms(self) -> float:
        """What a device would take if nothing were lost."""
        return self.one_ms if self.mode == "weak" else self.one_ms / self.count

    @property
    def smaller_batch_ms(self) -> float:
        return 0.0 if self.part_ms is None else self.part_ms - self.computing_ms

    @property
    def loader_ms(self) -> float:
        """How much more of a step the loaders take on all devices than on one.

        That is what ready batches gain: also where a loader is slow in one rank, or in another one in each step.
        """
        if self.alone is None or self.one_ready_ms is None or self.alone_ready is None:
            return 0.0
        on_one = self.one_ms - self.one_ready_ms
        if self.mode == "strong":
            on_one /= self.count
        return max(0.0, self.alone.all_ms - self.alone_ready.all_ms - max(0.0, on_one))

    @property
    def apart(self) -> AloneRanks | None:
        """The ranks as they differ by their computing: on ready batches, if these were raced."""
        return self.alone if self.alone_ready is None else self.alone_ready

    def parts_ms(self) -> dict[LostTo, float]:
        """Return where the time of a step on all devices goes. The parts add up to the step."""
        step_ms = self.several_ms[self.count]
        alone = self.alone
        apart = self.apart
        if alone is None or apart is None:
            return {"computing": self.computing_ms, "exchange": step_ms - self.computing_ms}
        loader = self.loader_ms
        known = self.computing_ms + self.smaller_batch_ms + loader + apart.straggler_ms + apart.waiting_ms
        return {
            "computing": self.computing_ms,
            "smaller batch": self.smaller_batch_ms,
            "host": alone.all_ms - known,
            "loader": loader,
            "straggler": apart.straggler_ms,
            "waiting": apart.waiting_ms,
            "exchange": step_ms - alone.all_ms,
        }


def rounds_of(roles: Sequence[ScaleLane], lanes: Mapping[str, LaneResult]) -> list[ScaleRound]:
    """Return the rounds in which one device and the largest count both finished a heat."""
    named: dict[tuple[Role, int], LaneResult] = {(role.role, role.devices): lanes[role.name] for role in roles}
    most = max((count for role, count in named if role == "several"), default=0)
    if not most:
        return []
    heats = {
        key: {result.heat.round: result for result in lane.heats if result.step_ms is not None}
        for key, lane in named.items()
    }
    both = heats["one", 1].keys() & heats["several", most].keys()
    return [_round(roles[0].mode, most, number, heats) for number in sorted(both)]


def ranks_alone(heat: HeatResult, times: float) -> AloneRanks | None:
    """Return what the ranks of a heat took; `times` corrects its step to that of its turns."""
    windows = [window for window in steady_windows(heat) if window.ranks is not None]
    if not windows:
        return None
    steps = sum(window.steps for window in windows)
    per_step = times / steps / 1e6
    ranks = [window.ranks for window in windows if window.ranks is not None]
    rank_ns = [sum(column) for column in zip(*(rank_times.rank_ns for rank_times in ranks), strict=True)]
    draws = [ns for window in windows for ns in window.step_ns]
    middle = sum(draws) / len(draws) if draws else 0.0
    return AloneRanks(
        tuple(ns * per_step for ns in rank_ns),
        sum(rank_times.slowest_ns for rank_times in ranks) * per_step,
        tuple(draw / middle for draw in draws) if middle else (),
    )


def _round(
    mode: Mode, most: int, number: int, heats: Mapping[tuple[Role, int], Mapping[int, HeatResult]]
) -> ScaleRound:
    one = heats["one", 1][number]
    assert one.step_ms is not None
    one_ms = one.step_ms

    def find(role: Role, count: int) -> HeatResult | None:
        return heats.get((role, count), {}).get(number)

    def taken(heat: HeatResult | None) -> float | None:
        return None if heat is None else one_ms * step_ratio(one, heat)

    alone = find("alone", most)
    ready = find("several ready", most)
    several = {
        count: by_number[number]
        for (role, count), by_number in heats.items()
        if role == "several" and number in by_number
    }
    return ScaleRound(
        mode,
        most,
        one_ms,
        {count: one_ms * step_ratio(one, heat) for count, heat in several.items()},
        _alone(alone, taken(alone)),
        taken(find("part", 1)),
        taken(find("one ready", 1)),
        _alone(ready, taken(ready)),
        {count: result.heat.exchanges for count, result in several.items() if result.heat.exchanges},
    )


def _alone(heat: HeatResult | None, step_ms: float | None) -> AloneRanks | None:
    if heat is None or step_ms is None or heat.step_ms is None:
        return None
    return ranks_alone(heat, step_ms / heat.step_ms)


# What more devices would bring: a model of a step, from what was measured on a few.
#
# A step takes what one device computes, what the ranks lose to their host and to each other, and that part of an
# all-reduce which computing does not hide. An all-reduce of S bytes on N devices takes 2(N-1) hops of a ring and moves
# 2(N-1)/N x S bytes over each link; by a tree it takes 2 log2(N) hops. What is hidden does not grow with N.

FARTHEST = 8  # times the largest count: a model of a few devices says little of hundreds
DOUBLING_ERROR = 0.03  # by how much a prediction may be wrong for each doubling beyond what was measured
NO_EXCHANGE = Missing("what the devices exchange was not timed alone: they are used by one process")
ONE_COUNT = Missing("one count alone was measured")
INTERVAL_ROUNDS = 2  # for an interval


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
    small = min(exchanges, key=lambda exchange: exchange.size_bytes)
    large = max(exchanges, key=lambda exchange: exchange.size_bytes)
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
    fits = [model for model in (fit(one, count) for one in rounds) if model is not None]
    if not fits:
        return NO_EXCHANGE
    hop_ms = sum(model.reduce.hop_ms for model in fits) / len(fits)
    byte_ms = sum(model.reduce.byte_ms for model in fits) / len(fits)
    rate = 1e-6 / byte_ms if byte_ms else float("inf")
    hidden_ms = -sum(model.more_ms for model in fits) / len(fits)
    return LinkCost(hop_ms * 1e3, rate, fits[0].reduce.size_bytes, hidden_ms)


def project(rounds: Sequence[ScaleRound], count: int, held_out: HeldOut | Missing) -> tuple[Projection, ...] | Missing:
    """Predict the speed-up of more devices than were measured: by powers of two, up to eight times as many."""
    fits = [model for model in (fit(one, count) for one in rounds) if model is not None]
    if not fits:
        return NO_EXCHANGE if rounds else ONE_COUNT
    off = 0.0 if isinstance(held_out, Missing) else abs(held_out.error)
    powers = (1 << power for power in range(1, (FARTHEST * count).bit_length()))
    return tuple(_project(fits, devices, off) for devices in powers if count < devices <= FARTHEST * count)


def hold_out(rounds: Sequence[ScaleRound]) -> HeldOut | Missing:
    """Predict the largest count from the one below it, and compare with what was measured."""
    counts = sorted({count for scale_round in rounds for count in scale_round.several_ms})
    if len(counts) < 2:
        return Missing("the smaller counts are one device alone: none could be held out")
    largest = counts[-1]
    below = counts[-2]
    pairs = [
        (
            model.speedup(largest),
            (largest if scale_round.mode == "weak" else 1) * scale_round.one_ms / scale_round.several_ms[largest],
        )
        for scale_round in rounds
        if largest in scale_round.several_ms and (model := fit(scale_round, below)) is not None
    ]
    if not pairs:
        return NO_EXCHANGE
    predicted, measured = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    return HeldOut(largest, predicted, measured)


def _project(fits: Sequence[StepModel], devices: int, off: float) -> Projection:
    rings = [model.speedup(devices) for model in fits]
    trees = [model.speedup(devices, by_tree=True) for model in fits]
    middle = sum(rings + trees) / 2 / len(fits)
    further = 1 + off + DOUBLING_ERROR * log2(devices / fits[0].count)
    low = max(0.0, mean_interval(rings, ALPHA)[1]) if len(fits) >= INTERVAL_ROUNDS else min(rings)
    high = mean_interval(trees, ALPHA)[2] if len(fits) >= INTERVAL_ROUNDS else max(trees)
    span = Bounded(middle, min(low, middle) / further, max(high, middle) * further)
    parts = fits[0].parts_ms(devices)
    lost = {
        name: sum(model.parts_ms(devices).get(name, 0.0) for model in fits) for name in parts if name != "computing"
    }
    binds = max(lost, key=lambda name: lost[name], default=None)
    return Projection(devices, span, binds if binds is not None and lost[binds] > 0 else None)


def _share_sent(devices: int) -> float:
    """Return how many times its size a ring sends over each link."""
    return 2 * (devices - 1) / devices
