"""What a rule of placement looks at: one card, one framework that does not use it, and the machine around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from laptime.model.card import Card, match_card
from laptime.model.checkup import Complaint
from laptime.model.machine import Device, Framework, Machine
from laptime.model.missing import Missing
from laptime.model.surroundings import DeviceNode

# Which kinds of device of ours a maker's card would be.
KINDS = {"NVIDIA": "cuda", "AMD": "cuda", "Intel": "xpu", "Apple": "mps"}
# Which frameworks have builds for whose cards.
CAN_USE = {
    "NVIDIA": ("torch", "jax", "keras-tf", "keras-jax", "keras-torch"),
    "AMD": ("torch", "jax", "keras-tf", "keras-jax", "keras-torch"),
    "Intel": ("torch", "keras-torch"),
    "Apple": ("torch", "keras-torch"),
}
ENGINES = {"keras-tf": "tensorflow", "keras-jax": "jax", "keras-torch": "torch"}


@dataclass(frozen=True, slots=True)
class Patient:
    """A card that a framework does not use. `card` is None where the framework lacks one and the machine shows none."""

    machine: Machine
    framework: Framework
    card: Card | None

    @property
    def engine(self) -> str:
        """Give what computes: torch, jax or tensorflow."""
        return ENGINES.get(self.framework.name, self.framework.name)

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
        """Give the framework's own word of the device that it cannot use, where it has one."""
        kind = KINDS.get(self.maker)
        return next((each for each in self.framework.devices if each.kind == kind and not each.usable), None)

    @property
    def has_another(self) -> bool:
        """Tell whether the framework computes on another card."""
        return any(each.usable and each.kind != "cpu" for each in self.framework.devices)

    def variable(self, name: str) -> str | None:
        around = self.machine.surroundings
        return None if around is None else around.variables.get(name)

    def nodes(self, *beginnings: str) -> tuple[DeviceNode, ...]:
        around = self.machine.surroundings
        return tuple(each for each in (around.nodes if around else ()) if each.path.startswith(beginnings))

    def complain(self, cause: str, says: str, command: str, **evidence: object) -> Complaint:
        about = f"{self.label} in {self.framework.name}"
        return Complaint(about, cause, says, command, {name: str(each) for name, each in evidence.items()})


Rule = Callable[[Patient], "Complaint | None"]


def find_patients(machine: Machine) -> tuple[Patient, ...]:
    """Give every pair of a card that could compute and a framework that could use it and does not.

    Of a card that is cut into instances, its instances are what can be used. A framework that cannot run at all has one
    cause of its own, whatever cards there are. A hosted notebook lends cards: one without any is a patient too.
    """
    frameworks = [each for each in machine.frameworks if each.problem is None and each.devices]
    if not machine.cards and find_notebook(machine):
        return tuple(Patient(machine, each, None) for each in frameworks if each.name in CAN_USE["NVIDIA"])
    cut = {each.parent for each in machine.cards if each.parent is not None}
    cards = [
        each for each in machine.cards if each.computes and (isinstance(each.uuid, Missing) or each.uuid not in cut)
    ]
    return tuple(
        Patient(machine, framework, card)
        for framework in frameworks
        for card in cards
        if framework.name in CAN_USE.get(card.maker, ()) and not uses(framework, card, machine)
    )


def find_notebook(machine: Machine) -> str | None:
    """Give the name of the service that lends this machine out as a notebook."""
    variables = machine.surroundings.variables if machine.surroundings else {}
    if "COLAB_RELEASE_TAG" in variables or "COLAB_GPU" in variables:
        return "Colab"
    return "Kaggle" if "KAGGLE_KERNEL_RUN_TYPE" in variables else None


def uses(framework: Framework, card: Card, machine: Machine) -> bool:
    """Tell whether one of the framework's usable devices is this card.

    A framework that does not tell which card its device is, is believed to use those of its kind as far as it counts.
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
