"""All heats of a lane -> its step, lap and rate, each with an interval."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from laptime.analysis.forecast import forecast_whole
from laptime.analysis.heats import mean_step_ms, steady_windows, summarise_heat
from laptime.analysis.parity import judge_parity
from laptime.model.missing import Missing
from laptime.model.plan import Plan, PlannedLane
from laptime.model.protocol import Protocol
from laptime.model.record import Estimate, HeatResult, LaneResult, Parity
from laptime.model.sample import Heat, Reference
from laptime.stats import Interval, log_mean_interval, median, quantile

ALPHA = 0.05


def summarise_lane(
    plan: Plan,
    lane: PlannedLane,
    heats: tuple[Heat, ...],
    reference: Reference | str | None,
    protocol: Protocol | None = None,
) -> LaneResult:
    """Give what is known of a lane so far; with a protocol, also how long the whole of it would take."""
    kept = tuple(summarise_heat(heat) for heat in heats)
    finished = [heat for heat in kept if heat.step_ms is not None]
    dnf = next((heat.dnf for heat in kept if heat.dnf), None)
    items = next((heat.items_per_step for heat in heats if heat.items_per_step is not None), None)
    told = next((heat.steps_per_lap for heat in heats if heat.steps_per_lap is not None), None)
    steps = steps_of_lap(plan, lane, told)
    trains_nothing = lane.settings.input == "only"
    step = _estimate([heat.step_ms for heat in finished if heat.step_ms is not None], _p95(finished))
    mean = _estimate([mean_step_ms(heat) for heat in finished], Missing("a mean step has no p95 of its own"))
    return LaneResult(
        name=lane.name,
        framework=next((heat.versions for heat in heats if heat.versions), {}),
        device=lane.device,
        settings=lane.settings,
        status="dnf" if dnf else "ok",
        reason=dnf.reason if dnf else None,
        step_ms=step,
        lap_s=_lap(mean, steps),
        items_per_s=_rate(step, items),
        first_step_ms=_median(heat.first_step_ms for heat in finished),
        startup_s=_median(_startup_s(heat) for heat in finished),
        peak_memory_bytes=_most(heat.peak_memory_bytes for heat in heats),
        device_memory_bytes=_most(heat.device_memory_bytes for heat in heats),
        energy_j_per_lap=Missing("no energy sensor is read in this version"),
        parity=judge_parity(lane.settings, [heat.proofs for heat in kept], reference) if heats else _no_heats(),
        items_per_step=items,
        heats=kept,
        notes=tuple(dict.fromkeys(chain(lane.notes, *(heat.notes for heat in heats)))),
        whole=forecast_whole(kept, mean, None if trains_nothing else protocol, steps),
    )


def steps_of_lap(plan: Plan, lane: PlannedLane, told: int | None) -> float | None:
    """Give the steps of a lap: at another batch than the workload's, as many as see the same items."""
    steps = told if told is not None else plan.subject.steps_per_lap
    batch = lane.settings.batch
    if steps is None or batch is None or plan.subject.batch is None:
        return steps
    return steps * plan.subject.batch / batch


def _estimate(steps_ms: list[float], p95: float | Missing) -> Estimate | None:
    if not steps_ms:
        return None
    interval = log_mean_interval(steps_ms, ALPHA)
    low, high = bounds(interval)
    return Estimate(interval.estimate, low, high, p95)


def bounds(interval: Interval) -> tuple[float | Missing, float | Missing]:
    """Give an interval's ends, or say that one heat alone has none."""
    if interval.low <= 0:
        reason = Missing("one heat alone gives no interval")
        return reason, reason
    return interval.low, interval.high


def _p95(heats: list[HeatResult]) -> float | Missing:
    steps = [step / 1e6 for heat in heats for window in steady_windows(heat) for step in window.step_ns]
    return quantile(steps, 0.95) if steps else Missing("no step was timed by itself")


def _lap(mean: Estimate | None, steps: float | None) -> Estimate | None:
    """Give a lap from the mean step, since a lap lasts through the slow moments that a median leaves out."""
    if mean is None or steps is None:
        return None
    factor = steps / 1e3
    return Estimate(mean.median * factor, *(_times(end, factor) for end in (mean.low, mean.high)))


def _rate(estimate: Estimate | None, items: int | None) -> Estimate | None:
    if estimate is None or items is None:
        return None
    high, low = (end if isinstance(end, Missing) else items * 1e3 / end for end in (estimate.low, estimate.high))
    return Estimate(items * 1e3 / estimate.median, low, high)


def _times(end: float | Missing, factor: float) -> float | Missing:
    return end if isinstance(end, Missing) else end * factor


def _startup_s(heat: HeatResult) -> float | None:
    """Give the time from starting the process to the first step, the proof left out: a training has none."""
    if not heat.phases_s:
        return None
    return sum(heat.phases_s.get(name, 0.0) for name in ("start", "import", "build"))


def _median(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None


def _most(values: Iterable[int | Missing]) -> int | Missing:
    seen = list(values)
    numbers = [value for value in seen if not isinstance(value, Missing)]
    if numbers:
        return max(numbers)
    return seen[0] if seen else Missing("no heat was run")


def _no_heats() -> Parity:
    return Parity("unproven", reason="no heat was run")
