"""Directs one child through one heat of inference, and always comes back with an InferHeat."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace

from laptime import wire
from laptime.model.inference import AnswerRun, BatchRun, InferHeat, InferOrder
from laptime.model.missing import Missing
from laptime.model.sample import Dnf, Noise, Window
from laptime.model.timeline import Mark
from laptime.run.child import Child
from laptime.run.following import (
    FIRST_STEPS_OF_SILENCE,
    MEDIANS_OF_SILENCE,
    Limits,
    Notes,
    Started,
    Tell,
    follow,
    on_one_clock,
)
from laptime.run.instruments import Instruments
from laptime.run.sampler import Sampler

BATCH_PHASE = "batch "
SINGLE_PHASE = "single calls"
WINDOWED = (SINGLE_PHASE, BATCH_PHASE)


@dataclass(slots=True)
class InferNotes(Notes):
    """What has been heard of a heat so far; `windows` are those of the batch size under way."""

    answers: list[AnswerRun] = field(default_factory=list)
    first_call: wire.FirstCall | None = None
    calls_ns: tuple[int, ...] = ()
    calls_noise: Noise | None = None
    calls_flag: str | None = None
    windows: list[Window] = field(default_factory=list)
    batches: list[BatchRun] = field(default_factory=list)

    def take(self, message: wire.FromChild) -> None:
        Notes.take(self, message)  # not super(): a slotted dataclass is another class than the one written here
        match message:
            case wire.Answered(run=run):
                self.answers.append(run)
            case wire.FirstCall():
                self.first_call = message
            case wire.Calls(ns=ns):
                self.calls_ns = ns
            case wire.BatchDone(batch=batch, reason=reason):
                self.batches.append(BatchRun(batch, tuple(self.windows), reason))
                self.windows = []
            case _:
                pass


class InferDirector:
    """Runs heats of inference one after another; `tell` is told the phase, for whoever shows progress."""

    def __init__(self, limits: Limits, cores: int, tell: Tell, sampler: Sampler | None = None) -> None:
        self._limits, self._tell, self._sampler = limits, tell, sampler
        self._instruments = Instruments(cores)

    def run_heat(self, order: InferOrder, round_number: int) -> InferHeat:
        """Run one heat to its end, whichever that is."""
        notes = InferNotes()

        def answer(child: Child, message: wire.FromChild) -> None:
            match message:
                case wire.Phase(name=name):
                    self._tell(name)
                    if name.startswith(WINDOWED):
                        self._instruments.open(child.pid)
                case wire.Calls(ns=ns):
                    notes.calls_noise = self._instruments.close_window()
                    notes.calls_flag = self._instruments.judge(notes.calls_noise, sum(ns))
                case wire.Closed(window=window):
                    noise = self._instruments.close_window()
                    flag = self._instruments.judge(noise, window.end_ns - window.start_ns)
                    notes.windows.append(replace(window, noise=noise, flag=flag))
                case _:
                    pass

        # Not ahead of its turn: who starts a program for one answer waits for all of this.
        started = Started(Child(order.heat.lane.environment))
        if self._sampler is not None:
            self._sampler.begin(started.child.pid)
        timeline = None
        try:
            dnf = follow(started, wire.Infer(order), notes, answer, lambda: self._wait_s(notes, order))
        finally:
            if self._sampler is not None:
                timeline = self._sampler.end()
        heat = _make_heat(order, round_number, notes, dnf)
        return heat if timeline is None else replace(heat, timeline=on_one_clock(timeline, notes), marks=_marks(notes))

    def _wait_s(self, notes: InferNotes, order: InferOrder) -> float:
        """Compiling and first calls may take long; single calls are told together, windows one by one."""
        if notes.phase == SINGLE_PHASE and notes.first_call is not None:
            first_s = FIRST_STEPS_OF_SILENCE * notes.first_call.ns / 1e9
            return max(self._limits.watchdog_s, first_s) + 2 * order.pace.measure_s
        if notes.phase.startswith(BATCH_PHASE) and notes.windows:
            median_ns = statistics.median(window.end_ns - window.start_ns for window in notes.windows)
            return max(self._limits.watchdog_s, MEDIANS_OF_SILENCE * median_ns / 1e9)
        return self._limits.patience_s


def _marks(notes: InferNotes) -> tuple[Mark, ...]:
    return tuple(Mark(*each) for each in notes.phases)


def _make_heat(order: InferOrder, round_number: int, notes: InferNotes, dnf: Dnf | None) -> InferHeat:
    built, finished = notes.built, notes.finished
    batches, dnf = _without_memory(order, notes, dnf)
    gone = Missing("the heat did not finish")
    return InferHeat(
        lane=order.heat.lane.name,
        order=order.heat.number,
        round=round_number,
        status="dnf" if dnf else "ok",
        parameters=built.parameters if built else None,
        items_a_call=notes.first_call.items if notes.first_call else None,
        phases_s=notes.phases_s(),
        first_call_ns=notes.first_call.ns if notes.first_call else None,
        calls_ns=notes.calls_ns,
        calls_noise=notes.calls_noise,
        calls_flag=notes.calls_flag,
        batches=batches,
        proofs=tuple(notes.answers),
        peak_memory_bytes=finished.peak_memory_bytes if finished else gone,
        device_memory_bytes=finished.device_memory_bytes if finished else gone,
        versions=built.versions if built else {},
        notes=tuple(dict.fromkeys((*built.notes, *notes.noted))) if built else (),
        dnf=dnf,
    )


def _without_memory(order: InferOrder, notes: InferNotes, dnf: Dnf | None) -> tuple[tuple[BatchRun, ...], Dnf | None]:
    """Let a batch size whose process ended for want of memory be that size's own end, and not the heat's."""
    batches = tuple(notes.batches)
    if dnf is None or not _is_memory(dnf) or not notes.phase.startswith(BATCH_PHASE):
        return batches, dnf
    killed = int(notes.phase.removeprefix(BATCH_PHASE))
    if killed == min(order.pace.batches):
        return batches, dnf
    after = tuple(
        BatchRun(batch, (), f"not tried after batch {killed}") for batch in order.pace.batches if batch > killed
    )
    return (*batches, BatchRun(killed, (), dnf.reason), *after), None


def _is_memory(dnf: Dnf) -> bool:
    return dnf.signal == "SIGKILL" or (dnf.signal is not None and dnf.reason.startswith("out of memory"))
