"""Loaders of PyTorch in a heat: one that works in bursts, and one whose worker dies."""

from __future__ import annotations

from dataclasses import replace
from importlib import util
from pathlib import Path

import pytest
from heat_orders import environment_for
from planted_orders import own_order

from laptime.analysis.heats import summarise_heat
from laptime.engine.run.child import Child
from laptime.engine.run.runner import HeatRunner, Limits, Started
from laptime.model.plan import Pace
from laptime.model.process import Settings

FILE = str(Path(__file__).parents[1] / "backends" / "own_counterfactuals.py")
PACE = Pace(1, 1, adaptive=False, measure_s=1.2, window_s=0.12)

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="its lanes are PyTorch's"),
]


def run(folder, function, **settings):
    order = own_order(FILE, function, Settings(**settings))
    order = replace(order, lane=replace(order.lane, environment=environment_for(folder)), pace=PACE)
    return HeatRunner(order, Limits(), 2, lambda _: None).run(Started(Child(order.lane.environment)), 0)


def test_a_worker_that_dies_ends_its_own_heat(tmp_path):
    """In words."""
    reason = run(tmp_path, "dying", workers=1).process.dnf.reason
    # PyTorch hears of the death by a signal, which may come while a step computes.
    assert "DataLoader worker" in reason
    assert "exited unexpectedly" in reason


@pytest.mark.long
def test_a_loader_that_works_in_bursts_is_timed_by_its_pace(tmp_path):
    """Most steps get their batch for nothing, and one in six waits for all of them; no median shows that."""
    result = summarise_heat(run(tmp_path, "in_bursts"))
    heat = result.heat
    assert heat.burst == 12
    assert all(window.steps >= 12 for window in heat.windows)
    assert 50 < result.step_ms < 80
    assert [note for note in heat.process.notes if "12 batches at once" in note]
