"""Which instruments watch a lane: the machine's always, its own card's besides; what is not there says why."""

from __future__ import annotations

from collections.abc import Callable

from laptime.errors import SensorError
from laptime.model.card import match_card
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.run.sampler import DEFAULT_HZ, Sampler
from laptime.sensors.amd import AmdSensor
from laptime.sensors.apple import AppleSensor
from laptime.sensors.base import Sensor
from laptime.sensors.host import HostSensor
from laptime.sensors.nvml import NvmlSensor, SlowNvmlSensor, list_cards
from laptime.sensors.patience import Asked
from laptime.sensors.rapl import RaplSensor

Absent = tuple[str, Missing]
PATIENCE_S = 15.0  # NVML wakes cards that sleep, a second or two each
KINDS: dict[str, Callable[[], Sensor]] = {
    "host": HostSensor,
    "rapl": RaplSensor,
    "nvml": NvmlSensor,
    "amd": AmdSensor,
    "apple": AppleSensor,
}
OF_THE_MACHINE = ("host", "rapl")
OF_CARDS: dict[str, tuple[str, ...]] = {"cuda": ("nvml", "amd"), "mps": ("apple",)}


class Watch:
    """The instruments of a race; each lane gets those that can see its device.

    `most` is how many readings are kept of one instrument and heat, where there is a bound.
    """

    def __init__(self, words: tuple[str, ...] | None, hz: float | None, most: int | None = None) -> None:
        self._words, self._hz, self._most = words, DEFAULT_HZ if hz is None else hz, most
        self._samplers: dict[str, Sampler] = {}
        for word in words or ():
            self._require(word)

    def sampler_for(self, device: Device) -> Sampler | None:
        """Give the sampler of a device: the same for all its heats, so that a sensor which failed stays away."""
        if self._words == ("none",):
            return None
        if device.name not in self._samplers:
            sensors, absent = self._choose(device)
            self._samplers[device.name] = Sampler(sensors, self._hz, tuple(absent), most=self._most)
        return self._samplers[device.name]

    def _choose(self, device: Device) -> tuple[list[Sensor], list[Absent]]:
        sensors: list[Sensor] = []
        absent: list[Absent] = []
        for word in (*OF_THE_MACHINE, *OF_CARDS.get(device.kind, ())):
            if self._words is not None and word not in self._words:
                absent.append((word, Missing("it was not asked for")))
                continue
            found = _open(word, device)
            if isinstance(found, Missing):
                absent.append((word, found))
            else:
                sensors += found
        return sensors, absent

    def _require(self, word: str) -> None:
        """An instrument that was named has to be there."""
        if word == "none":
            return
        reason = _probe(KINDS[word]())
        if reason is not None:
            raise SensorError(f"--sensors {word}: {reason.missing}", "leave it out to read what there is")


def _open(word: str, device: Device) -> list[Sensor] | Missing:
    """Stand those sensors ready that this word means for a device, or say why there is none."""
    sensor = KINDS[word]()
    reason = _probe(sensor)
    if reason is not None:
        return reason
    if word == "nvml":
        cards = Asked("NVIDIA's library (NVML)", list_cards).answer(PATIENCE_S)
        card = cards if isinstance(cards, Missing) else match_card(device, cards)
        uuid = card if isinstance(card, Missing) else card.uuid
        return uuid if isinstance(uuid, Missing) else [NvmlSensor((uuid,)), SlowNvmlSensor((uuid,))]
    return [AmdSensor(device.details.get("bus"))] if word == "amd" else [sensor]


def _probe(sensor: Sensor) -> Missing | None:
    return Asked(f"the instrument {sensor.name}", sensor.probe).answer(PATIENCE_S)
