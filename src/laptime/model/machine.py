"""What a computer has, as far as it could be found out."""

from __future__ import annotations

from dataclasses import dataclass, field

from laptime.model.card import Card
from laptime.model.device import Device, DeviceKind
from laptime.model.host_environment import HostEnvironment
from laptime.model.missing import Missing

__all__ = ["Device", "DeviceKind", "Framework", "Machine", "Processor", "Use"]


@dataclass(frozen=True, slots=True)
class Processor:
    """The processor, as this process may use it.

    `cores_usable` is what it may really use, in whole cores: within affinity and the container's quota. `core_score` is
    how fast one core was, about as Geekbench 6's compiler scores it; records from before it was measured have none.
    """

    name: str
    architecture: str
    cores_visible: int
    cores_usable: int
    quota_cores: float | Missing
    features: tuple[str, ...] = ()
    core_score: float | None = None


@dataclass(frozen=True, slots=True)
class Framework:
    """An installed framework; `devices` is empty until a scout has asked it, `problem` says why it cannot run.

    `notes` report what is unusual about how it is installed.
    """

    name: str
    version: str
    versions: dict[str, str] = field(default_factory=dict)
    devices: tuple[Device, ...] = ()
    problem: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Use:
    """The current load on processor and memory, without laptime's own as far as possible.

    `busy_percent` is of all visible cores, over `over_s`; the clock is the mean of the cores that report one.
    """

    over_s: float
    busy_percent: float | Missing
    load_1m: float | Missing
    frequency_mhz: float | Missing
    governors: tuple[str, ...] | Missing
    memory_available_bytes: int | Missing
    swap_used_bytes: int | Missing


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """A node over which a lane on several devices may be spread. `ranks`: N processes, whatever it has."""

    name: str
    cores: int
    cards: int
    ranks: int | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """`cards` are all that a driver or the system knows, each followed by its MIG instances.

    `absent` holds, for each source that reported no card (NVIDIA, AMD, Apple, PCI), the reason. `use` and
    `surroundings` are set where laptime looked at them. `page_bytes` is the size of a memory page; records from before
    it was noted are of machines with 4 KiB. `nodes` are those of a cluster, this one among them.
    `cores_taken` is how many of the usable cores other processes filled while laptime prepared the question.
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
    surroundings: HostEnvironment | None = None
    page_bytes: int = 4096
    nodes: tuple[NodeRoom, ...] = ()
    cores_taken: int = 0

    def framework(self, name: str) -> Framework | None:
        """Return the installed framework of that name, or None."""
        return next((each for each in self.frameworks if each.name == name), None)
