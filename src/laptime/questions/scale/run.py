"""What do 2, 4, 8 devices bring, and why not 2, 4, 8 times as much? One race over the counts of devices.

Next to each asked lane on every count race experiments: the same processes without their exchange, on batches that are
ready, and one device on its part of a batch. Their steps show where the time of a step goes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from laptime.errors import UsageError
from laptime.model.answers import RaceAnswer
from laptime.model.ask import Ask
from laptime.model.machine import Machine
from laptime.planner.groups import shared_proof
from laptime.planner.lanes import parse_lane
from laptime.planner.plan import pace_of, plan_lane
from laptime.questions.asking import Prepared, facts_of, keep_apart, prepare
from laptime.questions.job import Job, Outcome, RecordStatus
from laptime.questions.race.run import Race
from laptime.questions.scale.lanes import ScaleFacts, check_scale, plan_scale, without_groups
from laptime.questions.scale.nouns import ScaleAnswer, ScaleLane, Scaling
from laptime.questions.scale.options import ScaleAsk
from laptime.questions.scale.reduce import summarise_scaling
from laptime.questions.scale.words import say_curve
from laptime.questions.subject import find_subject
from laptime.run.launchers import LOCAL, Launcher


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
    subject, workload = prepared.plan.subject, find_subject(ask.what)[1]
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
        self._race, self._roles = Race(job, prepared), prepared.roles
        self.run = self._race.run

    def reduce(self, status: RecordStatus) -> Outcome:
        outcome = self._race.reduce(status)
        answer = outcome.answer
        assert isinstance(answer, RaceAnswer)
        scaling: Scaling | None = None
        if status != "running":
            scaling = summarise_scaling(self._roles, outcome.lanes, answer.comparisons)
            kind = outcome.lanes[0].device.kind
            scaling = replace(scaling, says=" ".join(say_curve(each, kind) for each in scaling.curves[:1]))
        return replace(outcome, answer=ScaleAnswer(self._roles, answer.comparisons, scaling, answer.alone))
