"""Learning rates and batches make a grid: each lane once for every cell, named by it."""

from __future__ import annotations

import pytest
from planner_machines import CPU, machine_with, plan_for

from laptime.model.errors import UsageError
from laptime.questions.train.options import FullAsk


def lanes_of(*lanes, **asked):
    plan = plan_for(machine_with(CPU), *lanes, what="pets-densenet", full=FullAsk(**asked))
    return {lane.name: (lane.settings.batch, lane.settings.learning_rate) for lane in plan.lanes}


def test_every_pair_of_rate_and_batch_is_a_lane():
    """The authors of pets-densenet searched so; rates of one batch stand side by side."""
    assert lanes_of("cpu/best", learning_rates=(1e-3, 1e-4), batches=(64, 128)) == {
        "torch/cpu/best+batch=64+lr=0.001": (64, 0.001),
        "torch/cpu/best+batch=64+lr=0.0001": (64, 0.0001),
        "torch/cpu/best+batch=128+lr=0.001": (128, 0.001),
        "torch/cpu/best+batch=128+lr=0.0001": (128, 0.0001),
    }


def test_one_axis_alone_is_a_row():
    assert lanes_of("cpu", learning_rates=(0.5, 2e-5)) == {
        "torch/cpu/lr=0.5": (None, 0.5),
        "torch/cpu/lr=2e-05": (None, 2e-5),
    }
    assert lanes_of("cpu", batches=(8,)) == {"torch/cpu/batch=8": (8, None)}


def test_a_short_race_has_a_lane_for_each_batch():
    """Its speed depends on that; on a learning rate it does not."""
    plan = plan_for(machine_with(CPU), "cpu", "cpu/best", what="pets-densenet", batches=(8, 16))
    assert [lane.name for lane in plan.lanes] == [
        "torch/cpu/batch=8",
        "torch/cpu/batch=16",
        "torch/cpu/best+batch=8",
        "torch/cpu/best+batch=16",
    ]
    with pytest.raises(UsageError, match="--batch 0: expected whole numbers from 1 to 1,000,000"):
        plan_for(machine_with(CPU), "cpu", batches=(0,))


def test_without_a_grid_lanes_stay_as_they_are():
    assert lanes_of("cpu", "cpu/best") == {"torch/cpu/as-written": (None, None), "torch/cpu/best": (None, None)}


def test_a_lane_without_a_name_is_spread_too():
    assert len(lanes_of(learning_rates=(1e-3, 1e-4))) == 4


def test_a_setting_is_not_given_twice():
    with pytest.raises(UsageError, match="--batch: the lane cpu names batch itself"):
        lanes_of("cpu/batch=4", batches=(8, 16))


@pytest.mark.parametrize("value", ["0", "-1", "x", "", "1e", "101", "nan", "1e99"])
def test_a_rate_that_cannot_be_is_refused(value):
    with pytest.raises(UsageError, match=r"lr=.* cannot be|is not a setting"):
        lanes_of(f"cpu/lr={value}")


def test_ones_own_training_has_its_own_rate():
    with pytest.raises(UsageError, match="brings its optimizer with it"):
        plan_for(machine_with(CPU), "cpu/lr=0.1", what="my.py:training")
