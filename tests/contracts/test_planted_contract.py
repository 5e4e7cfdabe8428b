"""The proof across frameworks: honest on each of Keras's engines, and what was changed in one thing is caught.

Started by `test_keras_contract.py`, one engine a process.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace

import numpy as np
import pytest
from rooms_here import HERE, IN_FULL, here

from laptime.analysis.parity import judge_parity
from laptime.engine.backends import open_backend
from laptime.model.hardware import Conv, Dense, Flatten, MaxPool
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.questions.infer.reduce import judge_answers
from laptime.trainings.workloads import find_workload

WORKLOAD = "cifar-cnn"
# Its first, smaller sister: what is planted shows in any network, and a small one is compiled quickly.
SMALL = (Conv(8, 3, padding="same"), MaxPool(), Conv(8, 3), Flatten(), Dense(16, "relu"), Dense(10))
PLAIN = Settings(input="cached")


@pytest.fixture(scope="module", params=[name for name in HERE if name.startswith("keras")])
def backend(request):
    return open_backend(request.param)


@pytest.fixture(scope="module")
def order(backend):
    workload = find_workload(WORKLOAD)
    cpu = next(device for device in backend.devices() if device.name == "cpu")
    lane = PlannedLane(f"{backend.name}/cpu", backend.name, cpu, PLAIN)
    subject = Subject(WORKLOAD, "", workload.parameters, workload.batch, workload.steps_per_lap, 10, "images")
    return HeatOrder(subject, lane, 0, workload.proof, Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.1), 0)


@pytest.fixture(scope="module")
def reference(order):
    """Compute it in PyTorch, as for a race in which PyTorch comes first."""
    pytest.importorskip("torch")
    from laptime.engine.backends.torch.proof import refer
    from laptime.engine.backends.torch.recipe import BuiltInRecipe

    recipe = BuiltInRecipe(order)
    recipe.workload = replace(recipe.workload, layers=SMALL)
    return refer(recipe)


def build(backend, order):
    """Return the small training, and what it is made of."""
    training = backend.build(order)
    recipe = training._work._recipe if order.lane.framework.startswith("keras") else training._recipe
    recipe.workload = replace(recipe.workload, layers=SMALL)
    return training, recipe


def judge(training, reference):
    return judge_parity(PLAIN, [(training.prove("fp32"),)], reference)


def with_first(kind, **changes):
    """Change the first layer of a kind."""

    def change(workload):
        layers = list(workload.layers)
        place = next(place for place, layer in enumerate(layers) if isinstance(layer, kind))
        layers[place] = replace(layers[place], **changes)
        return replace(workload, layers=tuple(layers))

    return change


def with_optimizer(**changes):
    return lambda workload: replace(workload, optimizer=replace(workload.optimizer, **changes))


PLANTED = {
    "learning rate +1 %": with_optimizer(learning_rate=1.01e-3),
    "beta1 0.89": with_optimizer(beta1=0.89),
    "beta2 0.99": with_optimizer(beta2=0.99),
    "epsilon 1e-8 for 1e-7": with_optimizer(epsilon=1e-8),
    "epsilon's other place": with_optimizer(epsilon_placement="after"),
    "another activation": with_first(Conv, activation="relu"),
    "another activation at the end": with_first(Dense, activation="none"),
}


def test_what_is_drawn_is_what_keras_draws_and_tensorflow_is_left_out(backend, monkeypatch):
    """Keras imports TensorFlow to seed it, on each engine; it takes seconds of every process, and has nothing to do."""
    import keras

    from laptime.engine.backends.keras.fit import seed_all

    def drawn():
        return random.random(), np.random.random(), float(keras.random.uniform(()))  # noqa: NPY002

    with monkeypatch.context() as patched:
        if backend.name != "keras-tf":
            patched.delitem(sys.modules, "tensorflow", raising=False)
        seed_all(7)
        assert ("tensorflow" in sys.modules) == (backend.name == "keras-tf")
    ours = drawn()
    keras.utils.set_random_seed(7)
    assert ours == drawn()


def test_an_honest_lane_is_the_same_work_as_pytorchs_reference(backend, order, reference):
    """Far inside what is allowed: a fifth of it in the losses, a half in the movement."""
    found = judge(build(backend, order)[0], reference)
    assert (found.status, found.reason) == ("same", None)
    assert found.worst < found.tolerance / 5
    assert found.moved < 0.5


# On every engine what its own optimizer and laptime's do; networks and the optimizer's other numbers are Keras's own
# lines, the same on each.
OF_EACH_KIND = ("learning rate +1 %", "epsilon's other place")


@pytest.mark.parametrize("what", here([*OF_EACH_KIND], [what for what in PLANTED if what not in OF_EACH_KIND]))
def test_what_was_planted_is_caught(backend, order, reference, what):
    """In the optimizer, where no loss may show it, and in the network."""
    training, recipe = build(backend, order)
    recipe.workload = PLANTED[what](recipe.workload)
    assert judge(training, reference).status == "differs"


@pytest.mark.skipif(HERE != [IN_FULL], reason="batches are cut before an engine sees them")
def test_batches_in_another_order_are_caught(backend, order, reference, monkeypatch):
    training, recipe = build(backend, order)
    first, second, *others = recipe.proof_batches()
    monkeypatch.setattr(recipe, "proof_batches", lambda: [second, first, *others])
    assert judge(training, reference).status == "differs"


@pytest.mark.skipif(HERE != [IN_FULL], reason="batches are cut before an engine sees them")
def test_a_pixel_that_is_not_scaled_is_caught(backend, order, reference, monkeypatch):
    """The middle one is left in 0..255."""
    training, recipe = build(backend, order)
    batches = recipe.proof_batches()
    for images, _ in batches:
        images[:, 16, 16, :] *= 255
    monkeypatch.setattr(recipe, "proof_batches", lambda: batches)
    assert judge(training, reference).status == "differs"


@pytest.fixture(scope="module")
def question(order):
    """Ask cifar-mlp, whose authors' network ends in sigmoids; PyTorch has them in its loss."""
    return replace(order, subject=replace(order.subject, name="cifar-mlp"))


@pytest.fixture(scope="module")
def answers(question):
    """Have PyTorch answer in float64, as for a race in which it comes first."""
    pytest.importorskip("torch")
    from laptime.engine.backends.torch.predictor import TorchPredictor

    return TorchPredictor(question).reference()


@pytest.mark.parametrize("preset", ["as-written", "best"])
def test_what_a_network_answers_is_what_pytorchs_does_and_a_planted_bias_is_caught(backend, question, answers, preset):
    """By `predict`, and by the function below it; one bias among twelve million weights is moved by a hundredth."""
    asked = replace(question, lane=replace(question.lane, settings=replace(PLAIN, preset=preset)))
    predictor = backend.predict(asked)
    predictor.read_items(8)
    honest = judge_answers([(predictor.prove("fp32", 8),)], answers)
    assert (honest.status, honest.worst < honest.tolerance / 2) == ("same", True)
    bias = predictor._model.trainable_variables[-1]
    moved = bias.numpy().copy()
    moved[3] += 0.01
    bias.assign(moved)
    assert judge_answers([(predictor.prove("fp32", 8),)], answers).status == "differs"
