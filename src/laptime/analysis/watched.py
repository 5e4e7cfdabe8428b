"""Whole trainings and answers, with what the instruments read meanwhile -> what they took of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from laptime.analysis.across import middle
from laptime.analysis.energy import make_energy
from laptime.analysis.heats import quiet_windows
from laptime.analysis.readings import Pair, Span
from laptime.analysis.usage import describe_usage, power_of
from laptime.model.inference import InferHeat
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.protocol import FullRun
from laptime.model.record import InferLane, LaneResult
from laptime.model.timeline import Watched
from laptime.model.usage import AnswerUsage, Usage

TIMED = ("lap ", "validation ", "test")
CALLS = "single calls"
# What lasts no longer than this between two timed parts (a checkpoint) is not taken out: readings are a second apart.
GAP_S = 1.0
NO_LAPS = Missing("answers have no laps")


def training_usage(runs: Sequence[FullRun], device: Device, cores: int, lane: LaneResult) -> Usage | None:
    """Give what a lane's trainings took while they trained, validated and tested; nothing where none was watched."""
    pairs = [pair for run in runs for pair in timed_pairs(run)]
    if not pairs:
        return None
    of, power = power_of(pairs, device)
    lap_s = None if lane.lap_s is None else lane.lap_s.median
    pace = None if lane.items_per_s is None else lane.items_per_s.median
    energy = replace(make_energy(of, power, lap_s, pace), j_whole=_whole_energy(runs, device))
    whole = [
        (each.timeline, Span(spans[0].start_s, spans[-1].end_s))
        for run in runs
        for each in run.watched
        if (spans := timed_spans(each))
    ]
    return describe_usage(pairs, device, cores, energy, whole)


def timed_pairs(run: FullRun) -> list[Pair]:
    """Give the timed stretches of all processes that a training took."""
    return [(each.timeline, span) for each in run.watched for span in timed_spans(each)]


def timed_spans(watched: Watched) -> tuple[Span, ...]:
    """Give the stretches that were timed, from mark to mark: laps, validations, the test. What is not over is none."""
    told = [(begin, end) for begin, end in pairwise(watched.marks) if begin.name.startswith(TIMED)]
    spans: list[Span] = []
    for begin, end in told:
        start_s, end_s = begin.at_ns / 1e9, end.at_ns / 1e9
        if spans and start_s - spans[-1].end_s <= GAP_S:
            spans[-1] = Span(spans[-1].start_s, end_s)
        else:
            spans.append(Span(start_s, end_s))
    return tuple(spans)


def _whole_energy(runs: Sequence[FullRun], device: Device) -> float | Missing:
    """Give the middle of the whole trainings: mean power, times the time of all laps, validations and the test."""
    told = [_energy_of(run, device) for run in runs if run.status == "ok"]
    known = middle(None if isinstance(each, Missing) else each for each in told)
    if known is not None:
        return known
    return next((each for each in told if isinstance(each, Missing)), Missing("no training was whole"))


def _energy_of(run: FullRun, device: Device) -> float | Missing:
    pairs = timed_pairs(run)
    if not pairs:
        return Missing("no instrument was read")
    _, power = power_of(pairs, device)
    return power if isinstance(power, Missing) else power.watts * (run.whole_s - run.ready_s)


def answer_usages(lane: InferLane, device: Device, cores: int) -> tuple[AnswerUsage, ...]:
    """Give what answering took, first of single calls, then of each batch size; nothing where no heat was watched."""
    sizes: list[tuple[int | None, float | None]] = [(None, _call_pace(lane))]
    sizes += [(each.batch, each.items_per_s.median if each.items_per_s else None) for each in lane.batches]
    told = [(batch, answer_pairs(lane.heats, batch), pace) for batch, pace in sizes]
    return tuple(AnswerUsage(batch, _usage(pairs, device, cores, pace)) for batch, pairs, pace in told if pairs)


def answer_pairs(heats: Sequence[InferHeat], batch: int | None) -> list[Pair]:
    """Give the timed stretch of each heat that was watched, at one batch size or in single calls."""
    spans = [(heat.timeline, _calls_span(heat) if batch is None else _batch_span(heat, batch)) for heat in heats]
    return [(timeline, span) for timeline, span in spans if timeline is not None and span is not None]


def _usage(pairs: Sequence[Pair], device: Device, cores: int, pace: float | None) -> Usage:
    of, power = power_of(pairs, device)
    energy = make_energy(of, power, None, pace)
    no_whole = Missing("answers are no training")
    return describe_usage(pairs, device, cores, replace(energy, j_per_lap=NO_LAPS, j_whole=no_whole))


def _call_pace(lane: InferLane) -> float | None:
    return None if lane.p50_ms is None or lane.items_a_call is None else 1e3 * lane.items_a_call / lane.p50_ms.median


def _calls_span(heat: InferHeat) -> Span | None:
    """Single calls are not told one by one; they lie between two marks."""
    found = next((pair for pair in pairwise(heat.marks) if pair[0].name == CALLS), None)
    return None if found is None else Span(found[0].at_ns / 1e9, found[1].at_ns / 1e9)


def _batch_span(heat: InferHeat, batch: int) -> Span | None:
    run = next((each for each in heat.batches if each.batch == batch and not each.reason), None)
    windows = quiet_windows(run.windows) if run else ()
    return Span(windows[0].start_ns / 1e9, windows[-1].end_ns / 1e9) if windows else None
