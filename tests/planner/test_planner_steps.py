"""Lanes that run steps of users' own: told their device, in no race that does not name them, refused in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planner_machines import AMPERE, CPU, machine_with, plan_for
from planner_machines import OWN as OWN_SUBJECT

from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.machine import Device, Framework
from laptime.planner import make_plan
from laptime.planner.plan import check_question

OWN_CPU = Device("cpu", "cpu", "the processor", usable=True, features=("malloc",))
CARD = Device("cuda:0", "cuda", "a card", usable=True)
OWN = "my.py:training"


def machine(*others):
    python = Framework("python", "3.11.7", {"python": "3.11.7"}, (OWN_CPU, CARD))
    return replace(machine_with(CPU), frameworks=(*others, python))


TORCH = machine_with(CPU).frameworks[0]
JAX = Framework("jax", "0.10.2", {"jax": "0.10.2"}, (OWN_CPU,))


def test_a_lane_is_told_its_device():
    """And, as other lanes are, how many threads; at its best nothing is said of where batches lie."""
    named = ("python/cpu", "python/cuda", "python/cpu/threads=2", "python/cuda/best")
    written, card, two, best = plan_for(machine(), *named, what=OWN).lanes
    assert written.environment == {"LAPTIME_DEVICE": "cpu"}
    assert card.environment == {"LAPTIME_DEVICE": "cuda:0"}
    assert two.environment == {"LAPTIME_DEVICE": "cpu", "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    assert (best.settings.input, best.settings.execution) == ("published", "eager")


def test_other_lanes_are_not_told():
    (lane,) = plan_for(machine(TORCH), "torch/cpu", what=OWN).lanes
    assert lane.environment == {}


@pytest.mark.parametrize("what", ["cifar-cnn", OWN])
def test_nothing_races_it_but_a_step(what):
    """It is there wherever laptime is; who may give a model is not refused for it."""
    seen = machine(TORCH)
    assert {lane.framework for lane in plan_for(seen, what=what).lanes} == {"torch"}
    plan = plan_for(seen, what=what, every=True)
    assert ({lane.framework for lane in plan.lanes}, plan.lanes[0].notes) == ({"torch"}, ())


def test_a_step_races_on_the_processor_as_written_and_at_its_best():
    """A card that was not tried has to be named."""
    subject = replace(OWN_SUBJECT, written_for="python")
    names = [lane.name for lane in make_plan(Ask(OWN), machine(), subject, None).lanes]
    assert names == ["python/cpu/as-written", "python/cpu/best"]
    (lane,) = make_plan(Ask(OWN, every=True), machine(TORCH, JAX), subject, None).lanes
    assert lane.name == "python/cpu/as-written"


def test_where_nothing_can_run_it_the_way_out_is_named():
    with pytest.raises(UsageError) as caught:
        plan_for(machine(), what="cifar-cnn", every=True)
    assert caught.value.says == "--every: no framework that is installed here can run this"
    assert caught.value.hint == "laptime devices says what there is"


@pytest.mark.parametrize(
    ("lane", "what", "says"),
    [
        ("python/cpu", "cifar-cnn", "python: cifar-cnn is raced in a framework; its lanes run steps of your own"),
        ("jax/cpu", "cifar-cnn", "jax: cifar-cnn has no form in JAX alone; its lanes run steps of your own"),
        ("python/cpu/bf16", OWN, "bf16: a step of your own has the precision that its code gives it"),
        ("python/cpu/compile", OWN, "compile: a step of your own has the execution that its code gives it"),
        ("python/cpu/channels_last", OWN, "channels_last: a step of your own has the layout that its code gives it"),
        ("python/cpu/fused", OWN, "fused: a step of your own has the optimizer that its code gives it"),
        ("python/cuda/input=resident", OWN, "input=resident: laptime cannot place the batches of a framework"),
        ("python/cuda/input=copy", OWN, "input=copy: laptime cannot place the batches of a framework"),
        ("jax/cpu/input=copy", OWN, "input=copy: on a processor batches are where they are used"),
        ("jax/cpu/workers=2", OWN, "workers=2: the data of a step of your own are iterated as they are"),
        ("jax/cpu/denormals=flush", OWN, "denormals=flush: jax already treats denormal numbers as 0"),
        ("python/cpu/denormals=flush", OWN, "denormals=flush: a step of your own computes as its code says"),
        ("python/cpu/reads=deferred", OWN, "reads=deferred: only PyTorch's own lanes can be told stale values"),
        ("python/cpu/batch=2x", OWN, "batch=2x: the batches of my.py:training cannot be changed: only torch lanes"),
        ("jax/cpu/threads=2", OWN, "threads=2: XLA takes as many threads as it may use cores, here 6"),
        ("python/cpu/batch=8", OWN, "batch=8: the batches of my.py:training cannot be changed: only torch lanes"),
        ("python/mps", OWN, "device mps is not there for python"),
    ],
)
def test_what_a_step_leaves_no_room_for_is_refused(lane, what, says):
    """With a way out."""
    with pytest.raises(UsageError) as caught:
        plan_for(machine(JAX), lane, what=what)
    assert caught.value.says.startswith(says)
    assert caught.value.hint


def test_steps_are_not_asked_for_answers():
    with pytest.raises(UsageError, match="laptime infer: python/cpu/as-written takes steps of your own"):
        check_question(plan_for(machine(), "python/cpu", what=OWN), "infer")


STEP = replace(OWN_SUBJECT, written_for="torch", gives_step=True)


def plan_step(*lanes):
    return make_plan(Ask(OWN, lanes), machine_with(CPU, AMPERE), STEP, None)


def test_a_step_in_pytorch_races_on_all_that_pytorch_sees():
    """Its best is what a lane can set from outside, and says what it leaves to the code."""
    lanes = plan_step().lanes
    assert [lane.name.split("/", 1)[1] for lane in lanes] == [
        f"{device}/{preset}" for device in ("cpu", "cuda:0") for preset in ("as-written", "best")
    ]
    written, best, _, card = lanes
    assert written.notes == ()
    (note,) = best.notes
    assert note.startswith("best of a step of your own sets threads, memory and input;")
    left = {(each.settings.layout, each.settings.optimizer, each.settings.execution) for each in lanes}
    assert left == {("framework", "framework", "eager")}
    assert (best.settings.threads, best.settings.malloc, card.settings.input) == (6, "keep", "resident")


def test_the_fastest_step_computes_in_tf32_where_that_is_a_switch_of_the_process():
    cpu, card = plan_step("torch/cpu/fastest", "torch/cuda/fastest").lanes
    assert (cpu.settings.precision, card.settings.precision) == ("fp32", "tf32")
    (named,) = plan_step("torch/cuda/tf32+workers=2+batch=2x+reads=deferred").lanes
    assert (named.settings.workers, named.settings.joined, named.settings.reads) == (2, 2, "deferred")


@pytest.mark.parametrize("setting", ["bf16", "fp16", "compile", "graph", "channels_last", "fused"])
def test_what_the_code_of_a_step_decides_is_refused(setting):
    with pytest.raises(UsageError, match=f"{setting}: a step of your own has the .* that its code gives it") as caught:
        plan_step(f"torch/cuda/{setting}")
    assert caught.value.hint == "set it there"


@pytest.mark.parametrize("command", ["train", "infer"])
def test_a_step_is_neither_trained_whole_nor_asked(command):
    with pytest.raises(UsageError, match=f"{command}: torch/cpu/as-written (is of a step function|takes steps)"):
        check_question(plan_step("torch/cpu"), command)
