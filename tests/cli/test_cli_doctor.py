"""`laptime devices --check` as a whole: what is tried, what is amiss around devices, and the exit code."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

import pytest

# Each framework that is asked is imported twice, which takes longer than all else here.
QUICK = ("devices", "--check", "--framework", "fake", "--quiet")
PEAKS = '[peaks]\n"cpu/fp32" = 5e11\n"cuda:0/fp32" = 4e13\n"cpu/copy" = 5e10\n"cuda:0/copy" = 2e12\n'


def fakes(told):
    return {each["device"]: each for each in told["trials"] if each["framework"] == "fake"}


def test_each_device_that_can_be_used_is_tried(house):
    """A small product, and its share of the peak where that was measured."""
    house.script(PEAKS)
    house.done("devices", "--measure", "--framework", "fake", "--quiet")
    told = house.done(*QUICK, "--json").json
    assert fakes(told)["cuda:0"]["product"]["best_per_s"] > 1e12
    assert fakes(told)["cuda:0"]["share"] > 0.5
    assert told["unused"] == []


def test_a_device_that_cannot_be_used_has_an_exit_code(house):
    """And what a check does not go with is refused."""
    house.script('[peaks]\n"cuda:0/fp32" = "raise"\n"cpu/fp32" = 5e11\n')
    words = ("--framework", "fake", "--quiet", "--json")
    told = house.done("devices", "--check", *words, code=5).json
    assert fakes(told)["cuda:0"]["reason"] == "RuntimeError: planted failure"
    assert "ask one after the other" in house.done("devices", "--check", "--measure", code=2).err
    assert "laptime devices --check --data" in house.done("devices", "--data", ".", code=2).err


@pytest.mark.long
def test_every_framework_that_is_asked_is_tried(house):
    """On the processor at least, each in a process of its own; the contracts try every engine's products.

    PyTorch is tried in tests/sensors/nvml; it takes longest to import.
    """
    asked = [name for name in ("jax", "fake") if name == "fake" or find_spec(name)]
    told = house.run(
        "devices", "--check", *(word for name in asked for word in ("--framework", name)), "--json", "--quiet"
    ).json
    tried = {each["framework"] for each in told["trials"] if each["device"] == "cpu" and each["product"]}
    assert tried == {*asked}


def test_a_framework_alone_is_asked_alone(house):
    """The page says who was not asked, and does not speak for them; a name that nothing here has is refused."""
    page = " ".join(house.done(*QUICK).out.split())
    assert "Every device that is here can be used by what was asked." in page
    assert "python" in page.partition("Not asked: ")[2]
    refused = house.done("devices", "--check", "--framework", "nonsense", code=2)
    assert "--framework nonsense: it is not installed here" in refused.err
    assert "fake" in refused.err


def test_a_device_that_fails_its_product_is_not_well(house):
    """Exit code 5, with the reason; the others are tried all the same."""
    house.script('[peaks]\n"cuda:0/fp32" = "raise"\n"cpu/fp32" = 5e11\n')
    answer = house.done(*QUICK, code=5)
    first, *lines = answer.out.splitlines()
    assert first == "Not every device can be used: fake/cuda:0."
    line = next(each for each in lines if "cuda:0" in each)
    assert "failed: " in line
    assert fakes(house.done(*QUICK, "--json", code=5).json)["cpu"]["reason"] is None


def test_what_is_amiss_around_devices_is_told_with_a_command(house):
    """It ends nothing: every device can be used."""
    cores = len(os.sched_getaffinity(0))
    house.script(PEAKS)
    answer = house.done(*QUICK, env={"OMP_NUM_THREADS": str(cores + 7)})
    assert f"OMP_NUM_THREADS={cores + 7}: more threads than the {cores} cores that may be used." in answer.out
    assert "    unset OMP_NUM_THREADS" in answer.out.splitlines()


def test_a_folder_of_data_is_looked_at(house, tmp_path):
    """On which kind of file system it is."""
    told = house.done(*QUICK, "--json", "--data", str(tmp_path)).json
    kinds = told["machine"]["surroundings"]["filesystems"]
    assert list(kinds) == [str(tmp_path)]
    assert shutil.disk_usage(tmp_path).total > 0
    assert kinds[str(tmp_path)]
