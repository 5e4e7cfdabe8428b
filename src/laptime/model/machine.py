"""What a computer has, as far as it could be found out."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal

from laptime.model.quantities import Missing

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
        return next((framework for framework in self.frameworks if framework.name == name), None)


# One device as one framework sees it.

DeviceKind = Literal["cpu", "cuda", "mps", "xpu", "tpu"]


@dataclass(frozen=True, slots=True)
class Device:
    """One device as one framework sees it. `features` names what it supports: bf16, tf32, fp16, graph, compile."""

    name: str
    kind: DeviceKind
    label: str
    usable: bool
    reason: str | None = None
    memory_bytes: int | Missing = field(default_factory=lambda: Missing("not reported"))
    features: tuple[str, ...] = ()
    details: dict[str, str] = field(default_factory=dict)


# A card as its driver reports it, and which card a framework's device is.

BUS = re.compile(r"(?:(?P<domain>[0-9a-f]+):)?(?P<bus>[0-9a-f]{1,2}):(?P<device>[0-9a-f]{1,2})(?:\.[0-7])?")
VISIBLE_KIND = re.compile(r"^(?:gpu|mig)-")
MAKER_OF_KIND = {"mps": "Apple", "xpu": "Intel"}  # by the kind of device


@dataclass(frozen=True, slots=True)
class CardProcess:
    """A process that has a context on a card."""

    pid: int
    memory_bytes: int | Missing


@dataclass(frozen=True, slots=True)
class Card:
    """One card, or one MIG instance of a card; `parent` is then the UUID of the card that it is part of.

    `memory_used_bytes` is what programs hold; it leaves out what the driver keeps for itself, where the driver reports
    the two separately. `pcie_generation` and `pcie_width` are those of the link now: an idle link may be slower than
    `..._most`, what card and slot agreed on. `busy_percent` is the share of the last moments in which anything ran.
    `reason` says why nothing can compute on the card (no driver, lost). `module` is the kernel module that drives the
    card. `computes` is False for a card that can only draw.
    """

    uuid: str | Missing
    bus: str | Missing
    name: str | Missing
    driver: str | Missing
    cuda: str | Missing
    capability: str | Missing
    memory_bytes: int | Missing
    memory_used_bytes: int | Missing
    power_limit_mw: int | Missing
    pcie_generation: int | Missing
    pcie_generation_most: int | Missing
    pcie_width: int | Missing
    pcie_width_most: int | Missing
    sm_clock_most_mhz: int | Missing
    mig: bool | Missing
    ecc: bool | Missing
    persistence: bool | Missing
    display: bool | Missing
    processes: tuple[CardProcess, ...] | Missing
    parent: str | None = None
    maker: str = "NVIDIA"
    busy_percent: float | Missing = field(default_factory=lambda: Missing("not asked"))
    reason: str | None = None
    module: str | Missing = field(default_factory=lambda: Missing("not looked at"))
    computes: bool = True


def card_with(otherwise: Missing, **known: Any) -> Card:
    """Return a card with the `known` facts; `otherwise` is the reason why all others are missing."""
    asked = [field_.name for field_ in fields(Card) if field_.default is MISSING and field_.name != "module"]
    return Card(**(dict.fromkeys(asked, otherwise) | known))


def match_card(device: Device, cards: tuple[Card, ...]) -> Card | Missing:
    """Find the card that a framework's device is, by UUID, else by its place on the bus; a number identifies nothing.

    CUDA puts the fastest card first and obeys CUDA_VISIBLE_DEVICES; the driver counts by place on the bus. An instance
    of a card has the same place as its siblings, so by place the answer is the card. Apple's and Intel's devices report
    neither: a single card of that maker is the answer.
    """
    uuid = device.details.get("uuid", "")
    bus = device.details.get("bus", "")
    by_uuid = [card for card in cards if uuid and is_uuid(card, uuid)]
    by_bus = [card for card in cards if bus and is_at(card, bus)]
    by_maker = [card for card in cards if not uuid and not bus and card.maker == MAKER_OF_KIND.get(device.kind)]
    for found in (by_uuid, by_bus, by_maker):
        if len(found) == 1:
            return found[0]
    marks = " and ".join(word for word in (uuid and f"UUID {uuid}", bus and f"place {bus}") if word)
    if not marks:
        return Missing(f"the framework reports neither UUID nor bus of {device.name}, so no card can be named for it")
    return Missing(f"no card that the driver shows has {device.name}'s {marks}")


def is_uuid(card: Card, uuid: str) -> bool:
    return not isinstance(card.uuid, Missing) and plain_uuid(card.uuid) == plain_uuid(uuid)


def is_at(card: Card, bus: str) -> bool:
    """Whether a card is at a place on the bus; an instance has no place of its own."""
    return card.parent is None and not isinstance(card.bus, Missing) and normal_bus(card.bus) == normal_bus(bus)


def plain_uuid(uuid: str) -> str:
    """Strip the prefix that names the kind of device: the driver's GPU-1f... is CUDA's 1f..."""
    return VISIBLE_KIND.sub("", uuid.strip().lower())


def normal_bus(bus: str) -> str:
    """Write a place on the bus as domain:bus:device, such as 0000:3b:00; programs write it in several lengths."""
    found = BUS.fullmatch(bus.strip().lower())
    if found is None:
        return bus.strip().lower()
    domain, number, device = (int(found[part] or "0", 16) for part in ("domain", "bus", "device"))
    return f"{domain:04x}:{number:02x}:{device:02x}"


# What is between a program and the devices: device nodes, variables that hide devices, the container.


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A file by which programs reach a driver. `mode` is as in chmod ("0660"); `may_open` is about this process."""

    path: str
    mode: str
    owner: str
    group: str
    may_open: bool


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """`variables` are those that choose, hide or slow down devices; only variables that are set here are listed.

    `virtual` names what the system itself runs in: "wsl", or a hypervisor's name as the firmware reports it; None where
    neither is known. `filesystems` holds the file system type of each folder that training data may be read from.
    """

    nodes: tuple[DeviceNode, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    shared_memory_bytes: int | Missing = field(default_factory=lambda: Missing("not looked at"))
    container: str | None = None
    virtual: str | None = None
    filesystems: dict[str, str] = field(default_factory=dict)
