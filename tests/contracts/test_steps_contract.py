"""A step function of a user's is run from the same start each time, and proven, or refused in words.

Each room that runs such steps needs a process of its own, which `test_steps_rooms.py` gives it: JAX has threads, and a
process with threads is not to be forked.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import own_trainings
import pytest
from planted_orders import PACE
from rooms_here import HERE, STEP_ROOMS

from laptime.analysis.parity import judge_parity
from laptime.engine.backends import open_backend
from laptime.engine.heat.work import break_down_steps
from laptime.model.errors import LaneError, TrainingError
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.quantities import Missing
from laptime.model.workload import ProofPlan

if len(HERE) != 1 or HERE[0] not in STEP_ROOMS:
    pytest.skip("test_steps_rooms.py runs it", allow_module_level=True)

ROOM = HERE[0]
LANES = {"jax": "JAX", "python": "python"}[ROOM]
FILE = str(Path(__file__).with_name({"jax": "own_jax_steps.py", "python": "own_plain_steps.py"}[ROOM]))
VERSIONS = {"jax": ["jax", "jaxlib"], "python": ["python", "numpy"]}
INPUTS = {"jax": ["published", "cached", "resident", "one"], "python": ["published", "cached", "one"]}
CPU = Device("cpu", "cpu", "the processor", usable=True)


@pytest.fixture(autouse=True)
def config():
    """Leave JAX as it was: a proof in float64 is the last thing that its process does."""
    yield
    if ROOM == "jax":
        import jax

        jax.config.update("jax_enable_x64", False)
        jax.config.update("jax_default_matmul_precision", None)
        jax.config.update("jax_default_device", None)


def order(function, file=FILE, **settings):
    subject = Subject(function, "", None, None, None, None, "items", file=file, function=function)
    lane = PlannedLane(f"{ROOM}/cpu/test", ROOM, CPU, Settings(**settings))
    return HeatOrder(subject, lane, 0, ProofPlan(steps=5), PACE)


def build(function, **settings):
    return open_backend(ROOM).build(order(function, **settings))


def judge(function, reference_of="sound"):
    runs = (build(function).prove("fp32"),)
    return judge_parity(Settings(), [runs], build(reference_of).reference())


@pytest.mark.parametrize("kind", INPUTS[ROOM])
def test_a_step_is_run_and_fenced(kind):
    """From a state that the step may use up; the user's fence is asked too."""
    training = build("sound", input=kind)
    fenced = training._steps.own.fence.__globals__["FENCED"]
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


def test_weights_from_the_global_generator_are_the_same_in_each_process():
    """Each process seeds it alike before it calls the user's function."""
    np.random.seed(99)  # noqa: NPY002  what another process would find there
    assert judge("global_weights", "global_weights").status == "same"


def test_numbers_that_are_drawn_from_the_state():
    """JAX's from a key are the same in float64; a generator of NumPy's draws others there."""
    parity = judge("with_key", "with_key")
    if ROOM == "jax":
        assert (parity.status, parity.reason) == ("same", None)
    else:
        assert parity.reason == "in float64 it goes another way than in float32, as random draws do"


def test_another_rate_is_other_work():
    parity = judge("other_rate")
    assert parity.status == "differs"
    assert "its loss differs" in parity.reason


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("draws", "it draws random numbers, or keeps something, that is not in its state"),
        ("casts", "it cannot run in float64: LaneError: its step casts to float32 on its own"),
        ("no_floats", "its state holds no arrays of floats to compare, in dicts, lists, tuples or dataclasses"),
        ("elsewhere", "its steps leave its state as it was: what they train is not in it"),
        ("coarse", "off float64's: it computes in less than float32 on its own"),
    ],
)
def test_what_cannot_be_proven_says_why(function, says):
    """It is timed all the same."""
    assert build(function).reference().problem.endswith(says)
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


def test_a_state_may_not_change_its_arrays():
    with pytest.raises(LaneError, match="its step gives a state of other arrays than it was given"):
        build("other_arrays").prove("fp32")


def test_steps_of_others_are_no_work_for_pytorch_and_a_model_none_for_steps():
    """Each says which lanes are meant."""
    with pytest.raises(TrainingError, match="and nothing of PyTorch's") as caught:
        open_backend("torch").build(order("sound"))
    assert caught.value.hint.startswith("race it on jax or python lanes")
    with pytest.raises(TrainingError, match=f"gives a model, and {LANES} lanes take a step"):
        open_backend(ROOM).build(order("sound", file=own_trainings.__file__))


def test_the_data_are_walked_through_without_a_step():
    """The loader alone: no state is touched, and there is no loss."""
    training = build("sound", input="only")
    runner = training.start()
    runner.run(20)
    runner.fence()
    assert (runner.loss(), runner.evaluator, runner.close()) == (0.0, None, ())
    assert isinstance(runner.parts(), Missing)


def test_one_batch_is_given_again_and_again():
    runner = build("two_lengths", input="one").start()
    runner.run(3)
    signs = break_down_steps(time.perf_counter_ns, runner.fence, runner.parts())
    assert signs.shapes == 1


def test_a_step_is_taken_apart():
    """Into the wait for its batch and the step; a new shape is compiled for, where laptime hears of it."""
    runner = build("two_lengths").start()
    apart = runner.parts()
    signs = break_down_steps(time.perf_counter_ns, runner.fence, apart)
    assert 3 <= signs.steps <= 50
    assert signs.shapes == 2
    assert isinstance(signs.copy_ns, Missing)
    assert signs.compiles >= 2 if ROOM == "jax" else isinstance(signs.compiles, Missing)
    again = break_down_steps(time.perf_counter_ns, runner.fence, runner.parts())
    assert again.compiles == 0 if ROOM == "jax" else isinstance(again.compiles, Missing)
    # Another process may hold one part up for milliseconds, where a step takes 50 us: each by its shorter time.
    assert 0 < min(signs.wait_ns, again.wait_ns) < min(signs.compute_ns, again.compute_ns)


def test_whole_trainings_and_answers_are_not_there_yet():
    with pytest.raises(LaneError, match="a step function is timed, and not trained whole"):
        build("sound").learn()
    with pytest.raises(LaneError, match="a step of your own gives no answers"):
        open_backend(ROOM).predict(order("sound"))


def test_it_says_what_there_is():
    backend = open_backend(ROOM)
    assert list(backend.versions())[:2] == VERSIONS[ROOM]
    cpu, *cards = backend.devices()
    assert (cpu.name, cpu.usable) == ("cpu", True)
    assert all(card.usable or card.reason for card in cards)
    assert backend.clock() < backend.clock()
