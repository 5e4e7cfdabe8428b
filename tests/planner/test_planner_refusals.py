"""What cannot be is refused in words before anything runs: the flag or setting, the reason, the way out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planner_machines import AMPERE, APPLE, BROKEN, CPU, NO_CUDA, PASCAL, PLAIN_CPU, machine_with, plan_for

from laptime.model.errors import UsageError
from laptime.model.frameworks import install_command
from laptime.model.machine import Framework
from laptime.model.plan import OwnBatches, OwnTraining


def refusal(machine, *lanes, **asked):
    """Return what a plan was refused with."""
    with pytest.raises(UsageError) as caught:
        plan_for(machine, *lanes, **asked)
    assert caught.value.exit_code == 2
    return caught.value.says, caught.value.hint


@pytest.mark.parametrize(
    ("device", "lane", "says"),
    [
        (CPU, "cpu/tf32", "tf32 cannot be had on torch/cpu: it is a mode of NVIDIA GPUs from Ampere"),
        (PASCAL, "cuda/tf32", "tf32 cannot be had on torch/cuda:0: it is a mode of NVIDIA GPUs from Ampere"),
        (PASCAL, "cuda/bf16", "bf16 cannot be had on torch/cuda:0: its arithmetic is not to be had there"),
        (PASCAL, "cuda/graph", "graph cannot be had on torch/cuda:0: CUDA graphs need a CUDA device"),
        (CPU, "cpu/graph", "graph cannot be had on torch/cpu: CUDA graphs need a CUDA device"),
        (PLAIN_CPU, "cpu/compile", "compile cannot be had on torch/cpu: torch.compile needs a compiler"),
        (PLAIN_CPU, "cpu/fp16", "fp16 cannot be had on torch/cpu: its arithmetic is not to be had there"),
        (PLAIN_CPU, "cpu/channels_last", "channels_last cannot be had on torch/cpu: the framework does not offer it"),
        (APPLE, "mps/fused", "fused cannot be had on torch/mps: the framework does not offer it"),
        (APPLE, "mps/bf16", "bf16 cannot be had on torch/mps"),
    ],
)
def test_what_a_device_cannot_do_is_refused_with_its_reason(device, lane, says):
    """Each setting has its own reason, and the hint says what the device can do."""
    said, hint = refusal(machine_with(device), lane)
    assert said.startswith(says)
    assert hint == f"it can do: {', '.join(device.features)}"


def test_a_device_may_bring_its_own_reason():
    """What the framework knows better is said instead."""
    device = replace(PLAIN_CPU, details={"no compile": "g++ is too old"})
    assert refusal(machine_with(device), "cpu/compile")[0] == "compile cannot be had on torch/cpu: g++ is too old"


@pytest.mark.parametrize(
    ("lane", "what", "refused"),
    [
        (
            "cpu/malloc=keep",
            "cifar-cnn",
            ("malloc=keep is a setting of glibc, which Linux 6.1 does not use", "leave it out"),
        ),
        ("cpu/threads=9", "cifar-cnn", ("threads=9: this machine has 8 cores", "1 to 8")),
        (
            "cpu/workers=2",
            "cifar-cnn",
            ("workers=2: the arrays of cifar-cnn lie in memory, and are read by nobody", "leave workers out"),
        ),
        (
            "cpu/workers=2+input=resident",
            "plates-cnn",
            (
                "workers=2 with input=resident: batches that are kept need no loader",
                "leave input out, or leave workers out",
            ),
        ),
        (
            "cpu/batch=0.5x",
            "my.py:training",
            (
                "batch=0.5x: the batches of my.py:training cannot be changed: how many items they have is not known",
                "set the batch in its own data, and race two functions",
            ),
        ),
        (
            "cpu/input=fast",
            "my.py:training",
            (
                "input=fast: laptime cannot replace the loader of a training of your own",
                "leave it out, or name input=cached",
            ),
        ),
        (
            "cpu/items=100",
            "my.py:training",
            ("items=100: a training of your own brings its data with it", "leave items out"),
        ),
        ("cpu/items=9", "cifar-cnn", ("items=9: cifar-cnn has items of 10 classes", "10 or more")),
        (
            "cpu/augment=device",
            "plates-cnn",
            ("augment=device: laptime turns no images of plates-cnn", "leave it out"),
        ),
        (
            "cpu/augment=device+input=fast",
            "scenes-cnn",
            ("augment=device: torch turns images on the host", "leave it out"),
        ),
        (
            "cpu/pinning=cores",
            "cifar-cnn",
            ("pinning=cores: there is no such switch on torch/cpu", "leave it out"),
        ),
        (
            "cpu/prefetch=4",
            "cifar-cnn",
            (
                "prefetch=4: it is what each worker of a DataLoader of your own prepares, and there is none",
                "leave it out",
            ),
        ),
        (
            "cpu/prefetch=4+input=cached",
            "my.py:training",
            ("prefetch=4 with input=cached: nothing is loaded", "leave one of them out"),
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(lane, what, refused):
    """The sentence names the setting with its value, the hint the way out."""
    assert refused == refusal(machine_with(PLAIN_CPU), lane, what=what)


def test_where_images_are_turned_is_said_of_our_loader_alone():
    """The authors' loader turns them as it reads them."""
    says = "augment=device: only our loader can do it in either place"
    for lane in ("cpu/augment=device", "cpu/augment=device+input=only"):
        assert refusal(machine_with(CPU), lane, what="scenes-cnn") == (says, "add input=fast")
    assert plan_for(machine_with(CPU), "cpu/augment=device+input=fast", what="scenes-cnn").lanes


def test_real_data_has_the_items_that_it_has():
    refused = refusal(machine_with(CPU), "cpu/items=500", data="/somewhere")
    assert refused == ("items=500 is how many are made, and --data brings its own", "leave one of them out")


def test_a_loss_scaler_that_waits_for_the_device_is_not_recorded():
    """fp16 in a graph takes an optimizer that asks nothing of the host."""
    says = "fp16+graph: without a fused optimizer the loss scaler waits for the device in each step"
    assert (says, "add fused, or leave graph out") == refusal(machine_with(AMPERE), "cuda/fp16+graph")
    assert plan_for(machine_with(AMPERE), "cuda/fp16+graph+fused").lanes[0].settings.precision == "fp16"


def test_threads_up_to_the_cores_that_are_there_are_allowed():
    """More than the quota may be asked for, more than the machine has may not."""
    (lane,) = plan_for(machine_with(CPU), "cpu/threads=8").lanes
    assert lane.settings.threads == 8


@pytest.mark.parametrize(
    ("lanes", "name"),
    [
        (("cpu", "cpu"), "torch/cpu/as-written"),
        (("cpu", "cpu/best", "torch/cpu/best"), "torch/cpu/best"),
        (("cuda", "cuda:0"), "torch/cuda:0/as-written"),
        (("torch", "cuda"), "torch/cuda:0/as-written"),
    ],
)
def test_a_lane_that_is_named_twice_is_refused(lanes, name):
    """Whatever way the same lane was written."""
    said = refusal(machine_with(CPU, AMPERE), *lanes)
    assert said == (f"lane {name} is named twice", "a race needs lanes that differ")


@pytest.mark.parametrize(
    ("lane", "refused"),
    [
        (
            "mps",
            (
                "device mps is not there for torch: mps is of Apple computers, and this is Linux 6.1 on x86_64",
                "usable here: cpu, cuda:0",
            ),
        ),
        ("xpu", ("device xpu is not there for torch: it sees no Intel card", "usable here: cpu, cuda:0")),
        ("cuda:7", ("device cuda:7 is not there for torch: it sees cuda:0, cuda:1", "usable here: cpu, cuda:0")),
        ("cuda:1/best", ("device cuda:1 cannot be used: a small product came out wrong", "usable here: cpu, cuda:0")),
    ],
)
def test_a_device_that_is_absent_or_broken_is_refused_with_its_reason(lane, refused):
    """The hint says what can be used instead."""
    assert refused == refusal(machine_with(CPU, AMPERE, BROKEN), lane)


@pytest.mark.parametrize(("card", "name"), [(AMPERE, "cuda:0"), (APPLE, "mps")])
def test_gpu_means_the_first_accelerator_that_is_there(card, name):
    """Of whatever kind."""
    assert [lane.name for lane in plan_for(machine_with(CPU, card), "gpu/best", "gpu").lanes] == [
        f"torch/{name}/best",
        f"torch/{name}/as-written",
    ]


def test_gpu_without_an_accelerator_is_refused_with_the_reason():
    says = "gpu: torch can use no accelerator here (cuda: this PyTorch is a build without CUDA)"
    assert (says, "laptime devices --check says what to do") == refusal(machine_with(CPU, NO_CUDA), "gpu")


def own_training(kind, **known):
    told = {"data": "list", "takes_workers": False, "batches": OwnBatches("no list"), "has_fence": False, **known}
    return OwnTraining(kind, **told)


@pytest.mark.parametrize(
    ("kind", "lane", "says"),
    [
        ("keras", "cpu/best", "torch cannot run my.py:training: its function returns a Keras model"),
        (
            "torch",
            "cpu/prefetch=4",
            "prefetch=4: it is what each worker of a DataLoader of your own prepares, and there is none",
        ),
        (
            "torch",
            "cpu/workers=2",
            "workers=2: the data of my.py:training are list, which worker processes cannot load",
        ),
        ("torch", "cpu/batch=64", "batch=64: the batches of my.py:training cannot be changed: no list"),
    ],
)
def test_what_a_users_training_cannot_do_is_refused_where_it_is_known(kind, lane, says):
    assert refusal(machine_with(CPU), lane, what="my.py:training", own=own_training(kind))[0] == says


def test_what_a_users_training_can_do_is_planned():
    able = own_training("torch", takes_workers=True, batches=OwnBatches("", 32, 640))
    named = ("cpu/batch=64", "cpu/workers=2+prefetch=4", "cpu/batch=0.5x", "cpu/batch=2x")
    lanes = plan_for(machine_with(CPU), *named, what="my.py:training", own=able).lanes
    assert [(each.settings.batch, each.settings.workers, each.settings.joined) for each in lanes] == [
        (64, None, None),
        (None, 2, None),
        (16, None, None),
        (None, None, 2),
    ]
    assert lanes[1].settings.value_of("prefetch") == "4"
    assert refusal(machine_with(CPU), "cpu/prefetch=4", what="my.py:training", own=able) == (
        "prefetch=4: its DataLoader has no workers",
        "add some: workers=2",
    )


def test_a_kind_of_device_that_the_framework_knows_no_device_of_has_its_reason():
    """A build without CUDA is named as such; it is not said that there is no such device."""
    says = "device cuda is not there for torch: this PyTorch is a build without CUDA"
    assert (says, "usable here: cpu") == refusal(machine_with(CPU, NO_CUDA), "cuda/best")


@pytest.mark.parametrize(
    ("lane", "extra"),
    [
        ("keras-tf/cpu", "keras,tensorflow"),
        ("keras-jax/cpu", "keras,jax"),
        ("keras-torch/cpu", "keras,torch"),
        ("torch/cpu", "torch"),
    ],
)
def test_a_framework_that_is_not_installed_names_its_extra(lane, extra):
    """The hint is the line to paste."""
    machine = replace(machine_with(CPU), frameworks=())
    says = f"{lane.removesuffix('/cpu')} is not installed here"
    assert (says, install_command(*extra.split(","))) == refusal(machine, lane)


def test_a_framework_that_cannot_run_says_why():
    """What its scout met is what the user reads."""
    broken = Framework("torch", "2.13.0", problem="libcudart.so.12: cannot open shared object file")
    machine = replace(machine_with(CPU), frameworks=(broken,))
    says = "torch 2.13.0 cannot be used here: libcudart.so.12: cannot open shared object file"
    assert (says, "laptime devices shows more") == refusal(machine, "torch/cpu")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"heats": 0}, "--heats 0: expected a whole number from 1 to 1,000"),
        ({"heats": -1}, "--heats -1: expected a whole number from 1 to 1,000"),
        ({"heats": 1001}, "--heats 1001: expected a whole number from 1 to 1,000"),
        ({"budget_s": 0.0}, "--budget 0s: expected 1s to 7d"),
        ({"budget_s": -5.0}, "--budget -5s: expected 1s to 7d"),
        ({"budget_s": 604801.0}, "--budget 604801s: expected 1s to 7d"),
        ({"budget_s": float("nan")}, "--budget nans: expected 1s to 7d"),
        ({"budget_s": float("inf")}, "--budget infs: expected 1s to 7d"),
        ({"margin": 0.0}, "--margin 0.000%: expected 0.1% to 100%"),
        ({"margin": 1.01}, "--margin 101.000%: expected 0.1% to 100%"),
        ({"margin": float("nan")}, "--margin nan%: expected 0.1% to 100%"),
        ({"seed": -1}, "--seed -1: expected a whole number from 0 to 4,294,967,295"),
        ({"seed": 1 << 32}, "--seed 4294967296: expected a whole number from 0 to 4,294,967,295"),
        ({"patience_s": 0.0}, "--patience 0s: expected 0.1s to 7d"),
        ({"watchdog_s": 0.05}, "--watchdog 0.05s: expected 0.1s to 7d"),
        ({"watchdog_s": float("inf")}, "--watchdog infs: expected 0.1s to 7d"),
    ],
)
def test_a_figure_that_cannot_be_meant_is_refused_by_its_flag(asked, says):
    """Zero, negative and absurd numbers name the flag, the value, and what was expected."""
    assert says == refusal(machine_with(CPU), "cpu", **asked)[0]


@pytest.mark.parametrize("kind", ["published", "fast", "only"])
def test_files_need_pillow(kind):
    """Decoded images made in memory do not, and of arrays nothing is decoded."""
    refused = refusal(machine_with(PLAIN_CPU), f"cpu/input={kind}", what="plates-cnn", reads_images=False)
    assert refused == (
        f"input={kind}: plates-cnn reads image files, and Pillow is not installed",
        f"{install_command('images')}, or name input=cached: decoded images made in memory",
    )
    for what, lane in (("plates-cnn", "cpu/input=cached"), ("cifar-cnn", f"cpu/input={kind}")):
        assert plan_for(machine_with(PLAIN_CPU), lane, what=what, reads_images=False).lanes


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        ({"items": -1}, ("--items -1: expected a whole number to 1,000,000, or all", "such as 5000")),
        (
            {"items": 5, "data": "."},
            ("--items says how many are made, and --data brings its own", "leave one of them out"),
        ),
    ],
)
def test_items_that_cannot_be_meant_are_refused(asked, refused):
    assert refused == refusal(machine_with(PLAIN_CPU), "cpu", what="scenes-cnn", **asked)
