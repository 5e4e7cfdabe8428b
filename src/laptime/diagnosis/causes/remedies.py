"""What can be done: each remedy with the gain that was foretold and the one that was measured, the best first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from laptime.diagnosis.causes.case import Case
from laptime.diagnosis.causes.predict import predict
from laptime.model.missing import Missing
from laptime.model.why import NO_CHANGE, Remedy, Trial

NEARLY = 0.9
MEMORY_WORDS = ("memory", "RAM")


def remedies(case: Case, trials: Mapping[str, Trial]) -> tuple[Remedy, ...]:
    """Give a row for each remedy that was thought of: those measured by their gain, then by what was foretold.

    Recommended is the best of those that change nothing or take memory only; what changes nothing is preferred where
    it gains nearly as much.
    """
    rows = sorted((_row(case, trial) for trial in trials.values() if trial.experiment.is_remedy), key=_place)
    gaining = [row for row in rows if _gains(row, case.margin)]
    free = [row for row in gaining if row.changes == NO_CHANGE]
    memory = [row for row in gaining if any(word in row.changes for word in MEMORY_WORDS)]
    best = _preferred(free, memory)
    return tuple(replace(row, recommended=True) if row is best else row for row in rows)


def _preferred(free: Sequence[Remedy], memory: Sequence[Remedy]) -> Remedy | None:
    """Take the first of either, as they stand sorted."""
    if not free or not memory:
        return next(iter([*free, *memory]), None)
    return free[0] if _ratio(free[0]) >= NEARLY * _ratio(memory[0]) else memory[0]


def _ratio(row: Remedy) -> float:
    return row.measured.ratio if row.measured is not None else 0.0


def _row(case: Case, trial: Trial) -> Remedy:
    tried = trial.experiment
    reason = trial.reason
    if trial.factor is None and reason is None:
        reason = "it was not tried" if tried.absent is None else tried.absent.missing
    return Remedy(
        cause=tried.cause,
        says=tried.says,
        predicted=predict(case, tried),
        measured=trial.factor,
        changes=tried.changes,
        code=tried.code,
        lane=trial.lane,
        reason=None if trial.factor is not None else reason,
    )


def _place(row: Remedy) -> tuple[bool, float]:
    """Sort by what is known best."""
    if row.measured is not None:
        return False, -row.measured.ratio
    return True, 0.0 if isinstance(row.predicted, Missing) else -row.predicted


def _gains(row: Remedy, margin: float) -> bool:
    """One pair alone has no interval: its figure will do where as much was foretold."""
    factor = row.measured
    if factor is None or factor.ratio <= 1 + margin:
        return False
    if isinstance(factor.low, Missing):
        return not isinstance(row.predicted, Missing) and row.predicted > 1 + margin
    return factor.low > 1
