"""What slows trainings whatever they compute on: each told with a command, and nothing where all is as it should be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from card_machines import card, machine, using

from laptime.model.machine import Use
from laptime.model.quantities import Missing
from laptime.questions.doctor.checkup import find_host_problems

NOT_TOLD = Missing("not told")
QUIET = Use(0.3, 1.0, 0.1, NOT_TOLD, ("performance",), 30_000_000_000, 0)
WELL = replace(
    machine(card(), frameworks=(using(),), shared_memory_bytes=16 << 30, filesystems={"/data": "ext4"}), use=QUIET
)


def around(**changed):
    return replace(WELL, surroundings=replace(WELL.surroundings, **changed))


CASES = {
    "shared memory": (around(shared_memory_bytes=64 << 20), "/dev/shm holds 67 MB", "remount,size=8G"),
    "quota": (
        replace(WELL, processor=replace(WELL.processor, cores_usable=2, quota_cores=2.0)),
        "8 cores are visible, and the container may use 2",
        "export OMP_NUM_THREADS=2",
    ),
    "threads": (around(variables={"OMP_NUM_THREADS": "1"}), "fewer threads than the 8 cores", "unset OMP_NUM_THREADS"),
    "network file system": (
        around(filesystems={"/data": "nfs4"}),
        "/data is on a network file system (nfs4)",
        "cp -r",
    ),
    "swap": (
        replace(WELL, use=replace(QUIET, swap_used_bytes=2_000_000_000)),
        "2.0 GB of memory lie in swap",
        "ps aux",
    ),
    "governor": (
        replace(WELL, use=replace(QUIET, governors=("conservative",))),
        "governed by conservative",
        "cpupower frequency-set -g performance",
    ),
}


@pytest.mark.parametrize("cause", CASES)
def test_it_is_told_with_a_command(cause):
    here, says, command = CASES[cause]
    (found,) = find_host_problems(here)
    assert found.cause == cause
    assert says in found.says
    assert command in found.command


def test_nothing_is_told_of_a_machine_that_is_well():
    assert find_host_problems(WELL) == ()


@pytest.mark.parametrize(
    ("governor", "saves"),
    [
        ("powersave", True),
        ("powersave of intel_pstate", False),
        ("powersave of intel_pstate, preferring balance_performance", False),
        ("powersave of amd-pstate-epp, preferring power", True),
    ],
)
def test_a_driver_that_chooses_itself_saves_only_where_it_is_told_to(governor, saves):
    """Its powersave is its usual way."""
    here = replace(WELL, use=replace(QUIET, governors=(governor,)))
    assert [found.cause for found in find_host_problems(here)] == ["governor"] * saves


def test_what_was_not_looked_at_is_not_judged():
    assert find_host_problems(replace(WELL, surroundings=None, use=None)) == ()
