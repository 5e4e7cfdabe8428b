"""AMD's cards on made-up trees: two cards in crossed order, an old one, another maker's, and one that is taken out."""

from __future__ import annotations

import pytest
from trees import by_name, lay_out, open_files, reasons

from laptime.machine.sensors.amd import AmdSensor, list_amd_cards
from laptime.machine.sensors.base import read_link_generation
from laptime.model.errors import SensorError
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
        lay_out(tmp_path, {f"{device}/{name}": text for name, text in files.items()})
        card = tmp_path / f"sys/class/drm/card{number}"
        card.mkdir(parents=True)
        (card / "device").symlink_to(tmp_path / device)
        (tmp_path / f"sys/class/drm/card{number}-HDMI-A-1").mkdir()
        return tmp_path / "sys"

    return plug_in


def test_a_card_shows_what_it_has(plug):
    """Power is named for what it is, and what the card does not have is absent."""
    sensor = AmdSensor(sys=plug(1, "0000:0A:00.0", CARD))
    assert sensor.probe() is None
    opened = sensor.open(1)
    assert by_name(opened, sensor.read()) == {
        ("0000:0a:00.0", name): figure
        for name, figure in {
            "busy_percent": 87.0,
            "memory_used_bytes": 2.0**30,
            "memory_total_bytes": 17163091968.0,
            "power_average_mw": 203e3,
            "temperature_c": 61.0,
        }.items()
    }
    assert list(reasons(opened)) == [("0000:0a:00.0", "power_instant_mw")]
    assert reasons(opened).popitem()[1].endswith("power1_input: No such file or directory")
    sensor.close()
    assert not [target for target in open_files() if "hwmon4" in target]


def test_an_older_driver_tells_less(plug):
    """One temperature without a label, and the power of the moment."""
    sensor = AmdSensor(sys=plug(0, "0000:03:00.0", OLD))
    opened = sensor.open(1)
    told = {name: figure for (_, name), figure in by_name(opened, sensor.read()).items()}
    sensor.close()
    assert told == {"power_instant_mw": 40500.0, "temperature_c": 50.0}
    assert reasons(opened)["0000:03:00.0", "busy_percent"].endswith("gpu_busy_percent: No such file or directory")


def test_cards_are_known_by_their_addresses(plug):
    """Whatever numbers they were given; another maker's is no card of ours."""
    plug(1, "0000:03:00.0", CARD)
    plug(0, "0000:83:00.0", OLD | {"uevent": "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:83:00.0\n"})
    sys = plug(2, "0000:c3:00.0", CARD | {"vendor": "0x10de\n"})
    first, second = list_amd_cards(sys)
    assert (first.bus, first.unique_id, first.memory_total_bytes) == ("0000:03:00.0", "a1b2c3d4e5f60718", 17163091968)
    assert second.bus == "0000:83:00.0"
    assert second.unique_id == Missing("this card reports no identity of its own")


def test_one_card_may_be_asked_for(plug):
    """By its place as a framework reports it, without the function; one that is not there is said to be missing."""
    plug(0, "0000:03:00.0", CARD)
    sys = plug(1, "0000:83:00.0", OLD)
    sensor = AmdSensor("0000:83:00", sys)
    assert sensor.probe() is None
    assert {channel.device for channel in sensor.open(1).channels} == {"0000:83:00.0"}
    sensor.close()
    assert AmdSensor("0000:99:00", sys).probe() == Missing("no card of AMD with the driver amdgpu is at 0000:99:00")


def test_a_card_that_is_taken_out_tells_nothing_and_the_last_is_the_end(plug, tmp_path):
    """The others go on."""
    plug(0, "0000:03:00.0", CARD)
    sensor = AmdSensor(sys=plug(1, "0000:83:00.0", OLD))
    opened = sensor.open(1)

    def take_out(bus: str) -> None:
        for place in (tmp_path / f"sys/devices/pci0000:00/{bus}").rglob("*"):
            if place.is_file():
                place.write_text("")

    take_out("0000:83:00.0")
    told = by_name(opened, sensor.read())
    assert {bus for (bus, _), figure in told.items() if figure is None} == {"0000:83:00.0"}
    take_out("0000:03:00.0")
    with pytest.raises(SensorError, match="no card of AMD answers"):
        sensor.read()
    sensor.close()


def test_a_machine_without_cards_says_so(tmp_path):
    """A container without /sys, too."""
    assert AmdSensor(sys=tmp_path).probe() == Missing(
        "no graphics card of AMD with the driver amdgpu is under /sys/class/drm"
    )


@pytest.mark.parametrize(
    ("speed", "generation"),
    [("2.5 GT/s PCIe\n", 1), ("8.0 GT/s PCIe\n", 3), ("32.0 GT/s PCIe\n", 5), ("7 ?", None), ("Unknown speed", None)],
)
def test_a_links_speed_is_a_generation(tmp_path, speed, generation):
    """What is no speed of PCI Express has none."""
    place = tmp_path / "current_link_speed"
    place.write_text(speed)
    assert read_link_generation(place) == (generation or Missing(f"{place} does not tell it"))
