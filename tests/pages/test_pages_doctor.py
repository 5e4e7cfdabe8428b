"""A checkup as a page: what was tried, and for what is amiss a cause and a command that can be copied."""

from __future__ import annotations

from dataclasses import replace

import pytest
from records import MACHINE

from golden import assert_agreed
from laptime.model.frameworks import install_command
from laptime.model.hardware import Peak
from laptime.model.machine import Framework
from laptime.model.quantities import Missing
from laptime.questions.doctor.nouns import Checkup, DeviceTest, Problem
from laptime.questions.doctor.page import render_checkup

RIGHT = DeviceTest("torch", "cpu", "the processor", Peak(120e9, 118e9, "torch 2.13.0"), 0.51)
UNKNOWN = DeviceTest("jax", "cpu", "the processor", Peak(90e9, 88e9, "jax 0.10.2"), Missing("no peak is kept"))
FAILED = DeviceTest("torch", "cuda:1", "NVIDIA H100", None, Missing("-"), "out of memory")
UNUSED = Problem(
    "NVIDIA H100 (0000:3b:00) in jax",
    "cpu build",
    "jax 0.10.2 is a build for processors only",
    'pip install --upgrade "jax[cuda12]"',
)
AROUND = Problem("the host", "shared memory", "/dev/shm holds 64 MB", "docker run --shm-size=8g ...")
ILL = Checkup(MACHINE, (RIGHT, UNKNOWN, FAILED), (UNUSED,), (AROUND,))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_page_names_causes_and_commands(width):
    assert_agreed("doctor", width, render_checkup(ILL, width, color=False))


def test_a_command_is_never_broken():
    """It is there to be copied."""
    lines = render_checkup(ILL, 40, color=False).splitlines()
    assert f"    {UNUSED.command}" in lines


def test_a_machine_that_is_well_is_told_so():
    page = render_checkup(Checkup(MACHINE, (RIGHT,), (), ()), 100, color=False)
    assert "Every device that is here can be used by every framework that is installed." in page
    assert "51 % of its measured peak" in page


def test_without_a_framework_nothing_is_well():
    """Python's own lanes are there without one."""
    alone = replace(MACHINE, frameworks=(Framework("python", "3.11.7"),))
    assert not Checkup(alone, (), (), ()).is_well
    assert Checkup(replace(MACHINE, frameworks=(Framework("torch", "2"),)), (), (), ()).is_well


def test_without_a_framework_nothing_can_be_tried():
    assert install_command("torch") in render_checkup(Checkup(MACHINE, (), (), ()), 100, color=False)


def test_a_rate_on_a_busy_machine_is_marked():
    """PyTorch at 19 and JAX at 75 GFLOP/s on one processor looked like a matter of the frameworks."""
    busy = replace(RIGHT, others_cores=1.52, is_slowed=True)
    page = render_checkup(Checkup(MACHINE, (busy, UNKNOWN), (), ()), 100, color=False)
    assert "works, 120 GFLOP/s on busy cores" in page
    assert "works, 90.0 GFLOP/s\n" in page
    cores = MACHINE.processor.cores_usable
    assert f"Other processes took up to 1.5 of {cores} cores meanwhile: rates on busy cores are too low." in page
    assert "busy" not in render_checkup(Checkup(MACHINE, (RIGHT,), (), ()), 100, color=False)
