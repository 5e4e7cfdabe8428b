"""Make a plan: check the ask, find devices, fill in settings, choose the pace."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import zip_longest
from typing import Any

from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.frameworks import SCRIPT, SCRIPT_ROW, FrameworkRow, all_frameworks, find_framework, install_command
from laptime.model.machine import Device, Framework, Machine
from laptime.model.options import find_out_of_range, given_options
from laptime.model.plan import OwnTraining, Pace, Plan, PlannedLane, Subject
from laptime.model.process import AS_WRITTEN, Lane, Settings
from laptime.model.rows import LABEL_FORM, OF_TRAINING
from laptime.model.sample import all_sensors
from laptime.model.secrets import mask_secrets
from laptime.model.workload import ProofPlan, Workload
from laptime.planner.groups import (
    choose_pace,
    devices_on_nodes,
    is_group,
    name_group,
    refuse_group,
    refuse_group_for,
    refuse_in_one_process,
    say_spread,
    share_out,
    shared_proof,
    split_processor,
    spread_out,
    why_alone,
)
from laptime.planner.lanes import (
    GPU,
    able_frameworks,
    default_framework,
    devices_to_race,
    name_lane,
    parse_lane,
    spread_lanes,
)
from laptime.planner.refusals import LaneFacts, SubjectFacts, refuse_framework, refuse_training, why_not_for
from laptime.planner.settings import FAST_BF16, SETTINGS

LONGEST_LABEL = 100
PlanLane = Callable[[Lane], PlannedLane]
SEES_NONE = {
    "cuda": "no NVIDIA or AMD card",
    "mps": "no GPU of an Apple computer",
    "xpu": "no Intel card",
    "tpu": "no TPU",
}
SETTING_FIELDS = frozenset(field.name for field in fields(Settings))
OWN_PROOF = ProofPlan(steps=5, single_step_scale=100.0)


def check_ask(ask: Ask) -> None:
    """Refuse figures that are out of range, and what cannot be asked together; the UsageError names the option."""
    check_ranges(ask)
    if ask.every and ask.lanes:
        raise UsageError("--every races all that is installed, and lanes are named", "leave one of the two out")
    if ask.items is not None and ask.data is not None:
        raise UsageError("--items says how many are made, and --data brings its own", "leave one of them out")
    if ask.profile and (ask.full is not None or ask.infer):
        other = "train" if ask.full is not None else "infer"
        raise UsageError(
            f"--profile is of a race, not of laptime {other}", "profile its lanes in a race: laptime race --profile"
        )
    check_label(ask.label)
    # Types of nodes are those of a cluster, and prices are those of types.
    if ask.each is not None and ask.on is None:
        raise UsageError(f"--each {ask.each}: it is about the nodes of a cluster", "name one: --on ray")
    if ask.prices and ask.each is None and ask.tune is None:
        raise UsageError("--prices are of types of nodes", "name the types: --each machine; or give --rate")
    if ask.prices and ask.rate_per_hour is not None:
        raise UsageError("--prices and --rate both say what an hour costs", "leave one of the two out")
    for price in ask.prices:
        if not (math.isfinite(price.per_hour) and price.per_hour >= 0):
            raise UsageError(f"--prices {price}: expected 0 or more", "such as small=0.10,big=1.20")
    check_sensors(ask)


def check_ranges(asked: object) -> None:
    """Refuse figures of an ask, or of a part of it, that are out of range; the UsageError names the option."""
    if (refusal := find_out_of_range(asked)) is not None:
        raise UsageError(*refusal)


def check_label(label: str | None, option: str = "--label") -> None:
    """Refuse a label that could not be typed or shown, or that a shell would act on. A slash is allowed, as in the
    names of branches.
    """
    if label is None:
        return
    if not label.strip():
        raise UsageError(f"{option}: it is empty", "give a name, such as main or fix/loader")
    if len(label) > LONGEST_LABEL:
        raise UsageError(f"{option}: {len(label)} characters, expected at most {LONGEST_LABEL}", "give a shorter name")
    if not LABEL_FORM.fullmatch(label):
        says = f"{option} {label!r}: expected a letter or digit, then letters, digits or any of ._/+:,=@#%-"
        raise UsageError(says, "give a name such as main or fix/loader")


def check_sensors(ask: Ask) -> None:
    """Refuse unknown instruments, and `none` next to others."""
    words = ask.sensors or ()
    unknown = [word for word in words if word not in {*all_sensors(), "none"}]
    if unknown or ("none" in words and len(words) > 1):
        says = f"--sensors {','.join(words)}: expected none, or some of {', '.join(all_sensors())}"
        raise UsageError(says, "leave it out to read all there are")


def make_plan(
    ask: Ask,
    machine: Machine,
    subject: Subject,
    workload: Workload | None,
    *,
    reads_images: bool = True,
    own: OwnTraining | None = None,
) -> Plan:
    """Decide everything that will run. `workload` is None for a user's own training, and `own` what is known of it."""
    check_ask(ask)
    facts = SubjectFacts(
        workload, reads_images, own, subject.name, subject.gives_step, data_is_given=ask.data is not None
    )
    if ask.every:
        planned = plan_every(ask, machine, subject, facts)
    else:
        lanes = [parse_lane(text) for text in ask.lanes] or default_lanes(machine, default_framework(machine, subject))
        if ask.others and not ask.lanes:
            lanes = [lane for lane in lanes if lane.preset == AS_WRITTEN]
        planned = tuple(plan_lane(lane, machine, facts) for lane in spread_lanes(lanes, ask))
    refuse_twice(planned)
    alone, pace = pace_of(ask, machine, planned)
    proof = shared_proof(workload.proof, planned) if workload else OWN_PROOF
    return Plan(ask, subject, planned, proof, pace, alone=alone)


def refuse_twice(lanes: Sequence[PlannedLane]) -> None:
    """Refuse two lanes that are the same."""
    names = [lane.name for lane in lanes]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"lane {name} is named twice", "a race needs lanes that differ")


def join_plans(plans: Sequence[Plan], machine: Machine) -> Plan:
    """Return one plan of several trainings: lane by lane, each with every training."""
    if len(plans) == 1:
        return plans[0]
    trainings = [[with_training(lane, plan.subject) for lane in plan.lanes] for plan in plans]
    lanes = tuple(lane for row in zip_longest(*trainings) for lane in row if lane is not None)
    alone, pace = pace_of(plans[0].ask, machine, lanes)
    others = tuple(plan.subject for plan in plans[1:])
    return replace(plans[0], lanes=lanes, others=others, alone=alone, pace=pace)


def with_training(lane: PlannedLane, training: Subject) -> PlannedLane:
    """Return a lane that trains one of several trainings, which is then in its name."""
    return replace(lane, name=f"{lane.name}{OF_TRAINING}{training.name}", training=training)


def pace_of(ask: Ask, machine: Machine, lanes: Sequence[PlannedLane]) -> tuple[str | None, Pace]:
    """Return why the heats of these lanes cannot take turns, if so, and their pace."""
    alone = why_alone(ask, machine, [lane.device for lane in lanes])
    takes_turns = alone is None and len(lanes) > 1
    return alone, choose_pace(ask, len(lanes), takes_turns=takes_turns, forks=all(lane.may_fork for lane in lanes))


def default_lanes(machine: Machine, framework: str) -> list[Lane]:
    """Return two lanes for each usable device: one as written, one at its best."""
    view = _view(machine, find_framework(framework))
    devices = devices_to_race(view)
    if not devices:
        raise UsageError(f"{framework} sees no usable device here", "laptime devices says why")
    return [Lane(framework, device.name, preset) for device in devices for preset in ("as-written", "best")]


def plan_every(ask: Ask, machine: Machine, subject: Subject, facts: SubjectFacts) -> tuple[PlannedLane, ...]:
    """Return a lane for every framework on every usable device, as written. Notes say what is left out, and why."""
    planned: list[PlannedLane] = []
    left_out: list[str] = []
    able = able_frameworks(machine, subject)
    for framework in machine.frameworks:
        if framework.name not in able:
            continue
        devices: list[str | None] = [device.name for device in devices_to_race(framework)]
        for lane in spread_lanes([Lane(framework.name, device) for device in devices or [None]], ask):
            try:
                planned.append(plan_lane(lane, machine, facts))
            except UsageError as error:
                left_out.append(f"{framework.name} is left out: {error.says}")
    if not planned:
        raise UsageError(
            "--every: no framework that is installed here can run this",
            "; ".join(left_out) or "laptime devices says what there is",
        )
    first, *others = planned
    return (replace(first, notes=(*first.notes, *left_out)), *others)


def plan_lane(lane: Lane, machine: Machine, subject: SubjectFacts) -> PlannedLane:
    if subject.workload is None and not lane.row.runs_own_code:
        raise UsageError("the fake back end runs no code: it cannot race a training of your own", "name a workload")
    row = lane.row
    view = _view(machine, row)
    spread = spread_out(lane, machine)
    # The lane once for each device that it names
    if lane.device is None:
        devices_of = [lane]
    else:
        devices_of = [replace(lane, device=device) for device in devices_on_nodes(lane.device, spread)]
    devices = tuple(_find_device(lane_of, view, machine) for lane_of in devices_of)
    device = devices[0]
    where = device.name
    group: tuple[Device, ...] = ()
    if is_group(lane.device):
        group = devices
        where = name_group(lane.device or "", devices)
    facts = LaneFacts(row, device, machine, subject, group, where, spread)
    settings = fill_settings(lane, facts)
    name = name_lane(lane.framework, where, lane.preset, lane.overrides)
    notes = (*view.notes, *_list_notes(lane, view, facts, settings), *say_spread(spread))
    environment = environment_for(row, settings, device)
    environment |= split_processor(row, group, machine.processor.cores_usable)
    return PlannedLane(name, lane.framework, device, settings, environment, notes, devices=group, spread=spread)


def fill_settings(lane: Lane, facts: LaneFacts) -> Settings:
    """Return all settings: the preset's values here, then the lane's own. Raise UsageError if one is refused."""
    settings = Settings(preset=lane.preset)
    for row in SETTINGS.values() if lane.preset != "as-written" else ():
        choose = row.fastest if lane.preset == "fastest" and row.fastest else row.best
        value = choose(facts)
        if value is not None:
            settings = with_values(settings, {row.main_field: value})
    for name, text in lane.overrides:
        settings = with_values(settings, SETTINGS[name].fill(text, facts))
    settings = share_out(settings, facts)
    refuse_framework(facts)
    refuse_training(facts)
    refuse_group(facts)
    refuse_in_one_process(settings, facts)
    for row in SETTINGS.values():
        row.refuse(settings, facts)
    return settings


def environment_for(framework: FrameworkRow, settings: Settings, device: Device) -> dict[str, str]:
    """Return the environment variables that the lane's process needs at its start."""
    environment = name_device(framework, device)
    for row in SETTINGS.values():
        environment |= row.environment(settings, device)
    return environment


def expect_environment(ask: Ask, framework: str) -> dict[str, str]:
    """Return the variables that the first lane of a framework probably needs: what starts with them can serve it, too.

    Presets are filled in by what the framework sees, which is not known yet.
    """
    row = find_framework(framework)
    lane = Lane(framework, None)
    for text in ask.lanes:
        named = parse_lane(text)
        if named.framework == framework:
            lane = named
            break
    words = dict(lane.overrides)
    threads = int(words["threads"]) if words.get("threads", "").isdecimal() else None
    device = Device("cpu", "cpu" if lane.device in {None, "cpu"} else "cuda", "", usable=True)
    settings = with_values(Settings(), {"threads": threads, "malloc": words.get("malloc", "system")})
    return environment_for(row, settings, device)


def name_device(framework: FrameworkRow, device: Device) -> dict[str, str]:
    """Return the variable that names the device for a user's plain function: only its own code can place it there."""
    return {"LAPTIME_DEVICE": device.name} if framework.is_opaque else {}


def with_values(settings: Settings, values: dict[str, Any]) -> Settings:
    extra = {name: str(value) for name, value in values.items() if name not in SETTING_FIELDS}
    known = {name: value for name, value in values.items() if name in SETTING_FIELDS}
    return replace(settings, **known, extra=settings.extra | extra)


def _list_notes(lane: Lane, view: Framework, facts: LaneFacts, settings: Settings) -> list[str]:
    notes: list[str] = []
    # A build for cards that sees no card silently computes on the processor.
    builds = [device.details["build"] for device in view.devices if not device.usable and "build" in device.details]
    sees_card = any(device.usable and device.kind != "cpu" for device in view.devices)
    if facts.on_processor and builds and not sees_card:
        notes.append(f"this build is for {builds[0]} and sees no card: it computes on the processor")
    if lane.preset == AS_WRITTEN:
        return notes
    if facts.subject.gives_step and lane.row.takes_steps:
        notes.append(
            f"{lane.preset} of a step of your own sets threads, memory and input; "
            "layout, optimizer and compilation are up to its code"
        )
    threads = settings.threads
    if "threads" not in dict(lane.overrides) and threads is not None and threads < facts.cores:
        taken = facts.machine.cores_taken
        computes = f"{lane.preset} computes with {threads} thread{'s' * (threads != 1)}"
        notes.append(f"other processes took {taken} of {facts.cores} cores, so {computes}")
    return notes


def _view(machine: Machine, row: FrameworkRow) -> Framework:
    name = row.name
    view = machine.framework(name)
    if view is None and row.switch:
        raise UsageError(f"the {name} back end is switched off", f"set {row.switch}=1 to switch it on")
    if view is None:
        raise UsageError(f"{name} is not installed here", install_command(*row.modules))
    if view.problem:
        raise UsageError(f"{name} {view.version} cannot be used here: {view.problem}", "laptime devices shows more")
    return view


def _find_device(lane: Lane, view: Framework, machine: Machine) -> Device:
    usable = [device for device in view.devices if device.usable]
    cards = [device for device in usable if device.kind != "cpu"]
    if lane.device == GPU and not cards:
        reasons = [f"{device.kind}: {device.reason}" for device in view.devices if not device.usable and device.reason]
        says = f"gpu: {lane.framework} can use no accelerator here"
        raise UsageError(
            f"{says} ({'; '.join(reasons)})" if reasons else says, "laptime devices --check says what to do"
        )
    if lane.device is None or lane.device == GPU:
        return next(iter(cards), usable[0])
    wanted = lane.device if lane.device in {"cpu", "mps", "tpu"} or ":" in lane.device else f"{lane.device}:0"
    found = next((device for device in view.devices if device.name == wanted), None)
    if found is not None and found.usable:
        return found
    hint = f"usable here: {', '.join(device.name for device in usable)}"
    if found is not None:
        raise UsageError(f"device {found.name} cannot be used: {found.reason}", hint)
    kind = lane.device.partition(":")[0]
    alike = [device for device in view.devices if device.kind == kind]
    reasons = [device.reason for device in alike if device.reason]
    if kind == "mps" and not machine.system.startswith("Darwin"):
        why = f"mps is of Apple computers, and this is {machine.system} on {machine.processor.architecture}"
    elif reasons and not any(device.usable for device in alike):
        why = reasons[0]  # it has looked for this kind of device
    else:
        why = f"it sees {', '.join(device.name for device in alike) or SEES_NONE.get(kind, 'none')}"
    raise UsageError(f"device {lane.device} is not there for {lane.framework}: {why}", hint)


def check_question(plan: Plan, command: str) -> None:
    """Refuse lanes that `laptime train` or `laptime infer` cannot run."""
    for lane in plan.lanes:
        refuse_group_for(command, lane)
    refused = find_refused(plan, command)
    if refused is not None:
        raise UsageError(f"laptime {command}: {refused[0]}", refused[1])


def find_refused(plan: Plan, command: str) -> tuple[str, str] | None:
    """Return why a lane on one device is nothing for `laptime train` or `laptime infer`, and a hint."""
    for lane in plan.lanes:
        refused = why_not_for(command, lane, plan.subject)
        if refused is not None:
            return f"{lane.name} {refused[0]}", refused[1]
        for row in SETTINGS.values():
            if command in row.refused_for and row.values_of(lane.settings) != row.values_of(Settings()):
                why, hint = row.refused_for[command]
                return f"{lane.name} {why}", hint
    return None


# Lanes of a script that nobody changes: what it sees of the devices, and what can be set from outside of it.

OF_SCRIPTS = ("compile", "channels_last", "fused")  # what the agent can make of a model and its optimizer
DECIDES_ITSELF = "a script decides itself what it computes with; laptime shows it one device and sets its environment"
DRIVEN = "driver's uuid"  # of a card that no framework here has tried
HIDING_VARIABLES = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}


def plan_script(ask: Ask, machine: Machine, subject: Subject) -> Plan:
    """Return the plan of a race of one script."""
    check_ask(ask)
    for row, _ in given_options("race", ask):
        if row.only_for == "trainings":
            raise UsageError(f"{row.option} is of trainings that laptime builds, and {DECIDES_ITSELF}", "leave it out")
    devices = find_devices(machine)
    planned = tuple(plan_script_lane(lane, devices, machine) for lane in spread_variants(ask, devices))
    refuse_twice(planned)
    alone, pace = pace_of(ask, machine, planned)
    pace = replace(pace, steps_most=ask.steps)
    notes = (f"each heat runs: {shlex.join(mask_secrets(subject.command))}",)
    return Plan(ask, subject, planned, ProofPlan(), pace, notes, alone=alone)


def find_devices(machine: Machine) -> tuple[Device, ...]:
    """Return the processor, and the cards that some framework of laptime's own environment can use.

    A script may run in another environment. Where no framework here sees a card, those of NVIDIA's driver count.
    """
    views = [framework for framework in machine.frameworks if find_framework(framework.name).runs_own_code]
    usable = [device for view in views for device in view.devices if device.usable]
    features = (*OF_SCRIPTS, *(("malloc", "pinning") if machine.system.startswith("Linux") else ()))
    features += ("bf16",) if FAST_BF16 & set(machine.processor.features) else ()
    processor = Device("cpu", "cpu", "the processor", usable=True, features=features)
    cards: dict[str, Device] = {}
    for device in usable:
        if device.kind != "cpu":
            cards.setdefault(device.name, device)
    if not cards:
        # The whole cards that the driver can use, in its order
        driven = [card for card in machine.cards if card.maker == "NVIDIA" and card.parent is None and card.computes]
        for number, card in enumerate([card for card in driven if card.reason is None]):
            if isinstance(card.uuid, str):
                name = f"cuda:{number}"
                details = {DRIVEN: card.uuid}
                memory_bytes = card.memory_bytes
                cards[name] = Device(
                    name, "cuda", str(card.name), usable=True, memory_bytes=memory_bytes, details=details
                )
    # Whether the script's own packages can do all of this there shows once it runs.
    can = (*OF_SCRIPTS, "bf16")
    return (
        processor,
        *(replace(device, features=tuple(dict.fromkeys((*device.features, *can)))) for device in cards.values()),
    )


def spread_variants(ask: Ask, devices: Sequence[Device]) -> list[Lane]:
    """Return each lane as it is and with each of `--set`. Without both, one processor alone also races at its best."""
    variants = list(ask.variants)
    if not ask.lanes and not variants and len(devices) == 1:
        variants = ["best"]
    found = []
    for text in ask.lanes or tuple(device.name for device in devices):
        if text.partition("/")[0] in all_frameworks():
            raise UsageError(f"lane '{text}' names a framework: {DECIDES_ITSELF}", "name a device, such as cpu or cuda")
        joint = "+" if "/" in text else "/"
        found += [parse_lane(text), *(parse_lane(f"{text}{joint}{variant}") for variant in variants)]
    return found


def plan_script_lane(lane: Lane, devices: Sequence[Device], machine: Machine) -> PlannedLane:
    if lane.device in {None, GPU}:
        found = [device for device in devices if device.kind != "cpu"]
    else:
        found = [device for device in devices if device.name in {lane.device, f"{lane.device}:0"}]
    if not found:
        there = ", ".join(device.name for device in devices)
        raise UsageError(f"device {lane.device} is not there", f"a script can be raced on: {there}")
    device = found[0]
    facts = LaneFacts(SCRIPT_ROW, device, machine, SubjectFacts(None))
    settings = Settings(preset=lane.preset)
    if lane.preset != AS_WRITTEN:
        malloc = SETTINGS["malloc"].best(facts)
        if malloc is not None:
            settings = with_values(settings, {"malloc": malloc})
    for name, text in lane.overrides:
        if not SETTINGS[name].can_be_outside(text):
            rows = [row for row in SETTINGS.values() if row.outside and row.name != "input"]
            able = ", ".join(row.list_values(row.outside) for row in rows)
            raise UsageError(
                f"{SETTINGS[name].written(text)} cannot be set from outside of a script", f"what can: {able}"
            )
        settings = with_values(settings, SETTINGS[name].fill(text, facts))
    for row in SETTINGS.values():
        if row.outside and row.name != "input":
            row.refuse(settings, facts)
    environment = show_device(device, devices)
    for row in SETTINGS.values():
        environment |= row.environment(settings, device)
    name = name_lane("", device.name, lane.preset, lane.overrides).removeprefix("/")
    return PlannedLane(name, SCRIPT, device, settings, environment)


def show_device(device: Device, devices: Sequence[Device]) -> dict[str, str]:
    """Return the variables by which a script sees this device alone."""
    if device.kind == "cpu":
        if any(other.kind == "mps" for other in devices):
            raise UsageError("cpu: a GPU of an Apple computer cannot be hidden from a script", "race it on mps alone")
        return dict(HIDING_VARIABLES)
    number = int(device.name.partition(":")[2] or 0)
    if DRIVEN in device.details:
        return {"CUDA_VISIBLE_DEVICES": device.details[DRIVEN]}
    if device.kind == "cuda":
        visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        return {"CUDA_VISIBLE_DEVICES": visible[number] if number < len(visible) else str(number)}
    return {"ZE_AFFINITY_MASK": str(number)} if device.kind == "xpu" else {}
