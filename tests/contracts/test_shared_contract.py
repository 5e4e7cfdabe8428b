"""Two devices share each step in one process: what they compute is proven as it runs, and all their items are counted.

Each framework needs a process of its own, in which the processor is two devices: `test_keras_contract.py` and
`test_steps_rooms.py` give it that.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from planted_orders import PACE
from rooms_here import HERE, SHARING_ROOMS

from laptime.analysis.parity import judge_parity
from laptime.engine.backends import open_backend
from laptime.model.errors import LaneError
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.quantities import Missing
from laptime.planner.plan import OWN_PROOF
from laptime.trainings.workloads import CATALOGUE, find_workload

if len(HERE) != 1 or HERE[0] not in SHARING_ROOMS:
    pytest.skip("test_keras_contract.py and test_steps_rooms.py run it", allow_module_level=True)

ROOM = HERE[0]
IS_KERAS = ROOM.startswith("keras")
FILE = str(Path(__file__).with_name("own_keras.py" if IS_KERAS else "own_jax_steps.py"))
CPU = Device("cpu", "cpu", "the processor", usable=True)
WEAK = {"extra": {"scaling": "weak"}}
PROOF = replace(OWN_PROOF, steps=2)  # each is a call of `fit` on TensorFlow, of half a second
BACKEND = open_backend(ROOM)
if ROOM == "keras-tf":  # before it computes anything, in whatever order tests are run
    BACKEND._engine.share_out(["cpu", "cpu"])
keras_only = pytest.mark.skipif(not IS_KERAS, reason="it is about models")
jax_only = pytest.mark.skipif(IS_KERAS, reason="it is about step functions")


@pytest.fixture(autouse=True)
def config():
    yield
    leave_jax_as_it_was()


def leave_jax_as_it_was():
    """A proof in float64 is the last thing that a process of JAX's does."""
    if ROOM == "jax":
        import jax

        jax.config.update("jax_enable_x64", False)
        jax.config.update("jax_default_matmul_precision", None)
        jax.config.update("jax_default_device", None)


def build(function, devices=2, **settings):
    subject = Subject(function, "", None, None, None, None, "items", file=FILE, function=function)
    lane = PlannedLane(f"{ROOM}/{devices}xcpu/test", ROOM, CPU, Settings(**settings), devices=(CPU,) * devices)
    return BACKEND.build(HeatOrder(subject, lane, 0, PROOF, PACE))


def judge(runs, reference):
    leave_jax_as_it_was()
    return [judge_parity(Settings(), [(run,)], reference).status for run in runs]


def step(training, steps=9):
    """Step a training, and return its last loss."""
    runner = training.start()
    runner.run(steps)
    runner.fence()
    loss = runner.loss()
    runner.close()
    return loss


@jax_only
def test_a_step_of_ones_own_is_shared_out_in_jax():
    """Each device has the weights and its part of each batch, in the proof and while it is timed."""
    strong, weak = build("sound"), build("sound", **WEAK)
    assert (strong.items_per_step, strong.steps_per_lap) == (32, 6)
    assert (weak.items_per_step, weak.steps_per_lap) == (64, 3)
    runs = [each.prove("fp32") for each in (strong, weak, build("sound", input="resident"))]
    keyed, other = build("with_key").prove("fp32"), build("other_rate").prove("fp32")
    assert all(0 < step(each) < 10 for each in (strong, weak, build("sound", input="resident", **WEAK)))
    assert 0 <= step(build("sound", input="only", **WEAK)) < 1
    assert judge([*runs, other], build("sound", 0).reference()) == ["same"] * 3 + ["differs"]
    assert judge([keyed], build("with_key", 0).reference()) == ["same"]


@jax_only
def test_each_device_is_given_its_part_in_jax():
    for settings, part in (({}, 16), ({"input": "resident"}, 16), (WEAK, 32)):
        training = build("noted", **settings)
        noted = training._steps.own.fence.__globals__["NOTED"]
        training.prove("fp32")
        assert noted == [([16, 16], 2)] * 2
        step(training, 2)
        assert noted[2:] == [([part, part], 2)] * 2


@jax_only
def test_what_cannot_be_shared_out_is_refused_in_words():
    with pytest.raises(LaneError, match="a batch of 31 cannot be shared out to 2 devices"):
        build("all_odd")
    with pytest.raises(LaneError, match="a batch of 31 cannot be shared out to 2 devices"):
        step(build("odd"))
    with pytest.raises(LaneError, match=r"a batch holds float of shape \(\), expected a row for each of 32 items"):
        build("with_a_number", **WEAK)
    assert 0 < step(build("with_a_number")) < 10
    with pytest.raises(LaneError, match="JAX makes 2 of the processor, expected 3 devices"):
        build("sound", 3)


@keras_only
def test_a_model_of_ones_own_is_shared_out():
    """In the proof too, as `fit` does it: where batch norm sees the parts alone, that is noticed, and said."""
    strong, weak = build("arrays"), build("arrays", **WEAK)
    assert (strong.items_per_step, strong.steps_per_lap) == (48, 4)
    assert (weak.items_per_step, weak.steps_per_lap) == (96, 2)
    held = strong._work._own.model.trainable_variables[0].value
    assert len(held.sharding.device_set if ROOM == "keras-jax" else held.values) == 2
    run, normed, alone = (each.prove("fp32") for each in (strong, build("normed"), build("normed", 0)))
    runner = weak.start()
    runner.run(9)
    assert 0 < runner.loss() < 10
    assert (runner.evaluator, type(runner.parts())) == (None, Missing)
    runner.close()
    assert judge([run], build("arrays", 0).reference()) == ["same"]
    off = abs(normed.losses[-1] / alone.losses[-1] - 1)
    if ROOM == "keras-jax":
        assert (normed.problem, off < 1e-5) == (None, True)
    else:
        assert normed.problem.startswith("its batch norm sees each device's part of a batch alone")
        assert off > 1e-4


@keras_only
@pytest.mark.skipif(ROOM == "keras-tf", reason="Keras cuts batches alike for each engine, and TensorFlow traces slowly")
def test_batches_of_each_kind_are_shared_out():
    """Lists are joined, kept batches too, and several steps are taken at once."""
    lists = build("batches", **WEAK)
    assert (lists.items_per_step, lists.steps_per_lap) == (64, 3)
    run = lists.prove("fp32")
    others = [build("arrays", input="resident", **WEAK), build("four_at_once"), build("py_dataset")]
    assert all(0 < step(each) < 10 for each in (lists, *others))
    assert step(build("batches", input="only", **WEAK)) == 0
    assert judge([run], build("batches", 0).reference()) == ["same"]


@keras_only
def test_a_training_of_ours_is_shared_out(monkeypatch):
    workload = find_workload("cifar-mlp")
    layers = tuple(replace(each, units=30) if each == workload.layers[1] else each for each in workload.layers)
    monkeypatch.setitem(CATALOGUE, "cifar-mlp", replace(workload, layers=layers))
    subject = Subject("cifar-mlp", "", None, workload.batch, workload.steps_per_lap, 10, "images")

    def ours(devices, **settings):
        lane = PlannedLane(f"{ROOM}/shared", ROOM, CPU, Settings(batch=8, **settings), devices=(CPU,) * devices)
        return BACKEND.build(HeatOrder(subject, lane, 0, replace(workload.proof, steps=3, batch=8), PACE))

    strong, weak = ours(2), ours(2, **WEAK)
    assert (strong.items_per_step, weak.items_per_step) == (8, 16)
    assert weak.steps_per_lap == round(strong.steps_per_lap / 2)
    run = strong.prove("fp32")
    assert 0 < step(weak) < 10
    assert judge([run], ours(0).reference()) == ["same"]


@keras_only
def test_what_keras_cannot_share_out_is_refused_in_words():
    for settings, items in (({}, 47), (WEAK, 95)):
        with pytest.raises(LaneError, match=f"a batch of {items} cannot be shared out to 2 devices"):
            build("odd_at_the_end", **settings)
    with pytest.raises(LaneError, match="the data of py_dataset are Numbered, whose batches laptime does not join"):
        build("py_dataset", **WEAK)
    says = "JAX makes 2 of the processor, expected 3" if ROOM == "keras-jax" else "TensorFlow cannot make 3 devices"
    with pytest.raises(LaneError, match=says):
        build("arrays", 3)
