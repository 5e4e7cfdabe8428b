"""The recipe "A sensor": a package outside laptime adds a row and a class, and a timeline has its channel."""

from __future__ import annotations

import os
import time

import pytest

from laptime.analysis.usage import points_of
from laptime.engine.run.instruments import SensorSelection
from laptime.model.machine import Device
from laptime.model.process import Channel
from laptime.model.quantities import Missing
from laptime.model.sample import all_sensors, meaning_of, meters_of, owner_of

CPU = Device("cpu", "cpu", "a processor", usable=True)
SENSOR = """
from laptime.model.quantities import Missing
from laptime.model.sample import ChannelRow, SensorRow
from laptime.model.process import Channel, Opened

ROW = SensorRow(
    "room", "room_sensor:RoomSensor", channels=(ChannelRow("drawn", "energy", "cpu", "plug-"),)
)


class RoomSensor:
    name, period_s = "room", 0.01

    def probe(self):
        return None

    def open(self, pid):
        return Opened((Channel("room", "temperature_c", "C"),), ((Channel("room", "humidity", "%"), Missing("dry")),))

    def read(self):
        return (21.5,)

    def close(self):
        pass
"""


@pytest.fixture
def site(tmp_path):
    """Install a package that adds the sensor."""
    folder = tmp_path / "site"
    information = folder / "room_sensor-0.1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: room-sensor\nVersion: 0.1\n")
    (information / "entry_points.txt").write_text("[laptime.sensors]\nroom = room_sensor:ROW\n")
    (folder / "room_sensor.py").write_text(SENSOR)
    return folder


def test_what_reads_no_power_is_known_beforehand():
    """Of an instrument that was not asked for, and of a device whose power none reads."""
    nothing = SensorSelection(("none",), 100.0)
    assert nothing.why_no_power(CPU) == Missing("rapl: it was not asked for")
    assert nothing.why_no_power(Device("mps", "mps", "Apple", usable=True)) == Missing("no instrument reads it")


def test_a_sensor_added_from_outside_is_read(site, monkeypatch):
    """It is chosen by its word, and its channel is in the timeline; what it lacks has its reason there."""
    monkeypatch.syspath_prepend(site)
    all_sensors.cache_clear()
    try:
        selection = SensorSelection(("room",), 100.0)
        sampler = selection.sampler_for("a lane", (CPU,))
        assert selection.why_no_power(CPU) is None, "its row leaves open whether it reads the power"
        meter = Channel("plug-2", "drawn", "J", "counter")
        assert (meaning_of(meter), owner_of(meter.device)) == ("energy", "cpu")
        assert meaning_of(Channel("plug-2", "drawn", "calories", "counter")) is None
        assert meaning_of(Channel("room", "temperature_c", "C")) == "temperature"
        assert meters_of("cpu") == ("rapl", "room")
    finally:
        all_sensors.cache_clear()
    sampler.begin(os.getpid())
    deadline = time.monotonic() + 10
    while not (sampler.so_far().find("room", "temperature_c")) and time.monotonic() < deadline:
        time.sleep(0.01)
    timeline = sampler.end()
    assert {value for _, value in points_of(timeline, "room", "temperature_c")} == {21.5}
    assert timeline.why_not("room", "humidity") == Missing("dry")
    assert ("host", Missing("it was not asked for")) in timeline.absent


def test_its_word_is_known_where_the_package_is(house, site):
    """With the package a race may be planned with it; without, the word is refused with the sensors that there are."""
    words = ("race", "cifar-mlp", "fake/cpu", "--dry-run", "--sensors", "room")
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    assert house.run(*words, env={"PYTHONPATH": path}).code == 0
    refused = house.run(*words)
    assert refused.code == 2
    assert "--sensors room: expected none, or some of host, rapl, nvml" in refused.err
