"""What a computer has, as far as anybody told us."""

from __future__ import annotations

from dataclasses import dataclass, field

from laptime.model.card import Card
from laptime.model.device import Device, DeviceKind
from laptime.model.missing import Missing
from laptime.model.surroundings import Surroundings

__all__ = ["Device", "DeviceKind", "Framework", "Machine", "Processor", "Use"]


@dataclass(frozen=True, slots=True)
class Processor:
    """`cores_usable` is what this process may really use: affinity and container quota, in whole cores."""

    name: str
    architecture: str
    cores_visible: int
    cores_usable: int
    quota_cores: float | Missing
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Framework:
    """An installed framework; `devices` is empty until a scout has asked it, `problem` says why it cannot run.

    `notes` say what is odd about how it is installed.
    """

    name: str
    version: str
    versions: dict[str, str] = field(default_factory=dict)
    devices: tuple[Device, ...] = ()
    problem: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Use:
    """What processor and memory have to do just now, laptime itself left out as far as it can be.

    `busy_percent` is of all cores that are visible, over `over_s`; the clock is the mean of the cores that tell one.
    """

    over_s: float
    busy_percent: float | Missing
    load_1m: float | Missing
    frequency_mhz: float | Missing
    governors: tuple[str, ...] | Missing
    memory_available_bytes: int | Missing
    swap_used_bytes: int | Missing


@dataclass(frozen=True, slots=True)
class Machine:
    """`cards` are all that a driver or the system knows, each followed by its MIG instances; who was asked and told of
    none says why in `absent` (NVIDIA, AMD, Apple, PCI). `use` and `surroundings` are there where they were looked at.
    """

    processor: Processor
    memory_bytes: int
    memory_limit_bytes: int | Missing
    system: str
    python: str
    container: str | None
    frameworks: tuple[Framework, ...] = ()
    cards: tuple[Card, ...] = ()
    absent: dict[str, Missing] = field(default_factory=dict)
    use: Use | None = None
    surroundings: Surroundings | None = None

    def framework(self, name: str) -> Framework | None:
        """Give the installed framework of that name, if there is one."""
        return next((each for each in self.frameworks if each.name == name), None)
