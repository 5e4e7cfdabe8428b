"""Count the work of one step, off every clock. That may fail in many ways, and must lose nothing else."""

from __future__ import annotations

from laptime.backends.base import BuiltTraining
from laptime.model.limits import StepWork
from laptime.model.missing import Missing


def count_step(training: BuiltTraining) -> StepWork | Missing:
    """Return what one step computes and moves; where that cannot be counted, the reason."""
    try:
        return training.work()
    except Exception as error:  # noqa: BLE001  whatever a framework or a user's code raises
        said = str(error).splitlines()[0] if str(error) else "-"
        return Missing(f"counting ended in {type(error).__name__}: {said}")
