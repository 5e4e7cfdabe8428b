"""Every card of this computer: what drivers report, and what is on the bus without a driver that reports it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from laptime.machine.amd import describe_amd_cards
from laptime.machine.apple import describe_apple_cards
from laptime.machine.sensors.base import PATIENCE_S, PendingAnswer, read_lines, read_link_generation, read_word
from laptime.machine.sensors.nvml import Survey, survey_cards
from laptime.model.machine import Card, card_with, is_at, normal_bus
from laptime.model.quantities import Missing

DRIVER_SHOWS_NO_CARD = Missing("the NVIDIA driver is here, but it shows no card")
NO_DRIVER = Missing("no card that amdgpu drives is under /sys/class/drm")
NO_PLACE = Missing("no display and no accelerator is on the PCI bus")


@dataclass(frozen=True, slots=True)
class Cards:
    """All cards, in the order of the bus, each followed by its MIG instances; and which source found none, and why."""

    cards: tuple[Card, ...]
    absent: dict[str, Missing]


class CardSearch:
    """A search for all cards that has started; each driver is asked in its own thread, since drivers may hang."""

    def __init__(self, sys: Path = Path("/sys")) -> None:
        self._nvidia = PendingAnswer("NVIDIA's library (NVML)", survey_cards)
        self._amd = PendingAnswer("AMD's driver (amdgpu)", lambda: describe_amd_cards(sys))
        self._apple = PendingAnswer("ioreg", describe_apple_cards)
        self._bus = PendingAnswer("the PCI bus", lambda: list_pci(sys))

    def end(self, patience_s: float = PATIENCE_S) -> Cards:
        """Return what was found; a driver that has not answered by then is reported as hanging."""
        deadline_s = time.monotonic() + min(patience_s, PATIENCE_S)

        def left_s() -> float:
            return max(0.1, deadline_s - time.monotonic())

        nvidia = self._nvidia.answer(left_s())
        amd = self._amd.answer(left_s())
        apple = self._apple.answer(left_s())
        return join_cards(nvidia, amd, apple, self._bus.answer(left_s()))


def join_cards(
    nvidia: Survey | Missing,
    amd: tuple[Card, ...] | Missing,
    apple: tuple[Card, ...] | Missing,
    bus: tuple[PciDevice, ...] | Missing,
) -> Cards:
    """Combine what each source reported, every card once: a driver knows more about a card than the bus does."""
    reported = (*(() if isinstance(nvidia, Missing) else nvidia.cards), *_or_none(amd), *_or_none(apple))
    there = () if isinstance(bus, Missing) else bus
    rest = [device for device in there if not any(is_at(card, device.bus) for card in reported)]
    lost, rest = _name_lost(nvidia, rest)
    silent: list[Card] = []
    for device in rest:
        card = describe_pci(device)
        # A card of NVIDIA that its own module holds, and that does not answer
        if card.reason is None and device.vendor == NVIDIA and card.computes:
            why = nvidia.missing if isinstance(nvidia, Missing) else "NVIDIA's library (NVML) does not show it"
            card = replace(card, reason=why)
        silent.append(card)
    absent: dict[str, Missing] = {}
    if isinstance(nvidia, Missing):
        absent["NVIDIA"] = nvidia
    elif not nvidia.cards and not nvidia.unseen:
        absent["NVIDIA"] = DRIVER_SHOWS_NO_CARD
    if not _or_none(amd):
        absent["AMD"] = amd if isinstance(amd, Missing) else NO_DRIVER
    if isinstance(apple, Missing):
        absent["Apple"] = apple
    if not there:
        absent["PCI"] = bus if isinstance(bus, Missing) else NO_PLACE
    return Cards(_in_order((*reported, *lost, *silent)), absent)


def _or_none(cards: tuple[Card, ...] | Missing) -> tuple[Card, ...]:
    return () if isinstance(cards, Missing) else cards


def _name_lost(nvidia: Survey | Missing, rest: list[PciDevice]) -> tuple[tuple[Card, ...], list[PciDevice]]:
    """Return the cards that NVML counts but that do not answer, and the rest of the bus.

    If as many of NVIDIA's cards are left on the bus, these are the lost cards; else they have no place.
    """
    unseen = () if isinstance(nvidia, Missing) else nvidia.unseen
    left = [device for device in rest if device.vendor == NVIDIA and device.module == "nvidia"]
    if len(left) != len(unseen):
        blank = PciDevice(bus="", kind="display", vendor=NVIDIA, device="0x", module="nvidia", folder=Path("/nowhere"))
        placeless = tuple(
            replace(describe_pci(blank, ()), name=card.name, bus=card.reason, reason=card.reason.missing)
            for card in unseen
        )
        return placeless, rest
    pairs = zip(left, unseen, strict=True)
    lost = tuple(replace(describe_pci(place), reason=card.reason.missing) for place, card in pairs)
    return lost, [device for device in rest if device not in left]


def _in_order(cards: tuple[Card, ...]) -> tuple[Card, ...]:
    """Sort by place on the bus; cards without one come last, and instances stay behind their card."""
    places = {card.uuid: card.bus for card in cards if card.parent is None and isinstance(card.uuid, str)}

    def place(card: Card) -> tuple[bool, str]:
        bus = places.get(card.parent, card.bus) if card.parent is not None else card.bus
        return (True, "") if isinstance(bus, Missing) else (False, bus)

    return tuple(sorted(cards, key=place))


# Which cards are on the PCI bus, with or without a driver: displays (0x03) and accelerators (0x12).

PCI_CLASSES = {"03": "display", "12": "accelerator"}
NVIDIA = "0x10de"
AMD = "0x1002"
INTEL = "0x8086"
CARD_MAKERS = {
    NVIDIA: "NVIDIA",
    AMD: "AMD",
    INTEL: "Intel",
    "0x1ae0": "Google",
    "0x1d0f": "Amazon",
    "0x1da3": "Habana",
    "0x1e52": "Tenstorrent",
    "0x1ed5": "Moore Threads",
    "0x19e5": "Huawei",
    "0x10ee": "Xilinx",
}
# Cards that only drive a screen: a server's own console, and the virtual cards of hypervisors.
SCREEN_CARDS = {
    "0x1a03": "ASPEED",
    "0x102b": "Matrox",
    "0x1013": "Cirrus Logic",
    "0x1234": "QEMU",
    "0x1af4": "virtio",
    "0x1b36": "Red Hat",
    "0x15ad": "VMware",
    "0x80ee": "VirtualBox",
    "0x1414": "Microsoft",
}
# The kernel modules with which programs compute on a maker's cards.
MODULES = {NVIDIA: ("nvidia",), AMD: ("amdgpu",), INTEL: ("i915", "xe", "habanalabs")}
GIVEN_AWAY = {"vfio-pci", "pci-stub", "xen-pciback"}
PCI_NAMES = (Path("/usr/share/hwdata/pci.ids"), Path("/usr/share/misc/pci.ids"))
NO_DRIVER_TELLS = Missing("no driver reports it")


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One device on the bus, as the system numbers its maker and its kind."""

    bus: str
    kind: str
    vendor: str
    device: str
    module: str | None
    folder: Path


def list_pci(sys: Path = Path("/sys")) -> tuple[PciDevice, ...] | Missing:
    """Return displays and accelerators in the order of their places; or why the bus cannot be read."""
    root = sys / "bus" / "pci" / "devices"
    try:
        folders = sorted(root.iterdir())
    except OSError as error:
        return Missing(f"{root}: {error.strerror}")
    cards: dict[str, PciDevice] = {}
    for folder in folders:
        kind = PCI_CLASSES.get(read_word(folder / "class")[2:4])
        bus = normal_bus(folder.name)
        if kind is None or bus in cards:  # of a card with several functions, the first is kept
            continue
        driver = folder / "driver"
        cards[bus] = PciDevice(
            bus=bus,
            kind=kind,
            vendor=read_word(folder / "vendor").lower(),
            device=read_word(folder / "device").lower(),
            module=driver.resolve().name if driver.exists() else None,
            folder=folder,
        )
    return tuple(cards.values())


def describe_pci(found: PciDevice, names: tuple[Path, ...] = PCI_NAMES) -> Card:
    """Return a card with what the bus shows of it, without a driver."""
    draws = found.vendor in SCREEN_CARDS
    maker = CARD_MAKERS.get(found.vendor) or SCREEN_CARDS.get(found.vendor) or f"vendor {found.vendor}"
    return card_with(
        NO_DRIVER_TELLS,
        bus=found.bus,
        name=find_name(found, names) or f"{maker} {found.kind} {found.vendor[2:]}:{found.device[2:]}",
        pcie_generation=read_link_generation(found.folder / "current_link_speed"),
        pcie_generation_most=read_link_generation(found.folder / "max_link_speed"),
        pcie_width=_lanes(found.folder / "current_link_width"),
        pcie_width_most=_lanes(found.folder / "max_link_width"),
        display={"1": True, "0": False}.get(read_word(found.folder / "boot_vga"), NO_DRIVER_TELLS),
        maker=maker,
        reason=None if draws else why_idle(found),
        module=found.module or Missing("no driver holds it"),
        computes=not draws,
    )


def why_idle(found: PciDevice) -> str | None:
    """Return why no program can compute on a card, as far as the kernel's driver shows it; None where one could."""
    meant = MODULES.get(found.vendor, ())
    if found.module in GIVEN_AWAY:
        return f"it is given away to a virtual machine ({found.module})"
    if found.module is None:
        wanted = f": {' or '.join(meant)} is not loaded, or does not know it" if meant else ""
        return f"no driver holds it{wanted}"
    if meant and found.module not in meant:
        return f"the driver {found.module} holds it, which only draws; {' or '.join(meant)} is needed"
    return None


def find_name(found: PciDevice, places: tuple[Path, ...] = PCI_NAMES) -> str:
    """Return the card's name from the system's list of PCI names, or an empty string."""
    section = f"{found.vendor[2:]}  "
    wanted = f"\t{found.device[2:]}  "
    for place in places:
        inside = False
        for line in read_lines(place):
            if not line.startswith(("\t", "#")):
                if inside:
                    break
                inside = line.startswith(section)
            elif inside and line.startswith(wanted):
                return line[len(wanted) :].strip()
    return ""


def _lanes(place: Path) -> int | Missing:
    """Return the lanes of a link; a link that is down has 0, or 255."""
    word = read_word(place)
    return int(word) if word.isdigit() and 0 < int(word) < 255 else Missing(f"{place} does not tell it")
