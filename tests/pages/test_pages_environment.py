"""The block that a full training begins with: golden pages on literal machines, and what each line says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import MACHINE

from golden import assert_agreed
from laptime.model.ask import DataSource
from laptime.model.machine import Device, Framework
from laptime.model.quantities import Missing
from laptime.model.visible import cells_wide
from laptime.questions.doctor.page import render_devices
from laptime.show.pages.listing import render_environment
from laptime.trainings.workloads import CATALOGUE
from laptime.trainings.workloads.catalogue import list_layers

CPU = Device("cpu", "cpu", "processor", usable=True, details={"threads": "12", "vector": "AVX512", "no compile": "old"})
RTX = Device(
    "cuda:0",
    "cuda",
    "NVIDIA GeForce RTX 2060",
    usable=True,
    memory_bytes=6_442_450_944,
    details={"capability": "7.5", "multiprocessors": "30", "uuid": "GPU-1234", "driver": "570.86.15"},
)
OLD = replace(RTX, name="cuda:1", label="NVIDIA GeForce GTX 660", usable=False, reason="no kernel image for it")
VERSIONS = {"torch": "2.13.0+cu128", "cuda": "12.8", "cudnn": "9.10.2", "nccl": "2.27.3", "onednn": "3.7.1"}
TORCH = Framework("torch", "2.13.0", VERSIONS, (CPU, RTX, OLD))
ABSENT = Device("cuda", "cuda", "-", usable=False, reason="this PyTorch (2.13.0+cpu) is a build without CUDA")
PLAIN = Framework("torch", "2.13.0", {"torch": "2.13.0+cpu", "onednn": "3.7.1"}, (CPU, ABSENT))
CHIP = replace(MACHINE.processor, cores_visible=12, cores_usable=6, quota_cores=6.0, features=("avx2", "fma"))
BOXED = replace(MACHINE, processor=CHIP, memory_limit_bytes=16_000_000_000, container="docker", frameworks=(TORCH,))
MADE = DataSource(
    folder="/home/ada/.cache/laptime/scenes-cnn",
    layout="folders",
    made=True,
    train_items=512,
    test_items=128,
    classes=CATALOGUE["scenes-cnn"].classes,
    digest="d",
)
OWN = replace(
    MADE,
    folder="/data/scenes",
    made=False,
    train_items=18_687,
    test_items=4_463,
    split_seed=3,
    notes=("2 of 23,152 images skipped: they are truncated",),
)
SHOWN = {
    "gpu-own-data": (BOXED, "scenes-cnn", OWN),
    "gpu-made-data": (BOXED, "scenes-cnn", MADE),
    "processor-no-data": (replace(MACHINE, frameworks=(PLAIN,)), "plates-cnn", None),
}


def block(machine, name, data, width=120, frameworks=("torch",)):
    workload = CATALOGUE[name]
    rows = list_layers(workload)
    return render_environment(machine, frameworks, workload, rows, data, width=width, version="0.1.0")


def told(page, name):
    """Return what is said next to a name, on one line."""
    (line,) = [line for line in page.splitlines() if line.strip().startswith(f"{name} ")]
    return line.strip().removeprefix(name).strip()


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", SHOWN)
def test_a_block_is_as_it_was_agreed(name, width):
    """It changes only on purpose; LAPTIME_REGOLD=1 writes it again."""
    assert_agreed(f"environment-{name}", width, block(*SHOWN[name], width))


@pytest.mark.parametrize("name", SHOWN)
@settings(deadline=None, max_examples=30)
@given(width=st.integers(40, 160))
def test_no_line_is_wider_than_the_page(name, width):
    """What a terminal breaks is no table."""
    assert width >= max(map(cells_wide, block(*SHOWN[name], width).splitlines()))


def test_all_that_the_first_experiment_prints_is_there():
    """Framework, CUDA and cuDNN, the card and its compute capability, counts, and the layers with their total."""
    page = block(BOXED, "scenes-cnn", OWN, 160)
    assert told(page, "laptime") == "0.1.0"
    assert told(page, "torch") == "2.13.0+cu128, CUDA 12.8, cuDNN 9.10.2, NCCL 2.27.3, oneDNN 3.7.1"
    assert told(page, "cuda:0") == (
        "NVIDIA GeForce RTX 2060, compute capability 7.5, 6 GB, driver 570.86.15, 30 multiprocessors"
    )
    assert told(page, "images").startswith("18,687 for training, 4,463 for testing; 8 classes: buildings, cat, dog, ")
    assert page.splitlines()[-1].split() == ["total", "42,520,584"]


def test_a_device_that_cannot_be_used_says_why():
    """With its name where it has one; what is missing is not shown as nothing."""
    assert told(block(BOXED, "scenes-cnn", None), "cuda:1") == (
        "NVIDIA GeForce GTX 660, not usable: no kernel image for it"
    )
    page = block(*SHOWN["processor-no-data"])
    assert told(page, "cuda") == "not usable: this PyTorch (2.13.0+cpu) is a build without CUDA"
    assert told(page, "torch") == "2.13.0+cpu, oneDNN 3.7.1"


def test_a_card_that_tells_little_is_told_with_that():
    """No memory, no driver, no capability: its name is alone, with no dash and no zero."""
    bare = replace(RTX, memory_bytes=Missing("not reported"), details={"capability": ""})
    machine = replace(MACHINE, frameworks=(replace(TORCH, devices=(bare,)),))
    assert told(block(machine, "cifar-mlp", None), "cuda:0") == "NVIDIA GeForce RTX 2060"


def test_whoever_counted_the_items_is_named():
    """Published counts are no measurement, and made data is not the authors'."""
    published = "105,000 for training, 76,000 for testing; 36 classes: 0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    assert told(block(BOXED, "plates-cnn", None, 200), "images") == f"{published} (as published; not counted here)"
    made, own = (told(block(BOXED, "scenes-cnn", data, 250), "images") for data in (MADE, OWN))
    assert made.startswith("512 for training, 128 for testing; 8 classes: ")
    assert made.endswith(
        " (made by laptime in /home/ada/.cache/laptime/scenes-cnn; published: 18,687 for training, 4,463 for testing)"
    )
    assert own.endswith(" (counted in /data/scenes, split by seed 3)")
    assert "\n  2 of 23,152 images skipped: they are truncated\n" in block(BOXED, "scenes-cnn", OWN)


def test_processor_and_memory_are_what_may_be_used():
    """A container with half of both is not the whole machine."""
    page = block(BOXED, "scenes-cnn", None)
    assert told(page, "processor") == (
        "AMD EPYC 7763 64-Core Processor, x86_64, 6 of 12 cores usable (quota 6), avx2 fma"
    )
    assert told(page, "memory") == "24 GB, of which 16 GB may be used"
    assert told(page, "system") == "Linux 6.1, container docker"
    plain = block(*SHOWN["processor-no-data"])
    assert told(plain, "processor") == "AMD EPYC 7763 64-Core Processor, x86_64, 2 of 2 cores usable"
    assert told(plain, "memory") == "24 GB"


def test_only_the_frameworks_that_run_are_told_and_each_once():
    """One that is broken, absent or not asked yet has the reason in its line."""
    jax = Framework("jax", "0.4.35", problem="jaxlib is missing")
    keras = Framework("keras-tf", "3.6.0", {"keras": "3.6.0", "tensorflow": "2.18.0"})
    machine = replace(MACHINE, frameworks=(TORCH, jax, keras, Framework("fake", "1")))
    page = block(machine, "cifar-cnn", None, 120, ("jax", "keras-tf", "jax", "fake", "mxnet"))
    assert told(page, "jax") == "0.4.35, cannot run: jaxlib is missing"
    assert told(page, "keras-tf") == "keras 3.6.0, tensorflow 2.18.0"
    assert told(page, "fake") == "1"
    assert told(page, "mxnet") == "not installed"
    assert "torch" not in page


def test_the_list_of_devices_tells_capability_and_memory_where_known():
    """The same facts in the table of `laptime devices`; a processor has no capability to tell."""
    rows = [" ".join(line.split()) for line in render_devices(BOXED, 120).splitlines()]
    assert "torch 2.13.0 cpu processor - yes" in rows
    assert "torch 2.13.0 cuda:0 NVIDIA GeForce RTX 2060, capability 7.5 6 GB yes" in rows
    assert max(map(cells_wide, render_devices(BOXED, 80).splitlines())) <= 80
