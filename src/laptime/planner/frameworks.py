"""Which frameworks a race uses: those that its lanes name, else those that can run what is trained."""

from __future__ import annotations

import os

from laptime.model.ask import Ask
from laptime.model.frameworks import DEFAULT, find_framework, frameworks_of
from laptime.model.machine import Device, Framework, Machine
from laptime.model.plan import Subject
from laptime.planner.lanes import parse_lane


def frameworks_asked(ask: Ask, machine: Machine, subject: Subject) -> tuple[str, ...]:
    """Return the frameworks to scout: those that the lanes name, in order, or all that can run the subject."""
    if ask.every:
        return able_frameworks(machine, subject)
    lanes = [parse_lane(text) for text in ask.lanes]
    return tuple(dict.fromkeys(lane.framework for lane in lanes)) or (default_framework(machine, subject),)


def able_frameworks(machine: Machine, subject: Subject) -> tuple[str, ...]:
    """Return the installed frameworks that can run this. A built-in workload has no form as a step function."""
    installed = [find_framework(each.name) for each in machine.frameworks]
    if subject.file is None:
        return tuple(row.name for row in installed if not row.takes_steps_only)
    if subject.written_for is None:
        return tuple(row.name for row in installed if not row.is_opaque)  # an opaque framework takes only a step
    return tuple(row.name for row in installed if row.runs_own_code and row.family == subject.written_for)


def default_framework(machine: Machine, subject: Subject) -> str:
    """Return PyTorch, or what a user's file is written for; for Keras, with the engine that Keras itself would use."""
    if subject.written_for is None:
        return DEFAULT
    rows = frameworks_of(subject.written_for)
    named = (row.name for row in rows if row.engine.name == os.environ.get("KERAS_BACKEND"))
    installed = (row.name for row in rows if machine.framework(row.name))
    return next(named, None) or next(installed, rows[0].name)


def devices_to_race(framework: Framework) -> list[Device]:
    """Return the usable devices. A card that no framework has tried is left out: the user has to name it."""
    tries_cards = not find_framework(framework.name).is_opaque
    return [each for each in framework.devices if each.usable and (each.kind == "cpu" or tries_cards)]
