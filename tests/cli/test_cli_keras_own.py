"""Keras models of your own, by the command that users type; the example that the README names."""

from __future__ import annotations

from pathlib import Path

import pytest

from laptime.engine.run.answers import TrainingRunner
from laptime.engine.run.runner import Limits
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.protocol import FullOrder, Protocol
from laptime.planner.plan import OWN_PROOF

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "keras_training.py"


def test_a_compiled_model_is_trained_whole(tmp_path):
    """Lap by lap, in a process of its own; it has no test. tests/cli/test_cli_keras.py has the command.

    A race of such a model is in tests/library/test_library_notebook.py.
    """
    subject = Subject("training", "", None, None, None, None, "items", file=str(EXAMPLE), function="training")
    lane = PlannedLane("keras-torch/cpu", "keras-torch", Device("cpu", "cpu", "processor", usable=True), Settings())
    heat = HeatOrder(subject, lane, 0, OWN_PROOF, Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.1))
    order = FullOrder(heat, Protocol(2, None), str(tmp_path / "lane.npz"))
    runner = TrainingRunner(order, Limits(), tell=lambda _: None, keep=lambda: None, check=lambda _: None)
    assert runner.run() is None
    run = runner.training_run("ok", None)
    assert (len(run.laps), run.test, len(run.proofs)) == (2, None, 1)
    assert run.laps[1].score.accuracy > run.laps[0].score.accuracy > 0.5
