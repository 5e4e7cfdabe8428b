"""On a machine with one of NVIDIA's cards: its own driver, its own figures."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from laptime.machine.sensors.nvml import NvmlSensor, SlowNvmlSensor, list_cards
from laptime.model.machine import Device, match_card
from laptime.model.quantities import Missing

CARDS = list_cards()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(isinstance(CARDS, Missing), reason=CARDS.missing if isinstance(CARDS, Missing) else ""),
]
ASK_CUDA = (
    "from laptime.engine.backends.cuda import identify_card; told = identify_card(0); print(told['uuid'], told['bus'])"
)


@pytest.mark.parametrize("sensor", [NvmlSensor(), SlowNvmlSensor()], ids=["fast", "slow"])
def test_a_real_card_tells_what_it_shows(sensor, capsys):
    """Each channel has a figure in most readings; shares are shares, and counters do not go back."""
    opened = sensor.open(os.getpid())
    readings = []
    for _ in range(5):
        time.sleep(max(0.3, sensor.period_s))
        readings.append(sensor.read())
    sensor.close()
    with capsys.disabled():
        sys.stdout.writelines(f"\nabsent: {channel.name}: {why.missing}" for channel, why in opened.absent)
    assert {each.device for each in opened.channels} >= {each.uuid for each in CARDS if each.parent is None}
    for channel, *figures in zip(opened.channels, *readings, strict=True):
        told = [each for each in figures if each is not None]
        assert told or channel.name in {"foreign_processes", "foreign_memory_bytes"}, channel
        if channel.unit == "%":
            assert all(0 <= each <= 100 for each in told), (channel, told)
        if channel.kind == "counter":
            assert told == sorted(told), (channel, told)


def test_energy_is_counted_as_power_says():
    """Within 20 % over three seconds; a card at rest is even enough for that."""
    quick, slow = NvmlSensor(), SlowNvmlSensor()
    names, counts = ([each.name for each in sensor.open(os.getpid()).channels] for sensor in (quick, slow))
    if "energy_mj" not in counts or "power_average_mw" not in names:
        pytest.skip("this card counts no energy, or reports no mean power")
    energy, power = counts.index("energy_mj"), names.index("power_average_mw")
    before, began = slow.read()[energy], time.monotonic()
    powers = []
    while time.monotonic() - began < 3:
        time.sleep(0.1)
        powers.append(quick.read()[power])
    spent_mj, spent_s = slow.read()[energy] - before, time.monotonic() - began
    quick.close()
    slow.close()
    assert spent_mj / spent_s == pytest.approx(sum(powers) / len(powers), rel=0.2)


def test_cudas_first_card_is_one_that_the_driver_shows():
    """By UUID, in a process of its own; CUDA and the driver may count in different orders."""
    asked = subprocess.run([sys.executable, "-c", ASK_CUDA], capture_output=True, text=True, check=True)
    uuid, bus = asked.stdout.split()
    device = Device("cuda:0", "cuda", "-", usable=True, details={"uuid": uuid, "bus": bus})
    found = match_card(device, CARDS)
    assert not isinstance(found, Missing)
    assert uuid in found.uuid.lower()
