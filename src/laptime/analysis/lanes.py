"""All heats of a lane -> its step, lap and rate, each with an interval."""

from __future__ import annotations

from itertools import chain

from laptime.analysis.across import estimate, largest, middle, rate, scaled, startup_s
from laptime.analysis.forecast import forecast_whole
from laptime.analysis.heats import mean_step_ms, steady_windows, summarise_heat
from laptime.analysis.parity import judge_parity, tell_chance
from laptime.analysis.usage import summarise_usage
from laptime.model.lane import NO_TRAINING
from laptime.model.missing import Missing
from laptime.model.plan import Plan, PlannedLane
from laptime.model.protocol import Protocol
from laptime.model.record import Estimate, HeatResult, LaneResult, Parity
from laptime.model.sample import Appeal, Heat, Reference
from laptime.model.usage import Usage
from laptime.stats import quantile

NO_HEAT = "no heat was run"


def summarise_lane(
    plan: Plan,
    lane: PlannedLane,
    heats: tuple[Heat, ...],
    reference: Reference | str | None,
    protocol: Protocol | None = None,
    *,
    appeal: Appeal | None = None,
    cores: int = 1,
) -> LaneResult:
    """Give what is known of a lane so far; with a protocol, also how long the whole of it would take."""
    kept = tuple(summarise_heat(heat) for heat in heats)
    finished = [heat for heat in kept if heat.step_ms is not None]
    dnf = next((heat.dnf for heat in kept if heat.dnf), None)
    items = next((heat.items_per_step for heat in heats if heat.items_per_step is not None), None)
    told = next((heat.steps_per_lap for heat in heats if heat.steps_per_lap is not None), None)
    steps = steps_of_lap(plan, lane, told)
    trains_nothing = lane.settings.input in NO_TRAINING
    step = estimate([heat.step_ms for heat in finished if heat.step_ms is not None], p95=_p95(finished))
    mean = estimate([mean_step_ms(heat) for heat in finished])
    lap, pace = _lap(mean, steps), rate(step, items)
    usage = summarise_usage(finished, lane.device, cores, _middle_of(lap), _middle_of(pace))
    proofs = [heat.proofs for heat in kept]
    parity = judge_parity(lane.settings, proofs, reference, appeal) if heats else _no_heats()
    return LaneResult(
        name=lane.name,
        framework=next((heat.versions for heat in heats if heat.versions), {}),
        device=lane.device,
        settings=lane.settings,
        status="dnf" if dnf else "ok",
        reason=dnf.reason if dnf else None,
        step_ms=step,
        lap_s=lap,
        items_per_s=pace,
        first_step_ms=middle(heat.first_step_ms for heat in finished),
        startup_s=middle(startup_s(heat.phases_s) for heat in finished),
        peak_memory_bytes=largest((heat.peak_memory_bytes for heat in heats), NO_HEAT),
        device_memory_bytes=largest((heat.device_memory_bytes for heat in heats), NO_HEAT),
        energy_j_per_lap=_energy(usage),
        parity=parity,
        items_per_step=items,
        heats=kept,
        notes=tuple(dict.fromkeys(chain(lane.notes, *(heat.notes for heat in heats), tell_chance(parity)))),
        whole=forecast_whole(kept, mean, None if trains_nothing else protocol, steps, _fresh_steps(plan, items)),
        appeal=appeal,
        usage=usage,
    )


def _fresh_steps(plan: Plan, items_per_step: int | None) -> float | None:
    """Give after how many steps every item on disk was seen once."""
    return None if plan.data is None or not items_per_step else plan.data.train_items / items_per_step


def steps_of_lap(plan: Plan, lane: PlannedLane, told: int | None) -> float | None:
    """Give the steps of a lap: at another batch than the workload's, as many as see the same items."""
    steps = told if told is not None else plan.subject.steps_per_lap
    batch = lane.settings.batch
    if steps is None or batch is None or plan.subject.batch is None:
        return steps
    return steps * plan.subject.batch / batch


def _p95(heats: list[HeatResult]) -> float | Missing:
    steps = [step / 1e6 for heat in heats for window in steady_windows(heat) for step in window.step_ns]
    return quantile(steps, 0.95) if steps else Missing("no step was timed by itself")


def _lap(mean: Estimate | None, steps: float | None) -> Estimate | None:
    """Give a lap from the mean step, since a lap lasts through the slow moments that a median leaves out."""
    return None if mean is None or steps is None else scaled(mean, steps / 1e3)


def _middle_of(figure: Estimate | None) -> float | None:
    return None if figure is None else figure.median


def _energy(usage: Usage | None) -> float | Missing:
    if usage is None:
        return Missing("no instrument was read")
    return usage.energy.j_per_lap


def _no_heats() -> Parity:
    return Parity("unproven", reason=NO_HEAT)
