"""A step function of a user's is run from the same start each time, and proven, or refused in words.

It needs a process of its own, which `test_jax_contract.py` gives it: JAX has threads, and a process with threads is not
to be forked.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import own_trainings
import pytest
from planted_orders import PACE
from rooms_here import HERE

from laptime.analysis.parity import judge_parity
from laptime.errors import LaneError, TrainingError
from laptime.model.lane import Settings
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, PlannedLane, Subject
from laptime.model.workload import ProofPlan

if "jax" not in HERE:
    pytest.skip("test_jax_contract.py runs it", allow_module_level=True)

import jax

from laptime.backends.jax.backend import JaxBackend
from laptime.backends.torch.backend import TorchTraining

FILE = str(Path(__file__).with_name("own_steps.py"))
CPU = Device("cpu", "cpu", "the processor", usable=True)


@pytest.fixture(autouse=True)
def config():
    """Leave JAX as it was: a proof in float64 is the last thing that its process does."""
    yield
    jax.config.update("jax_enable_x64", False)
    jax.config.update("jax_default_matmul_precision", None)
    jax.config.update("jax_default_device", None)


def order(function, file=FILE, **settings):
    subject = Subject(function, "", None, None, None, None, "items", file=file, function=function)
    lane = PlannedLane("jax/cpu/test", "jax", CPU, Settings(**settings))
    return HeatOrder(subject, lane, 0, ProofPlan(steps=5), PACE)


def build(function, **settings):
    return JaxBackend().build(order(function, **settings))


def judge(function, reference_of="sound"):
    runs = (build(function).prove("fp32"),)
    return judge_parity(Settings(), [runs], build(reference_of).reference())


@pytest.mark.parametrize("kind", ["published", "cached", "resident"])
def test_a_step_is_run_and_fenced(kind):
    """From a state that the step may use up; the user's fence is asked too."""
    training = build("sound", input=kind)
    fenced = training._steps._fence.__globals__["FENCED"]
    fenced.clear()
    assert (training.items_per_step, training.steps_per_lap, training.parameters) == (32, 6, 0)
    for _ in range(2):
        runner = training.start()
        runner.run(9)
        runner.fence()
        assert 0 < runner.loss() < 10
        assert runner.step_ns(runner.run_marked(1)) == ()
        assert int(runner._state["steps"]) == 10
        assert runner.close() == ()
    assert fenced == [9, 9]


def test_a_sound_step_is_proven():
    """Against float64, within what rounding does."""
    parity = judge("sound")
    assert (parity.status, parity.steps) == ("same", 5)
    assert parity.worst < parity.tolerance / 2


def test_another_rate_is_other_work():
    parity = judge("other_rate")
    assert parity.status == "differs"
    assert "its loss differs" in parity.reason


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("draws", "it draws random numbers that are not in its state"),
        ("casts", "it cannot run in float64: LaneError: its step casts to float32 by itself"),
        ("with_key", "in float64 it goes another way than in float32, as random draws do"),
        ("no_floats", "its state holds no arrays of floats to compare"),
    ],
)
def test_what_cannot_be_proven_says_why(function, says):
    """It is timed all the same."""
    assert build(function).reference().problem == says
    runner = build(function).start()
    runner.run(2)
    runner.fence()
    assert np.isfinite(runner.loss())


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("gives_one", "step returned dict, expected a pair (state, loss)"),
        ("many_losses", "the loss has 256 numbers, expected one"),
        ("step_and_model", "gives a step and a model"),
        ("no_function", "step is int, not a function of (state, batch)"),
        ("fence_is_none", "fence is int, not a function of the state"),
        ("empty", "data gave no batch at all: it is empty"),
    ],
)
def test_what_is_no_step_is_refused_in_words(function, says):
    with pytest.raises(TrainingError) as caught:
        build(function).prove("fp32")
    assert says in caught.value.says


def test_a_step_is_no_work_for_pytorch_and_a_model_none_for_jax():
    """Each says which lanes are meant."""
    with pytest.raises(TrainingError, match="which JAX lanes run"):
        TorchTraining(order("sound"))
    with pytest.raises(TrainingError, match="gives a model, and JAX lanes take a step"):
        JaxBackend().build(order("sound", file=own_trainings.__file__))


def test_whole_trainings_and_answers_are_not_there_yet():
    with pytest.raises(LaneError, match="a step function is timed, and not trained whole"):
        build("sound").learn()
    with pytest.raises(LaneError, match="a step of your own gives no answers"):
        JaxBackend().predict(order("sound"))


def test_it_says_what_there_is():
    backend = JaxBackend()
    assert list(backend.versions()) == ["jax", "jaxlib"]
    cpu, *cards = backend.devices()
    assert (cpu.name, cpu.usable) == ("cpu", True)
    assert all(card.usable or card.reason for card in cards)
    assert backend.clock() < backend.clock()
