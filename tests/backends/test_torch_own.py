"""A user's own training is taken as it is, from the same start each time, or refused in words."""

from dataclasses import replace
from pathlib import Path

import planted_orders
import pytest
import torch

from laptime.analysis.parity import judge_parity
from laptime.engine.backends.own import call_own, endless
from laptime.engine.backends.torch.backend import TorchTraining
from laptime.engine.backends.torch.recipe import OwnRecipe
from laptime.model.errors import TrainingError
from laptime.model.process import Settings
from laptime.planner.plan import OWN_PROOF

FILE = str(Path(__file__).with_name("own_trainings.py"))


def own(function, **settings):
    return planted_orders.own_order(FILE, function, Settings(**settings))


@pytest.mark.parametrize("function", ["sound", "by_factory", "with_loader", "chancy"])
def test_sound_trainings_step_and_are_proven(function):
    """Built, proven against float64, stepped, with a finite loss."""
    training = TorchTraining(own(function))
    reference = training.reference()
    assert reference.problem is None
    runner = training.start()
    runner.run(1)
    runner.fence()
    assert 0 < runner.loss() < 10


def test_a_step_that_fp16_leaves_out_is_taken_again():
    """Its loss scale begins at 65,536, and halves where a gradient overflows. Such a step is no other work."""
    order = replace(own("by_factory", precision="fp16"), proof=OWN_PROOF)
    training = TorchTraining(order)
    runs = training.prove("fp32"), training.prove("fp16")
    parity = judge_parity(order.lane.settings, [runs], training.reference())
    assert (parity.status, parity.reason) == ("same", None)


def test_parameter_groups_keep_their_rates():
    """The copy's groups point at the copy's weights, with the user's rates, scaled for the proof."""
    recipe = OwnRecipe(own("sound"))
    network = recipe.network()
    optimizer = recipe.optimizer(network, rate=0.5, options={})
    assert [group["lr"] for group in optimizer.param_groups] == [0.005, 0.0005]
    held = {id(each) for group in optimizer.param_groups for each in group["params"]}
    assert held == {id(each) for each in network.parameters()}


def test_fused_is_set_where_the_optimizer_has_it():
    """AdamW has a fused form, and its decoupled decay survives."""
    recipe = OwnRecipe(own("sound"))
    optimizer = recipe.optimizer(recipe.network(), rate=1.0, options={"fused": True})
    assert isinstance(optimizer, torch.optim.AdamW)
    assert [group["fused"] for group in optimizer.param_groups] == [True, True]
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.01, 0.01]


def test_every_network_starts_from_the_same_weights():
    """One run leaves the next one's start alone."""
    recipe = OwnRecipe(own("sound"))
    first = recipe.network()
    with torch.no_grad():
        for each in first.parameters():
            each.zero_()
    assert all(each.abs().sum() > 0 for each in recipe.network().parameters())


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("raises", "raised ValueError: no such data set"),
        ("returns_three", "returned int, not a laptime.Training"),
        ("strangers_optimizer", "parameters that the model does not have"),
        ("absent", "has no function 'absent'"),
        ("forward", "'forward' is defined inside something else"),
        ("iterated_once", "it can be iterated only once"),
    ],
)
def test_unsound_trainings_are_refused_in_words(function, says):
    """What was given, and what was expected."""
    with pytest.raises(TrainingError, match=says):
        TorchTraining(own(function))


def test_data_that_ends_for_good_is_named():
    """The first lap has six batches, the second none."""
    batches = endless(call_own(FILE, "soon_spent").data, "mine")
    for _ in range(6):
        next(batches)
    with pytest.raises(TrainingError, match="no batch in lap 2"):
        next(batches)


@pytest.mark.parametrize("kind", ["published", "cached", "resident", "only"])
def test_inputs_of_a_users_training(kind):
    """Every input that a user's data allows gives steps."""
    runner = TorchTraining(own("with_loader", input=kind)).start()
    for _ in range(10):
        runner.run(1)
    runner.fence()
    assert runner.loss() >= 0
    runner.close()
