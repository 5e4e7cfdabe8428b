"""What do 2, 4, 8 devices bring, and why not 2, 4, 8 times as much? One race over the counts of devices, and the lanes
of it.

Next to each asked lane on every count race experiments: the same processes without their exchange, on batches that are
ready, and one device on its part of a batch. Their steps show where the time of a step goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from laptime.engine.run.launchers import LOCAL, Launcher
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.machine import Device, Machine
from laptime.model.plan import PlannedLane, Subject
from laptime.model.process import DATA_PARALLEL, SHARDED, SPLIT, Lane
from laptime.model.record import RaceAnswer
from laptime.planner.groups import is_group, rooms_of, shared_proof
from laptime.planner.lanes import parse_lane
from laptime.planner.plan import PlanLane, check_ranges, pace_of, plan_lane
from laptime.questions.asking import Prepared, facts_of, keep_apart, prepare
from laptime.questions.job import Job, Outcome, QuestionRun, RecordStatus
from laptime.questions.race.run import Race
from laptime.questions.scale.nouns import Role, ScaleAnswer, ScaleLane, Scaling, say_curve
from laptime.questions.scale.options import MODES, Mode, ScaleAsk
from laptime.questions.scale.reduce import summarise_scaling
from laptime.questions.subject import find_subject


@dataclass(frozen=True, slots=True)
class ScalePrepared(Prepared):
    """A prepared scale: what each of its lanes is for."""

    roles: tuple[ScaleLane, ...]


def prepare_scale(ask: Ask, machine: Machine, launcher: Launcher = LOCAL) -> ScalePrepared:
    """Scout and plan. With no lane named, it is the framework's card if there is one, else the processor."""
    wanted = ask.scale or ScaleAsk()
    ask = replace(ask, scale=wanted)
    check_scale(wanted)
    if ask.every:
        raise UsageError("laptime scale takes lanes, and --every races all that is installed", "name lanes")
    single = replace(ask, lanes=tuple(map(without_groups, ask.lanes)))
    prepared = prepare(replace(single, lanes=tuple(dict.fromkeys(single.lanes))), machine, launcher, one_lane=True)
    subject = prepared.plan.subject
    workload = find_subject(ask.what)[1]
    given = facts_of(prepared, workload)
    named = ask.lanes or prepared.plan.ask.lanes
    asked = [_with_device(text, prepared) for text in named]
    loads = workload is None or workload.reads_files
    facts = ScaleFacts(prepared.machine, subject, partial(plan_lane, machine=prepared.machine, subject=given), loads)
    found = plan_scale(wanted, [parse_lane(text) for text in asked], facts)
    alone, pace = pace_of(ask, prepared.machine, found.lanes)
    proof = shared_proof(prepared.plan.proof, found.lanes)
    plan = replace(prepared.plan, ask=ask, lanes=found.lanes, pace=pace, alone=alone, proof=proof)
    if launcher.is_elsewhere:
        plan = keep_apart(plan, launcher.why_alone(plan.lanes))
    return ScalePrepared(plan, prepared.machine, prepared.published, found.roles, launcher=launcher)


def _with_device(text: str, prepared: Prepared) -> str:
    """Return a lane with its device in it, where it names a framework alone."""
    lane = parse_lane(text)
    if lane.device is not None:
        return text
    return f"{text}/{prepared.plan.lanes[0].device.name}"


class ScaleRace:
    """A race over counts of devices, and what it shows."""

    def __init__(self, job: Job, prepared: ScalePrepared) -> None:
        self._race = Race(job, prepared)
        self._roles = prepared.roles
        self.run = self._race.run

    def reduce(self, status: RecordStatus) -> Outcome:
        outcome = self._race.reduce(status)
        answer = outcome.answer
        assert isinstance(answer, RaceAnswer)
        scaling: Scaling | None = None
        if status != "running":
            scaling = summarise_scaling(self._roles, outcome.lanes, answer.comparisons)
            kind = outcome.lanes[0].device.kind
            scaling = replace(scaling, says=" ".join(say_curve(curve, kind) for curve in scaling.curves[:1]))
        return replace(outcome, answer=ScaleAnswer(self._roles, answer.comparisons, scaling, answer.alone))


# The lanes of `laptime scale`: each asked lane on 1, 2, 4 devices, and the experiments that show what is lost.

OF_GROUPS = ("parallel", "scaling", "sync")
HOW_TO_SHARE = (DATA_PARALLEL, SHARDED, SPLIT)


@dataclass(frozen=True, slots=True)
class ScaleLanes:
    """The planned lanes, and what each is for."""

    lanes: tuple[PlannedLane, ...]
    roles: tuple[ScaleLane, ...]


def check_scale(ask: ScaleAsk) -> None:
    """Refuse counts that cannot be raced, and two ways in which the batch grows."""
    if len(ask.growth) > 1:
        options = " and ".join(f"--{option}" for option in ask.growth)
        raise UsageError(f"{options} say how the batch grows, and only one can", "name one; --both races both")
    check_ranges(ask)
    if len(set(ask.devices)) < len(ask.devices):
        raise UsageError(f"--devices {','.join(map(str, ask.devices))}: a count is named twice", "name each once")
    if ask.devices and max(ask.devices) == 1:
        raise UsageError("--devices 1: one device alone does not scale", "name more, such as 1,2,4")


@dataclass(frozen=True, slots=True)
class ScaleFacts:
    """What the lanes depend on: the machine, what is trained, and how a lane of it is planned.

    With `loads`, batches are read or made as they are needed, so loaders may fall behind.
    """

    machine: Machine
    subject: Subject
    plan: PlanLane
    loads: bool = True


def plan_scale(ask: ScaleAsk, asked: Sequence[Lane], facts: ScaleFacts) -> ScaleLanes:
    """Plan all lanes. Lanes that several curves share, such as that of one device, are planned once."""
    planned: dict[str, PlannedLane] = {}
    roles: list[ScaleLane] = []
    for lane in asked:
        for mode in ask.modes:
            for role, count, wanted in _lanes_of(lane, mode, ask, facts):
                made = facts.plan(wanted)
                planned.setdefault(made.name, made)
                settings = [
                    value if key in {"parallel", "scaling"} else f"{key}={value}" for key, value in lane.overrides
                ]
                words = [lane.preset, *settings] if lane.preset != "as-written" else settings
                name = "/".join(filter(None, (lane.framework, lane.device, "+".join(words))))
                roles.append(ScaleLane(name, mode, role, count, made.name))
    return ScaleLanes(tuple(planned.values()), tuple(roles))


def _lanes_of(lane: Lane, mode: Mode, ask: ScaleAsk, facts: ScaleFacts) -> list[tuple[Role, int, Lane]]:
    """Return what one asked lane needs in one mode: the role, the count of devices, and the lane."""
    machine = facts.machine
    subject = facts.subject
    plan = facts.plan
    if is_group(lane.device):
        raise UsageError(f"laptime scale: {lane.device} names devices itself", "name one device, and --devices 1,2,4")
    single = replace(lane, overrides=tuple(override for override in lane.overrides if override[0] not in OF_GROUPS))
    first = plan(single)
    device = first.device
    counts = _counts(ask, first, machine)
    most = max(counts)
    on_cores = device.kind == "cpu" and lane.row.spreads == "ranks"
    named = dict(lane.overrides)
    if on_cores and "threads" not in named:
        on_a_node = min(most, max(rooms_of(machine, "cpu"), default=most))
        share = {"threads": str(max(1, machine.processor.cores_usable // on_a_node))}
        single, lane = _with(single, share), _with(lane, share)
    one = replace(single, device=device.name)
    found: list[tuple[Role, int, Lane]] = [("one", 1, one)]
    found += [("several", count, _several(lane, device, count, mode)) for count in counts if count > 1]
    largest = found[-1][2]
    is_ranked = plan(largest).is_ranked
    kept = {"input": "cached"} if facts.loads and "input" not in named else {}
    if is_ranked:
        found.append(("alone", most, _with(largest, {"sync": "none"})))
        if kept:
            found.append(("several ready", most, _with(largest, {**kept, "sync": "none"})))
    if kept and is_ranked:
        found.append(("one ready", 1, _with(one, kept)))
    if mode == "strong" and subject.batch is not None and subject.is_built_in:
        batch = int(named.get("batch", subject.batch)) // most if named.get("batch", "1").isdecimal() else 0
        if batch:
            found.append(("part", 1, _with(one, {"batch": str(batch)})))
    if on_cores and "threads" not in named:
        cores = {"threads": str(machine.processor.cores_usable)}
        found.append(("all cores", 1, _with(one, cores)))
    return found


def _counts(ask: ScaleAsk, lane: PlannedLane, machine: Machine) -> list[int]:
    """Return the counts to race, from 1 on: those that are asked for, or 1, 2, 4 and so on to all that there are."""
    kind = lane.device.kind
    framework = machine.framework(lane.framework)
    alike = [device for device in framework.devices if device.usable and device.kind == kind] if framework else []
    there = machine.processor.cores_usable if kind == "cpu" else len(alike)
    if lane.row.spreads == "ranks":
        there = sum(rooms_of(machine, kind)) or there
    what = "core" if kind == "cpu" else f"{kind} device"
    if ask.devices:
        if max(ask.devices) > there:
            raise UsageError(
                f"--devices {max(ask.devices)}: {lane.framework} can use {there} {what}{'s' * (there != 1)} here",
                f"name up to {there}" if there > 1 else "laptime devices shows what there is",
            )
        return sorted({1, *ask.devices})
    if there < 2:
        raise UsageError(f"laptime scale: there is one {what} here, and nothing to scale to", "name another device")
    counts = [1]
    while 2 * counts[-1] <= there:
        counts.append(2 * counts[-1])
    return counts


def _several(lane: Lane, device: Device, count: int, mode: Mode) -> Lane:
    group = replace(lane, device=f"{count}x{device.kind}")
    return _with(group, {"scaling": "weak"} if mode == "weak" else {})


def _with(lane: Lane, settings: dict[str, str]) -> Lane:
    """Return a lane with these settings in place of its own."""
    kept = {key: value for key, value in lane.overrides if not (key == "parallel" and value == DATA_PARALLEL)}
    return replace(lane, overrides=tuple({**kept, **settings}.items()))


def without_groups(text: str) -> str:
    """Return a lane without the words that only several devices have, so that it can be planned on one."""
    *place, settings = text.split("/")
    words = [word for word in settings.split("+") if word.partition("=")[0] not in {*MODES, *HOW_TO_SHARE, "sync"}]
    return "/".join([*place, "+".join(words)] if words else place)


PART = QuestionRun(prepare_scale, ScaleRace)
