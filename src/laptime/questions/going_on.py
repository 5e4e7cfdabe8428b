"""A question goes on with its record: the same trainings on the same machine, in further rounds of the same record.

What the rounds so far found stays, and only what would make their rounds and further ones differ is refused. The error
of the further looks comes on top of what was spent (decision 63).
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from laptime.engine.run.turns import TurnSteps
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.frameworks import installed_version
from laptime.model.machine import Machine
from laptime.model.plan import Plan, PlannedLane, Subject
from laptime.model.questions import QUESTIONS, find_question
from laptime.model.record import LaneResult, Record, find_differing
from laptime.model.sample import Heat
from laptime.questions.asking import Prepared
from laptime.questions.compare.run import find_again
from laptime.questions.heat_rounds import HeatRounds
from laptime.questions.noted_code import NotedCode, note_code_of
from laptime.questions.sources import is_copied
from laptime.questions.train.run import check_alike
from laptime.questions.verdict.nouns import VerdictAnswer

BEGIN_AGAIN = "begin again"
OPEN_CAUSES = ("wide", "early", "busy", "late gain")  # of a verdict that further rounds may decide


def check_goes_on(question: str) -> None:
    """Refuse a question that has no rounds."""
    able = {row.name: f"laptime {row.command}" for row in QUESTIONS if row.goes_on}
    if question not in able:
        says = f"--more: laptime {question} has no rounds that go on"
        raise UsageError(says, f"those that do: {', '.join(able.values())}")


def check_may_go_on(question: str, record: Record, *, is_ours: bool) -> None:
    """Refuse a record that cannot go on, whatever the machine is like."""
    command = f"laptime {find_question(question).command}"
    if record.question != question:
        own = f"laptime {find_question(record.question).command}"
        says = f"{record.id} is no {question}: {own} made it"
        raise UsageError(says, f"name a record of {command}, or none for the latest: {command} --more")
    if not is_ours:
        says = f"{record.id} bears no signature of yours, or was changed since: its rounds are not known to be yours"
        raise UsageError(
            says, f"race it again: laptime race --against {record.id}" if question == "race" else BEGIN_AGAIN
        )
    if record.status == "running":
        raise UsageError(f"{record.id} is still running", "wait for its end, or end it with Ctrl-C")
    refusal = _refusal_of(record)
    if refusal:
        raise UsageError(f"{record.id} cannot go on: {refusal}", BEGIN_AGAIN)


def _refusal_of(record: Record) -> str:
    """Return why a record cannot go on, or ""."""
    ask = record.ask
    answer = record.answer
    if ask.on is not None:
        return f"it ran on a cluster ({ask.on}), whose nodes may be others now"
    if ask.heats is not None:
        return f"it was asked for exactly {ask.heats} heats a lane"
    if any(subject.is_built_in is False and subject.file is None for subject in _subjects_of(record)):
        return "it raced a whole command, whose files are not known"
    if not any(lane.heats and lane.heats[-1].heat.process.status == "ok" for lane in record.lanes):
        return "no lane of it finished a heat"
    if not isinstance(answer, VerdictAnswer):
        return ""
    if answer.session is not None:
        return f"session {answer.session.name} gave it its share of the error, and no verdict has two"
    if answer.learning is not None:
        return "a verdict on learning is on the seeds that were planned"
    verdict = answer.verdict
    if verdict is not None and (verdict.word != "UNDECIDED" or verdict.cause not in OPEN_CAUSES):
        return f"it says {verdict.word} ({verdict.cause}), and further rounds would not change that"
    return ""


def prepare_more(
    record: Record, budget_s: float, prepare: Callable[[Ask, Machine], Prepared], ask: Ask, machine: Machine
) -> Prepared:
    """Plan further rounds of a record, exactly as it was begun. `ask` has the words that its command had."""
    _check_installed(record, machine)
    subjects = _subjects_of(record)
    whats = [find_again(what, subject) for what, subject in zip((ask.what, *ask.others), subjects, strict=False)]
    for what, subject in zip(whats, subjects, strict=False):
        if not is_copied(what):
            # Refuse to start a script from another folder: what it reads and writes may be named from the first one
            if subject.file is not None and subject.command and Path(what).expanduser().resolve() != Path(subject.file):
                says = f"{record.id} cannot go on from this folder: it raced {subject.file}, as {what}"
                raise UsageError(says, f"go on from the folder in which it began, or {BEGIN_AGAIN}")
            _check_sources(record, note_code_of({subject.name: subject.file}))
    prepared = prepare(replace(ask, what=whats[0], others=tuple(whats[1:]), budget_s=budget_s), machine)
    _check_sources(record, prepared.code)  # of a commit, the copy is there only now
    planned = len(prepared.plan.lanes) if prepared.adds_lanes else None
    check_alike(prepared.plan, replace(record, lanes=record.lanes[:planned]))
    _check_frameworks(record, prepared)
    pace = prepared.plan.pace
    pace = replace(pace, heats_max=pace.heats_max + count_rounds(_heats_of(record.lanes)))
    plan = replace(prepared.plan, ask=replace(record.ask, budget_s=budget_s, command=ask.command), pace=pace)
    return replace(prepared, plan=plan, begun=record)


def _subjects_of(record: Record) -> tuple[Subject, ...]:
    return (record.workload, *(other.subject for other in record.others))


def _heats_of(lanes: Sequence[LaneResult]) -> dict[str, list[Heat]]:
    return {lane.name: [result.heat for result in lane.heats] for lane in lanes}


# Whether further rounds would be rounds of the same: laptime, machine, code, data.


def _check_sources(record: Record, code: NotedCode) -> None:
    """Refuse a training whose code is not the one that was raced."""
    for name, now in code.digests().items():
        before = record.sources.get(name)
        if before is None:
            says = f"{record.id} cannot go on: an older laptime made it, and kept no digest of {name}'s code"
            raise UsageError(says, BEGIN_AGAIN)
        changed = sorted({*find_differing(before, now), *(before.keys() ^ now.keys())})
        if changed:
            named = ", ".join(changed[:6]) + (" and others" if len(changed) > 6 else "")
            says = f"{record.id} cannot go on: the code of {name} has changed since ({named})"
            raise UsageError(says, f"restore it, or {BEGIN_AGAIN}: further rounds would be of another training")


def _check_installed(record: Record, machine: Machine) -> None:
    """Refuse another machine, and another laptime."""
    version = installed_version()
    made_by = record.tool.get("version", "")
    if made_by != version:
        says = f"{record.id} cannot go on: laptime {made_by} made it, and this is {version}, which may time otherwise"
        raise UsageError(says, BEGIN_AGAIN)
    facts = (("processor", _processor), ("system", lambda here: here.system), ("Python", lambda here: here.python))
    for what, fact in facts:
        was = fact(record.machine)
        is_now = fact(machine)
        if was != is_now:
            says = f"{record.id} cannot go on here: its {what} was {was}, and here it is {is_now}"
            raise UsageError(says, f"go on where it was begun, or {BEGIN_AGAIN}")


def _processor(machine: Machine) -> str:
    processor = machine.processor
    return f"{processor.cores_usable} x {processor.name} ({processor.architecture})"


def _check_frameworks(record: Record, prepared: Prepared) -> None:
    """Refuse other versions of what the lanes run on."""
    of_lanes = [lane.framework for lane in prepared.plan.lanes]
    of_script = [framework.name for framework in record.machine.frameworks] if record.workload.command else []
    for name in dict.fromkeys([*of_lanes, *of_script]):  # which of them a script imports, only itself knows
        was = record.machine.framework(name)
        is_now = prepared.machine.framework(name)
        if was is not None and is_now is not None and was.versions != is_now.versions:
            before = _versions(was.versions)
            now = _versions(is_now.versions)
            says = f"{record.id} cannot go on: it ran with {before}, and here is {now}"
            raise UsageError(says, f"install what it ran with, or {BEGIN_AGAIN}")


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def check_data(record: Record, plan: Plan) -> None:
    """Refuse other data on disk than the rounds so far had."""
    was = record.data
    is_now = plan.data
    if was is not None and (is_now is None or is_now.digest != was.digest):
        raise UsageError(f"{record.id} cannot go on: the data in {was.folder} has changed since", BEGIN_AGAIN)


# The state of rounds, as it was after the last one: read off the heats that the record has.


def check_known(record: Record, planned: Mapping[str, PlannedLane]) -> None:
    """Refuse lanes that a search added, where they could not be added as they were; `planned` are those of now."""
    for lane in record.lanes:
        if lane.name not in planned or planned[lane.name].settings != lane.settings:
            says = f"{record.id} cannot go on: {lane.name} would not be raced as it was"
            raise UsageError(says, "ask again")


def take_up(rounds: HeatRounds, record: Record) -> None:
    """Let rounds go on after those of a record: their heats, their numbers, the steps of their turns, their proofs."""
    known = _heats_of(record.lanes)
    rounds.heats = {name: list(known.get(name, ())) for name in rounds.heats}
    rounds.rounds = rounds.begun_rounds = count_rounds(rounds.heats)
    rounds.begun_alone = record.answer.alone
    numbers = (heat.round for heats in known.values() for heat in heats)
    rounds.start_numbers(max(numbers, default=-1) + 1)
    rounds.turn_steps = find_turn_steps(rounds.heats)
    spent_s = sum(process.spent_s for process in rounds.processes) or 1.0
    part = min(1.0, record.elapsed_s / spent_s)  # heats start and import next to each other
    rounds.took_s = {name: part * heats[-1].process.spent_s for name, heats in rounds.heats.items() if heats}
    rounds.step_ns = {name: usual for name, heats in rounds.heats.items() if (usual := _usual_step_ns(heats))}
    proven = ((record.workload, record.reference), *((other.subject, other.reference) for other in record.others))
    rounds.proof.references = {subject.name: reference for subject, reference in proven}
    rounds.proof.appeals = {lane.name: lane.appeal for lane in record.lanes if lane.appeal is not None}


def count_rounds(heats: Mapping[str, Sequence[Heat]]) -> int:
    """Return how many rounds have begun. The first lane runs once in each group of a round, and any other one once."""
    first, *others = heats.values()
    return max(map(len, others), default=len(first))


def find_turn_steps(heats: Mapping[str, Sequence[Heat]]) -> dict[frozenset[str], dict[str, TurnSteps]]:
    """Return which steps lanes timed in the turns of their last round together."""
    found: dict[frozenset[str], dict[str, TurnSteps]] = {}
    together = sorted(
        ((heat.round, name, heat) for name, mine in heats.items() for heat in mine), key=lambda row: row[0]
    )
    for _, group in itertools.groupby(together, key=lambda row: row[0]):
        steps = {name: _turn_steps_of(heat) for name, *_, heat in ((name, heat) for _, name, heat in group)}
        known = {name: step for name, step in steps.items() if step is not None}
        if len(known) == len(steps) > 1:
            found[frozenset(steps)] = known
    return found


def _turn_steps_of(heat: Heat) -> TurnSteps | None:
    """Return the steps of a heat's turns by its last two windows: the first turn of a lane may be shorter."""
    last = [window for window in heat.windows if window.turn is not None and window.first_step is not None][-2:]
    for before, after in pairwise(last):
        stride = (after.first_step or 0) - (before.first_step or 0)
        if before.steps == after.steps <= stride and after.turn is not None and after.first_step is not None:
            return TurnSteps(after.first_step - 1 - after.turn * stride, stride - after.steps, after.steps)
    return None


def _usual_step_ns(heats: Sequence[Heat]) -> float | None:
    """Return how long a step of a lane took in its first heat; None where its loader works in bursts."""
    timed = [(window.end_ns - window.start_ns) / window.steps for heat in heats[:1] for window in heat.windows]
    return None if not timed or heats[0].burst is not None else statistics.median(timed)
