"""All cards of a machine, from what drivers and the bus tell of them: each once, and why one cannot compute."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laptime.machine.amd import describe_amd_cards
from laptime.machine.cards import describe_pci, find_name, join_cards, list_pci
from laptime.machine.sensors.nvml import Survey
from laptime.machine.sensors.nvml.library import UnreadableCard
from laptime.model.quantities import Missing

NO_LIBRARY = Missing("no NVIDIA driver is installed here")
NO_MAC = Missing("this is no Mac")
LINK = {
    "current_link_speed": "2.5 GT/s PCIe\n",
    "max_link_speed": "32.0 GT/s PCIe\n",
    "current_link_width": "16\n",
    "max_link_width": "16\n",
}
IDS = """\
# a list of names
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t2330  Another maker's card
10de  NVIDIA Corporation
\t2330  GH100 [H100 SXM5 80GB]
\t\t10de 16c1  H100 SXM5
\t2331  GH100 [H100 PCIe]
"""


@pytest.fixture
def plug(tmp_path):
    """Return a way to plug devices in: place, class, vendor and device, and the kernel's driver that holds it."""

    def plug_in(bus: str, kind: str, vendor: str, device: str = "0x2330", driver: str = "", **files: str):
        folder = tmp_path / "devices" / bus
        folder.mkdir(parents=True)
        for name, text in {"class": f"{kind}\n", "vendor": f"{vendor}\n", "device": f"{device}\n", **files}.items():
            (folder / name).write_text(text)
        if driver:
            (tmp_path / "drivers" / driver).mkdir(parents=True, exist_ok=True)
            (folder / "driver").symlink_to(tmp_path / "drivers" / driver)
        listed = tmp_path / "sys" / "bus" / "pci" / "devices"
        listed.mkdir(parents=True, exist_ok=True)
        (listed / bus).symlink_to(folder)
        return tmp_path / "sys"

    return plug_in


def joined(sys, nvidia=NO_LIBRARY, amd=()):
    return join_cards(nvidia, amd, NO_MAC, list_pci(sys))


def test_only_displays_and_accelerators_are_cards(plug):
    """A bridge, a network card and a card's sound are none; two functions of one card are one."""
    plug("0000:00:00.0", "0x060000", "0x8086")
    plug("0000:3b:00.0", "0x030200", "0x10de", driver="nvidia")
    plug("0000:3b:00.1", "0x040300", "0x10de")
    plug("0000:03:00.1", "0x038000", "0x1002")
    plug("0000:03:00.0", "0x030000", "0x1002", driver="amdgpu")
    found = list_pci(plug("0000:af:00.0", "0x120000", "0x1da3"))
    assert [(each.bus, each.kind, each.module) for each in found] == [
        ("0000:03:00", "display", "amdgpu"),
        ("0000:3b:00", "display", "nvidia"),
        ("0000:af:00", "accelerator", None),
    ]


@pytest.mark.parametrize(
    ("vendor", "driver", "reason"),
    [
        ("0x10de", "", "no driver holds it: nvidia is not loaded, or does not know it"),
        ("0x10de", "nouveau", "the driver nouveau holds it, which only draws; nvidia is needed"),
        ("0x10de", "vfio-pci", "it is given away to a virtual machine (vfio-pci)"),
        ("0x10de", "nvidia", "no NVIDIA driver is installed here"),
        ("0x1002", "radeon", "the driver radeon holds it, which only draws; amdgpu is needed"),
        ("0x8086", "xe", None),
        ("0x1ae0", "", "no driver holds it"),
    ],
)
def test_a_card_that_no_driver_tells_of_says_why(plug, vendor, driver, reason):
    """NVIDIA's own module without NVIDIA's library is the library's reason."""
    (card,) = joined(plug("0000:3b:00.0", "0x030200", vendor, driver=driver)).cards
    assert (card.reason, card.computes) == (reason, True)
    assert isinstance(card.memory_bytes, Missing)


def test_what_only_draws_is_no_accelerator(plug):
    """A server's console is on the list, and nobody is to look for its driver."""
    (card,) = joined(plug("0000:02:00.0", "0x030000", "0x1a03", "0x2000", driver="ast")).cards
    assert (card.maker, card.name, card.reason, card.computes) == ("ASPEED", "ASPEED display 1a03:2000", None, False)


def test_the_link_is_told_by_the_bus(plug):
    """As it is now, idle, and as both ends agreed."""
    (card,) = joined(plug("0000:3b:00.0", "0x030200", "0x10de", **LINK)).cards
    link = (card.pcie_generation, card.pcie_generation_most, card.pcie_width, card.pcie_width_most)
    assert link == (1, 5, 16, 16)


def test_a_card_has_the_name_that_the_system_knows(plug, tmp_path):
    """Of the right vendor, and not that of a card inside a card; else its numbers."""
    (place,) = list_pci(plug("0000:3b:00.0", "0x030200", "0x10de"))
    (tmp_path / "pci.ids").write_text(IDS)
    assert find_name(place, (tmp_path / "not there", tmp_path / "pci.ids")) == "GH100 [H100 SXM5 80GB]"
    assert describe_pci(replace(place, device="0x9999"), (tmp_path / "pci.ids",)).name == "NVIDIA display 10de:9999"


def test_a_card_that_a_driver_tells_of_is_listed_once(plug):
    """What the driver knows counts, and not what the bus knows."""
    sys = plug("0000:3b:00.0", "0x030200", "0x10de", driver="nvidia")
    told = replace(describe_pci(list_pci(sys)[0]), uuid="GPU-1f", name="NVIDIA H200", reason=None)
    assert joined(sys, Survey((told,))).cards == (told,)


def test_lost_cards_are_those_that_are_left_on_the_bus(plug):
    """NVML counts two and shows one; the other that NVIDIA's module holds has NVML's reason."""
    plug("0000:5e:00.0", "0x030200", "0x10de", driver="nvidia")
    sys = plug("0000:3b:00.0", "0x030200", "0x10de", driver="nvidia")
    told = replace(describe_pci(list_pci(sys)[1]), uuid="GPU-1f", reason=None)
    lost = UnreadableCard("NVML's card 0", Missing("the card was lost"))
    first, second = joined(sys, Survey((told,), (lost,))).cards
    assert (first.bus, first.reason, second) == ("0000:3b:00", "the card was lost", told)


def test_a_machine_without_cards_says_who_was_asked(tmp_path, plug):
    """Once each; a bus that is not there is a reason of its own."""
    found = joined(plug("0000:00:00.0", "0x060000", "0x8086"))
    assert found.cards == ()
    assert found.absent == {
        "NVIDIA": NO_LIBRARY,
        "AMD": Missing("no card that amdgpu drives is under /sys/class/drm"),
        "Apple": NO_MAC,
        "PCI": Missing("no display and no accelerator is on the PCI bus"),
    }
    gone = joined(tmp_path / "nowhere").absent["PCI"]
    assert gone == Missing(f"{tmp_path / 'nowhere/bus/pci/devices'}: No such file or directory")


def test_amds_cards_are_told_by_their_driver(plug, tmp_path):
    """Memory, what it has to do, its link and its limit of power; and it is matched to the bus."""
    files = {"unique_id": "a1b2\n", "mem_info_vram_total": "17163091968\n", "mem_info_vram_used": "1073741824\n"}
    sys = plug("0000:03:00.0", "0x030000", "0x1002", driver="amdgpu", gpu_busy_percent="87\n", **files, **LINK)
    device = tmp_path / "devices" / "0000:03:00.0"
    (device / "hwmon" / "hwmon4").mkdir(parents=True)
    (device / "hwmon" / "hwmon4" / "power1_cap").write_text("303000000\n")
    (sys / "class" / "drm" / "card1").mkdir(parents=True)
    (sys / "class" / "drm" / "card1" / "device").symlink_to(device)
    (card,) = joined(sys, amd=describe_amd_cards(sys)).cards
    assert (card.maker, card.uuid, card.bus, card.module) == ("AMD", "a1b2", "0000:03:00", "amdgpu")
    assert (card.memory_bytes, card.memory_used_bytes, card.busy_percent) == (17163091968, 1073741824, 87)
    assert (card.power_limit_mw, card.pcie_generation, card.pcie_generation_most) == (303000, 1, 5)
    assert card.name == Missing("amdgpu does not tell it under /sys")
