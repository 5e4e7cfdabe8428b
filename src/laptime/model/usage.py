"""The resources that a lane used while it was timed: processor, memory, temperature, power, energy, money."""

from __future__ import annotations

from dataclasses import dataclass, field

from laptime.model.missing import Missing


@dataclass(frozen=True, slots=True)
class Energy:
    """The energy of a training: `counted` by the device's own meter, or `estimated` from samples of its power.

    `of` names the device: no figure includes the rest of the computer (memory, fans, power supply). Where there is no
    figure, `how` and all others say why. `j_whole` is for a whole training, from its first lap to the end of its test.
    """

    of: str
    how: str | Missing
    power_w: float | Missing
    j_per_lap: float | Missing
    j_per_1000_items: float | Missing
    items_per_j: float | Missing
    j_whole: float | Missing = field(default_factory=lambda: Missing("no training was whole"))

    @property
    def wh_per_lap(self) -> float | Missing:
        return self.j_per_lap if isinstance(self.j_per_lap, Missing) else self.j_per_lap / 3600

    @property
    def wh_whole(self) -> float | Missing:
        return self.j_whole if isinstance(self.j_whole, Missing) else self.j_whole / 3600


@dataclass(frozen=True, slots=True)
class CardUsage:
    """What one of a lane's several devices did while the lane was timed."""

    device: str
    busy_percent: float | Missing
    memory_most_bytes: float | Missing
    temperature_most_c: float | Missing
    power_w: float | Missing


@dataclass(frozen=True, slots=True)
class Usage:
    """Medians over the timed parts of heats or of a training; a field named "most" is the maximum of all readings.

    `processor_percent` is for the heat's own processes, of the cores that laptime may use; `others_percent` is what all
    other processes took of the machine. `device_percent` is the share of moments in which the device had work,
    `active_percent` how large a part of it worked on average, where the device reports it. Memory is that of the heat's
    processes; on the device, it is all the memory that the driver reports as used, including that of other processes.

    Of a lane on several devices, `cards` has each. Then `device_percent` and `active_percent` are means of them, energy
    is their sum, and the others are those of the device with the most.
    """

    processor_percent: float | Missing
    others_percent: float | Missing
    memory_most_bytes: float | Missing
    device_percent: float | Missing
    active_percent: float | Missing
    device_memory_most_bytes: float | Missing
    temperature_of: str
    temperature_most_c: float | Missing
    temperature_slope_c_per_min: float | Missing
    power_most_w: float | Missing
    energy: Energy
    cards: tuple[CardUsage, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerUsage:
    """The resources that answering used at one batch size; single calls have no `batch`."""

    batch: int | None
    usage: Usage
