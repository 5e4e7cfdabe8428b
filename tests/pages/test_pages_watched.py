"""Pages of whole trainings and of answers that were watched; the page of devices."""

from __future__ import annotations

from dataclasses import replace

import pytest
from full_records import whole
from infer_records import two_lanes
from records import CPU, MACHINE
from records import CUDA as FIRST_CARD
from shown import in_details

from golden import assert_agreed
from laptime.model.ask import Ask
from laptime.model.machine import Card, CardProcess, Device, DeviceNode, Framework, HostEnvironment, Use
from laptime.model.quantities import Missing
from laptime.model.sample import AnswerUsage, Energy, Usage
from laptime.model.visible import cells_wide
from laptime.questions.doctor.page import hardware, hardware_rows, render_devices
from laptime.questions.infer import page as infer
from laptime.questions.train import page as full

NO_CARD = Missing("this lane computes on the processor")
COOL = Missing("a virtual machine has none")
NOT_TOLD = Missing("not told")


def used(percent: float, watts: float, **energy: object) -> Usage:
    told = Energy("the processor", "counted", watts, watts * 52, watts * 1.04, 960 / watts)
    return Usage(
        processor_percent=percent,
        others_percent=1.2,
        memory_most_bytes=8e8,
        device_percent=NO_CARD,
        active_percent=NO_CARD,
        device_memory_most_bytes=NO_CARD,
        temperature_of="host",
        temperature_most_c=COOL,
        temperature_slope_c_per_min=COOL,
        power_most_w=Missing("a processor's meter counts energy, and reports no power of a moment"),
        energy=replace(told, **energy),
    )


def watched_training():
    made = whole()
    usages = (used(97.0, 65.0, j_whole=65.0 * 180), used(99.0, 80.0, j_whole=80.0 * 120))
    lanes = tuple(replace(lane, usage=usage) for lane, usage in zip(made.lanes, usages, strict=True))
    return replace(made, lanes=lanes, ask=replace(made.ask, price_per_kwh=0.25, rate_per_hour=1.8))


def watched_answers():
    made = two_lanes()
    usages = tuple(AnswerUsage(batch, used(50.0 + (batch or 0) / 8, 60.0)) for batch in (None, 1, 8, 64, 256))
    lanes = tuple(replace(each, usages=usages) for each in made.answer.lanes)
    return replace(made, answer=replace(made.answer, lanes=lanes), ask=Ask(infer=True, rate_per_hour=3.6))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_page_of_a_watched_training_is_the_one_agreed_on(width):
    """Energy of a lap and of the whole, and what both cost."""
    assert_agreed("full-watched", width, in_details(full.PART.render)(watched_training(), width))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_page_of_watched_answers_is_the_one_agreed_on(width):
    """Single calls, and the batch size at which most are answered."""
    assert_agreed("infer-watched", width, in_details(infer.PART.render)(watched_answers(), width))


def rows(page: str, start: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith(start)]


def test_a_whole_training_costs_energy_and_time():
    """11.7 kJ are 3.25 Wh; 0.25 a kWh for them, and 1.80 an hour for the 171 s from start to end of its test."""
    page = in_details(full.PART.render)(watched_training(), 200)
    (row,) = [line for line in rows(page, "torch/cpu  ") if "97 %" in line]
    assert "11.7 kJ counted" in row
    assert "3.25 Wh" in row
    (run,) = [run for run in watched_training().answer.runs if run.process.lane == "torch/cpu/as-written"]
    assert float(row.split()[-1]) == pytest.approx(3.25 / 1000 * 0.25 + 1.8 * run.whole_s / 3600, rel=5e-3)


def test_a_thousand_answers_cost_the_time_that_they_take():
    """At 86.2 ms or the rate of its quickest batch, 3.60 an hour is a thousandth a second."""
    page = in_details(infer.PART.render)(watched_answers(), 200)
    (single,) = rows(page, "torch/cpu, single calls")
    (batch,) = rows(page, "torch/cpu, batch 256")
    assert float(batch.split()[-1]) == pytest.approx(1000 / 17.3 / 1000, rel=5e-3)
    assert "82 %" in batch
    assert "50 %" in single
    assert "money a lap" not in page


CARD = Card(
    uuid="GPU-aa",
    bus="0000:3b:00",
    name="NVIDIA H200",
    driver="580.95.05",
    cuda="13.0",
    capability="9.0",
    memory_bytes=150_754_820_096,
    memory_used_bytes=10_727_000_000,
    power_limit_mw=700_000,
    pcie_generation=1,
    pcie_generation_most=5,
    pcie_width=16,
    pcie_width_most=16,
    sm_clock_most_mhz=1980,
    mig=False,
    ecc=True,
    persistence=True,
    display=False,
    processes=(CardProcess(4711, 500_000_000),),
    busy_percent=99.0,
    module="nvidia",
)
SILENT = {name: NOT_TOLD for name in Card.__dataclass_fields__ if name not in {"parent", "maker", "reason", "computes"}}
SPLIT = replace(CARD, uuid="GPU-bb", bus="0000:5e:00", mig=True, processes=(), busy_percent=NOT_TOLD)
NO_LINK = dict.fromkeys(("pcie_generation", "pcie_generation_most", "pcie_width", "pcie_width_most"), NOT_TOLD)
OF_THE_WHOLE = dict.fromkeys(("mig", "ecc", "power_limit_mw"), NOT_TOLD)
PART = replace(SPLIT, uuid="MIG-cc", name="NVIDIA H200 MIG 1g.18gb", parent="GPU-bb", **NO_LINK, **OF_THE_WHOLE)
PART = replace(PART, memory_bytes=18_000_000_000, memory_used_bytes=0)
LOST = Card(**SILENT, reason="no driver holds it: amdgpu is not loaded, or does not know it", maker="AMD")
LOST = replace(LOST, name="AMD display 1002:744c", bus="0000:86:00", pcie_generation_most=4, pcie_width_most=16)
CONSOLE = Card(**SILENT, maker="ASPEED", computes=False)
CONSOLE = replace(CONSOLE, name="ASPEED display 1a03:2000", bus="0000:02:00")
USE = Use(0.3, 12.4, 0.51, 2450.4, ("powersave",), 20_000_000_000, 1_500_000_000)
AROUND = HostEnvironment(
    (DeviceNode("/dev/nvidia0", "0666", "root", "root", True), DeviceNode("/dev/kfd", "0660", "root", "render", False)),
    {"CUDA_VISIBLE_DEVICES": "1,0"},
    64_000_000,
    "docker",
    "QEMU Standard PC",
)


def equipped():
    """Two cards in crossed order, an instance, one without a driver, and a server's console."""
    cuda = replace(FIRST_CARD, usable=True, details={"uuid": "MIG-cc"})
    second = replace(cuda, name="cuda:1", details={"bus": "00000000:3B:00.0"})
    torch = Framework("torch", "2.13.0", devices=(CPU, cuda, second))
    jax = Framework("jax", "0.10.2", devices=(replace(CPU, details={}), replace(cuda, details={"uuid": "aa"})))
    cards = (CONSOLE, CARD, SPLIT, PART, LOST)
    return replace(MACHINE, frameworks=(torch, jax), cards=cards, use=USE, surroundings=AROUND)


def bare():
    absent = {"NVIDIA": Missing("no NVIDIA driver is installed here"), "AMD": Missing("none"),
              "PCI": Missing("no display and no accelerator is on the PCI bus")}  # fmt: skip
    torch = Framework("torch", "2.13.0", devices=(CPU,))
    use = replace(USE, frequency_mhz=NOT_TOLD, governors=NOT_TOLD, swap_used_bytes=0)
    return replace(MACHINE, frameworks=(torch,), absent=absent, use=use, surroundings=HostEnvironment())


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(("name", "make"), [("cards", equipped), ("bare", bare)])
def test_the_page_of_devices_is_the_one_agreed_on(name, make, width):
    page = render_devices(make(), width)
    assert max(map(cells_wide, page.splitlines())) <= width
    assert_agreed(f"devices-{name}", width, page)


def test_a_driver_that_is_not_there_is_said_once():
    """With the bus's own word; other makers' are for programs."""
    page = render_devices(bare(), 200)
    assert page.count("no NVIDIA driver is installed here") == 1
    assert "cards      none: no display and no accelerator is on the PCI bus; no NVIDIA" in page


def test_a_machine_that_was_not_looked_at_has_no_hardware_to_show():
    assert hardware(MACHINE, 100) == []


def test_hardware_is_rows_beside_the_frameworks():
    """Each with the keys that every row has."""
    processor, *cards = hardware_rows(equipped())
    assert all({"name", "kind", "usable", "reason", "framework", "notes"} <= row.keys() for row in (processor, *cards))
    assert (processor["kind"], processor["use"]["governors"], processor["memory_bytes"]) == (
        "processor",
        ("powersave",),
        24_000_000_000,
    )
    assert processor["surroundings"]["variables"] == {"CUDA_VISIBLE_DEVICES": "1,0"}
    assert [(row["name"], row["users"]) for row in cards] == [
        ("ASPEED display 1a03:2000", []),
        ("NVIDIA H200", ["torch cuda:1", "jax cuda:0"]),
        ("NVIDIA H200", []),
        ("NVIDIA H200 MIG 1g.18gb", ["torch cuda:0"]),
        ("AMD display 1002:744c", []),
    ]
    assert cards[0]["reason"] == "it only brings a picture to a screen"
    assert cards[4]["reason"].startswith("no driver holds it")


def test_macs_and_intels_only_card_is_known_by_its_maker():
    """Their frameworks tell neither UUID nor place; of two, none is guessed."""
    mps = Device("mps", "mps", "Apple GPU", usable=True)
    apple = replace(LOST, maker="Apple", reason=None, name="Apple M2", bus=NOT_TOLD)
    mac = replace(MACHINE, frameworks=(Framework("torch", "2.13.0", devices=(mps,)),), cards=(apple,))
    assert hardware_rows(mac)[1]["users"] == ["torch mps"]
    two = replace(mac, cards=(apple, replace(apple, name="another")))
    assert [row["users"] for row in hardware_rows(two)[1:]] == [[], []]
