"""A job runs one prepared question and makes its record.

    Ask -> prepare -> Job -> ProcessRun* -> reduce -> Answer -> Record

A question is a class that gets the job and what was prepared. `run()` runs its processes and saves the record after
each. `reduce(status)` turns their results into the answer.
"""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from laptime.engine.run.child import Tell
from laptime.engine.run.launchers import Fleet, Launcher, Wanted
from laptime.engine.run.templates import templates_of_a_question
from laptime.machine.look import look_at_machine, time_core
from laptime.model.ask import Ask
from laptime.model.errors import LaneError, TrainingError, UsageError
from laptime.model.machine import Machine
from laptime.model.plan import LAUNCHERS, Place, Plan, find_launcher
from laptime.model.protocol import Moment
from laptime.model.questions import QUESTIONS, Question, find_question
from laptime.model.record import (
    SCHEMA,
    Answer,
    Finding,
    LaneResult,
    OtherTraining,
    Progress,
    Record,
    RecordPart,
    error_share,
)
from laptime.model.sample import Reference
from laptime.planner.groups import split_group
from laptime.planner.lanes import parse_lane
from laptime.questions.asking import Prepared, means_a_script
from laptime.questions.bounds import Recall, nothing_measured
from laptime.questions.copies import copies_of_a_question
from laptime.questions.forecast.run import with_cards
from laptime.questions.noted_code import CodeChanges
from laptime.questions.proving import ReferenceCache
from laptime.questions.subject import OwnCode, supply
from laptime.questions.verdict.nouns import SessionState

UpdateSession = Callable[[str, Callable[[SessionState], SessionState]], SessionState]
"""Reads the state of the session of a name, changes it and keeps it, while no other process does."""
FAKE_FRAMEWORK = "fake"  # it has its own clock, so no reading can be compared with its windows
RecordStatus = Literal["running", "finished", "interrupted"]


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """`place` returns the path of a lane's checkpoint for a seed; `drop` removes one that is no longer needed."""

    place: Callable[[str, int], Path]
    drop: Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class Services:
    """What a job needs from outside. `journal` saves a record; `peaks` loads the saved peaks of a device.

    `show` is called with a running record, if there is one, and how far it is; `tell` with each moment of a whole
    training.
    """

    record_id: str
    started: str
    tool: dict[str, str]
    journal: Callable[[Record], None]
    references: ReferenceCache
    checkpoints: CheckpointFiles
    place_trace: Callable[[str], Path]
    show: Callable[[Record | None, Progress], None]
    tell: Callable[[Moment], None]
    peaks: Recall = nothing_measured
    update_session: UpdateSession | None = None  # of verdicts
    is_watched: bool = True  # whether anything is shown at all
    began_s: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a question concludes so far. `parameters` is the count of the first process that reported one."""

    lanes: tuple[LaneResult, ...]
    answer: Answer
    findings: tuple[Finding, ...] = ()
    reference: Reference | None = None
    parameters: int | None = None
    others: tuple[OtherTraining, ...] = ()


class RunningQuestion(Protocol):
    """A question that is running."""

    def run(self) -> None: ...

    def reduce(self, status: RecordStatus) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class QuestionRun:
    """What `run.py` of a question holds: what turns an ask and a machine into what can be run, and what runs it."""

    FILE: ClassVar[str] = "run"

    prepare: Callable[..., Prepared]
    begin: Callable[[Job, Any], RunningQuestion]  # the second is what `prepare` returned


class Job:
    """One run of a question: its plan, services and budget, and the record's header."""

    def __init__(self, question: str, prepared: Prepared, services: Services) -> None:
        self.question = question
        self.services = services
        self.plan: Plan = prepared.plan
        self.machine, self.published, self.launcher = prepared.machine, prepared.published, prepared.launcher
        self.own_code, self.begun = OwnCode(prepared.plan), prepared.begun
        self.before_s = 0.0 if self.begun is None else self.begun.elapsed_s  # what earlier processes took
        self._shares_process = prepared.shares_process
        self._journal_s = self._beyond_s = 0.0
        self._code = prepared.code
        self.code_changes: CodeChanges = {}
        self._is_saved = False
        self._latest: Record | None = None  # with what is known since the last process
        self._reduce: Callable[[RecordStatus], Outcome] | None = None

    def answer(self, running: RunningQuestion) -> Record:
        """Run a question to its end or to Ctrl-C, and save its record."""
        self._reduce = running.reduce
        try:
            self._time_core()
            running.run()
            self._time_core()
            record = with_cards(self.record("finished"))
        except KeyboardInterrupt:
            record = self.record("interrupted")
            if self.begun is not None and not self._is_saved:  # it stays as it was
                return replace(self.begun, status="interrupted")
        except TrainingError:
            if self._is_saved:
                self.services.journal(self.record("interrupted"))
            raise
        self.services.journal(record)
        return record

    def _time_core(self) -> None:
        """Time one core of this machine, before the heats and after them; a node of a cluster has timed its own."""
        if not self.launcher.is_elsewhere:
            self.machine = time_core(self.machine)

    @property
    def error_share(self) -> float:
        """What the looks of this run may spend of an error rate."""
        begun = self.begun
        return 1.0 if begun is None else error_share(1 + sum(part.has_interval for part in list_parts(begun)))

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.services.began_s

    @property
    def left_s(self) -> float:
        return self.plan.ask.budget_s - self.elapsed_s

    @contextmanager
    def beyond_budget(self) -> Iterator[None]:
        """Count what is done meanwhile apart: it was asked for besides, and is no part of the budget."""
        began_s = time.monotonic()
        try:
            yield
        finally:
            self._beyond_s += time.monotonic() - began_s

    @property
    def cores(self) -> int:
        return self.machine.processor.cores_usable

    def supply_data(self, announce: Callable[[str], None]) -> None:
        """Add the data that the lanes read from disk to the plan; make it if needed."""
        self.plan = supply(self.plan, announce, self.notify)

    def announce(self, doing: str) -> None:
        """Show what is done outside of heats."""
        self.show(Progress(doing, self.elapsed_s))

    def look_at_code(self) -> None:
        """Look whether code of the user's own has changed since before any of it ran."""
        self.code_changes = self._code.find_changes(self.code_changes)

    def notify(self, notice: str) -> None:
        """Show what has to be read: it stays on a terminal."""
        self.show(Progress(notice, self.elapsed_s, stays=True))

    def show(self, progress: Progress) -> None:
        """Show how far the question is, with the figures of the record that was saved last: none is computed here."""
        if self._latest is None:
            self._latest = self.record()
        self.services.show(self._latest, progress)

    def save(self) -> None:
        """Save the record so far."""
        began_s = time.monotonic()
        self._is_saved, self._latest = True, self.record()
        self.services.journal(self._latest)
        self._journal_s += time.monotonic() - began_s

    def record(self, status: RecordStatus = "running") -> Record:
        """Return the record so far: the header, the lanes and the answer."""
        assert self._reduce is not None
        outcome = self._reduce(status)
        services = self.services
        plan = self.plan
        begun = self.begun
        own = {} if self._shares_process else {"parent_processor_s": time.process_time()}
        made = Record(
            schema=SCHEMA,
            tool=services.tool,
            id=services.record_id,
            started=services.started,
            question=self.question,
            status=status,
            ask=plan.ask,
            machine=self.machine,
            workload=replace(plan.subject, parameters=outcome.parameters or plan.subject.parameters),
            published=self.published,
            lanes=outcome.lanes,
            answer=outcome.answer,
            findings=outcome.findings,
            reference=outcome.reference,
            elapsed_s=self.before_s + self.elapsed_s,
            beyond_budget_s=self._beyond_s,
            overhead={**own, "journal_s": self._journal_s},
            data=plan.data,
            others=outcome.others,
            sources=self._code.digests() if find_question(self.question).goes_on else {},
        )
        if begun is not None:
            made = join_parts(begun, made, self.elapsed_s)
        return made.without_secrets()  # the one door to all that is saved, shown, printed as JSON or passed on


def join_parts(begun: Record, made: Record, took_s: float) -> Record:
    """Return a record that goes on with an earlier one, and has its heats, as one that has the time of both."""
    now = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=took_s)
    part = RecordPart(
        now.isoformat(timespec="seconds"), made.ask.budget_s, took_s, made.heats, has_interval=made.answer.has_interval
    )
    overhead = {name: took + begun.overhead.get(name, 0.0) for name, took in made.overhead.items()}
    return replace(
        made,
        ask=replace(made.ask, budget_s=begun.ask.budget_s + made.ask.budget_s),
        parts=(*list_parts(begun), part),
        elapsed_s=begun.elapsed_s + took_s,
        beyond_budget_s=begun.beyond_budget_s + made.beyond_budget_s,
        overhead=overhead,
    )


def list_parts(record: Record) -> tuple[RecordPart, ...]:
    """Return the parts of a record; one that was never gone on with is a part itself."""
    alone = RecordPart(
        record.started, record.ask.budget_s, record.elapsed_s, record.heats, has_interval=record.answer.has_interval
    )
    return record.parts or (alone,)


def run_question(question: Question, prepared: Prepared, services: Services) -> Record:
    """Run a prepared question, and return its record."""
    job = Job(question.name, prepared, services)
    return job.answer(question.part(QuestionRun).begin(job, prepared))


# A race on a cluster: check that it can be, reach the cluster, and look at one of its nodes.

TORCHRUN, STARTED_BY_TORCHRUN = "torchrun", "TORCHELASTIC_RUN_ID"
HERE = "leave out --on to run it on this machine"


@contextmanager
def prepared_for(
    question: Question, ask: Ask, prepare: Callable[..., Prepared] | None = None, tell: Tell = lambda _note: None
) -> Iterator[Prepared]:
    """Prepare a question, here or on the cluster that the ask names. At the end leave the cluster, and remove copies.

    `tell` is called with what is waited for meanwhile.
    """
    prepare = prepare or question.part(QuestionRun).prepare
    if ask.on != TORCHRUN and STARTED_BY_TORCHRUN in os.environ:
        says = "torchrun has started this command, so each of its processes would race on its own"
        raise UsageError(says, "add --on torchrun, or start laptime without torchrun")
    with copies_of_a_question(), templates_of_a_question() if question.forks_heats else nullcontext():
        if ask.on is None:
            yield prepare(ask, look_at_machine())
            return
        with launched(question.name, ask, tell) as (launcher, machine):
            yield prepare(ask, machine, launcher=launcher)


def stand_by(ask: Ask) -> bool:
    """Serve another process of this command to its end and return True, if torchrun has started this one for that."""
    if ask.on != TORCHRUN:
        return False
    from laptime.engine.run.on_torchrun import stand_by as serve  # noqa: PLC0415  few races need it

    return serve(ask.patience_s)


@contextmanager
def launched(question: str, ask: Ask, tell: Tell) -> Iterator[tuple[Launcher, Machine]]:
    """Reach the cluster that an ask names. Give what starts its heats, and a node's description; leave it at the end.

    The node is one as the lanes need: with cards if any lane names one, and with as many cores as the largest.
    """
    check_cluster(question, ask)
    from laptime.engine.run.remote import RemoteLauncher  # noqa: PLC0415  few races need it

    places = [place_asked(text) for text in ask.lanes]
    launcher = RemoteLauncher(
        Wanted(
            ask.on or "",
            Place(max(place.cpus for place in places), max(place.gpus for place in places)),
            ask.patience_s,
            ask.patience_s + ask.budget_s,
        )
    )
    launcher.report_to(tell)
    try:
        if ask.each is None:
            yield launcher, launcher.look()
        else:
            yield launcher, _first_machine(launcher.look_at_each(ask.each), ask)
    finally:
        launcher.close()


def _first_machine(fleet: Fleet, ask: Ask) -> Machine:
    """Return the first node that can be used as the machine of the race."""
    found = next((node.machine for node in fleet.nodes if node.machine is not None), None)
    if found is None:
        problem = next(node.problem for node in fleet.nodes)
        raise LaneError(f"--on {ask.on} --each {ask.each}: no node can be used: {problem}")
    return found


def check_cluster(question: str, ask: Ask) -> None:
    """Refuse what cannot run on a cluster."""
    on = f"--on {ask.on}"
    if ask.on is None or find_launcher(ask.on) is None:
        known = ", ".join(row.word for row in LAUNCHERS)
        raise UsageError(f"{on}: expected one of {known}, or ray://host:10001", HERE)
    if not find_question(question).runs_on_clusters:
        able = " and ".join(f"laptime {row.command}" for row in QUESTIONS if row.runs_on_clusters)
        raise UsageError(f"{on}: only {able} run on a cluster", HERE)
    if means_a_script(ask):
        raise UsageError(f"{on}: a script that runs as it is runs here only", "race a workload or file.py:function")
    if not ask.lanes:
        raise UsageError(f"{on}: no lane is named", "name what runs there, such as torch/cpu torch/cuda")
    if ask.each is not None and ask.others:
        raise UsageError(f"--each {ask.each}: it takes one training, and several are named", "race them one by one")
    if ask.each is not None and not ask.on.startswith("ray"):
        raise UsageError(f"{on} with --each: only Ray says which types of nodes there are", "leave out --each")
    for option, given in (("--profile", ask.profile), ("--every", ask.every)):
        if given:
            raise UsageError(f"{on} with {option}: that runs here only", f"leave out {option}")
    if ask.sensors not in {None, ("none",)}:
        raise UsageError(f"{on} with --sensors: instruments are read on this machine only", "leave out --sensors")


def place_asked(text: str) -> Place:
    """Return what a lane asks for, by its name. Refuse devices that no cluster gives."""
    lane = parse_lane(text)
    if lane.device is None:
        raise UsageError(f"lane '{text}' names no device", f"on a cluster it has to: {lane.framework}/cpu or /cuda")
    devices = split_group(lane.device)
    kinds = {device.partition(":")[0] for device in devices}
    if kinds == {"cpu"}:
        threads = dict(lane.overrides).get("threads", "")
        return Place(cpus=len(devices) * (int(threads) if threads.isdecimal() else 1))
    if not kinds <= {"cuda", "gpu"}:
        raise UsageError(f"lane '{text}': a cluster gives cores and CUDA cards", "name cpu, cuda or 2xcuda")
    numbers = [device.partition(":")[2] or "0" for device in devices]
    if kinds == {"cuda"} and numbers != [str(number) for number in range(len(devices))]:
        says = f"lane '{text}': on a cluster a lane gets cards of its own, which are cuda:0 and so on to it"
        raise UsageError(says, "name cuda or 2xcuda")
    return Place(gpus=len(devices))
