"""What Keras's `fit` cannot be asked for is refused before anything runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planner_machines import CPU, machine_with, plan_for

from laptime.model.errors import UsageError
from laptime.model.machine import Device, Framework
from laptime.planner.plan import check_question

KERAS_CPU = Device("cpu", "cpu", "the processor", usable=True, features=("bf16", "fp16", "compile", "malloc"))
KERAS = tuple(
    Framework(name, "3.15.1", {"keras": "3.15.1"}, (KERAS_CPU,)) for name in ("keras-tf", "keras-jax", "keras-torch")
)


def machine(usable=6):
    seen = machine_with(CPU, usable=usable)
    return replace(seen, frameworks=(*seen.frameworks, *KERAS))


def test_a_lane_names_its_engine():
    """Each is a lane of its own, next to PyTorch's own loop."""
    plan = plan_for(machine(), "torch", "keras-tf", "keras-jax", "keras-torch/cpu/bf16", what="cifar-cnn")
    assert [lane.name for lane in plan.lanes] == [
        "torch/cpu/as-written",
        "keras-tf/cpu/as-written",
        "keras-jax/cpu/as-written",
        "keras-torch/cpu/bf16",
    ]


@pytest.mark.parametrize(
    ("lane", "what", "says"),
    [
        ("keras-tf/cpu/input=copy", "cifar-cnn", "input=copy: on a processor batches are where they are used"),
        ("keras-tf/cpu/denormals=flush", "cifar-cnn", "denormals=flush: keras-tf already treats denormal numbers as 0"),
        ("keras-torch/cpu/reads=deferred", "my.py:training", "reads=deferred: only PyTorch's own lanes can be told"),
        (
            "keras-jax/cpu/batch=2x",
            "my.py:training",
            "batch=2x: the batches of my.py:training cannot be changed",
        ),
        (
            "keras-jax/cpu/workers=2+input=cached",
            "my.py:training",
            "workers=2 with input=cached: batches that are kept",
        ),
        ("keras-tf/cpu/input=fast", "cifar-cnn", "input=fast: cifar-cnn's arrays lie in memory, and Keras's fit cuts"),
        ("keras-jax/cpu/threads=2", "cifar-mlp", "threads=2: XLA takes as many threads as it may use cores, here 6"),
        (
            "cpu/steps_per_execution=4",
            "cifar-cnn",
            "steps_per_execution=4: that is a word of Keras's, and not of torch's",
        ),
        (
            "keras-torch/cpu/steps_per_execution=4",
            "cifar-cnn",
            "steps_per_execution=4: on PyTorch Keras takes one step",
        ),
        ("keras-tf/cpu/channels_last", "cifar-cnn", "channels_last cannot be had on keras-tf/cpu"),
        ("keras-torch/cpu/fused", "cifar-cnn", "fused cannot be had on keras-torch/cpu"),
    ],
)
def test_what_keras_has_no_word_for_is_refused(lane, what, says):
    """With a way out."""
    with pytest.raises(UsageError) as caught:
        plan_for(machine(), lane, what=what)
    assert caught.value.says.startswith(says)
    assert caught.value.hint


@pytest.mark.parametrize("what", ["scenes-cnn", "plates-cnn", "pets-densenet"])
@pytest.mark.parametrize(("setting", "kind"), [("", "published"), ("/best", "fast"), ("/input=cached", "cached")])
def test_image_files_are_read_as_in_other_lanes(what, setting, kind):
    """As the authors did it, by our loader, or decoded before."""
    (lane,) = plan_for(machine(), f"keras-tf/cpu{setting}", what=what).lanes
    assert lane.settings.input == kind


def test_a_cards_batches_lie_there_at_its_best():
    """Where images need no files; an engine takes them in its own kind of array."""
    card = Device("cuda:0", "cuda", "a card", usable=True, features=("bf16", "compile", "tf32"))
    seen = machine_with(CPU)
    seen = replace(seen, frameworks=(Framework("keras-jax", "3.15.1", {"keras": "3.15.1"}, (KERAS_CPU, card)),))
    (lane,) = plan_for(seen, "keras-jax/cuda/best", what="cifar-cnn").lanes
    assert (lane.settings.input, lane.settings.execution, lane.settings.layout) == ("resident", "compile", "framework")


def test_xla_may_be_given_the_threads_that_it_takes():
    assert plan_for(machine(), "keras-jax/cpu/best", what="cifar-cnn").lanes[0].settings.threads == 6


def test_every_framework_races_as_written():
    """On every device that it can use; one that its scout found broken is left out, with its reason."""
    broken = Framework("keras-jax", "3.15.1", problem="jaxlib: cannot open shared object file")
    seen = machine()
    seen = replace(seen, frameworks=tuple(broken if each.name == "keras-jax" else each for each in seen.frameworks))
    plan = plan_for(seen, what="cifar-cnn", every=True)
    assert [lane.framework for lane in plan.lanes] == ["torch", "keras-tf", "keras-torch"]
    assert {(lane.device.name, lane.settings.preset) for lane in plan.lanes} == {("cpu", "as-written")}
    (note,) = plan.lanes[0].notes
    assert note.startswith("keras-jax is left out: keras-jax 3.15.1 cannot be used here: jaxlib: cannot open")


def test_every_framework_reads_image_files():
    """With the authors' loader in each."""
    plan = plan_for(machine(), what="scenes-cnn", every=True)
    assert [lane.framework for lane in plan.lanes] == ["torch", "keras-tf", "keras-jax", "keras-torch"]
    assert {lane.settings.input for lane in plan.lanes} == {"published"}


def test_a_build_for_cards_on_the_processor_is_a_note_of_its_lane():
    """What is odd about an installation, too; a lane on a card has no such note."""
    blind = Device("cuda", "cuda", "-", usable=False, reason="no card", details={"build": "CUDA"})
    card = Device("cuda:0", "cuda", "a card", usable=True, features=("bf16", "compile"))
    built = "this build is for CUDA and sees no card: it computes on the processor"

    def notes(*devices, **odd):
        seen = Framework("keras-tf", "3.15.1", {"keras": "3.15.1"}, devices, **odd)
        (lane,) = plan_for(replace(machine(), frameworks=(seen,)), "keras-tf", what="cifar-cnn").lanes
        return lane.notes

    assert notes(KERAS_CPU, blind, notes=("keras is installed twice",)) == ("keras is installed twice", built)
    assert notes(KERAS_CPU, replace(blind, details={})) == ()
    assert notes(KERAS_CPU, card) == ()


def test_every_and_lanes_exclude_each_other():
    with pytest.raises(UsageError, match="--every races all that is installed, and lanes are named"):
        plan_for(machine(), "torch/cpu", what="cifar-cnn", every=True)


@pytest.mark.parametrize("lane", ["keras-tf/cpu", "keras-jax/cpu/best", "keras-torch/cpu/bf16"])
def test_every_engine_is_asked_for_answers(lane):
    check_question(plan_for(machine(), "torch", lane), "infer")


def test_a_lane_that_takes_several_steps_at_once_is_not_asked():
    """No step is taken."""
    with pytest.raises(
        UsageError, match=r"laptime infer: .* says how many steps are taken at once, and nothing is trained"
    ):
        check_question(plan_for(machine(), "keras-tf/cpu/steps_per_execution=4"), "infer")


def test_a_keras_model_of_ones_own_is_not_asked_yet():
    """Nor is a step of JAX's, which has no answers."""
    plan = plan_for(machine(), "keras-tf/cpu")
    own = replace(plan, subject=replace(plan.subject, file="/my.py", function="training"))
    with pytest.raises(UsageError, match="of trainings of your own only torch lanes answer so far"):
        check_question(own, "infer")
    step = replace(own, lanes=(replace(plan.lanes[0], framework="jax", name="jax/cpu/as-written"),))
    with pytest.raises(UsageError, match="laptime infer: jax/cpu/as-written takes steps of your own"):
        check_question(step, "infer")
