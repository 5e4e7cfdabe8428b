"""Which frameworks a race is about: those that its lanes name, else those that can run what is trained."""

from __future__ import annotations

import os
from collections.abc import Sequence

from laptime.model.ask import Ask
from laptime.model.machine import Device, Framework, Machine
from laptime.model.plan import Subject
from laptime.planner.lanes import parse_lane
from laptime.planner.own_steps import STEP_FRAMEWORKS

ENGINES = {"tensorflow": "keras-tf", "jax": "keras-jax", "torch": "keras-torch"}


def frameworks_asked(ask: Ask, machine: Machine, subject: Subject) -> tuple[str, ...]:
    """Give the frameworks that the lanes name, in order, so that only these are scouted; or all that could run it."""
    if ask.every:
        return able_frameworks(machine, subject)
    lanes = [parse_lane(text) for text in ask.lanes]
    return tuple(dict.fromkeys(lane.framework for lane in lanes)) or (default_framework(machine, subject),)


def able_frameworks(machine: Machine, subject: Subject) -> tuple[str, ...]:
    """Give all that are installed and can run this: a built-in has no form as a step, and a user's file has one."""
    installed = [each.name for each in machine.frameworks]
    if subject.file is None:
        return tuple(name for name in installed if name not in STEP_FRAMEWORKS)
    if subject.written_for is None:
        return tuple(name for name in installed if name != "python")  # it is always there, and takes a step alone
    return tuple(name for name in installed if subject.written_for in {name, name.split("-")[0]})


def default_framework(machine: Machine, subject: Subject) -> str:
    """Give PyTorch, or what a user's file is written for; with Keras, the engine that Keras itself would take."""
    if subject.written_for == "keras":
        return _engine([each.name for each in machine.frameworks])
    return subject.written_for or "torch"


def devices_to_race(framework: Framework) -> list[Device]:
    """Give those that can be used. Where no framework has tried a card, whoever wants it names it."""
    return [each for each in framework.devices if each.usable and (each.kind == "cpu" or framework.name != "python")]


def _engine(installed: Sequence[str]) -> str:
    named = ENGINES.get(os.environ.get("KERAS_BACKEND", ""))
    there = [name for name in ENGINES.values() if name in installed]
    return named or (there[0] if there else "keras-tf")
