"""Heats of inference -> latency, throughput, the cost of a first answer, factors, and whether answers are right."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from laptime.analysis.heats import (
    ALPHA,
    START_PHASES,
    bounds,
    estimate,
    largest,
    mean_step_ms,
    middle,
    quiet_windows,
    rate,
    startup_s,
    step_ms,
)
from laptime.analysis.lanes import NO_HEAT_RUN
from laptime.analysis.parity import TWIN_MARGIN, is_same_work, relative
from laptime.model.plan import PlannedLane
from laptime.model.precisions import PRECISIONS
from laptime.model.protocol import AnswerReference, AnswerRun, BatchRun, InferHeat
from laptime.model.quantities import Estimate, Missing
from laptime.model.record import (
    BatchResult,
    InferFactor,
    InferLane,
    LaneResult,
    Parity,
    QuestionRates,
    Record,
    Wait,
    inference_of,
)
from laptime.model.stats import Steady, find_steady, log_mean_interval, median, quantile, verdict

# An answer is not averaged over a batch, as a loss is, so the effect of rounding is larger.
ANSWER_MARGIN = 2.0


def judge_answers(proofs: Sequence[tuple[AnswerRun, ...]], reference: AnswerReference | str | None) -> Parity:
    """Compare every heat's answers with the reference; the worst heat decides for the lane."""
    if reference is None or isinstance(reference, str):
        return Parity("unproven", reason=reference or "no reference was computed")
    if reference.problem:
        return Parity("unproven", reason=reference.problem)
    exact = [run for heat in proofs for run in heat if run.precision == "fp32"]
    coarse = [run for heat in proofs for run in heat if run.precision != "fp32"]
    if not exact:
        return Parity("unproven", reason="no heat came as far as the proof")
    precision = coarse[0].precision if coarse else None
    reason = next(filter(None, (_why_answers_differ(run, reference) for run in [*exact, *coarse])), None)
    return Parity(
        status="differs" if reason else "same",
        steps=1,
        worst=max(answer_distance(run, reference.exact) for run in exact),
        tolerance=answer_tolerance(reference, "fp32"),
        strays=max((answer_distance(run, reference.exact) for run in coarse), default=None),
        strays_tolerance=answer_tolerance(reference, precision) if precision else None,
        strays_precision=precision,
        reason=reason,
    )


def answer_distance(run: AnswerRun, exact: AnswerRun) -> float:
    """Return how far the answers differ, relative to their own length: by the values kept, and by the length of all."""
    if run.count != exact.count or len(run.values) != len(exact.values):
        return math.inf
    apart = math.dist(run.values, exact.values) / max(math.hypot(*exact.values), 1e-30)
    return max(apart, relative(run.length, exact.length))


def answer_tolerance(reference: AnswerReference, precision: str) -> float:
    """Return how far answers may differ: by the rounding of the layers, or by the error of the float32 twin."""
    floor = ANSWER_MARGIN * PRECISIONS[precision].margin * PRECISIONS[precision].rounding * math.sqrt(reference.depth)
    if precision != "fp32":
        return floor
    return max(floor, TWIN_MARGIN * answer_distance(reference.twin, reference.exact))


def _why_answers_differ(run: AnswerRun, reference: AnswerReference) -> str | None:
    if run.count != reference.exact.count:
        return f"it gives {run.count:,} numbers, the reference {reference.exact.count:,}"
    distance = answer_distance(run, reference.exact)
    allowed = answer_tolerance(reference, run.precision)
    if distance <= allowed:
        return None
    return f"its answers differ by {distance:.0e} in {run.precision} ({allowed:.0e} allowed)"


Read = Callable[[InferHeat], float | None]


def summarise_infer_lane(
    lane: PlannedLane, heats: Sequence[InferHeat], reference: AnswerReference | str | None
) -> LaneResult:
    """Return a lane as every record holds one; `describe_answers` returns how it answers."""
    dnf = next((heat.process.dnf for heat in heats if heat.process.dnf), None)
    call = _estimate(heats, lambda heat: _percentile_ms(heat, 0.5))
    items = next((heat.items_a_call for heat in heats if heat.items_a_call), None)
    return LaneResult(
        name=lane.name,
        framework=next((heat.process.versions for heat in heats if heat.process.versions), {}),
        device=lane.device,
        settings=lane.settings,
        status="dnf" if dnf else "ok",
        reason=dnf.reason if dnf else None,
        step_ms=call,
        lap_s=None,
        items_per_s=rate(call, items),
        first_step_ms=middle(None if heat.first_call_ns is None else heat.first_call_ns / 1e6 for heat in heats),
        startup_s=middle(startup_s(heat.process.phases_s) for heat in heats),
        peak_memory_bytes=largest((heat.process.peak_memory_bytes for heat in heats), NO_HEAT_RUN),
        device_memory_bytes=largest((heat.process.device_memory_bytes for heat in heats), NO_HEAT_RUN),
        energy_j_per_lap=Missing("answers have no laps"),
        parity=judge_answers([heat.proofs for heat in heats], reference),
        items_per_step=items,
        notes=tuple(dict.fromkeys(chain(lane.notes, *(heat.process.notes for heat in heats)))),
    )


def describe_answers(lane: str, heats: Sequence[InferHeat]) -> InferLane:
    """Return a lane's percentiles, its throughput by batch size, and the parts of its first answer."""
    counted = [heat for heat in heats if heat.calls_ns]
    sizes = dict.fromkeys(run.batch for heat in heats for run in heat.batches)
    return InferLane(
        lane=lane,
        items_a_call=next((heat.items_a_call for heat in heats if heat.items_a_call), None),
        p50_ms=_estimate(heats, lambda heat: _percentile_ms(heat, 0.5)),
        p95_ms=_estimate(heats, lambda heat: _percentile_ms(heat, 0.95)),
        p99_ms=_estimate(heats, lambda heat: _percentile_ms(heat, 0.99)),
        calls=sum(len(counted_calls(heat.calls_ns)) for heat in counted),
        wait=_wait(heats),
        batches=tuple(_batch_result(batch, heats) for batch in sorted(sizes)),
        steady=dict(Counter(_steady_calls(heat.calls_ns).kind for heat in counted)),
        heats=tuple(heats),
    )


def find_infer_factors(
    lane: LaneResult, reference: LaneResult, heats: Sequence[InferHeat], others: Sequence[InferHeat]
) -> tuple[InferFactor, ...]:
    """Compare two lanes by the heats of the same rounds: a single call first, then each batch size that both have."""
    same = is_same_work(lane.parity, reference.parity)
    sizes: list[int | None] = [None, *sorted({run.batch for heat in heats for run in heat.batches})]
    found = []
    for batch in sizes:
        ratios = [
            ratio
            for heat in sorted(heats, key=lambda heat: heat.round)
            for other in others
            if other.round == heat.round and (ratio := _item_ratio(heat, other, batch)) is not None
        ]
        if ratios:
            interval = log_mean_interval(ratios, ALPHA)
            low, high = bounds(interval)
            ends = (interval.estimate, low, high, verdict(interval), len(ratios), same)
            found.append(InferFactor(lane.name, reference.name, batch, *ends))
    return tuple(found)


def _item_ratio(heat: InferHeat, other: InferHeat, batch: int | None) -> float | None:
    """Return how many times as long an item takes the other heat."""
    mine = _item_ms(heat, batch)
    its = _item_ms(other, batch)
    return None if mine is None or its is None else its / mine


def counted_calls(calls_ns: Sequence[int]) -> Sequence[int]:
    """Leave out warm-up calls; slow calls that come later stay, since they are the tail of the distribution."""
    found = _steady_calls(tuple(calls_ns))
    return calls_ns[found.start :] if found.kind == "warm-up" else calls_ns


@lru_cache(maxsize=1024)
def _steady_calls(calls_ns: tuple[int, ...]) -> Steady:
    """Cache the result: cutting thousands of calls takes about 10 ms, and it is needed several times."""
    return find_steady(calls_ns)


def batch_item_ms(run: BatchRun) -> float | None:
    """Return the mean time per item at a batch size, of the windows that are steady, and undisturbed if enough are."""
    counted = quiet_windows(run.windows)
    if not counted or run.reason:
        return None
    return mean_step_ms(counted[find_steady([*map(step_ms, counted)]).start :]) / run.batch


def single_item_ms(heat: InferHeat) -> float | None:
    """Return the time per item of a single call."""
    return _item_ms(heat, None)


def _item_ms(heat: InferHeat, batch: int | None) -> float | None:
    if batch is None:
        return None if (call := _percentile_ms(heat, 0.5)) is None else call / (heat.items_a_call or 1)
    run = next((batch_run for batch_run in heat.batches if batch_run.batch == batch), None)
    return batch_item_ms(run) if run else None


def _percentile_ms(heat: InferHeat, share: float) -> float | None:
    return quantile(counted_calls(heat.calls_ns), share) / 1e6 if heat.calls_ns else None


def _batch_result(batch: int, heats: Sequence[InferHeat]) -> BatchResult:
    failed = next((run for heat in heats for run in heat.batches if run.batch == batch and run.reason), None)
    items_per_s = rate(_estimate(heats, lambda heat: _item_ms(heat, batch)), 1)
    if failed is None:
        return BatchResult(batch, items_per_s)
    return BatchResult(batch, items_per_s, failed.reason, failed.is_tried)


def _wait(heats: Sequence[InferHeat]) -> Wait | None:
    """Return the median of each part over the heats; each part happens once per process.

    Only the first process reads from a cold disk; a median leaves that out.
    """
    called = [heat for heat in heats if heat.first_call_ns is not None]
    if not called:
        return None
    further = middle(_percentile_ms(heat, 0.5) for heat in called)
    process_s, import_s, network_s = (
        median([heat.process.phases_s.get(name, 0.0) for heat in called]) for name in START_PHASES
    )
    first_s = median([(heat.first_call_ns or 0) / 1e9 for heat in called])
    later: float | Missing = Missing("no call came after the first") if further is None else further / 1e3
    return Wait(process_s, import_s, network_s, first_s, later)


def _estimate(heats: Sequence[InferHeat], read: Read) -> Estimate | None:
    return estimate([value for heat in heats if (value := read(heat)) is not None])


def _rates_of_answers(record: Record, lane: LaneResult) -> Iterator[float]:
    for infer_lane in inference_of(record).lanes:
        if infer_lane.lane == lane.name:
            yield from (1e3 / ms for heat in infer_lane.heats if (ms := single_item_ms(heat)))


PART = QuestionRates(_rates_of_answers)
