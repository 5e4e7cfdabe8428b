"""All heats of inference of a lane -> its latency, its throughput, what a first answer costs, and factors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain

from laptime.analysis.across import ALPHA, START_PHASES, bounds, estimate, largest, middle, rate, startup_s
from laptime.analysis.answers import judge_answers
from laptime.analysis.heats import quiet_windows, step_ms
from laptime.analysis.lanes import NO_HEAT
from laptime.model.inference import AnswerReference, BatchRun, InferHeat
from laptime.model.missing import Missing
from laptime.model.plan import PlannedLane
from laptime.model.record import BatchResult, Estimate, InferFactor, InferLane, LaneResult, Wait
from laptime.stats import Steady, find_steady, median, paired_ratio, quantile, verdict

Read = Callable[[InferHeat], float | None]


def summarise_infer_lane(
    lane: PlannedLane, heats: Sequence[InferHeat], reference: AnswerReference | str | None
) -> LaneResult:
    """Give a lane as every record holds one; how it answers is beside it."""
    dnf = next((heat.dnf for heat in heats if heat.dnf), None)
    call = _estimate(heats, lambda heat: _percentile_ms(heat, 0.5))
    items = next((heat.items_a_call for heat in heats if heat.items_a_call), None)
    return LaneResult(
        name=lane.name,
        framework=next((heat.versions for heat in heats if heat.versions), {}),
        device=lane.device,
        settings=lane.settings,
        status="dnf" if dnf else "ok",
        reason=dnf.reason if dnf else None,
        step_ms=call,
        lap_s=None,
        items_per_s=rate(call, items),
        first_step_ms=middle(_first_ms(heat) for heat in heats),
        startup_s=middle(startup_s(heat.phases_s) for heat in heats),
        peak_memory_bytes=largest((heat.peak_memory_bytes for heat in heats), NO_HEAT),
        device_memory_bytes=largest((heat.device_memory_bytes for heat in heats), NO_HEAT),
        energy_j_per_lap=Missing("answers have no laps"),
        parity=judge_answers([heat.proofs for heat in heats], reference),
        items_per_step=items,
        notes=tuple(dict.fromkeys(chain(lane.notes, *(heat.notes for heat in heats)))),
    )


def describe_answers(lane: str, heats: Sequence[InferHeat]) -> InferLane:
    """Give a lane's percentiles, its throughput by batch, and the parts of its first answer."""
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
    same = "differs" not in {lane.parity.status, reference.parity.status}
    sizes: list[int | None] = [None, *sorted({run.batch for heat in heats for run in heat.batches})]
    found = []
    for batch in sizes:
        ours, theirs = ({heat.round: _item_ms(heat, batch) for heat in each} for each in (heats, others))
        pairs = [
            (mine, other)
            for each, mine in sorted(ours.items())
            if mine is not None and (other := theirs.get(each)) is not None
        ]
        if pairs:
            interval = paired_ratio([mine for mine, _ in pairs], [other for _, other in pairs], ALPHA)
            low, high = bounds(interval)
            ends = (interval.estimate, low, high, verdict(interval), len(pairs), same)
            found.append(InferFactor(lane.name, reference.name, batch, *ends))
    return tuple(found)


def counted_calls(calls_ns: Sequence[int]) -> Sequence[int]:
    """Leave out calls that still warmed up; slow calls that come later stay, since the tail is made of them."""
    found = _steady_calls(tuple(calls_ns))
    return calls_ns[found.start :] if found.kind == "warm-up" else calls_ns


@lru_cache(maxsize=1024)
def _steady_calls(calls_ns: tuple[int, ...]) -> Steady:
    """Keep what was found: cutting thousands of calls takes some 10 ms, and every record asks again."""
    return find_steady(calls_ns)


def batch_item_ms(run: BatchRun) -> float | None:
    """Give what an item takes at a batch size: the median window, undisturbed where enough are, steady part only."""
    counted = quiet_windows(run.windows)
    if not counted or run.reason:
        return None
    times = [step_ms(window) / run.batch for window in counted]
    return median(times[find_steady(times).start :])


def _item_ms(heat: InferHeat, batch: int | None) -> float | None:
    if batch is None:
        return None if (call := _percentile_ms(heat, 0.5)) is None else call / (heat.items_a_call or 1)
    run = next((each for each in heat.batches if each.batch == batch), None)
    return batch_item_ms(run) if run else None


def _percentile_ms(heat: InferHeat, share: float) -> float | None:
    return quantile(counted_calls(heat.calls_ns), share) / 1e6 if heat.calls_ns else None


def _batch_result(batch: int, heats: Sequence[InferHeat]) -> BatchResult:
    reason = next((run.reason for heat in heats for run in heat.batches if run.batch == batch and run.reason), None)
    return BatchResult(batch, rate(_estimate(heats, lambda heat: _item_ms(heat, batch)), 1), reason)


def _wait(heats: Sequence[InferHeat]) -> Wait | None:
    """Take the middle heat of each part: parts happen once a process, and a cold disk is in the first alone."""
    called = [heat for heat in heats if heat.first_call_ns is not None]
    if not called:
        return None
    further = middle(_percentile_ms(heat, 0.5) for heat in called)
    process_s, import_s, network_s = (
        median([heat.phases_s.get(name, 0.0) for heat in called]) for name in START_PHASES
    )
    first_s = median([(heat.first_call_ns or 0) / 1e9 for heat in called])
    later: float | Missing = Missing("no call came after the first") if further is None else further / 1e3
    return Wait(process_s, import_s, network_s, first_s, later)


def _estimate(heats: Sequence[InferHeat], read: Read) -> Estimate | None:
    return estimate([value for heat in heats if (value := read(heat)) is not None])


def _first_ms(heat: InferHeat) -> float | None:
    return None if heat.first_call_ns is None else heat.first_call_ns / 1e6
