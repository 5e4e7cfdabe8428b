"""How long does each part of a script take? Run its command, or follow a block, and hear what the agent in it sees."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any, ClassVar

import psutil

from laptime.analysis.diagnosis.findings import judge_run
from laptime.analysis.diagnosis.script_findings import script_findings
from laptime.analysis.script_lines import join_workers
from laptime.analysis.script_process import ProcessReader, compare_ranks, read_hello
from laptime.analysis.script_units import why_unseen
from laptime.analysis.usage import Span, describe_usage, make_energy, power_of
from laptime.engine.run.command import SETTLE_S, Listener, run_command, watched_environment
from laptime.engine.run.instruments import SensorSelection
from laptime.engine.run.launchers import Block
from laptime.machine.denormals import time_denormals
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.machine import Machine
from laptime.model.plan import Pace, Plan, Subject
from laptime.model.process import Timeline
from laptime.model.quantities import Missing
from laptime.model.record import Finding, Progress
from laptime.model.sample import Usage
from laptime.model.script import ScriptProcess, TrainingLoop
from laptime.model.secrets import mask_secrets
from laptime.model.watched import WatchAnswer
from laptime.model.workload import ProofPlan
from laptime.planner.plan import check_label, check_sensors
from laptime.questions.asking import Prepared
from laptime.questions.code_changes import ChangeFinder
from laptime.questions.job import Job, Outcome, QuestionRun, RecordStatus
from laptime.questions.subject import PROCESSOR

LIVE_S = 1.0
BLOCK_LEAVES_S = 0.5
SCRIPT_READINGS_MOST = 3600  # of each instrument
IGNORES = "-EIS"  # options of Python with which it does not read PYTHONPATH, or no sitecustomize


@dataclass(frozen=True, slots=True)
class PreparedWatch(Prepared):
    """What is watched.

    `follow` is called with the address to send to and with what to call when the process is known. It returns the exit
    code at the end.
    """

    follow: Callable[[str, Callable[[int], None]], int | None]


@dataclass(frozen=True, slots=True)
class PreparedBlock(PreparedWatch):
    """A stretch of this process that is watched, in place of a command."""

    block: Block

    shares_process: ClassVar[bool] = True


def prepare_watch(ask: Ask, machine: Machine) -> PreparedWatch:
    """Check the command. Nothing is scouted: the script decides what it uses."""
    check_label(ask.label)
    check_sensors(ask)
    if not ask.command:
        raise UsageError("there is no command to watch", "Name one: laptime watch python train.py")
    if ask.command[0].endswith(".py"):
        raise UsageError(
            f"'{ask.command[0]}' is a script, and a command was expected",
            f"laptime watch python {shlex.join(ask.command)}",
        )

    def follow(address: str, began: Callable[[int], None]) -> int:
        return run_command(ask.command, watched_environment(address), began)

    kept = mask_secrets(ask.command)
    # It is called as its script or its module, else as its program
    script = next((word for word in kept if word.endswith(".py")), None)
    module = kept[kept.index("-m") + 1] if "-m" in kept[:-1] else None
    name = Path(script).name if script else module or Path(kept[0]).name
    subject = _named(name, shlex.join(kept), script)
    return PreparedWatch(_plan(replace(ask, what=kept[0], command=kept), subject), machine, None, follow)


def prepare_block(ask: Ask, machine: Machine, block: Block) -> PreparedBlock:
    """Prepare to watch a stretch of this process; `ask.what` names it."""
    check_label(ask.label)
    check_sensors(ask)
    return PreparedBlock(_plan(ask, _named(ask.what, ask.what, None)), machine, None, block.follow, block)


def _plan(ask: Ask, subject: Subject) -> Plan:
    pace = Pace(heats_min=1, heats_max=1, adaptive=False, measure_s=0.0, window_s=0.0)
    return Plan(ask, subject, (), ProofPlan(), pace)


def _named(name: str, title: str, file: str | None) -> Subject:
    return Subject(
        name=name, title=title, parameters=None, batch=None, steps_per_lap=None, laps=None, items="items", file=file
    )


class Visitors:
    """A reader for each program that greets: by its process, and when it began."""

    def __init__(self) -> None:
        self.readers: dict[tuple[int, int], ProcessReader] = {}

    def reader_of(self, hello: Mapping[str, Any]) -> ProcessReader:
        """Return the reader of the program that greets; it greets again when its training begins."""
        greeting = read_hello(hello)
        name = greeting.pid, greeting.began_ns
        if name not in self.readers:
            self.readers[name] = ProcessReader(hello)
        return self.readers[name]

    @property
    def pids(self) -> set[int]:
        return {pid for pid, _ in self.readers}

    @property
    def iterations(self) -> int:
        return max((reader.iterations for reader in [*self.readers.values()]), default=0)  # others may come meanwhile


class Watch:
    """Follows one command, or one block of this process, to its end."""

    def __init__(self, job: Job, prepared: PreparedWatch) -> None:
        self._job = job
        self._follow = prepared.follow
        self._block = prepared.block if isinstance(prepared, PreparedBlock) else None
        self._visitors = Visitors()
        self._code: int | None = None
        self._began_s = self._ended_s = 0.0
        self._timeline: Timeline | None = None
        self._left = 0
        self._problem: str | None = None
        subject = job.plan.subject
        self._changes = ChangeFinder(subject.name, subject.file)  # in the code as it is before it runs

    def run(self) -> None:
        ask = self._job.plan.ask
        sensors = SensorSelection(ask.sensors, ask.sensors_hz, SCRIPT_READINGS_MOST)
        sampler = sensors.sampler_for(self._job.plan.subject.name, (PROCESSOR,))
        over = Event()
        settle_s = SETTLE_S if self._block is None else 0.0  # what this process sent is there
        with Listener(self._visitors, settle_s) as listener:

            def began(pid: int) -> None:
                self._began_s = time.monotonic()
                listener.begin()
                if sampler is not None:
                    sampler.begin(pid)
                with suppress(RuntimeError):  # the system allows no further thread
                    if self._job.services.is_watched:
                        Thread(target=self._tell_on, args=(over,), daemon=True).start()

            try:
                self._code = self._follow(listener.address, began)
            finally:
                self._ended_s = (self._block and self._block.ended_s) or time.monotonic()
                over.set()
                self._timeline = None if sampler is None else sampler.end()
        self._problem = listener.problem
        # Helpers such as multiprocessing's end a moment after the process that they served
        deadline = time.monotonic() + BLOCK_LEAVES_S
        pids = self._visitors.pids - {os.getpid()}
        while (left := sum(map(_runs, pids))) and time.monotonic() < deadline:
            time.sleep(BLOCK_LEAVES_S / 25)
        self._left = left

    def reduce(self, status: RecordStatus) -> Outcome:
        """Describe the processes; while the command runs, there is nothing to describe."""
        if status == "running" or not self._ended_s:
            return Outcome((), WatchAnswer(self._job.plan.ask.command, None, 0.0))
        readers = [*self._visitors.readers.values()]
        processes = [_with_workers(reader, readers) for reader in readers if not reader.hello.loads]
        trained = tuple(
            sorted(
                (process for process in processes if isinstance(process.loop, TrainingLoop)),
                key=lambda process: (process.rank if process.rank is not None else 1 << 30, process.pid),
            )
        )
        usage: Usage | None = None
        unreliable: tuple[Finding, ...] = ()
        if self._timeline is not None:
            span = Span(self._began_s, self._ended_s)
            pairs = [(self._timeline, span)]
            _, power = power_of(pairs, PROCESSOR)
            energy = make_energy("the processor", power, self._ended_s - self._began_s, None)
            usage = describe_usage(pairs, PROCESSOR, self._job.cores, energy)
            unreliable = judge_run(self._timeline, span, self._job.plan.subject.name, self._job.cores)
        answer = WatchAnswer(
            command=self._job.plan.ask.command,
            exit_code=self._code,
            wall_s=self._ended_s - self._began_s,
            processes=trained,
            others=len(processes) - len(trained),
            unseen=None if trained else self._why_unseen(processes),
            skew=compare_ranks(trained),
            left_running=self._left,
            usage=usage,
            timeline=self._timeline,
        )
        has_denormals = any(process.census is not None and process.census.costs for process in trained)
        found = script_findings(
            answer,
            self._job.machine,
            is_quiet=not unreliable,
            denormal_times=time_denormals() if has_denormals else None,
        )
        found = tuple(map(self._changes.advise, found))
        return Outcome((), answer, (*unreliable, *found))

    def _tell_on(self, over: Event) -> None:
        """Report how far the training is, while it runs."""
        while not over.wait(LIVE_S):
            count = self._visitors.iterations
            passed = time.monotonic() - self._began_s
            doing = f"{self._job.plan.subject.name}: {count:,} iterations in {passed:.0f} s"
            self._job.show(Progress(doing, passed))

    def _why_unseen(self, processes: Sequence[ScriptProcess]) -> Missing:
        if self._problem is not None:
            return Missing(f"laptime's listener failed: {self._problem}")
        if not processes:
            if self._block is not None:
                return Missing("the agent of laptime could not report within this process")
            return Missing(why_no_greeting(self._job.plan.ask.command))
        failed = {f"{hook}: {error}" for process in processes for hook, error in process.failed.items()}
        if failed:
            return Missing(f"laptime's hooks failed ({'; '.join(sorted(failed))})")
        known = sorted({name for process in processes for name in process.versions})
        if self._block is not None and known != ["jax"]:
            return Missing(f"no training with {' or '.join(known) or 'PyTorch or Keras'} was seen in the block")
        also = "" if known else "; a Python that is started with a PYTHONPATH of its own does not report"
        return Missing(why_unseen(known) + also)


def _runs(pid: int) -> bool:
    """Whether a process runs; one that has ended may wait for long until its new parent collects it."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def why_no_greeting(command: Sequence[str]) -> str:
    """Return why no Python process of a command reported to laptime."""
    if Path(command[0]).name.startswith("python"):
        for word in command[1:]:
            if not word.startswith("-") or word == "-":
                break
            options = set(word[1:]) & set(IGNORES)
            if options and not word.startswith("--"):
                return f"Python was started with -{min(options)}, and so reads nothing of its environment"
    return "no Python process of it reported: it is no Python program, or its environment was cleared"


def _with_workers(reader: ProcessReader, readers: Sequence[ProcessReader]) -> ScriptProcess:
    """Return a process. Where workers load its data, their lines take the place of its own that wait for them."""
    process = reader.process()
    loading = [other.timed_lines for other in readers if other.hello.loads and other.hello.parent == process.pid]
    if not loading:
        return process
    return replace(process, lines=(*(line for line in process.lines if line.part != "data"), *join_workers(loading)))


PART = QuestionRun(prepare_watch, Watch)
