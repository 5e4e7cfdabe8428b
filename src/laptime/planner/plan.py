"""Put a plan together: check the figures asked for, resolve devices, fill in settings, choose the pace."""

from __future__ import annotations

import math
from dataclasses import replace

from laptime.errors import UsageError
from laptime.model.ask import Ask
from laptime.model.lane import Lane
from laptime.model.machine import Device, Framework, Machine
from laptime.model.plan import Plan, PlannedLane, Subject
from laptime.model.workload import ProofPlan, Workload
from laptime.planner.frameworks import able_frameworks, default_framework, devices_to_race
from laptime.planner.grid import spread_lanes
from laptime.planner.instruments import check_sensors
from laptime.planner.lanes import name_lane, parse_lane
from laptime.planner.pace import choose_pace
from laptime.planner.presets import Given, environment_for, fill_settings

LARGEST_BUDGET_S = 7 * 24 * 3600
MOST_ITEMS = 1_000_000
OWN_PROOF = ProofPlan(steps=5)


def check_ask(ask: Ask) -> None:
    """Refuse figures that cannot be meant, naming the flag."""
    if ask.heats is not None and not 1 <= ask.heats <= 1000:
        raise UsageError(f"--heats {ask.heats}: expected a whole number from 1 to 1,000", "usually 5")
    if not (math.isfinite(ask.budget_s) and 1 <= ask.budget_s <= LARGEST_BUDGET_S):
        raise UsageError(f"--budget {ask.budget_s:g}s: expected 1s to 7d", "such as 60s, 2m or 1h")
    if not (math.isfinite(ask.margin) and 0.001 <= ask.margin <= 1):
        raise UsageError(f"--margin {ask.margin:.3%}: expected 0.1% to 100%", "such as 3%")
    if not 0 <= ask.seed < 1 << 32:
        raise UsageError(f"--seed {ask.seed}: expected a whole number from 0 to {(1 << 32) - 1:,}", "such as 1")
    if ask.items is not None and not 0 <= ask.items <= MOST_ITEMS:
        raise UsageError(f"--items {ask.items}: expected a whole number to {MOST_ITEMS:,}, or all", "such as 5000")
    if ask.every and ask.lanes:
        raise UsageError("--every races all that is installed, and lanes are named", "leave one of the two out")
    if ask.items is not None and ask.data is not None:
        raise UsageError("--items says how many are made, and --data brings its own", "leave one of them out")
    if ask.profile and (ask.full is not None or ask.infer):
        other = "--full trains whole" if ask.full is not None else "--infer trains nothing"
        raise UsageError(f"--profile looks at the steps of a race, and {other}", "leave one of the two out")
    check_sensors(ask)
    for flag, seconds in (("--patience", ask.patience_s), ("--watchdog", ask.watchdog_s)):
        if not (math.isfinite(seconds) and 0.1 <= seconds <= LARGEST_BUDGET_S):
            raise UsageError(f"{flag} {seconds:g}s: expected 0.1s to 7d", "such as 10m")


def make_plan(
    ask: Ask, machine: Machine, subject: Subject, workload: Workload | None, *, reads_images: bool = True
) -> Plan:
    """Decide all that will run; `workload` is None for a user's own training."""
    check_ask(ask)
    given = Given(workload, reads_images)
    if ask.every:
        planned = plan_every(ask, machine, subject, given)
    else:
        lanes = [parse_lane(text) for text in ask.lanes] or default_lanes(machine, default_framework(machine, subject))
        planned = tuple(plan_lane(lane, machine, given) for lane in spread_lanes(lanes, ask.full))
    names = [lane.name for lane in planned]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"lane {name} is named twice", "a race needs lanes that differ")
    return Plan(ask, subject, planned, workload.proof if workload else OWN_PROOF, choose_pace(ask, len(planned)))


def default_lanes(machine: Machine, framework: str) -> list[Lane]:
    """Give every usable device as written and at its best."""
    view = _view(machine, framework)
    devices = devices_to_race(view)
    if not devices:
        raise UsageError(f"{framework} sees no usable device here", "laptime devices says why")
    return [Lane(framework, each.name, preset) for each in devices for preset in ("as-written", "best")]


def plan_every(ask: Ask, machine: Machine, subject: Subject, given: Given) -> tuple[PlannedLane, ...]:
    """Give every framework on every usable device, as written. Who cannot run this is left out, and it is said why."""
    planned: list[PlannedLane] = []
    left_out: list[str] = []
    able = able_frameworks(machine, subject)
    for framework in machine.frameworks:
        if framework.name not in able:
            continue
        devices: list[str | None] = [device.name for device in devices_to_race(framework)]
        for lane in spread_lanes([Lane(framework.name, device) for device in devices or [None]], ask.full):
            try:
                planned.append(plan_lane(lane, machine, given))
            except UsageError as error:
                left_out.append(f"{framework.name} is left out: {error.says}")
    if not planned:
        raise UsageError(
            "--every: no framework that is installed here can run this",
            "; ".join(left_out) or "laptime devices says what there is",
        )
    first, *others = planned
    return (replace(first, notes=(*first.notes, *left_out)), *others)


def plan_lane(lane: Lane, machine: Machine, given: Given) -> PlannedLane:
    if lane.framework == "fake" and given.workload is None:
        raise UsageError("the fake back end runs no code: it cannot race a training of your own", "name a workload")
    view = _view(machine, lane.framework)
    device = _find_device(lane, view)
    settings = fill_settings(lane, device, machine, given)
    name = name_lane(lane.framework, device.name, lane.preset, lane.overrides)
    notes = (*view.notes, *_fallen_back(view, device))
    return PlannedLane(name, lane.framework, device, settings, environment_for(lane.framework, settings, device), notes)


def _fallen_back(view: Framework, device: Device) -> tuple[str, ...]:
    """Say that a build for cards computes on the processor, since it finds none: it does so without a word."""
    meant = next((each.details["build"] for each in view.devices if not each.usable and "build" in each.details), None)
    if device.kind != "cpu" or meant is None or any(each.usable and each.kind != "cpu" for each in view.devices):
        return ()
    return (f"this build is for {meant} and sees no card: it computes on the processor",)


def _view(machine: Machine, name: str) -> Framework:
    view = machine.framework(name)
    extra = {"keras-tf": "keras,tensorflow", "keras-jax": "keras,jax", "keras-torch": "keras,torch"}.get(name, name)
    if view is None and name == "fake":
        raise UsageError("the fake back end is switched off", "set LAPTIME_FAKE=1 to switch it on")
    if view is None:
        raise UsageError(f"{name} is not installed here", f"pip install 'laptime[{extra}]'")
    if view.problem:
        raise UsageError(f"{name} {view.version} cannot be used here: {view.problem}", "laptime devices shows more")
    return view


def _find_device(lane: Lane, view: Framework) -> Device:
    usable = [device for device in view.devices if device.usable]
    if lane.device is None:
        return next((each for each in usable if each.kind != "cpu"), usable[0])
    wanted = lane.device if lane.device in {"cpu", "mps", "tpu"} or ":" in lane.device else f"{lane.device}:0"
    found = next((each for each in view.devices if each.name == wanted), None)
    there = ", ".join(each.name for each in usable)
    if found is None:
        absent = next((each for each in view.devices if each.kind == lane.device and not each.usable), None)
        why = f": {absent.reason}" if absent else ""
        raise UsageError(f"device {lane.device} is not there for {lane.framework}{why}", f"usable here: {there}")
    if not found.usable:
        raise UsageError(f"device {found.name} cannot be used: {found.reason}", f"usable here: {there}")
    return found
