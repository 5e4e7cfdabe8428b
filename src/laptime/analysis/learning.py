"""Did the lanes learn alike, and when was an accuracy reached? Read from whole trainings."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt

from laptime.model.missing import Missing
from laptime.model.protocol import FullRun, LapResult, Reached, Score
from laptime.model.record import Finding
from laptime.stats import welch

ALPHA = 0.05
STANDARD_ERRORS = 2.0


def final_score(run: FullRun) -> Score | None:
    """Give what a training ended with: its test, or else the validation after its last lap."""
    if run.test is not None:
        return run.test.score
    last = run.laps[-1].validation if run.laps and run.status == "ok" else None
    return last.score if last is not None else None


def find_reached(laps: Sequence[LapResult], wanted: float | None) -> Reached | None:
    """Give the first lap whose accuracy is as high as asked: in validation, or in training where there is none."""
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
    """Say that two lanes' learning parts company, where neither the test set's chance nor the seeds explain it."""
    ours, theirs = _scores(name, runs), _scores(reference, runs)
    if not ours or not theirs:
        return None
    if min(len(ours), len(theirs)) < 2:
        return _by_test_set(name, reference, ours[0], theirs[0])
    return _by_seeds(name, reference, _accuracies(ours), _accuracies(theirs))


def _scores(name: str, runs: Sequence[FullRun]) -> list[Score]:
    finals = [final_score(run) for run in runs if run.lane == name and run.status == "ok"]
    return [each for each in finals if each is not None and not isinstance(each.accuracy, Missing)]


def _accuracies(scores: Sequence[Score]) -> list[float]:
    return [each.accuracy for each in scores if not isinstance(each.accuracy, Missing)]


def _by_test_set(name: str, reference: str, ours: Score, theirs: Score) -> Finding | None:
    """One seed each: hold the distance against the standard error of a difference of two shares of so many items."""
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
    return Finding("learning", says, evidence, "--seeds 3 tells whether seeds explain it.", "likely")


def _by_seeds(name: str, reference: str, ours: list[float], theirs: list[float]) -> Finding | None:
    found = welch(ours, theirs, ALPHA)
    if not found.differs:
        return None
    one, other = fsum(ours) / len(ours), fsum(theirs) / len(theirs)
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
        f"learning parts company: {name} ends at an accuracy of {one:.4f}, {reference} at {other:.4f}; "
        f"they differ by {abs(one - other):.4f}, and {why}."
    )
