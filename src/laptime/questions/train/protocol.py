"""Make the protocol of whole trainings, which every lane follows, from the ask and the published one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from laptime.errors import UsageError
from laptime.model.ask import Ask, FullAsk
from laptime.model.machine import Machine
from laptime.model.plan import Plan
from laptime.model.protocol import FullPlan, Protocol
from laptime.model.questions import TrainingAnswer
from laptime.model.record import Record
from laptime.model.workload import Workload
from laptime.planner.batches import LARGEST_RATE
from laptime.planner.plan import check_question
from laptime.questions.asking import Prepared, prepare
from laptime.questions.subject import find_subject
from laptime.questions.train.resuming import Before, check_sources
from laptime.workloads import find_workload

MOST_LAPS = 100_000
MOST_STEPS = 10_000_000
MOST_SEEDS = 100
MOST_BATCH = 1_000_000


ORDER_OF_ONE_SEED = "one lane after another, as they were named: each has the machine to itself"
ORDER_OF_SEEDS = (
    "one training after another, seed by seed, every other seed in reverse order: each has the machine to itself, "
    "and what drifts meets the lanes alike"
)


@dataclass(frozen=True, slots=True)
class PreparedTraining(Prepared):
    """Whole trainings by a protocol. `before` is the record that they continue."""

    protocol: Protocol
    before: Before | None = None

    @property
    def outline(self) -> FullPlan:
        return FullPlan(self.plan, self.protocol, order_words(self.protocol.seeds))

    @property
    def keeps_checkpoints(self) -> bool:
        return True


def order_words(seeds: int) -> str:
    """Return a sentence on the order of the trainings, and why."""
    return ORDER_OF_ONE_SEED if seeds == 1 else ORDER_OF_SEEDS


def prepare_full(ask: Ask, machine: Machine) -> PreparedTraining:
    """Check everything that needs no process, then scout and plan."""
    protocol = make_protocol(ask.full or FullAsk(), find_subject(ask.what)[1])
    prepared = prepare(ask, machine)
    check_question(prepared.plan, "train")
    return PreparedTraining(prepared.plan, prepared.machine, prepared.published, protocol)


def prepare_rest(before: Before, machine: Machine) -> PreparedTraining:
    """Plan the rest of an unfinished record, exactly as it was begun."""
    record = before.record
    check_unfinished(record)
    check_sources(before)
    subject = record.workload
    what = f"{subject.file}:{subject.function}" if subject.file else record.ask.what
    prepared = prepare(replace(record.ask, what=what), machine)
    check_alike(prepared.plan, record)
    plan = replace(prepared.plan, ask=record.ask)
    return PreparedTraining(plan, prepared.machine, prepared.published, before.answer.protocol, before)


def check_full(asked: FullAsk) -> None:
    """Refuse a number that is out of range; the UsageError names its flag."""
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
    """Return the published protocol with the changes asked for. A user's own training has no published one."""
    check_full(asked)
    if workload is None:
        if asked.laps is None:
            raise UsageError(
                "laptime train: a training of your own does not say how many laps it takes",
                "add --laps N, such as --laps 5",
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
    """Return the protocol that a race predicts: the published one, with no more test items than the data has."""
    if not plan.subject.is_built_in:
        return None
    workload = find_workload(plan.subject.name)
    on_disk = [each.test_items for each in (plan.data, *plan.sets.values()) if each is not None]
    there = min(on_disk, default=workload.test_items_made)
    meant = make_protocol(FullAsk(), workload)
    return replace(
        meant,
        validation_items=min(meant.validation_items, there),
        evaluation_items=min(meant.evaluation_items, there),
    )


def check_unfinished(record: Record) -> None:
    """Refuse to resume a record that is not a whole training, or is finished."""
    answer = record.answer
    if not isinstance(answer, TrainingAnswer):
        raise UsageError(f"{record.id} is a {record.question}, not a whole training: nothing to resume", "race again")
    wanted = answer.protocol.seeds * len(record.lanes)
    if record.status == "finished" and sum(run.process.status == "ok" for run in answer.runs) == wanted:
        raise UsageError(f"{record.id} is finished: nothing is left to train", f"laptime show {record.id}")


def check_alike(plan: Plan, record: Record) -> None:
    """Refuse to resume if this machine would run a lane differently than it was begun."""
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
