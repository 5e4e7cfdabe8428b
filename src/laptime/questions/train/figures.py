"""The figures of whole trainings: their time, loss and accuracy of each lap, each lap's time, and readings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laptime.figures.facts import fact_figures
from laptime.figures.readings import reading_figures
from laptime.model.figure import Axis, Bar, Bars, Curve, Figure, Plane
from laptime.model.missing import Missing
from laptime.model.protocol import FullRun, LapResult
from laptime.model.questions import training_of
from laptime.model.record import Record
from laptime.pages.numbers import duration
from laptime.pages.words import short_name
from laptime.questions.race.figures import proof_figures

LapValue = Callable[[LapResult], float | Missing]
NONE = Missing("not measured")


def figures(record: Record) -> list[Figure]:
    """Return all figures of whole trainings, the most telling first."""
    runs = training_of(record).runs
    return [
        _times(runs),
        *_curves(runs),
        *_laps(runs),
        *proof_figures(record),
        *reading_figures(record),
        *fact_figures(record),
    ]


def _name(run: FullRun, runs: Sequence[FullRun]) -> str:
    several = len({each.seed for each in runs}) > 1
    return short_name(run.process.lane) + (f", seed {run.seed}" if several else "")


def _times(runs: Sequence[FullRun]) -> Figure:
    bars = tuple(_bar(run, runs) for run in runs)
    says = "From the start of the process to the end of the test, without what only laptime does."
    return Figure("Whole trainings", Bars("s", bars), says)


def _bar(run: FullRun, runs: Sequence[FullRun]) -> Bar:
    if run.process.status != "ok":
        why = run.process.dnf.reason if run.process.dnf else run.process.status
        return Bar(_name(run, runs), None, words=f"{len(run.laps)} laps, then: {why}", kind="failed")
    accuracy = NONE if run.test is None else run.test.score.accuracy
    told = "" if isinstance(accuracy, Missing) else f", test accuracy {accuracy:.2%}"
    return Bar(_name(run, runs), run.whole_s, words=f"{duration(run.whole_s)}{told}")


def _curves(runs: Sequence[FullRun]) -> list[Figure]:
    """Return loss and accuracy by lap, in training and in validation: lanes that learn alike lie on each other."""
    return [
        *_by_lap("Loss of each lap", "loss", runs, lambda lap: lap.score.loss),
        *_by_lap("Validation loss of each lap", "loss", runs, lambda lap: _validated(lap, "loss")),
        *_by_lap("Accuracy of each lap", "accuracy", runs, lambda lap: lap.score.accuracy),
        *_by_lap("Validation accuracy of each lap", "accuracy", runs, lambda lap: _validated(lap, "accuracy")),
    ]


def _validated(lap: LapResult, name: str) -> float | Missing:
    found: float | Missing = NONE if lap.validation is None else getattr(lap.validation.score, name)
    return found


def _laps(runs: Sequence[FullRun]) -> list[Figure]:
    return _by_lap("Training time of each lap", "seconds", runs, lambda lap: lap.train_s, from_zero=True)


def _by_lap(title: str, up: str, runs: Sequence[FullRun], value: LapValue, *, from_zero: bool = False) -> list[Figure]:
    curves = [Curve(_name(run, runs), _points(run, value)) for run in runs]
    shown = tuple(curve for curve in curves if curve.points)
    return [Figure(title, Plane(Axis("lap", is_whole=True), Axis(up, from_zero=from_zero), shown))] if shown else []


def _points(run: FullRun, value: LapValue) -> tuple[tuple[float, float], ...]:
    told = ((float(lap.number), value(lap)) for lap in run.laps)
    return tuple((number, each) for number, each in told if not isinstance(each, Missing))
