"""A runner reports what its timed steps did: updates of the weights, the rate, and a late step of the proof."""

from __future__ import annotations

from pathlib import Path

import planted_orders
import pytest
import torch

from laptime.analysis.parity import judge_parity
from laptime.engine.backends.torch.backend import TorchTraining
from laptime.engine.backends.torch.own_steps import TorchStepTraining
from laptime.engine.backends.torch.recipe import open_recipe
from laptime.engine.backends.torch.stepping import Stepper
from laptime.engine.heat.work import CountedRunner
from laptime.model.errors import TrainingError
from laptime.model.process import Settings

FILE = str(Path(__file__).with_name("own_plants.py"))
ALIKE = pytest.approx(1.0)


def own(function, **settings):
    return planted_orders.own_order(FILE, function, Settings(**settings))


def timed(function, **settings):
    """Run four windows of three steps after a first step; return what each changed, and the late step."""
    runner = CountedRunner(TorchTraining(own(function, **settings)).start())
    runner.run(1)
    windows = []
    for _ in range(4):
        before = runner.updates()
        runner.run_marked(3)
        windows.append(runner.compare_updates(before, 3))
    return windows, runner.take_late_step()


@pytest.fixture(scope="module")
def honest():
    return timed("honest")


def test_an_honest_training_changes_its_weights_in_each_step(honest):
    windows, late = honest
    assert windows == [(ALIKE, ALIKE)] * 4
    assert late.precision == "fp32"
    assert len(late.moves) == 6


@pytest.mark.parametrize("settings", [{"optimizer": "fused"}, {"precision": "bf16"}])
def test_other_kernels_change_them_as_often(settings, honest):
    """A fused optimizer changes weights without counting it, but counts its steps."""
    windows, late = timed("honest", **settings)
    assert windows == honest[0]
    assert late is not None


def test_steps_that_are_left_out_show_in_their_windows():
    windows, _ = timed("skips")
    assert [updates for updates, _ in windows] == [pytest.approx(2 / 3)] * 4


def test_another_rate_shows_from_its_step_on():
    windows, _ = timed("slows")
    assert [rate for _, rate in windows] == [ALIKE, pytest.approx(0.1), pytest.approx(0.1), pytest.approx(0.1)]


@pytest.mark.parametrize("function", ["shrinks", "part_of_the_loss"])
def test_what_does_less_once_it_was_proven_shows_it_put_back_to_its_start(function, honest):
    _, late = timed(function)
    assert late.loss != pytest.approx(honest[1].loss, rel=1e-3)


def test_a_late_step_is_the_same_however_many_steps_were_timed(honest):
    """The weights, the batch, the optimizer and the random numbers are those of the start."""
    runner = TorchTraining(own("honest")).start()
    runner.run(40)
    late = runner.take_late_step()
    assert late.loss == pytest.approx(honest[1].loss, rel=1e-6)
    assert late.moves == pytest.approx(honest[1].moves, rel=1e-6)


def test_a_step_of_your_own_that_counts_its_calls_shows_it():
    order = own("a_step")
    training = TorchStepTraining(order, open_recipe(order))
    runner = CountedRunner(training.start())
    runner.run(1)
    early = runner.take_late_step()
    runner.run(40)
    assert any(early.moves)
    assert not any(runner.take_late_step().moves)


def test_what_a_loss_holds_in_float32_is_held_in_float64_by_its_reference():
    reference = TorchTraining(own("weighs_by_a_lambda")).reference()
    assert reference.problem is None
    assert reference.exact.losses != reference.twin.losses


def test_a_model_in_float64_is_the_same_work_in_float32():
    """`numbers=single` casts its weights and its batches, and only rounding differs."""
    order = own("in_float64", extra={"numbers": "single"})
    training = TorchTraining(order)
    parity = judge_parity(
        order.lane.settings, [(training.prove("fp32"),)], TorchTraining(own("in_float64")).reference()
    )
    assert (parity.status, parity.reason) == ("same", None)
    runner = training.start()
    runner.run(2)
    assert {each.dtype for each in runner.looked_into.network.parameters()} == {torch.float32}
    assert runner.census().types == ("float32",)


def test_the_step_that_is_timed_computes_what_the_proven_one_does():
    """Equal to the last bit, in losses and in weights."""
    recipe = open_recipe(own("honest"))
    proven, alike = (Stepper(recipe, Settings(), torch.device("cpu")) for _ in range(2))
    timed_step = alike.as_timed()
    batches = [batch for _, batch in zip(range(5), recipe.training.data, strict=False)]
    torch.manual_seed(0)
    expected = [proven(batch).item() for batch in batches]
    torch.manual_seed(0)
    assert [timed_step(batch).item() for batch in batches] == expected
    assert timed_step is not alike
    for mine, theirs in zip(alike.network.parameters(), proven.network.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_loss_of_several_numbers_is_refused_in_the_step_that_is_timed():
    recipe = open_recipe(own("honest"))
    recipe.loss.given = lambda outputs, _targets: outputs
    step = Stepper(recipe, Settings(), torch.device("cpu")).as_timed()
    with pytest.raises(TrainingError, match="expected a tensor of one number"):
        step(recipe.first_batch())


@pytest.mark.parametrize("settings", [{}, {"reads": "deferred"}])
def test_the_batch_of_the_last_marked_step_is_seen(settings):
    """By it a verdict knows that the batches of the timed steps are those of the base."""
    runner = TorchTraining(own("honest", **settings)).start()
    runner.run_marked(3)
    assert runner.take_seen().items == 16
    runner.close()
