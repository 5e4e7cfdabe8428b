"""What was asked of a whole training and what was published -> the protocol that every lane follows."""

from __future__ import annotations

import math
from dataclasses import replace

from laptime.errors import UsageError
from laptime.model.ask import Ask, FullAsk
from laptime.model.lane import NO_TRAINING
from laptime.model.machine import Machine
from laptime.model.plan import Plan
from laptime.model.protocol import Protocol
from laptime.model.record import Record
from laptime.model.workload import Workload
from laptime.planner.lanes import LARGEST_RATE
from laptime.planner.own_steps import check_step_is_timed
from laptime.questions.asking import Prepared, prepare
from laptime.questions.subject import find_subject
from laptime.workloads import find_workload

MOST_LAPS = 100_000
MOST_STEPS = 10_000_000
MOST_SEEDS = 100
MOST_BATCH = 1_000_000


def prepare_full(ask: Ask, machine: Machine) -> tuple[Prepared, Protocol]:
    """Check all that can be checked before a process is started, then scout and plan."""
    protocol = make_protocol(ask.full or FullAsk(), find_subject(ask.what)[1])
    prepared = prepare(ask, machine)
    check_lanes(prepared.plan)
    return prepared, protocol


def prepare_rest(record: Record, machine: Machine) -> tuple[Prepared, Protocol]:
    """Plan what an unfinished record still wants, exactly as it was begun."""
    check_unfinished(record)
    assert record.full is not None
    subject = record.workload
    what = f"{subject.file}:{subject.function}" if subject.file else record.ask.what
    prepared = prepare(replace(record.ask, what=what), machine)
    check_alike(prepared.plan, record)
    return replace(prepared, plan=replace(prepared.plan, ask=record.ask)), record.full.protocol


def check_full(asked: FullAsk) -> None:
    """Refuse a number that makes no sense, naming its flag."""
    for flag, value, most in (
        ("--laps", asked.laps, MOST_LAPS),
        ("--steps-per-lap", asked.steps_per_lap, MOST_STEPS),
        ("--seeds", asked.seeds, MOST_SEEDS),
    ):
        if value is not None and not 1 <= value <= most:
            raise UsageError(f"{flag} {value}: expected a whole number from 1 to {most:,}", "such as 3")
    for rate in asked.learning_rates:
        if not 0 < rate <= LARGEST_RATE:
            raise UsageError(f"--lr {rate:g}: expected numbers above 0 and up to {LARGEST_RATE:g}", "such as 1e-3,1e-4")
    for batch in asked.batches:
        if not 1 <= batch <= MOST_BATCH:
            raise UsageError(f"--batch {batch}: expected whole numbers from 1 to {MOST_BATCH:,}", "such as 64,128")
    until = asked.until_accuracy
    if until is not None and not (math.isfinite(until) and 0 < until <= 1):
        raise UsageError(f"--until-accuracy {until:g}: expected a share above 0 and up to 1", "such as 0.7 or 70%")


def make_protocol(asked: FullAsk, workload: Workload | None) -> Protocol:
    """Give the published protocol with what was asked otherwise; a user's own training has none published."""
    check_full(asked)
    if workload is None:
        if asked.laps is None:
            raise UsageError(
                "--full: nobody published how many laps a training of your own takes", "give --laps N, such as --laps 5"
            )
        return Protocol(asked.laps, asked.steps_per_lap, seeds=asked.seeds, until_accuracy=asked.until_accuracy)
    return Protocol(
        laps=asked.laps or workload.laps,
        steps_per_lap=asked.steps_per_lap or workload.steps_per_lap,
        validation_items=workload.validation_items,
        evaluation_items=workload.evaluation_items,
        predictions=workload.predictions_shown,
        seeds=asked.seeds,
        until_accuracy=asked.until_accuracy,
    )


def find_protocol(plan: Plan) -> Protocol | None:
    """Give the published protocol of a race, with no more test items than there are, so that it can be foretold."""
    if plan.subject.file is not None:
        return None
    workload = find_workload(plan.subject.name)
    there = workload.test_items_made if plan.data is None else plan.data.test_items
    meant = make_protocol(FullAsk(), workload)
    return replace(
        meant,
        validation_items=min(meant.validation_items, there),
        evaluation_items=min(meant.evaluation_items, there),
    )


def check_lanes(plan: Plan) -> None:
    """Refuse a lane that trains nothing."""
    for lane in plan.lanes:
        check_step_is_timed(lane.framework, lane.name)
        kind = lane.settings.input
        if kind in NO_TRAINING:
            does = {"only": "loads", "copy": "copies"}[kind]
            raise UsageError(f"--full: {lane.name} trains nothing, it only {does}", f"leave input={kind} out")
        if lane.settings.reads != "at once":
            raise UsageError(f"--full: {lane.name} is told stale values, which is no training", "leave reads out")


def check_unfinished(record: Record) -> None:
    """Refuse to take up what is no whole training, or is over."""
    if record.full is None:
        raise UsageError(f"{record.id} is a {record.question}, not a whole training: nothing to resume", "race again")
    wanted = record.full.protocol.seeds * len(record.lanes)
    if record.status == "finished" and sum(run.status == "ok" for run in record.full.runs) == wanted:
        raise UsageError(f"{record.id} is finished: nothing is left to train", f"laptime show {record.id}")


def check_alike(plan: Plan, record: Record) -> None:
    """Refuse to go on where this machine would run a lane otherwise than it was begun."""
    begun = {lane.name: (lane.device.label, lane.settings) for lane in record.lanes}
    found = {lane.name: (lane.device.label, lane.settings) for lane in plan.lanes}
    for name in begun.keys() | found.keys():
        if begun.get(name) != found.get(name):
            was, would = _words(begun.get(name)), _words(found.get(name))
            raise UsageError(
                f"{record.id} cannot go on here: {name} was begun as {was}, and would run here as {would}",
                "resume it where it was begun, or race again",
            )


def _words(lane: tuple[str, object] | None) -> str:
    return "nothing" if lane is None else f"{lane[0]}, {lane[1]}"
