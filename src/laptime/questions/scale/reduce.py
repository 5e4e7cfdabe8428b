"""The lanes of a scale -> a curve for each asked lane: speed-ups, what is lost, and what more devices would bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from laptime.analysis.aggregate import bounds
from laptime.model.missing import Missing
from laptime.model.record import Comparison, HeatResult, LaneResult
from laptime.questions.scale.nouns import (
    Bounded,
    LostPart,
    LostTime,
    LostTo,
    ProfiledExchange,
    RankRow,
    ScaleCurve,
    ScaleLane,
    ScalePoint,
    Scaling,
    Straggler,
)
from laptime.questions.scale.parts import ScaleRound, ranks_alone, rounds_of
from laptime.questions.scale.prediction import describe_link, hold_out, project
from laptime.questions.scale.words import WORTH_NAMING
from laptime.stats import log_mean_interval, mean_interval, median

ALPHA = 0.05
ONE_ROUND = Missing("one round alone gives no interval")
NOT_ALONE = Missing("its devices are used by one process, whose exchange cannot be left out")
NOT_RANKED = Missing("its devices are used by one process, and only ranks are profiled")
NO_HEAT = Missing("no heat on all of them finished")
NO_ALONE = Missing("no round finished without the exchange")
NO_ROUND = Missing("no round finished on one device and on all of them")
SLOWER_LEAST = 0.02  # a rank is no straggler if it is only this much slower than the others


def summarise_scaling(
    roles: Sequence[ScaleLane], lanes: Sequence[LaneResult], comparisons: Sequence[Comparison]
) -> Scaling:
    """Return a curve for each asked lane and mode."""
    named = {lane.name: lane for lane in lanes}
    compared = {each.lane: each for each in comparisons}
    groups = dict.fromkeys((each.of, each.mode) for each in roles)
    curves = [_curve([each for each in roles if (each.of, each.mode) == group], named, compared) for group in groups]
    return Scaling("", tuple(curves), tuple(_rank_rows(roles, named)))


def _curve(
    roles: Sequence[ScaleLane], lanes: Mapping[str, LaneResult], compared: Mapping[str, Comparison]
) -> ScaleCurve:
    rounds = rounds_of(roles, lanes)
    one = next(each for each in roles if each.role == "one")
    points = [_point(each, lanes[each.name], compared, one.name) for each in roles if each.role in {"one", "several"}]
    whole = next((each for each in roles if each.role == "all cores"), None)
    count = max(each.devices for each in points)
    held_out = hold_out(rounds)
    found = {
        "lost": _lost(roles, rounds, lanes),
        "link": describe_link(rounds, count),
        "beyond": project(rounds, count, held_out),
        "held_out": held_out,
        "profiled": profiled_exchange(lanes[max(points, key=lambda each: each.devices).lane].heats),
    }
    known: dict[str, Any] = {name: each for name, each in found.items() if not isinstance(each, Missing)}
    return ScaleCurve(
        one.of,
        one.mode,
        tuple(points),
        **known,
        all_cores=None if whole is None else _point(whole, lanes[whole.name], compared, one.name),
        absent={name: each for name, each in found.items() if isinstance(each, Missing)},
    )


def _point(role: ScaleLane, lane: LaneResult, compared: Mapping[str, Comparison], one: str) -> ScalePoint:
    step_ms = None if lane.step_ms is None else lane.step_ms.median
    return ScalePoint(
        role.devices, role.name, step_ms, lane.items_per_step, _speedup(role.name, one, compared), lane.reason
    )


def _speedup(lane: str, one: str, compared: Mapping[str, Comparison]) -> Bounded | None:
    """Return how many times as fast as one device a lane is; a curve may begin at another lane than the record does."""
    if lane == one:
        return Bounded(1.0, 1.0, 1.0)
    found, first = compared.get(lane), compared.get(one)
    if found is None:
        return None
    if first is None:
        return Bounded(found.ratio, found.low, found.high)
    pairs = [mine / theirs for mine, theirs in zip(found.ratios, first.ratios, strict=False)]
    return _span_of_ratios(pairs) if pairs else None


def _span_of_ratios(ratios: Sequence[float]) -> Bounded:
    """Return their geometric mean, as of every factor: it is the quotient of two steps."""
    found = log_mean_interval(ratios, ALPHA)
    return Bounded(found.estimate, *bounds(found, ONE_ROUND))


def _span(values: Sequence[float]) -> Bounded:
    mean, low, high = mean_interval(values, ALPHA)
    return Bounded(mean, low, high) if isfinite(low) else Bounded(mean, ONE_ROUND, ONE_ROUND)


def _lost(
    roles: Sequence[ScaleLane], rounds: Sequence[ScaleRound], lanes: Mapping[str, LaneResult]
) -> LostTime | Missing:
    if not rounds:
        return NO_ROUND
    alone = [each for each in rounds if each.alone is not None]
    if not alone:
        return NO_ALONE if any(each.role == "alone" for each in roles) else NOT_ALONE
    count = alone[0].count
    shares: dict[LostTo, list[float]] = {}
    for each in alone:
        for name, ms in each.parts_ms().items():
            shares.setdefault(name, []).append(ms / each.several_ms[count])
    computing = _span_of_ratios(shares.pop("computing"))
    computing = replace(computing, value=min(1.0, computing.value))  # above 1 is noise: then nothing is lost
    parts = [LostPart("computing", computing), *_share_out(shares, 1 - computing.value)]
    parts.sort(key=lambda each: (each.of != "computing", -each.share.value))
    lane = next(each.name for each in roles if each.role == "several" and each.devices == count)
    alone_lane = lanes[next(each.name for each in roles if each.role == "alone")]
    return LostTime(count, lane, tuple(parts), find_straggler(alone_lane.heats), _first(parts))


def _share_out(shares: Mapping[LostTo, Sequence[float]], lost: float) -> list[LostPart]:
    """Return the parts of what is lost, which add up to it. A part below 0 is noise, and is no part."""
    spans = {name: _span(values) for name, values in shares.items()}
    total = sum(max(each.value, 0.0) for each in spans.values())
    times = max(lost, 0.0) / total if total > 0 else 0.0

    def scaled(end: float | Missing) -> float | Missing:
        return end if isinstance(end, Missing) else end * times

    return [
        LostPart(name, Bounded(max(each.value, 0.0) * times, scaled(each.low), scaled(each.high)))
        for name, each in spans.items()
    ]


def _first(parts: Sequence[LostPart]) -> LostTo | None:
    """Return the largest loss that is surely one."""
    lost = [each for each in parts if each.of != "computing" and each.share.value >= WORTH_NAMING]
    sure = [each for each in lost if isinstance(each.share.low, Missing) or each.share.low > 0]
    return sure[0].of if sure else None


def profiled_exchange(heats: Sequence[HeatResult]) -> ProfiledExchange | Missing:
    """Return the mean over the heats of what the profiler saw in their first ranks."""
    done = [heat for heat in heats if heat.step_ms is not None]
    first = [heat.ranks[0] for heat in done if heat.ranks]
    seen = [each.collectives for each in first if each.collectives is not None]
    if not seen:
        absent = [each.absent.get("collectives", NOT_RANKED) for each in first]
        return absent[-1] if absent else NOT_RANKED if done else NO_HEAT
    in_progress = _span([each.in_progress_ns / each.step_ns for each in seen])
    return ProfiledExchange(seen[-1].by, in_progress, _span([each.exposed_ns / each.step_ns for each in seen]))


def find_straggler(heats: Sequence[HeatResult]) -> Straggler | None:
    """Return the rank that is slower than the others in every heat, if there is one."""
    found = [(heat, alone) for heat in heats if heat.step_ms is not None and (alone := ranks_alone(heat, 1.0))]
    slowest = {max(range(len(alone.rank_ms)), key=lambda rank: alone.rank_ms[rank]) for _, alone in found}
    slower = median([alone.straggler_ms / alone.usual_ms for _, alone in found]) if found else 0.0
    if len(slowest) != 1 or slower < SLOWER_LEAST:
        return None
    rank = slowest.pop()
    reports = [heat.ranks for heat, _ in found if heat.ranks]
    if not reports:
        return Straggler(rank, "", "", slower, ONE_ROUND, ONE_ROUND)
    own = reports[-1][rank]
    waited = [[_waited(each.waited_s, each.timed_s) for each in ranks] for ranks in reports]
    known = [row for row in waited if not any(isinstance(each, Missing) for each in row)]
    if not known:
        return Straggler(rank, own.device, own.host, slower, waited[0][rank], waited[0][rank])
    shares = [[each for each in row if not isinstance(each, Missing)] for row in known]
    mean = sum(sum(row) / len(row) for row in shares) / len(shares)
    return Straggler(rank, own.device, own.host, slower, sum(row[rank] for row in shares) / len(shares), mean)


def _waited(waited_s: float | Missing, timed_s: float) -> float | Missing:
    if isinstance(waited_s, Missing):
        return waited_s
    return waited_s / timed_s if timed_s else 0.0


def _rank_rows(roles: Sequence[ScaleLane], lanes: Mapping[str, LaneResult]) -> list[RankRow]:
    """Return each rank's first step and memory, on the largest count of each curve."""
    most = max((each.devices for each in roles), default=0)
    names = dict.fromkeys(each.name for each in roles if each.role == "several" and each.devices == most)
    rows: list[RankRow] = []
    for name in names:
        heat = next((heat for heat in reversed(lanes[name].heats) if heat.ranks), None)
        for each in heat.ranks if heat is not None else ():
            first_ms, memory = each.first_step_ns / 1e6, each.peak_memory_bytes
            rows.append(RankRow(name, each.rank, each.device, each.host, first_ms, memory, each.device_memory_bytes))
    return rows
