"""What a network answered, as a few plain numbers that a proof can hold against others, whichever framework it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from laptime.errors import LaneError
from laptime.model.inference import AnswerRun

MOST_VALUES = 512


def make_answers(precision: str, flat: npt.NDArray[Any]) -> AnswerRun:
    """Give values spread evenly over all answers, and the length of all; nothing, where there are no numbers."""
    if not len(flat):
        return AnswerRun(precision, (), 0.0, 0)
    exact = flat.astype(np.float64)
    length = float(np.linalg.norm(exact))
    if not np.isfinite(length):
        raise LaneError(f"its answers are no finite numbers in {precision}", "such a network answers nothing")
    places = np.linspace(0, len(exact) - 1, min(len(exact), MOST_VALUES)).round().astype(np.int64)
    return AnswerRun(precision, tuple(exact[places].tolist()), length, len(exact))
