"""Lanes of a script that nobody changes: what it sees of the devices, and what can be set from outside of it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace

from laptime.errors import UsageError
from laptime.model.ask import Ask
from laptime.model.frameworks import SCRIPT, all_frameworks, find_framework
from laptime.model.lane import AS_WRITTEN, Lane, Settings
from laptime.model.machine import Device, Machine
from laptime.model.plan import Plan, PlannedLane, Subject
from laptime.model.workload import ProofPlan
from laptime.planner.facts import LaneFacts, SubjectFacts
from laptime.planner.lanes import GPU, name_lane, parse_lane
from laptime.planner.plan import check_ask, pace_of, refuse_twice, with_values
from laptime.planner.settings import SETTINGS

SET_OUTSIDE = ("threads", "malloc", "denormals", "matmul", "workers", "input")
INPUTS = ("published", "cached", "one", "only")  # what the agent can make of a DataLoader
DECIDES_ITSELF = "a script decides itself what it computes with; laptime shows it one device and sets its environment"
DRIVEN = "driver's uuid"  # of a card that no framework here has tried
HIDDEN = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}


def plan_script(ask: Ask, machine: Machine, subject: Subject) -> Plan:
    """Return the plan of a race of one script."""
    check_ask(ask)
    _check_options(ask)
    devices = find_devices(machine)
    planned = tuple(plan_script_lane(lane, devices, machine) for lane in spread_variants(ask, devices))
    refuse_twice(planned)
    alone, pace = pace_of(ask, machine, planned)
    pace = replace(pace, steps_most=ask.steps)
    notes = (f"each heat runs: {shlex.join(subject.command)}",)
    return Plan(ask, subject, planned, ProofPlan(), pace, notes, alone=alone)


def find_devices(machine: Machine) -> tuple[Device, ...]:
    """Return the processor, and the cards that some framework of laptime's own environment can use.

    A script may run in another environment. Where no framework here sees a card, those of NVIDIA's driver count.
    """
    views = [each for each in machine.frameworks if find_framework(each.name).runs_own_code]
    usable = [device for view in views for device in view.devices if device.usable]
    features = ("malloc",) if machine.system.startswith("Linux") else ()
    processor = Device("cpu", "cpu", "the processor", usable=True, features=features)
    cards: dict[str, Device] = {}
    for each in usable:
        if each.kind != "cpu":
            cards.setdefault(each.name, each)
    return (processor, *(cards.values() or _list_driven(machine)))


def _list_driven(machine: Machine) -> list[Device]:
    """Return the whole cards of NVIDIA that the driver can use, in its order."""
    driven = [each for each in machine.cards if each.maker == "NVIDIA" and each.parent is None and each.computes]
    return [
        Device(f"cuda:{number}", "cuda", str(card.name), usable=True, memory_bytes=card.memory_bytes,
               details={DRIVEN: card.uuid})
        for number, card in enumerate(each for each in driven if each.reason is None)
        if isinstance(card.uuid, str)
    ]  # fmt: skip


def spread_variants(ask: Ask, devices: Sequence[Device]) -> list[Lane]:
    """Return each lane as it is and with each of `--set`. Without both, one processor alone also races at its best."""
    variants = list(ask.variants)
    if not ask.lanes and not variants and len(devices) == 1:
        variants = ["best"]
    found = []
    for text in ask.lanes or tuple(each.name for each in devices):
        if text.partition("/")[0] in all_frameworks():
            raise UsageError(f"lane '{text}' names a framework: {DECIDES_ITSELF}", "name a device, such as cpu or cuda")
        joint = "+" if "/" in text else "/"
        found += [parse_lane(text), *(parse_lane(f"{text}{joint}{each}") for each in variants)]
    return found


def plan_script_lane(lane: Lane, devices: Sequence[Device], machine: Machine) -> PlannedLane:
    device = _find_device(lane, devices)
    facts = LaneFacts(SCRIPT, device, machine, SubjectFacts(None))
    settings = Settings(preset=lane.preset)
    if lane.preset != AS_WRITTEN:
        kept = SETTINGS["malloc"].best(facts)
        settings = settings if kept is None else with_values(settings, {"malloc": kept})
    for name, text in lane.overrides:
        _check_setting(name, text)
        settings = with_values(settings, SETTINGS[name].fill(text, facts))
    for name in SET_OUTSIDE:
        if name != "input":
            SETTINGS[name].refuse(settings, facts)
    environment = show_device(device, devices)
    for row in SETTINGS.values():
        environment |= row.environment(settings, device)
    name = name_lane("", device.name, lane.preset, lane.overrides).removeprefix("/")
    return PlannedLane(name, SCRIPT, device, settings, environment)


def show_device(device: Device, devices: Sequence[Device]) -> dict[str, str]:
    """Return the variables by which a script sees this device alone."""
    if device.kind == "cpu":
        if any(each.kind == "mps" for each in devices):
            raise UsageError("cpu: a GPU of an Apple computer cannot be hidden from a script", "race it on mps alone")
        return dict(HIDDEN)
    number = int(device.name.partition(":")[2] or 0)
    if DRIVEN in device.details:
        return {"CUDA_VISIBLE_DEVICES": device.details[DRIVEN]}
    if device.kind == "cuda":
        seen = [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]
        return {"CUDA_VISIBLE_DEVICES": seen[number] if number < len(seen) else str(number)}
    return {"ZE_AFFINITY_MASK": str(number)} if device.kind == "xpu" else {}


def _find_device(lane: Lane, devices: Sequence[Device]) -> Device:
    if lane.device in {None, GPU}:
        found = next((each for each in devices if each.kind != "cpu"), None)
    else:
        named = (lane.device, f"{lane.device}:0")
        found = next((each for each in devices if each.name in named), None)
    if found is None:
        there = ", ".join(each.name for each in devices)
        raise UsageError(f"device {lane.device} is not there", f"a script can be raced on: {there}")
    return found


def _check_setting(name: str, text: str) -> None:
    if name not in SET_OUTSIDE or (name == "input" and text not in INPUTS):
        able = ", ".join(SETTINGS[each].list_values(SETTINGS[each].listed) for each in SET_OUTSIDE[:-1])
        written = SETTINGS[name].written(text)
        raise UsageError(f"{written} cannot be set from outside of a script", f"what can: {able}")


def _check_options(ask: Ask) -> None:
    if ask.steps is not None and ask.steps < 1:
        raise UsageError(f"--steps {ask.steps}: expected a whole number from 1 on", "such as 50")
    refused = {
        "--batch": ask.batches,
        "--data": ask.data,
        "--items": ask.items,
        "--every": ask.every,
        "--profile": ask.profile,
        "--pretrained": ask.pretrained,
    }
    for option, is_given in refused.items():
        if is_given:
            raise UsageError(f"{option} is of trainings that laptime builds, and {DECIDES_ITSELF}", "leave it out")
