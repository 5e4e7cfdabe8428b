"""Steps of some microseconds: a turn has a hundred thousand of them, and is not taken again step by step."""

from __future__ import annotations

import pytest

TRAINING = """
import numpy as np
import laptime


def training():
    def step(state, batch):
        return state * 0.999, float(state.sum())

    return laptime.Training(step=step, state=np.ones(2_000), data=[0.0] * 8)
"""


@pytest.mark.long
def test_a_race_of_short_steps_keeps_its_budget(house):
    """It went on for minutes, whatever its budget was."""
    for name in ("base", "other"):
        (house.folder / f"{name}.py").write_text(TRAINING)
    record = house.raced("base.py:training", "other.py:training", "python/cpu", "--heats", "2", "--budget", "5s")
    (comparison,) = record["answer"]["comparisons"]
    assert comparison["same_work"] is True
    assert max(heat["heat"]["windows"][0]["steps"] for lane in record["lanes"] for heat in lane["heats"]) > 20_000
    assert record["elapsed_s"] < 60
