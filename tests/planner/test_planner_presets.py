"""What a preset gives on each kind of device, and what each named setting changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planner_machines import AMPERE, APPLE, CPU, NO_CUDA, PASCAL, PLAIN_CPU, machine_with, plan_for

from laptime.model.errors import UsageError
from laptime.model.process import Settings

AS_WRITTEN = Settings("as-written", "fp32", "eager", "framework", "framework", None, "system", "published", None, None)
BEST_CPU = Settings(
    "best", "fp32", "eager", "channels_last", "fused", 6, "keep", "published", None, None, extra={"dropout": "fast"}
)
BEST_GPU = Settings(
    "best", "fp32", "graph", "channels_last", "fused", None, "system", "resident", None, None, extra={"cudnn": "search"}
)


def settings_of(device, lane, what="cifar-cnn", features=()):
    """Return the one lane's settings, all filled in."""
    return plan_for(machine_with(device, features=features), lane, what=what).lanes[0].settings


@pytest.mark.parametrize("device", [CPU, AMPERE, PASCAL, APPLE])
def test_as_written_is_what_the_authors_ran(device):
    """Eager, float32 and the framework's defaults, on whatever device."""
    assert settings_of(device, device.name) == AS_WRITTEN


@pytest.mark.parametrize(
    ("device", "settings"),
    [
        (CPU, BEST_CPU),
        (PLAIN_CPU, Settings("best", threads=6)),
        (AMPERE, BEST_GPU),
        (PASCAL, Settings("best", "fp32", "compile", "channels_last", "fused", None, "system", "resident")),
        (APPLE, Settings("best", layout="channels_last", input="resident")),
    ],
)
def test_best_takes_what_the_device_can_do(device, settings):
    """On a processor its usable cores and kept memory, on an accelerator one graph and data on the device."""
    assert settings == settings_of(device, f"{device.name}/best")


def test_a_network_without_dropout_has_no_masks_to_draw():
    assert settings_of(CPU, "cpu/best", what="cifar-mlp").extra == {}


@pytest.mark.parametrize(
    ("device", "features", "precision"),
    [
        (CPU, ("avx2", "avx512_bf16"), "bf16"),
        (CPU, ("avx2",), "fp32"),
        (AMPERE, (), "bf16"),
        (PASCAL, (), "fp16"),
        (APPLE, (), "fp16"),
    ],
)
def test_fastest_takes_the_lowest_precision_that_the_device_has_units_for(device, features, precision):
    """A processor that would have to emulate bf16 stays with float32."""
    assert precision == settings_of(device, f"{device.name}/fastest", features=features).precision


def test_fastest_takes_tf32_where_there_is_nothing_lower():
    """TF32 is the choice of a device that has it and no bf16."""
    device = AMPERE.__class__("cuda:0", "cuda", "-", usable=True, features=("tf32", "fp16"))
    assert settings_of(device, "cuda/fastest").precision == "tf32"


def test_a_network_without_convolutions_keeps_its_layout():
    """Channels-last is for convolutions, and cifar-mlp has none."""
    assert settings_of(CPU, "cpu/best", what="cifar-mlp").layout == "framework"


def test_a_training_of_ones_own_may_convolve():
    """Nothing is known of it before it is built, so that it gets the layout that helps convolutions."""
    assert settings_of(CPU, "cpu/best", what="my.py:training") == BEST_CPU


def test_a_training_of_ones_own_is_compiled_rather_than_recorded():
    """A graph takes fixed shapes and no word to the host, and nobody knows that of it."""
    assert settings_of(AMPERE, "cuda/best", what="my.py:training").execution == "compile"
    assert settings_of(AMPERE, "cuda/graph", what="my.py:training").execution == "graph"


@pytest.mark.parametrize("what", ["scenes-cnn", "plates-cnn", "pets-densenet"])
def test_a_workload_that_reads_files_has_the_authors_loader_or_ours(what):
    """Its work is reading and turning images, too: what is decoded on the device would be another training."""
    assert settings_of(CPU, "cpu", what=what).input == "published"
    assert settings_of(CPU, "cpu/best", what=what).input == "fast"
    assert settings_of(AMPERE, "cuda", what=what).input == "published"
    assert settings_of(AMPERE, "cuda/best", what=what).input == "fast"
    assert settings_of(AMPERE, "cuda/best+input=resident", what=what).input == "resident"


@pytest.mark.parametrize(
    ("lane", "key", "value"),
    [
        ("cuda/bf16", "precision", "bf16"),
        ("cuda/best+tf32", "precision", "tf32"),
        ("cuda/best+eager", "execution", "eager"),
        ("cuda/compile", "execution", "compile"),
        ("cuda/channels_last", "layout", "channels_last"),
        ("cuda/fused", "optimizer", "fused"),
        ("cuda/malloc=keep", "malloc", "keep"),
        ("cuda/input=only", "input", "only"),
        ("cuda/input=fast+workers=3", "workers", 3),
        ("cuda/threads=8", "threads", 8),
        ("cuda/batch=7", "batch", 7),
        ("cuda/batch=4x", "batch", 400),
    ],
)
def test_a_named_setting_stands_over_the_preset(lane, key, value):
    """Every setting of the table can be reached by its name."""
    assert value == getattr(settings_of(AMPERE, lane), key)


def test_a_named_setting_changes_nothing_else():
    """The rest of the preset stays."""
    kept = Settings("best", "bf16", "graph", "channels_last", "fused", input="resident", extra={"cudnn": "search"})
    assert kept == settings_of(AMPERE, "cuda/best+bf16")


@pytest.mark.parametrize(
    ("lane", "taken", "threads"),
    [("cpu/best", 0, 6), ("cpu/best", 2, 4), ("cpu/best", 6, 1), ("cpu/best/threads=6", 2, 6), ("cpu", 2, None)],
)
def test_the_best_lane_takes_the_cores_that_others_leave(lane, taken, threads):
    """With a note; a lane that names its threads has them."""
    machine = replace(machine_with(CPU), cores_taken=taken)
    (planned,) = plan_for(machine, lane).lanes
    assert planned.settings.threads == threads
    words = f"other processes took {taken} of 6 cores, so best computes with {threads} thread{'s' * (threads != 1)}"
    assert (words in planned.notes) == (lane == "cpu/best" and taken > 0)


def test_the_best_processor_lane_gets_its_threads_and_its_allocator_before_it_starts():
    """What must be set before the process begins is in its environment."""
    (lane,) = plan_for(machine_with(CPU), "cpu/best").lanes
    assert lane.environment == {
        "MALLOC_MMAP_THRESHOLD_": "4294967296",
        "MALLOC_TRIM_THRESHOLD_": "68719476736",
        "MALLOC_TOP_PAD_": "67108864",
        "OMP_NUM_THREADS": "6",
        "MKL_NUM_THREADS": "6",
    }


@pytest.mark.parametrize(("device", "lane"), [(CPU, "cpu"), (AMPERE, "cuda"), (AMPERE, "cuda/best")])
def test_other_lanes_get_the_environment_as_it_is(device, lane):
    """As its authors ran it means with nothing of ours set."""
    assert plan_for(machine_with(device), lane).lanes[0].environment == {}


def test_no_lanes_are_every_usable_device_as_written_and_at_its_best():
    """What cannot be used is left out of the default race."""
    names = [lane.name for lane in plan_for(machine_with(CPU, AMPERE, NO_CUDA)).lanes]
    assert names == ["torch/cpu/as-written", "torch/cpu/best", "torch/cuda:0/as-written", "torch/cuda:0/best"]


def test_a_processor_alone_is_still_a_race():
    """As written against best."""
    names = [lane.name for lane in plan_for(machine_with(CPU, NO_CUDA)).lanes]
    assert names == ["torch/cpu/as-written", "torch/cpu/best"]


@pytest.mark.parametrize(
    ("lane", "name"),
    [
        ("cuda", "torch/cuda:0/as-written"),
        ("torch", "torch/cuda:0/as-written"),
        ("torch/cpu/best", "torch/cpu/best"),
    ],
)
def test_a_device_without_its_number_is_the_first(lane, name):
    """A framework alone means its first accelerator, a kind of device its first of that kind."""
    assert name == plan_for(machine_with(CPU, AMPERE), lane).lanes[0].name


def test_a_machine_without_any_usable_device_is_told_so():
    """There is no default race where nothing can run."""
    with pytest.raises(UsageError, match="torch sees no usable device here"):
        plan_for(machine_with(NO_CUDA))
