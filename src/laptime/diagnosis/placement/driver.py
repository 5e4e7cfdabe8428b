"""Drivers that are not there, do not fit, or do not let a card be used."""

from __future__ import annotations

from laptime.diagnosis.placement.patient import Patient
from laptime.model.checkup import Complaint
from laptime.model.missing import Missing

# Kernel modules with which a card computes; any other that holds it keeps it from them.
COMPUTING = {"NVIDIA": ("nvidia",), "AMD": ("amdgpu",), "Intel": ("i915", "xe")}
STANDS_IN = {"nouveau": "the free driver for displays", "vfio-pci": "kept for a virtual machine"}
INSTALL = {
    "NVIDIA": "sudo apt-get install nvidia-driver && sudo reboot",
    "AMD": "sudo modprobe amdgpu",
    "Intel": "sudo modprobe i915",
}
MISMATCH = ("two versions", "mismatch")
LOST = ("lost", "reset", "gone", "fallen off")
FULL = 0.9


def not_in_wsl(patient: Patient) -> Complaint | None:
    """Under WSL the driver is Windows's own, and Linux must not bring another."""
    around = patient.machine.surroundings
    if around is None or around.virtual != "wsl" or patient.maker != "NVIDIA":
        return None
    if not patient.nodes("/dev/dxg"):
        says = "WSL shows no card to Linux: there is no /dev/dxg, as under WSL 1 or without a driver in Windows"
        return patient.complain(
            "wsl", says, "in Windows: install NVIDIA's driver there, then: wsl --update && wsl --shutdown"
        )
    if "/usr/lib/wsl/lib" not in (patient.variable("LD_LIBRARY_PATH") or "") and _has_no_nvml(patient):
        says = "WSL's own driver library is not found: it lies in /usr/lib/wsl/lib"
        return patient.complain("wsl", says, "export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH")
    return None


def without_driver(patient: Patient) -> Complaint | None:
    """The card is on the bus, and no module of its maker's holds it."""
    card = patient.card
    if card is None or patient.maker not in COMPUTING:
        return None
    module = card.module
    if isinstance(module, Missing):
        if not isinstance(card.driver, Missing) or card.reason is None:
            return None
        says = "no driver holds this card"
        return patient.complain("no driver", says, INSTALL[patient.maker], reason=card.reason)
    if module in COMPUTING[patient.maker]:
        return None
    what = STANDS_IN.get(module, "another driver")
    return patient.complain("no driver", f"{module} holds this card: {what}", INSTALL[patient.maker], module=module)


def driver_of_two_versions(patient: Patient) -> Complaint | None:
    """The library was brought up to date, and the module in the kernel was not loaded anew."""
    told = patient.machine.absent.get("NVIDIA")
    if patient.maker != "NVIDIA" or told is None or not any(word in told.missing for word in MISMATCH):
        return None
    says = "the driver's library and its kernel module are of two versions"
    return patient.complain("driver mismatch", says, "sudo reboot", nvml=told.missing)


def lost(patient: Patient) -> Complaint | None:
    """The card no longer answers."""
    card = patient.card
    if card is None or card.reason is None or not any(word in card.reason for word in LOST):
        return None
    number = "" if isinstance(card.bus, Missing) else f" -i {card.bus}"
    command = f"sudo nvidia-smi --gpu-reset{number}" if patient.maker == "NVIDIA" else "sudo reboot"
    return patient.complain("card lost", f"the card does not answer: {card.reason}", command, reason=card.reason)


def instances_missing(patient: Patient) -> Complaint | None:
    """A card in MIG mode computes in its instances alone."""
    card = patient.card
    if card is None or card.mig is not True or card.parent is not None:
        return None
    place = "" if isinstance(card.bus, Missing) else f" -i {card.bus}"
    says = "this card is in MIG mode and has no instance: it computes in instances only"
    command = f"sudo nvidia-smi mig{place} -cgi 0 -C"
    return patient.complain("mig", says, command, otherwise=f"sudo nvidia-smi{place} -mig 0")


def held_by_others(patient: Patient) -> Complaint | None:
    """Somebody's process has the card to itself, or nearly all of its memory."""
    card = patient.card
    if card is None or isinstance(card.processes, Missing) or not card.processes:
        return None
    who = ", ".join(str(each.pid) for each in card.processes)
    told = (patient.seen.reason or "").lower() if patient.seen is not None else ""
    if "busy or unavailable" in told or "exclusive" in told:
        says = f"the card is in exclusive mode, and process {who} has it"
        place = "" if isinstance(card.bus, Missing) else f" -i {card.bus}"
        return patient.complain("exclusive", says, f"sudo nvidia-smi{place} -c DEFAULT", processes=who)
    used, there = card.memory_used_bytes, card.memory_bytes
    if isinstance(used, Missing) or isinstance(there, Missing) or used < FULL * there:
        return None
    says = f"process {who} holds {used / 1e9:.1f} of the card's {there / 1e9:.1f} GB"
    return patient.complain("memory held", says, f"kill {who.replace(',', '')}", processes=who, used_bytes=used)


def _has_no_nvml(patient: Patient) -> bool:
    return "NVIDIA" in patient.machine.absent
