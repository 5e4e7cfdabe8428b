"""Which heats may be alive at once, and why others may not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planner_machines import machine_with

from laptime.model.ask import Ask
from laptime.model.machine import Device
from laptime.model.quantities import Missing
from laptime.planner.groups import Need, expect_need, why_alone, why_no_room, why_too_large

GIB = 2**30
CPU = Device("cpu", "cpu", "processor", usable=True)
CARD = Device("cuda:0", "cuda", "card", usable=True, memory_bytes=10 * GIB)
NOTHING = Missing("not told")


@pytest.mark.parametrize(
    ("system", "device", "ask", "why"),
    [
        ("Linux 6.1", CARD, Ask(), None),
        ("Linux 6.1", CPU, Ask(alone=True), "--alone asks for it"),
        ("Darwin 23", CPU, Ask(), "this system offers no way to stop a training with all that it started"),
        ("Linux 6.1", replace(CARD, kind="tpu"), Ask(), "a TPU admits one process"),
    ],
)
def test_heats_run_one_after_another_for_a_reason(system, device, ask, why):
    assert why_alone(ask, replace(machine_with(CPU), system=system), [CPU, device]) == why


def test_a_heat_that_never_ran_may_need_as_much_as_the_largest():
    """On its own device, as far as any is seen there."""
    held = [Need(CPU, 3 * GIB, 2 * GIB, NOTHING), Need(CARD, 1 * GIB, 1 * GIB, 2 * GIB)]
    assert expect_need(CARD, held, NOTHING, keeps=False) == Need(CARD, 3 * GIB, 3 * GIB, 2 * GIB)
    unseen = expect_need(CPU, held, NOTHING, keeps=False)
    assert unseen.device_memory_bytes == Missing("no heat on this device was seen")


@pytest.mark.parametrize(
    ("known", "keeps", "most", "waiting"),
    [(NOTHING, True, 10, 10), (9 * GIB, True, 9, 9), (16 * GIB, False, 16, 6), (NOTHING, False, 8, 3)],
)
def test_what_a_heat_needs_is_what_it_held_before_and_one_that_keeps_memory_holds_more(known, keeps, most, waiting):
    """It holds all of it while others run."""
    need = expect_need(CPU, [Need(CPU, 8 * GIB, 3 * GIB, NOTHING)], known, keeps=keeps)
    assert (need.memory_bytes, need.waiting_bytes) == (most * GIB, waiting * GIB)


@pytest.mark.parametrize(
    ("held", "free", "why"),
    [
        # It waits with 9, and another grows from 3 to 8.
        ([Need(CPU, 8 * GIB, 3 * GIB, NOTHING)], 16.7 * GIB, "16.8 GiB more were needed, and 16.7 GiB are free"),
        ([Need(CPU, 8 * GIB, 3 * GIB, NOTHING)] * 2, 16.9 * GIB, None),
        ([Need(CPU, 8 * GIB, 8 * GIB, NOTHING)], 10.9 * GIB, None),
        ([Need(CPU, 8 * GIB, 8 * GIB, NOTHING)], 10.7 * GIB, "10.8 GiB more were needed, and 10.7 GiB are free"),
    ],
)
def test_a_heat_that_waits_may_fetch_memory_again_that_it_gave_back(held, free, why):
    """One runs at a time, so that of the one that grows most counts."""
    assert why_no_room(Need(CPU, 9 * GIB, 9 * GIB, NOTHING), held, free) == why


@pytest.mark.parametrize(
    ("need", "free", "why"),
    [
        (Need(CPU, 5 * GIB, 5 * GIB, NOTHING), 6 * GIB, None),
        (Need(CPU, 5 * GIB, 5 * GIB, NOTHING), 5 * GIB, "6.0 GiB more were needed, and 5.0 GiB are free"),
        (Need(CPU, 5 * GIB, 5 * GIB, NOTHING), NOTHING, None),
        (Need(CARD, GIB, GIB, 2.7 * GIB), 6 * GIB, None),
        (Need(CARD, GIB, GIB, 3 * GIB), 6 * GIB, "cuda:0 has 10.0 GiB, and together they need 10.3"),
        (Need(CARD, GIB, GIB, NOTHING), 6 * GIB, None),
    ],
)
def test_memory_decides(need, free, why):
    """That of the machine, and that of the card with those that hold some of it; a fifth more is kept free."""
    assert why_no_room(need, [Need(CARD, GIB, GIB, 4 * GIB), Need(CPU, GIB, GIB, NOTHING)], free) == why


def test_each_process_holds_some_of_a_card_that_its_framework_does_not_count():
    """Four small heats fill a card of 4 GiB; of another kind of device that is not known."""
    small, tiny = replace(CARD, memory_bytes=4 * GIB), GIB // 16
    held = [Need(small, GIB, GIB, tiny)] * 3
    assert why_no_room(Need(small, GIB, GIB, tiny), held[:2], NOTHING) is None
    assert why_no_room(Need(small, GIB, GIB, tiny), held, NOTHING) == "cuda:0 has 4.0 GiB, and together they need 4.1"
    other = replace(small, kind="xpu")
    assert why_no_room(Need(other, GIB, GIB, tiny), [Need(other, GIB, GIB, tiny)] * 3, NOTHING) is None


@pytest.mark.parametrize(
    ("device", "needed_gb", "why"),
    [
        (CPU, 23.5, None),
        (CPU, 34.2, "it would need about 34.2 GB, and 20.0 GB are free"),
        (CARD, 12.6, None),
        (CARD, 12.7, "it would need about 12.7 GB, and 10.7 GB are all that cuda:0 has"),
        (replace(CARD, memory_bytes=NOTHING), 1e6, None),
    ],
)
def test_a_heat_is_too_large_if_even_the_least_of_its_estimate_does_not_fit(device, needed_gb, why):
    """An estimate may be 15 % too high, or more."""
    assert why_too_large(device, round(1e9 * needed_gb), 0.15, round(20e9)) == why
    assert why_too_large(device, round(1e9 * needed_gb / 2), 0.5, round(20e9)) is None
    assert why_too_large(CPU, round(1e15), 0.15, NOTHING) is None
