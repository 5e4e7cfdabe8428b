"""Whole trainings of a lane -> its lap, its step and its factor; laps that hold a first step stand apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from laptime.analysis.across import ALPHA, ONE_TRAINING, bounds, estimate, largest, middle, startup_s
from laptime.analysis.parity import judge_parity, tell_chance
from laptime.model.missing import Missing
from laptime.model.plan import PlannedLane
from laptime.model.protocol import FullRun, LapFactor, LapResult
from laptime.model.record import Estimate, LaneResult, Parity
from laptime.model.sample import Appeal, Reference
from laptime.stats import paired_ratio


def later_laps(run: FullRun) -> tuple[LapResult, ...]:
    """Give the laps that hold no first step; all, where there are no others."""
    return tuple(lap for lap in run.laps if not lap.fresh) or run.laps


def summarise_full_lane(
    lane: PlannedLane,
    runs: Sequence[FullRun],
    reference: Reference | str | None,
    batch: int | None,
    appeal: Appeal | None = None,
) -> LaneResult:
    """Give a lane as every record holds one; its laps themselves are in its runs."""
    mine = [run for run in runs if run.lane == lane.name]
    trained = [run for run in mine if run.laps]
    dnf = next((run.dnf for run in mine if run.dnf), None)
    items = next((run.items_per_step for run in mine if run.items_per_step), lane.settings.batch or batch)
    step = _estimate(trained, lambda laps: 1e3 * _seconds(laps) / max(sum(lap.steps for lap in laps), 1))
    parity = _parity(lane, mine, reference, appeal)
    return LaneResult(
        name=lane.name,
        framework=next((run.versions for run in mine if run.versions), {}),
        device=lane.device,
        settings=lane.settings,
        status="dnf" if dnf else "ok",
        reason=dnf.reason if dnf else None,
        step_ms=step,
        lap_s=_estimate(trained, lambda laps: _seconds(laps) / len(laps)),
        items_per_s=_estimate(trained, lambda laps: sum(lap.score.items for lap in laps) / _seconds(laps)),
        first_step_ms=middle(run.first_step_ms for run in mine),
        startup_s=middle(startup_s(run.phases_s) for run in mine),
        peak_memory_bytes=largest((run.peak_memory_bytes for run in mine), "nothing was trained"),
        device_memory_bytes=largest((run.device_memory_bytes for run in mine), "nothing was trained"),
        energy_j_per_lap=Missing("no instrument was read"),
        parity=parity,
        items_per_step=items,
        notes=tuple(dict.fromkeys(chain(lane.notes, *(run.notes for run in mine), tell_chance(parity)))),
        appeal=appeal,
    )


def find_factor(lane: LaneResult, reference: LaneResult, runs: Sequence[FullRun]) -> LapFactor | None:
    """Compare two lanes by items a second, the first lap of a training and the later ones each for themselves."""
    pairs = [
        (ours, theirs)
        for ours in runs
        for theirs in runs
        if (ours.lane, theirs.lane, ours.seed) == (lane.name, reference.name, theirs.seed) and ours.laps and theirs.laps
    ]
    if not pairs:
        return None
    low: float | Missing = ONE_TRAINING
    high: float | Missing = ONE_TRAINING
    later = [pair for pair in pairs if all(any(not lap.fresh for lap in run.laps) for run in pair)]
    ratio: float | Missing = Missing("a second lap was not trained by both")
    if later:
        interval = paired_ratio(
            [_pace(later_laps(ours)) for ours, _ in later], [_pace(later_laps(theirs)) for _, theirs in later], ALPHA
        )
        ratio = interval.estimate
        low, high = bounds(interval, ONE_TRAINING)
    first = paired_ratio(
        [_pace(ours.laps[:1]) for ours, _ in pairs], [_pace(theirs.laps[:1]) for _, theirs in pairs], ALPHA
    )
    same = lane.parity.status == "same" and reference.parity.status == "same"
    return LapFactor(lane.name, reference.name, ratio, first.estimate, low, high, same)


def _pace(laps: Sequence[LapResult]) -> float:
    """Give seconds an item, so that lanes of different batches are held against each other fairly."""
    return _seconds(laps) / max(sum(lap.score.items for lap in laps), 1)


def _seconds(laps: Sequence[LapResult]) -> float:
    return sum(lap.train_s for lap in laps)


def _estimate(runs: Sequence[FullRun], read: Callable[[Sequence[LapResult]], float]) -> Estimate | None:
    """Take one figure of each training; the laps of one training are not independent."""
    return estimate([read(later_laps(run)) for run in runs], alone=ONE_TRAINING)


def _parity(
    lane: PlannedLane, runs: Sequence[FullRun], reference: Reference | str | None, appeal: Appeal | None
) -> Parity:
    proofs = [run.proofs for run in runs if run.proofs]
    if not proofs:
        return Parity("unproven", reason="no training came as far as the proof")
    return judge_parity(lane.settings, proofs, reference, appeal)
