"""Devices that a variable hides, that a container was not given, or that this user may not open."""

from __future__ import annotations

import re

from laptime.diagnosis.placement.patient import Patient, find_notebook
from laptime.model.card import plain_uuid
from laptime.model.checkup import Complaint
from laptime.model.missing import Missing

# Whose cards each variable chooses among, and for which engines alone.
CHOOSERS = {
    "CUDA_VISIBLE_DEVICES": (("NVIDIA", "AMD"), ("torch", "jax", "tensorflow")),
    "HIP_VISIBLE_DEVICES": (("AMD",), ("torch", "jax", "tensorflow")),
    "ROCR_VISIBLE_DEVICES": (("AMD",), ("torch", "jax", "tensorflow")),
    "ZE_AFFINITY_MASK": (("Intel",), ("torch",)),
    "JAX_PLATFORMS": (("NVIDIA", "AMD"), ("jax",)),
    "JAX_PLATFORM_NAME": (("NVIDIA", "AMD"), ("jax",)),
}
HIDDEN = "hidden"
NOBODY = {"", "-1", "none", "void", "NoDevFiles"}
ACCELERATED = {"cuda", "gpu", "rocm"}


def hidden_by_variable(patient: Patient) -> Complaint | None:
    """A variable is set that leaves this card out."""
    for name, (makers, engines) in CHOOSERS.items():
        value = patient.variable(name)
        if value is None or patient.maker not in makers or patient.engine not in engines:
            continue
        why = _why_platform(value) if name.startswith("JAX_") else _why_hidden(patient, value)
        if why:
            return patient.complain(HIDDEN, f"{name}={value!r} {why}", f"unset {name}", variable=f"{name}={value}")
    return None


def not_in_container(patient: Patient) -> Complaint | None:
    """The computer has the card, and the container was started without it."""
    around = patient.machine.surroundings
    if around is None or around.container is None or patient.card is None:
        return None
    if not isinstance(patient.card.driver, Missing):  # who talks to the driver was given the card
        return None
    if patient.maker == "NVIDIA" and not patient.nodes("/dev/nvidia", "/dev/dxg"):
        says = "this container was started without the card: there is no /dev/nvidia*"
        return patient.complain("container", says, _start_words(around.container, "--gpus all"), nodes="none")
    if patient.maker == "AMD" and not patient.nodes("/dev/kfd"):
        says = "this container was started without the card: there is no /dev/kfd"
        given = "--device /dev/kfd --device /dev/dri --group-add video"
        return patient.complain("container", says, _start_words(around.container, given), nodes="none")
    if patient.maker == "Intel" and not patient.nodes("/dev/dri"):
        says = "this container was started without the card: there is no /dev/dri"
        return patient.complain("container", says, _start_words(around.container, "--device /dev/dri"), nodes="none")
    return None


def not_permitted(patient: Patient) -> Complaint | None:
    """A node of the driver's is there, and this user may not open it."""
    beginnings = {"NVIDIA": ("/dev/nvidia",), "AMD": ("/dev/kfd", "/dev/dri/renderD"), "Intel": ("/dev/dri/renderD",)}
    shut = [each for each in patient.nodes(*beginnings.get(patient.maker, ("-",))) if not each.may_open]
    if not shut:
        return None
    first = shut[0]
    says = f"this user may not open {first.path} (mode {first.mode}, owner {first.owner}, group {first.group})"
    groups = ",".join(dict.fromkeys(each.group for each in shut if each.group != "root"))
    command = (
        f"sudo usermod -aG {groups} $USER && newgrp {groups.split(',')[0]}"
        if groups
        else f"sudo chmod a+rw {first.path}"
    )
    return patient.complain("permission", says, command, nodes=", ".join(each.path for each in shut))


def hosted_without_card(patient: Patient) -> Complaint | None:
    """A hosted notebook has cards to lend, and its runtime was started without one."""
    service = find_notebook(patient.machine)
    if service is None or patient.card is not None:
        return None
    ways = {
        "Colab": "in the menu: Runtime > Change runtime type > T4 GPU",
        "Kaggle": "in the side bar: Session options > Accelerator > GPU",
    }
    return patient.complain("notebook", f"this {service} runtime has no card", ways[service], service=service)


def _why_platform(value: str) -> str:
    wanted = {each.strip() for each in value.split(",") if each.strip()}
    return "" if not wanted or wanted & ACCELERATED else "keeps JAX to other platforms"


def _why_hidden(patient: Patient, value: str) -> str:
    """CUDA counts what is named up to the first that cannot be."""
    named = [each.strip() for each in value.split(",")]
    if named[0] in NOBODY:
        return "hides every card"
    there = [each for each in patient.machine.cards if each.maker == patient.maker and each.computes]
    whole = [each for each in there if each.parent is None]
    for place, name in enumerate(named):
        if re.fullmatch(r"\d+", name):
            if int(name) >= len(whole):
                rest = ", and hides those behind it" if place + 1 < len(named) else ""
                return f"names card {name}, and there are {len(whole)}, counted from 0{rest}"
        elif name in NOBODY:
            return f"ends with its place {place + 1}, and this card is not among those before"
        elif not any(_is_uuid(each.uuid, name) for each in there):
            return f"names {name}, which is no card here"
    return "does not name this card" if len(named) < len(whole) or len(there) != len(whole) else ""


def _is_uuid(uuid: str | Missing, name: str) -> bool:
    """As many letters of a UUID suffice as tell cards apart."""
    return not isinstance(uuid, Missing) and plain_uuid(uuid).startswith(plain_uuid(name))


def _start_words(container: str, given: str) -> str:
    if container == "podman" and given == "--gpus all":
        given = "--device nvidia.com/gpu=all"
    program = "podman" if container == "podman" else "docker"
    return f"{program} run {given} ..."
