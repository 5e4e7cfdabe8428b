"""Trainings of every kind that people have: timed and proven as they are, or refused with what to write instead."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import planted_orders
import pytest
import torch

from laptime.analysis.parity import judge_parity
from laptime.engine.backends.torch.backend import TorchBackend
from laptime.model.errors import LaneError, TrainingError
from laptime.model.process import Settings
from laptime.planner.plan import OWN_PROOF
from laptime.questions.infer.reduce import judge_answers

# What PyTorch says of itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.script_method. is deprecated:DeprecationWarning"),
]
MODEL_FILE, STEP_FILE, REFUSED_FILE = (
    str(Path(__file__).with_name(name)) for name in ("own_kinds.py", "own_step_kinds.py", "own_refusals.py")
)
AS_WRITTEN = Settings()
BEST = Settings(preset="best", layout="channels_last", optimizer="fused")

MODELS = [
    "dict_and_output",
    "dict_and_loss_alone",
    "dict_and_tuple",
    "dict_and_dict",
    "pair_and_attribute",
    "three_and_logits",
    "named_three",
    "dict_and_given_loss",
    "one_tensor",
    "one_in_a_list",
    "one_dataclass",
    "one_object",
    "one_that_moves",
    "made_for_each_lap",
    "made_without_end",
    "lbfgs",
    "lbfgs_that_searches",
    "sparse",
    "sparse_rows",
    "weighted_loss",
    "wrapped_optimizer",
    "compiled",
]
STEPS = ["gan", "accumulated", "scaled", "lbfgs_in_a_step"]


REFUSED_WHEN_BUILT = [
    ("a_trainer", "a_trainer returned Trainer, not a laptime.Training", "data=trainer.get_train_dataloader()"),
    ("a_model", "returned Sequential, not a laptime.Training: its data and its optimizer", "optimizer=..., data"),
    ("model_and_data", "returned tuple, not a laptime.Training", "name each part: return laptime.Training(model="),
    ("a_generator", "data is generator: it can be iterated only once", "as data=make_batches and not"),
    ("a_data_set", "data is Items, a data set of single items", "DataLoader(data, batch_size=32)"),
    ("no_data", "gives no data", "a function that makes a generator"),
    ("makes_no_batches", "data is a function, and it returned int", "return a generator or a list"),
    (
        "too_many_parts",
        "it is called as model(a tensor of (12, 8), a tensor of (12,)), and",
        "a tuple gives model(",
    ),
    ("unknown_key", "called as model(inputs=..., labels=..., index=...), and the model's", "a dict model(**batch)"),
    ("loss_class", "loss is the class CrossEntropyLoss", "CrossEntropyLoss()"),
    ("two_optimizers", "optimizer is a list, expected one optimizer", "into a step of your own"),
    ("a_schedule", "optimizer is ExponentialLR, a schedule of learning rates", "give its optimizer; or put it"),
    ("compiled_in_place", "compiled in place, by its method compile()", "give torch.compile(model)"),
    ("step_of_a_batch", "step cannot be called as step(state, batch)", "returns (new state, loss)"),
]
REFUSED_WHEN_STEPPED = [
    ("no_loss_anywhere", "its model returned a tensor of (12, 3): expected its loss", "or give loss="),
    ("loss_of_many", "loss returned a tensor of (12,), expected a tensor of one number", "such as its mean"),
]
REFUSED = {function for function, *_ in (*REFUSED_WHEN_BUILT, *REFUSED_WHEN_STEPPED)}


def order_for(function, settings=AS_WRITTEN):
    file = STEP_FILE if function in STEPS else REFUSED_FILE if function in REFUSED else MODEL_FILE
    return replace(planted_orders.own_order(file, function, settings), proof=OWN_PROOF)


def built(function, settings=AS_WRITTEN):
    return TorchBackend().build(order_for(function, settings))


def stepped(training):
    """Return the loss after some steps, with the items of a step."""
    runner = training.start()
    runner.run(3)
    runner.fence()
    loss = runner.loss()
    runner.close()
    return loss


@pytest.mark.parametrize("function", [*MODELS, *STEPS])
def test_it_is_timed_and_proven(function):
    """As written, and with all that a lane can set."""
    reference = built(function).reference()
    for settings in (AS_WRITTEN, BEST):
        training = built(function, settings)
        parity = judge_parity(settings, [(training.prove("fp32"),)], reference)
        assert (parity.status, parity.reason) == ("same", None)
        assert 0 < stepped(training) < 10
        assert training.items_per_step == 12


@pytest.mark.parametrize("function", ["dict_and_output", "three_and_logits", "one_object", "pair_and_attribute"])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_it_is_timed_in_low_precision(function, precision):
    """With the loss in float32."""
    training = built(function, Settings(precision=precision))
    assert 0 < stepped(training) < 10


@pytest.mark.parametrize("function", ["dict_and_output", "dict_and_dict", "weighted_loss", "one_dataclass"])
def test_its_lane_compiles_it(function, monkeypatch):
    """The model and its loss, by a compiler that only traces, and needs no other one on this machine."""
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager", fullgraph=True))
    assert 0 < stepped(built(function, Settings(execution="compile"))) < 10


@pytest.mark.parametrize("function", ["dict_and_output", "three_and_logits", "one_dataclass", "lbfgs"])
def test_it_is_trained_whole(function):
    """With a score over all items: the first loss of a step counts."""
    learner = built(function).learn()
    learner.begin(0, None)
    learner.run(3)
    learner.fence()
    score = learner.score()
    assert score.items == 36
    assert 0 < score.loss < 2


@pytest.mark.parametrize("function", ["dict_and_output", "three_and_logits", "one_tensor", "one_dataclass"])
def test_its_model_answers(function):
    """In batches of its own items, proven."""
    predictor = TorchBackend().predict(order_for(function))
    reference = predictor.reference()
    (size,) = predictor.sizes((8,))
    predictor.take(size)
    predictor.call()
    predictor.fence()
    assert judge_answers([(predictor.prove("fp32", size),)], reference).status == "same"


@pytest.mark.parametrize("function", ["dict_and_output", "named_three", "one_tensor"])
def test_its_batches_are_joined(function):
    training = built(function, Settings(joined=2))
    assert (training.items_per_step, training.steps_per_lap) == (24, 3)
    assert 0 < stepped(training) < 10


def test_sparse_tensors_are_not_joined():
    """One below the other, two graphs are none."""
    with pytest.raises(TrainingError, match="cannot be joined: they hold sparse tensors"):
        stepped(built("sparse", Settings(joined=2)))


@pytest.mark.parametrize(("function", "says", "hint"), REFUSED_WHEN_BUILT)
def test_what_cannot_be_run_is_refused_when_it_is_built(function, says, hint):
    """With what was given, and what to write instead."""
    with pytest.raises(TrainingError) as caught:
        built(function)
    assert says in caught.value.says
    assert hint in caught.value.hint


@pytest.mark.parametrize(("function", "says", "hint"), REFUSED_WHEN_STEPPED)
def test_what_is_no_loss_is_refused_in_its_first_step(function, says, hint):
    with pytest.raises(TrainingError) as caught:
        built(function).prove("fp32")
    assert says in caught.value.says
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("function", "settings", "says"),
    [
        ("lbfgs", Settings(precision="fp16"), "fp16: its optimizer computes the loss several times a step"),
        ("gan", Settings(precision="bf16"), "bf16: a step of your own has the precision that its code gives it"),
        ("gan", Settings(execution="compile"), "compile: a step of your own has the execution that its code gives it"),
        ("dict_and_output", Settings(execution="graph"), "takes batches of two tensors, this training's are dict"),
    ],
)
def test_what_a_lane_cannot_set_is_refused(function, settings, says):
    with pytest.raises(LaneError, match=says):
        built(function, settings).start()


def test_a_step_leaves_layout_and_optimizer_to_its_code():
    """A note names them."""
    assert built("gan", BEST).notes == (
        "channels_last and fused: up to the code of a step of your own, and not set here",
    )


@pytest.mark.parametrize("kind", ["cached", "resident", "one", "only"])
def test_inputs_of_a_step(kind):
    """Each that a lane can set."""
    assert stepped(built("accumulated", Settings(input=kind))) >= 0


def test_batches_of_a_step_are_joined():
    training = built("accumulated", Settings(joined=2))
    assert (training.items_per_step, training.steps_per_lap) == (24, 3)
    assert stepped(training) > 0


def test_a_step_is_taken_apart():
    """Into its wait for a batch and the rest, with what it reads."""
    runner = built("scaled").start()
    parts = runner.parts()
    parts.compute(parts.move(parts.fetch()))
    symptoms = parts.look(2, 1)
    assert symptoms.reads >= 1


def test_a_step_counts_its_parameters_and_its_work():
    """Of both models."""
    training = built("gan")
    assert training.parameters == 4 * 8 + 8 + 8 * 16 + 16 + 16 + 1
    assert training.work().flops > 0
    with pytest.raises(LaneError, match="a step function is timed"):
        training.learn()
    with pytest.raises(LaneError, match="a step of your own gives no answers"):
        TorchBackend().predict(order_for("gan"))


def test_a_lap_is_what_the_data_say():
    """A function that makes batches has no length."""
    assert built("dict_and_output").steps_per_lap == 6
    assert built("made_for_each_lap").steps_per_lap is None


def test_every_run_of_a_step_begins_alike():
    """One run leaves the next one alone."""
    training = built("accumulated")
    assert stepped(training) == stepped(training)
