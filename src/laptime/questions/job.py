"""A job runs one prepared question and makes its record.

    Ask -> prepare -> Job -> ProcessRun* -> reduce -> Answer -> Record

A question is a class that gets the job and what was prepared. `run()` runs its processes and saves the record after
each. `reduce(status)` turns their results into the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

from laptime.errors import TrainingError
from laptime.machine import time_core
from laptime.model.plan import Plan
from laptime.model.protocol import Moment
from laptime.model.questions import Question
from laptime.model.record import SCHEMA, Answer, Finding, LaneResult, OtherTraining, Record
from laptime.model.sample import Reference
from laptime.questions.asking import Prepared
from laptime.questions.bounds import Recall, nothing_measured
from laptime.questions.forecast.cards import with_cards
from laptime.questions.own_code import OwnCode
from laptime.questions.proving import ReferenceCache
from laptime.questions.subject import supply

FAKE = "fake"  # it has its own clock, so no reading can be compared with its windows
RecordStatus = Literal["running", "finished", "interrupted"]
# Progress is drawn while a child builds. From its first step on, nothing of laptime runs next to it.
SHOWN_AT = "build"


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """`place` returns the path of a lane's checkpoint for a seed; `drop` removes one that is no longer needed."""

    place: Callable[[str, int], Path]
    drop: Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class Services:
    """What a job needs from outside. `journal` saves a record; `peaks` loads the saved peaks of a device.

    `show` is called with a running record, if there is one, and a note; `tell` with each moment of a whole training.
    """

    record_id: str
    started: str
    tool: dict[str, str]
    journal: Callable[[Record], None]
    references: ReferenceCache
    checkpoints: CheckpointFiles
    place_trace: Callable[[str], Path]
    show: Callable[[Record | None, str], None]
    tell: Callable[[Moment], None]
    peaks: Recall = nothing_measured
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


class Job:
    """One run of a question: its plan, services and budget, and the record's header."""

    def __init__(self, question: str, prepared: Prepared, services: Services) -> None:
        self.question, self.services = question, services
        self.plan: Plan = prepared.plan
        self.machine, self.published, self.launcher = prepared.machine, prepared.published, prepared.launcher
        self.own_code = OwnCode(prepared.plan)
        self.before_s = 0.0  # what earlier processes of a resumed training took
        self._shares_process = prepared.shares_process
        self._journal_s = self._beyond_s = 0.0
        self._is_saved = False
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
        self.plan = supply(self.plan, announce)

    def announce(self, note: str) -> None:
        """Show a note as progress."""
        self.services.show(self.record(), note)

    def save(self) -> None:
        """Save the record so far."""
        began_s = time.monotonic()
        self._is_saved = True
        self.services.journal(self.record())
        self._journal_s += time.monotonic() - began_s

    def record(self, status: RecordStatus = "running") -> Record:
        """Return the record so far: the header, the lanes and the answer."""
        assert self._reduce is not None
        outcome, plan, services = self._reduce(status), self.plan, self.services
        own = {} if self._shares_process else {"parent_processor_s": time.process_time()}
        return Record(
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
        )


def run_question(question: Question, prepared: Prepared, services: Services) -> Record:
    """Run a prepared question, and return its record."""
    job = Job(question.name, prepared, services)
    return job.answer(question.part("run")(job, prepared))
