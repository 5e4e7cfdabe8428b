"""AMD's cards on made-up trees: two cards in crossed order, an old one, and another maker's."""

from __future__ import annotations

import pytest

from laptime.machine.amd import describe_amd_cards, list_amd_cards
from laptime.machine.sensors.base import read_link_generation
from laptime.model.quantities import Missing

CARD = {
    "vendor": "0x1002\n",
    "unique_id": "a1b2c3d4e5f60718\n",
    "gpu_busy_percent": "87\n",
    "mem_info_vram_used": "1073741824\n",
    "mem_info_vram_total": "17163091968\n",
    "current_link_speed": "16.0 GT/s PCIe\n",
    "current_link_width": "16\n",
    "hwmon/hwmon4/power1_average": "203000000\n",
    "hwmon/hwmon4/power1_label": "PPT\n",
    "hwmon/hwmon4/temp1_input": "61000\n",
    "hwmon/hwmon4/temp1_label": "edge\n",
    "hwmon/hwmon4/temp2_input": "75000\n",
    "hwmon/hwmon4/temp2_label": "junction\n",
    "hwmon/hwmon4/temp3_input": "80000\n",
    "hwmon/hwmon4/temp3_label": "mem\n",
}
OLD = {
    "vendor": "0x1002\n",
    "hwmon/hwmon1/temp1_input": "50000\n",
    "hwmon/hwmon1/power1_input": "40500000\n",
}


@pytest.fixture
def plug(tmp_path):
    """Return a way to plug cards in: the number that the system gave, the address, and the card's files."""

    def plug_in(number: int, bus: str, files: dict[str, str]):
        device = f"sys/devices/pci0000:00/{bus}"
        for name, text in files.items():
            place = tmp_path / device / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        card = tmp_path / f"sys/class/drm/card{number}"
        card.mkdir(parents=True)
        (card / "device").symlink_to(tmp_path / device)
        (tmp_path / f"sys/class/drm/card{number}-HDMI-A-1").mkdir()
        return tmp_path / "sys"

    return plug_in


def test_a_card_shows_what_it_has(plug):
    (card,) = describe_amd_cards(plug(1, "0000:0A:00.0", CARD))
    assert (card.maker, card.bus, card.busy_percent) == ("AMD", "0000:0a:00", 87.0)
    assert (card.memory_used_bytes, card.memory_bytes) == (2**30, 17163091968)


def test_cards_are_known_by_their_addresses(plug):
    """Whatever numbers they were given; another maker's is no card of ours."""
    plug(1, "0000:03:00.0", CARD)
    plug(0, "0000:83:00.0", OLD | {"uevent": "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:83:00.0\n"})
    sys = plug(2, "0000:c3:00.0", CARD | {"vendor": "0x10de\n"})
    first, second = list_amd_cards(sys)
    assert (first.bus, first.unique_id, first.memory_total_bytes) == ("0000:03:00.0", "a1b2c3d4e5f60718", 17163091968)
    assert second.bus == "0000:83:00.0"
    assert second.unique_id == Missing("this card reports no identity of its own")


@pytest.mark.parametrize(
    ("speed", "generation"),
    [("2.5 GT/s PCIe\n", 1), ("8.0 GT/s PCIe\n", 3), ("32.0 GT/s PCIe\n", 5), ("7 ?", None), ("Unknown speed", None)],
)
def test_a_links_speed_is_a_generation(tmp_path, speed, generation):
    """What is no speed of PCI Express has none."""
    place = tmp_path / "current_link_speed"
    place.write_text(speed)
    assert read_link_generation(place) == (generation or Missing(f"{place} does not tell it"))
