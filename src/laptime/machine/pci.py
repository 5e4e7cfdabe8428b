"""Which cards are on the PCI bus, with or without a driver: displays (0x03) and accelerators (0x12)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from laptime.model.card import Card, card_of, normal_bus
from laptime.model.missing import Missing
from laptime.sensors.files import read_lines, read_link_generation, read_word

CLASSES = {"03": "display", "12": "accelerator"}
NVIDIA, AMD, INTEL = "0x10de", "0x1002", "0x8086"
MAKERS = {
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
DRAWS = {
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
NAMES = (Path("/usr/share/hwdata/pci.ids"), Path("/usr/share/misc/pci.ids"))
NOT_TOLD = Missing("no driver reports it")


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
    devices = (_look_at(folder) for folder in folders)
    cards = {each.bus: each for each in reversed([each for each in devices if each.kind])}
    return tuple(reversed(cards.values()))  # of a card with several functions, the first is kept


def describe_pci(found: PciDevice, names: tuple[Path, ...] = NAMES) -> Card:
    """Return a card with what the bus shows of it, without a driver."""
    draws = found.vendor in DRAWS
    maker = MAKERS.get(found.vendor) or DRAWS.get(found.vendor) or f"vendor {found.vendor}"
    speed, most = (read_link_generation(found.folder / each) for each in ("current_link_speed", "max_link_speed"))
    width, widest = (_lanes(found.folder / each) for each in ("current_link_width", "max_link_width"))
    return card_of(
        NOT_TOLD,
        bus=found.bus,
        name=find_name(found, names) or f"{maker} {found.kind} {found.vendor[2:]}:{found.device[2:]}",
        pcie_generation=speed,
        pcie_generation_most=most,
        pcie_width=width,
        pcie_width_most=widest,
        display={"1": True, "0": False}.get(read_word(found.folder / "boot_vga"), NOT_TOLD),
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


def find_name(found: PciDevice, places: tuple[Path, ...] = NAMES) -> str:
    """Return the card's name from the system's list of PCI names, or an empty string."""
    section, wanted = f"{found.vendor[2:]}  ", f"\t{found.device[2:]}  "
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


def _look_at(folder: Path) -> PciDevice:
    kind = CLASSES.get(read_word(folder / "class")[2:4], "")
    driver = folder / "driver"
    return PciDevice(
        bus=normal_bus(folder.name),
        kind=kind,
        vendor=read_word(folder / "vendor").lower(),
        device=read_word(folder / "device").lower(),
        module=driver.resolve().name if driver.exists() else None,
        folder=folder,
    )


def _lanes(place: Path) -> int | Missing:
    """Return the lanes of a link; a link that is down has 0, or 255."""
    word = read_word(place)
    return int(word) if word.isdigit() and 0 < int(word) < 255 else Missing(f"{place} does not tell it")
