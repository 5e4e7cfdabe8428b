"""What the programs of these tests share: they run in a process of their own, with a library that plays a script."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

from laptime.machine.sensors.nvml import NvmlSensor, SlowNvmlSensor, list_cards
from laptime.model.errors import SensorError
from laptime.model.process import Channel, Opened
from laptime.model.quantities import Missing

__all__ = ["NvmlSensor", "SensorError", "SlowNvmlSensor", "absent", "later", "list_cards", "os", "shown", "tell"]


def tell(told: Any) -> None:
    sys.stdout.write(json.dumps(told, default=dataclasses.asdict))


def shown(opened: Opened, reading: tuple[float | None, ...]) -> dict[str, dict[str, float | None]]:
    """Return a reading by card and name."""
    assert len(opened.channels) == len(reading)
    found: dict[str, dict[str, float | None]] = {}
    for channel, figure in zip(opened.channels, reading, strict=True):
        found.setdefault(channel.device, {})[channel.name] = figure
    return found


def absent(opened: Opened) -> dict[str, str]:
    """Return what cannot be shown, by name, with the reasons."""
    pairs: tuple[tuple[Channel, Missing], ...] = opened.absent
    return {f"{channel.device} {channel.name}": why.missing for channel, why in pairs}


def later() -> None:
    """Let the second script count from here on."""
    place = os.environ["LAPTIME_TEST_NVML"]
    Path(f"{place}.later").rename(f"{place}.then")
