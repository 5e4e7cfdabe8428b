"""Whole trainings -> a lane's laps, how two lanes compare, what they learned, when an accuracy was reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import fsum, sqrt

from laptime.analysis.heats import ALPHA, ONE_TRAINING, bounds, estimate, largest, middle, startup_s
from laptime.analysis.parity import is_same_work, judge_parity, tell_chance
from laptime.model.plan import PlannedLane
from laptime.model.protocol import FullRun, LapFactor, LapResult, Reached, Score
from laptime.model.quantities import Estimate, Missing
from laptime.model.record import Finding, LaneResult, Parity, QuestionRates, Record, training_of
from laptime.model.sample import Appeal, Reference
from laptime.model.stats import paired_ratio, welch

STANDARD_ERRORS = 2.0


def later_laps(run: FullRun) -> tuple[LapResult, ...]:
    """Return the laps that do not include a first step; all laps, if there are no others."""
    return tuple(lap for lap in run.laps if not lap.fresh) or run.laps


def summarise_full_lane(
    lane: PlannedLane,
    runs: Sequence[FullRun],
    reference: Reference | str | None,
    batch: int | None,
    appeal: Appeal | None = None,
) -> LaneResult:
    """Return a lane as every record holds one; its laps themselves are in its runs."""
    mine = [run for run in runs if run.process.lane == lane.name]
    trained = [run for run in mine if run.laps]
    dnf = next((run.process.dnf for run in mine if run.process.dnf), None)
    items = next(
        (run.process.items_per_step for run in mine if run.process.items_per_step), lane.settings.batch or batch
    )
    step = _estimate(trained, lambda laps: 1e3 * _seconds(laps) / max(sum(lap.steps for lap in laps), 1))
    parity = _parity(lane, mine, reference, appeal, find_mixed(runs))
    return LaneResult(
        name=lane.name,
        framework=next((run.process.versions for run in mine if run.process.versions), {}),
        device=lane.device,
        settings=lane.settings,
        status="dnf" if dnf else "ok",
        reason=dnf.reason if dnf else None,
        step_ms=step,
        lap_s=_estimate(trained, lambda laps: _seconds(laps) / len(laps)),
        items_per_s=_estimate(trained, lambda laps: sum(lap.score.items for lap in laps) / _seconds(laps)),
        first_step_ms=middle(run.first_step_ms for run in mine),
        startup_s=middle(startup_s(run.process.phases_s) for run in mine),
        peak_memory_bytes=largest((run.process.peak_memory_bytes for run in mine), "nothing was trained"),
        device_memory_bytes=largest((run.process.device_memory_bytes for run in mine), "nothing was trained"),
        energy_j_per_lap=Missing("no instrument was read"),
        parity=parity,
        items_per_step=items,
        notes=tuple(dict.fromkeys(chain(lane.notes, *(run.process.notes for run in mine), tell_chance(parity)))),
        appeal=appeal,
    )


def find_factor(lane: LaneResult, reference: LaneResult, runs: Sequence[FullRun]) -> LapFactor | None:
    """Compare two lanes by items per second, the first lap of a training and the later laps separately."""
    pairs = [
        (ours, theirs)
        for ours in runs
        for theirs in runs
        if (ours.process.lane, theirs.process.lane, ours.seed) == (lane.name, reference.name, theirs.seed)
        and ours.laps
        and theirs.laps
    ]
    if not pairs:
        return None
    low: float | Missing = ONE_TRAINING
    high: float | Missing = ONE_TRAINING
    later = [pair for pair in pairs if all(any(not lap.fresh for lap in run.laps) for run in pair)]
    ratio: float | Missing = Missing("a second lap was not trained by both")
    if later:
        interval = paired_ratio(
            [item_s(later_laps(ours)) for ours, _ in later], [item_s(later_laps(theirs)) for _, theirs in later], ALPHA
        )
        ratio = interval.estimate
        low, high = bounds(interval, ONE_TRAINING)
    first = paired_ratio(
        [item_s(ours.laps[:1]) for ours, _ in pairs], [item_s(theirs.laps[:1]) for _, theirs in pairs], ALPHA
    )
    same = is_same_work(lane.parity, reference.parity)
    return LapFactor(lane.name, reference.name, ratio, first.estimate, low, high, same)


def item_s(laps: Sequence[LapResult]) -> float:
    """Return seconds per item, so that lanes of different batches are compared fairly."""
    return _seconds(laps) / max(sum(lap.score.items for lap in laps), 1)


def _seconds(laps: Sequence[LapResult]) -> float:
    return sum(lap.train_s for lap in laps)


def _estimate(runs: Sequence[FullRun], read: Callable[[Sequence[LapResult]], float]) -> Estimate | None:
    """Estimate a figure from one value per training; the laps of one training are not independent."""
    return estimate([read(later_laps(run)) for run in runs], alone=ONE_TRAINING)


def _parity(
    lane: PlannedLane,
    runs: Sequence[FullRun],
    reference: Reference | str | None,
    appeal: Appeal | None,
    mixed: tuple[str, ...],
) -> Parity:
    proofs = [run.proofs for run in runs if run.proofs]
    if not proofs:
        return Parity("unproven", reason="no training came as far as the proof")
    judged = judge_parity(lane.settings, proofs, reference, appeal)
    if judged.status == "same" and mixed:
        return replace(judged, status="unproven", reason=f"{', '.join(mixed)} changed between these trainings")
    return judged


def find_mixed(runs: Sequence[FullRun]) -> tuple[str, ...]:
    """Name the user's files of which these trainings had more than one version: no proof covers all their laps then."""
    versions: dict[str, set[str]] = {}
    for run in runs:
        for name, digest in run.sources.items():
            versions.setdefault(name, set()).add(digest)
    between = {name for name, digests in versions.items() if len(digests) > 1}
    return tuple(sorted(between.union(*(run.changed for run in runs))))


def final_score(run: FullRun) -> Score | None:
    """Return the final score of a training: its test, or else the validation after its last lap."""
    if run.test is not None:
        return run.test.score
    last = run.laps[-1].validation if run.laps and run.process.status == "ok" else None
    return last.score if last is not None else None


def find_reached(laps: Sequence[LapResult], wanted: float | None) -> Reached | None:
    """Return the first lap whose accuracy is as high as wanted: in validation, or in training if there is none."""
    if wanted is None:
        return None
    train_s = 0.0
    best: float | Missing = Missing("no lap was trained")
    for lap in laps:
        train_s += lap.train_s
        accuracy = accuracy_of(lap)
        if isinstance(accuracy, Missing):
            return Reached(wanted, accuracy)
        if accuracy >= wanted:
            return Reached(wanted, accuracy, lap.number, train_s)
        best = accuracy if isinstance(best, Missing) else max(accuracy, best)
    return Reached(wanted, best)


def accuracy_of(lap: LapResult) -> float | Missing:
    return lap.score.accuracy if lap.validation is None else lap.validation.score.accuracy


def compare_learning(name: str, reference: str, runs: Sequence[FullRun]) -> Finding | None:
    """Return a finding where two lanes learn differently, unless chance in the test set or the seeds explain it."""
    ours = _scores(name, runs)
    theirs = _scores(reference, runs)
    if not ours or not theirs:
        return None
    if min(len(ours), len(theirs)) < 2:
        return _by_test_set(name, reference, ours[0], theirs[0])
    return _by_seeds(name, reference, _accuracies(ours), _accuracies(theirs))


def _scores(name: str, runs: Sequence[FullRun]) -> list[Score]:
    finals = [final_score(run) for run in runs if run.process.lane == name and run.process.status == "ok"]
    return [final for final in finals if final is not None and not isinstance(final.accuracy, Missing)]


def _accuracies(scores: Sequence[Score]) -> list[float]:
    return [score.accuracy for score in scores if not isinstance(score.accuracy, Missing)]


def _by_test_set(name: str, reference: str, ours: Score, theirs: Score) -> Finding | None:
    """Compare the accuracy of one seed each, by the standard error of the difference of two shares."""
    (one,), (other,) = _accuracies([ours]), _accuracies([theirs])
    variance = fsum(share * (1 - share) / max(score.items, 1) for share, score in ((one, ours), (other, theirs)))
    allowed = STANDARD_ERRORS * sqrt(max(variance, 0.0))
    if abs(one - other) <= allowed:
        return None
    why = f"chance in {ours.items:,} items explains {allowed:.4f}"
    evidence = {
        "lane": name,
        "reference": reference,
        "accuracy": one,
        "reference_accuracy": other,
        "allowed": allowed,
        "items": ours.items,
    }
    says = _says(name, reference, one, other, why)
    return Finding("learning", says, evidence, "--seeds 3 shows whether seeds explain it.", "likely")


def _by_seeds(name: str, reference: str, ours: list[float], theirs: list[float]) -> Finding | None:
    found = welch(ours, theirs, ALPHA)
    if not found.differs:
        return None
    one = fsum(ours) / len(ours)
    other = fsum(theirs) / len(theirs)
    seeds = min(len(ours), len(theirs))
    why = f"{seeds} seeds do not explain it (Welch's t {found.t:.1f}, by chance {found.allowed:.1f})"
    evidence = {
        "lane": name,
        "reference": reference,
        "accuracy": one,
        "reference_accuracy": other,
        "t": found.t,
        "allowed": found.allowed,
    }
    return Finding("learning", _says(name, reference, one, other, why), evidence, "", "likely")


def _says(name: str, reference: str, one: float, other: float, why: str) -> str:
    return (
        f"learning differs: {name} ends at an accuracy of {one:.4f}, {reference} at {other:.4f}; "
        f"they differ by {abs(one - other):.4f}, and {why}."
    )


def _rates_of_trainings(record: Record, lane: LaneResult) -> Iterator[float]:
    for run in training_of(record).runs:
        if run.process.lane == lane.name and run.laps:
            yield 1 / item_s(later_laps(run))


PART = QuestionRates(_rates_of_trainings)
