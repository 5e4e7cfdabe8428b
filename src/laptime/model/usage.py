"""What a lane took of the machine while it was timed: work, memory, heat, power, energy, money."""

from __future__ import annotations

from dataclasses import dataclass, field

from laptime.model.missing import Missing


@dataclass(frozen=True, slots=True)
class Energy:
    """What training takes. It is `counted` by the device's own meter, or `estimated` from its power, sampled.

    `of` names the device: the rest of the computer (memory, fans, power supply) is in no figure. Where there is no
    figure, `how` and all others say why. `j_whole` is a whole training's, from its first lap to the end of its test.
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
class Usage:
    """Medians over the timed parts of heats or of a training, but for what is said to be the most: that is the most of
    any reading.

    `processor_percent` is of the cores that laptime may use and of the heat's own processes; `others_percent` is what
    all other processes took of the machine. `device_percent` is the share of moments in which the device had anything
    to do, `active_percent` how large a part of it was at work on average, where it tells. Memory is the heat's own:
    of its processes, and on the device what the driver says is used there (others' included).
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


@dataclass(frozen=True, slots=True)
class AnswerUsage:
    """What answering took at one batch size; single calls have no `batch`."""

    batch: int | None
    usage: Usage
