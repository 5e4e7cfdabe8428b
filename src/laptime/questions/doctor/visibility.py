"""Cards that a framework does not use, and what hides a card from a program: variables, containers, permissions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from laptime.model.card import Card, match_card, plain_uuid
from laptime.model.frameworks import EngineRow, find_framework
from laptime.model.host_environment import DeviceNode
from laptime.model.machine import Device, Framework, Machine
from laptime.model.missing import Missing
from laptime.questions.doctor.nouns import Problem

# The kind of device that a maker's card would be.
KINDS = {"NVIDIA": "cuda", "AMD": "cuda", "Intel": "xpu", "Apple": "mps"}
# The makers whose cards each variable selects. Only JAX reads its own variables.
CHOOSERS = {
    "CUDA_VISIBLE_DEVICES": ("NVIDIA", "AMD"),
    "HIP_VISIBLE_DEVICES": ("AMD",),
    "ROCR_VISIBLE_DEVICES": ("AMD",),
    "ZE_AFFINITY_MASK": ("Intel",),
    "JAX_PLATFORMS": ("NVIDIA", "AMD"),
    "JAX_PLATFORM_NAME": ("NVIDIA", "AMD"),
}
# The nodes that a container needs for a maker's card, their name in a message, and the option that adds them.
CONTAINER_NODES = {
    "NVIDIA": (("/dev/nvidia", "/dev/dxg"), "/dev/nvidia*", "--gpus all"),
    "AMD": (("/dev/kfd",), "/dev/kfd", "--device /dev/kfd --device /dev/dri --group-add video"),
    "Intel": (("/dev/dri",), "/dev/dri", "--device /dev/dri"),
}
HIDDEN = "hidden"
NOBODY = {"", "-1", "none", "void", "NoDevFiles"}
ACCELERATED = {"cuda", "gpu", "rocm"}


@dataclass(frozen=True, slots=True)
class UnusedCard:
    """A card that a framework does not use. `card` is None if the framework has no card and the machine shows none."""

    machine: Machine
    framework: Framework
    card: Card | None

    @property
    def engine(self) -> str:
        """What computes: torch, jax or tensorflow."""
        return self.engine_row.name

    @property
    def engine_row(self) -> EngineRow:
        return find_framework(self.framework.name).engine

    @property
    def maker(self) -> str:
        return self.card.maker if self.card is not None else "NVIDIA"

    @property
    def label(self) -> str:
        if self.card is None:
            return "a card"
        name = self.maker if isinstance(self.card.name, Missing) else self.card.name
        return name if isinstance(self.card.bus, Missing) else f"{name} ({self.card.bus})"

    @property
    def seen(self) -> Device | None:
        """The device that the framework lists but cannot use, if it lists one."""
        kind = KINDS.get(self.maker)
        return next((each for each in self.framework.devices if each.kind == kind and not each.usable), None)

    @property
    def reason(self) -> str:
        """Why the framework cannot use that device, in its own words."""
        return (self.seen.reason or "") if self.seen is not None else ""

    @property
    def smi_place(self) -> str:
        """The option that selects this card in nvidia-smi."""
        return "" if self.card is None or isinstance(self.card.bus, Missing) else f" -i {self.card.bus}"

    @property
    def has_another(self) -> bool:
        """Whether the framework computes on another card."""
        return any(each.usable and each.kind != "cpu" for each in self.framework.devices)

    def variable(self, name: str) -> str | None:
        around = self.machine.surroundings
        return None if around is None else around.variables.get(name)

    def nodes(self, *beginnings: str) -> tuple[DeviceNode, ...]:
        around = self.machine.surroundings
        return tuple(each for each in (around.nodes if around else ()) if each.path.startswith(beginnings))

    def problem(self, cause: str, says: str, command: str, **evidence: object) -> Problem:
        about = f"{self.label} in {self.framework.name}"
        return Problem(about, cause, says, command, {name: str(each) for name, each in evidence.items()})


def find_unused_cards(machine: Machine) -> tuple[UnusedCard, ...]:
    """Return every pair of a card that could compute and a framework that could use it but does not.

    Of a card that is divided into instances, only the instances can be used. A framework that cannot run at all has a
    cause of its own, whatever cards there are. A hosted notebook can provide cards: a runtime without any counts too.
    """
    frameworks = [each for each in machine.frameworks if each.problem is None and each.devices]
    if not machine.cards and find_notebook(machine):
        return tuple(UnusedCard(machine, each, None) for each in frameworks if "NVIDIA" in _makers(each))
    cut = {each.parent for each in machine.cards if each.parent is not None}
    cards = [
        each for each in machine.cards if each.computes and (isinstance(each.uuid, Missing) or each.uuid not in cut)
    ]
    return tuple(
        UnusedCard(machine, framework, card)
        for framework in frameworks
        for card in cards
        if card.maker in _makers(framework) and not uses(framework, card, machine)
    )


def _makers(framework: Framework) -> tuple[str, ...]:
    """Return the makers for whose cards a framework has builds."""
    return tuple(find_framework(framework.name).engine.builds)


def find_notebook(machine: Machine) -> str | None:
    """Return the name of the service that provides this machine as a notebook, or None."""
    variables = machine.surroundings.variables if machine.surroundings else {}
    if "COLAB_RELEASE_TAG" in variables or "COLAB_GPU" in variables:
        return "Colab"
    return "Kaggle" if "KAGGLE_KERNEL_RUN_TYPE" in variables else None


def uses(framework: Framework, card: Card, machine: Machine) -> bool:
    """Whether one of the framework's usable devices is this card.

    A framework may not report which card its device is. It is then assumed to use the first cards of its kind.
    """
    kind = KINDS.get(card.maker)
    devices = [each for each in framework.devices if each.usable and each.kind == kind]
    matched = [match_card(each, machine.cards) for each in devices]
    if any(found == card for found in matched):
        return True
    unknown = sum(isinstance(found, Missing) for found in matched)
    same_kind = [
        each for each in machine.cards if each.computes and KINDS.get(each.maker) == kind and each not in matched
    ]
    return unknown > 0 and card in same_kind[:unknown]


def hidden_by_variable(unused: UnusedCard) -> Problem | None:
    """A variable is set that excludes this card."""
    for name, makers in CHOOSERS.items():
        value = unused.variable(name)
        if value is None or unused.maker not in makers or (name.startswith("JAX_") and unused.engine != "jax"):
            continue
        why = _why_platform(value) if name.startswith("JAX_") else _why_hidden(unused, value)
        if why:
            return unused.problem(HIDDEN, f"{name}={value!r} {why}", f"unset {name}", variable=f"{name}={value}")
    return None


def not_in_container(unused: UnusedCard) -> Problem | None:
    """The computer has the card, but the container was started without it."""
    around = unused.machine.surroundings
    if around is None or around.container is None or unused.card is None:
        return None
    if not isinstance(unused.card.driver, Missing):  # a program that can reach the driver has the card
        return None
    beginnings, lacks, given = CONTAINER_NODES.get(unused.maker, ((), "", ""))
    if not beginnings or unused.nodes(*beginnings):
        return None
    says = f"this container was started without the card: there is no {lacks}"
    return unused.problem("container", says, _start_words(around.container, given), nodes="none")


def not_permitted(unused: UnusedCard) -> Problem | None:
    """The driver's device node exists, but this user may not open it."""
    beginnings = {"NVIDIA": ("/dev/nvidia",), "AMD": ("/dev/kfd", "/dev/dri/renderD"), "Intel": ("/dev/dri/renderD",)}
    shut = [each for each in unused.nodes(*beginnings.get(unused.maker, ("-",))) if not each.may_open]
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
    return unused.problem("permission", says, command, nodes=", ".join(each.path for each in shut))


def hosted_without_card(unused: UnusedCard) -> Problem | None:
    """A hosted notebook can provide cards, but its runtime started without one."""
    service = find_notebook(unused.machine)
    if service is None or unused.card is not None:
        return None
    ways = {
        "Colab": "in the menu: Runtime > Change runtime type > T4 GPU",
        "Kaggle": "in the side bar: Session options > Accelerator > GPU",
    }
    return unused.problem("notebook", f"this {service} runtime has no card", ways[service], service=service)


def _why_platform(value: str) -> str:
    wanted = {each.strip() for each in value.split(",") if each.strip()}
    return "" if not wanted or wanted & ACCELERATED else "keeps JAX to other platforms"


def _why_hidden(unused: UnusedCard, value: str) -> str:
    """Return how a variable hides a card. CUDA counts the names up to the first that is not a card."""
    named = [each.strip() for each in value.split(",")]
    if named[0] in NOBODY:
        return "hides every card"
    there = [each for each in unused.machine.cards if each.maker == unused.maker and each.computes]
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
    """Whether a name is a UUID, or its first characters."""
    return not isinstance(uuid, Missing) and plain_uuid(uuid).startswith(plain_uuid(name))


def _start_words(container: str, given: str) -> str:
    if container == "podman" and given == "--gpus all":
        given = "--device nvidia.com/gpu=all"
    program = "podman" if container == "podman" else "docker"
    return f"{program} run {given} ..."
