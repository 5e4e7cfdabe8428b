"""Choose the instruments of a lane: those of the machine, and those of its own cards. An absent one has a reason."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from laptime.errors import SensorError
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.sensors import SensorRow, all_sensors
from laptime.run.sampler import DEFAULT_HZ, Sampler
from laptime.sensors.base import PATIENCE_S, PendingAnswer, Sensor

Absent = tuple[str, Missing]
NOT_ASKED_FOR = Missing("it was not asked for")


class SensorSelection:
    """The instruments of a race. Each lane gets those that can read its devices.

    `most` limits the readings that are kept of one instrument and heat.
    """

    def __init__(self, words: tuple[str, ...] | None, hz: float | None, most: int | None = None) -> None:
        self._words, self._hz, self._most = words, DEFAULT_HZ if hz is None else hz, most
        self._samplers: dict[str, Sampler] = {}
        for word in words or ():
            self._require(word)

    def sampler_for(self, lane: str, devices: Sequence[Device]) -> Sampler | None:
        """Return the sampler of a lane: the same for all its heats, so that a sensor that failed stays out."""
        if self._words == ("none",):
            return None
        if lane not in self._samplers:
            of, absent = self._choose(devices)
            own = {sensor: device for sensor, device in of.items() if device is not None}
            self._samplers[lane] = Sampler(list(of), self._hz, tuple(absent), most=self._most, of=own)
        return self._samplers[lane]

    def why_no_power(self, device: Device) -> Missing | None:
        """Return why nothing can read a device's power; None if something can, or that is not known beforehand."""
        reasons: list[str] = []
        for row in all_sensors().values():
            if row.powers is None or device.kind in row.powers:
                is_asked_for = self._words is None or row.name in self._words
                found = _open(row, device) if is_asked_for else NOT_ASKED_FOR
                if not isinstance(found, Missing):
                    return None
                reasons.append(f"{row.name}: {found.missing}")
        return Missing("; ".join(reasons) or "no instrument reads it")

    def _choose(self, devices: Sequence[Device]) -> tuple[dict[Sensor, str | None], list[Absent]]:
        """Return the sensors, each with the device that it watches alone, and those that are absent."""
        sensors: dict[Sensor, str | None] = {}
        absent: list[Absent] = []
        for row in all_sensors().values():
            seen = [each for each in devices if not row.watches or each.kind in row.watches]
            if not seen:
                continue
            if self._words is not None and row.name not in self._words:
                absent.append((row.name, NOT_ASKED_FOR))
                continue
            for device in seen if row.of_device is not None else seen[:1]:
                found = _open(row, device)
                if isinstance(found, Missing):
                    absent.append((row.name, found))
                else:
                    sensors |= dict.fromkeys(found, None if row.of_device is None else device.name)
        return sensors, absent

    def _require(self, word: str) -> None:
        """Raise SensorError if an instrument that the user named is not there."""
        if word == "none":
            return
        reason = _probe(_load(all_sensors()[word].sensor)())
        if reason is not None:
            raise SensorError(f"--sensors {word}: {reason.missing}", "leave it out to read what there is")


def _open(row: SensorRow, device: Device) -> list[Sensor] | Missing:
    """Return the sensors of a row for a device, or why there are none."""
    sensor: Sensor = _load(row.sensor)()
    reason = _probe(sensor)
    if reason is not None:
        return reason
    if row.of_device is None:
        return [sensor]
    found: list[Sensor] | Missing = _load(row.of_device)(device)
    return found


def _load(place: str) -> Any:
    """Import what "module:name" names, so that only needed sensors are imported."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _probe(sensor: Sensor) -> Missing | None:
    return PendingAnswer(f"the instrument {sensor.name}", sensor.probe).answer(PATIENCE_S)
