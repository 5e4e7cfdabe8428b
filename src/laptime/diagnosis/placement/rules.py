"""The causes for which a card that is here is not used, in the order in which they are asked for; the first is told."""

from __future__ import annotations

from laptime.diagnosis.placement.build import (
    built_for_another_maker,
    built_for_processors,
    card_of_another_age,
    driver_too_old,
    fell_back,
    of_unknown_cause,
    shadowed_library,
)
from laptime.diagnosis.placement.driver import (
    driver_of_two_versions,
    held_by_others,
    instances_missing,
    lost,
    not_in_wsl,
    without_driver,
)
from laptime.diagnosis.placement.hidden import (
    HIDDEN,
    hidden_by_variable,
    hosted_without_card,
    not_in_container,
    not_permitted,
)
from laptime.diagnosis.placement.patient import Patient, Rule, find_patients
from laptime.model.checkup import CARD_NOT_SEEN, Complaint
from laptime.model.machine import Machine
from laptime.model.record import Finding

# What stands farthest from the framework comes first: a build that is right cannot use a card that has no driver.
RULES: tuple[Rule, ...] = (
    hosted_without_card,
    not_in_wsl,
    lost,
    not_in_container,
    without_driver,
    driver_of_two_versions,
    not_permitted,
    instances_missing,
    built_for_processors,
    built_for_another_maker,
    hidden_by_variable,
    driver_too_old,
    card_of_another_age,
    shadowed_library,
    held_by_others,
    fell_back,
)


def find_unused(machine: Machine) -> tuple[Complaint, ...]:
    """Name one cause for every card that a framework could use and does not, and for each that cannot run at all."""
    broken = (
        Complaint(each.name, "broken", each.problem, f"pip install --force-reinstall {_packages(each.name)}")
        for each in machine.frameworks
        if each.problem is not None
    )
    return (*broken, *map(judge, find_patients(machine)))


def find_unseen(machine: Machine) -> tuple[Finding, ...]:
    """Give the same as findings of a race, cards with one cause together: only frameworks that race were asked.

    Who has a card and hides another by a variable has chosen, and is told nothing.
    """
    alike: dict[tuple[str, str, str], list[tuple[Patient, Complaint]]] = {}
    for patient in find_patients(machine):
        found = judge(patient)
        if found.cause != HIDDEN or not patient.has_another:
            alike.setdefault((patient.framework.name, found.cause, found.says), []).append((patient, found))
    return tuple(_as_finding(*each[0], len(each)) for each in alike.values())


def _as_finding(patient: Patient, found: Complaint, cards: int) -> Finding:
    more = f" and {cards - 1} more" if cards > 1 else ""
    are = "are" if cards > 1 else "is"
    says = f"{patient.label}{more} {are} not used in {patient.framework.name}: {found.says}."
    return Finding(CARD_NOT_SEEN, says, dict(found.evidence), found.command, "likely")


def judge(patient: Patient) -> Complaint:
    found = (rule(patient) for rule in RULES)
    return next((each for each in found if each is not None), None) or of_unknown_cause(patient)


def _packages(framework: str) -> str:
    engine = {"keras-tf": "keras tensorflow", "keras-jax": "keras jax jaxlib", "keras-torch": "keras torch"}
    return engine.get(framework, "jax jaxlib" if framework == "jax" else framework)
