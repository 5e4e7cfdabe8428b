"""The processor's energy meters on made-up trees: names, wrap-around, and what prevents reading them."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import pytest
from trees import lay_out, open_files, reasons

from laptime.machine.sensors.rapl import RaplSensor
from laptime.model.errors import SensorError
from laptime.model.process import Channel
from laptime.model.quantities import Missing

RANGE_UJ = 262_143_328_850
ZONES = "sys/class/powercap/"
NOBODY = 65534


def zone(name: str, what: str, microjoules: int) -> dict[str, str]:
    folder = f"{ZONES}intel-rapl:{name}/"
    return {
        folder + "name": f"{what}\n",
        folder + "energy_uj": f"{microjoules}\n",
        folder + "max_energy_range_uj": f"{RANGE_UJ}\n",
    }


SERVER = (
    zone("0", "package-0", 5_000_000)
    | zone("0:0", "core", 1)
    | zone("0:1", "dram", 2_000_000)
    | zone("1", "package-1", 7_000_000)
    | zone("1:0", "dram", 3_000_000)
    | zone("2", "psys", 9)
    | {"sys/class/powercap/intel-rapl/enabled": "1\n", "sys/class/powercap/intel-rapl-mmio:0/name": "package-0\n"}
)


@pytest.fixture
def meters(tmp_path):
    """Open a sensor on made-up meters; give it, and a way to set one."""
    lay_out(tmp_path, SERVER)
    sensor = RaplSensor(tmp_path / "sys")
    assert sensor.probe() is None

    def turn(name: str, microjoules: int | str) -> None:
        lay_out(tmp_path, {f"{ZONES}intel-rapl:{name}/energy_uj": f"{microjoules}\n"})

    yield sensor, turn
    sensor.close()


def test_packages_and_their_memories_are_named(meters):
    """Parts of a package, a whole board, and the same meters by another way are left out."""
    sensor, _ = meters
    devices = [f"{what}-{number}" for number in (0, 1) for what in ("package", "dram")]
    assert sensor.open(1).channels == tuple(Channel(device, "energy_j", "J", "counter") for device in devices)


def test_energy_is_counted_from_the_opening(meters):
    """In joules."""
    sensor, turn = meters
    sensor.open(1)
    assert sensor.read() == (0, 0, 0, 0)
    turn("0", 5_250_500)
    turn("1:0", 3_000_001)
    assert sensor.read() == (0.2505, 0, 0, 1e-6)


def test_a_meter_that_wraps_around_counts_on(meters):
    """Twice, with its own range."""
    sensor, turn = meters
    turn("0", RANGE_UJ - 1000)
    sensor.open(1)
    for microjoules in (500, RANGE_UJ // 3, 2 * (RANGE_UJ // 3), 499):
        turn("0", microjoules)
        figures = sensor.read()
    assert figures[0] == (1000 + RANGE_UJ + 499) / 1e6


def test_a_meter_that_was_set_back_counts_nothing_for_it(meters):
    """A wrap-around that half a range would have to have been used for is none."""
    sensor, turn = meters
    sensor.open(1)
    turn("0", 1_000_000)
    assert sensor.read()[0] == 0
    turn("0", 1_500_000)
    assert sensor.read()[0] == 0.5


def test_one_that_fails_tells_nothing_and_all_that_fail_are_the_end(meters):
    """The others go on."""
    sensor, turn = meters
    sensor.open(1)
    turn("0", "")
    assert sensor.read() == (None, 0, 0, 0)
    for name in ("0:1", "1", "1:0"):
        turn(name, "")
    with pytest.raises(SensorError, match="can be read any more"):
        sensor.read()


def test_a_machine_without_meters_says_so(tmp_path):
    """As most virtual ones."""
    assert RaplSensor(tmp_path).probe() == Missing(
        "no meter of the processor's energy is under /sys/class/powercap, as in most virtual machines"
    )
    assert RaplSensor(tmp_path).open(1).channels == ()


@contextlib.contextmanager
def as_nobody():
    """Be a user without rights for a while, if we are root; root may read whatever it wants."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_only_root_may_read_names_the_way_out():
    """A package that may be read is shown, and one that may not is absent; if none may, the probe has the reason."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        lay_out(root, zone("0", "package-0", 5) | zone("1", "package-1", 6))
        first, second = (root / f"{ZONES}intel-rapl:{number}/energy_uj" for number in (0, 1))
        first.chmod(0)
        sensor = RaplSensor(root / "sys")
        with as_nobody():
            one_may = sensor.probe()
            opened = sensor.open(1)
            sensor.close()
        second.chmod(0)
        with as_nobody():
            none_may = sensor.probe()
    assert one_may is None
    assert [channel.device for channel in opened.channels] == ["package-1"]
    assert set(reasons(opened)) == {("package-0", "energy_j")}
    assert none_may is not None
    assert f"only root may read {first}" in none_may.missing
    assert "sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj" in none_may.missing


def test_no_meter_stays_open(meters):
    """After it is closed."""
    sensor, _ = meters
    sensor.open(1)
    sensor.close()
    assert not [target for target in open_files() if "energy_uj" in target]
