"""Directs one child through one heat: watches the machine at each window's end, and always comes back with a Heat."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace

from laptime import wire
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.sample import Dnf, Examination, FreshSteps, Heat, Window
from laptime.model.signs import Signs
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

__all__ = ["Director", "Limits"]


FIRST_WINDOWS_OF_SILENCE = 3  # how long the first one should take is told before it


@dataclass(slots=True)
class HeatNotes(Notes):
    """What has been heard of a heat so far."""

    windows: list[Window] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    examination: Examination | None = None
    fresh: FreshSteps | None = None
    burst: int | None = None
    window_ns: int = 0
    signs: Signs | None = None
    reruns: int = 0


class Director:
    """Runs heats one after another; `tell` is told the phase, for whoever shows progress."""

    def __init__(self, limits: Limits, cores: int, tell: Tell, sampler: Sampler | None = None) -> None:
        self._limits, self._tell, self._sampler = limits, tell, sampler
        self._instruments = Instruments(cores)

    def run_heat(self, order: HeatOrder, round_number: int, started: Started) -> Heat:
        """Have a child that was started run one heat to its end, whichever that is."""
        notes = HeatNotes()

        def answer(child: Child, message: wire.FromChild) -> None:
            self._answer(child, message, notes, order)

        if self._sampler is not None:
            self._sampler.begin(started.child.pid)
        timeline = None
        try:
            dnf = follow(started, wire.Run(order), notes, answer, lambda: self._wait_s(notes))
        finally:
            if self._sampler is not None:
                timeline = self._sampler.end()
        return replace(_make_heat(order, round_number, notes, dnf), timeline=on_one_clock(timeline, notes))

    def _answer(self, child: Child, message: wire.FromChild, notes: HeatNotes, order: HeatOrder) -> None:
        match message:
            case wire.Phase(name=name):
                self._tell(name)
                if name == "timing":
                    self._instruments.open(child.pid)
            case wire.Closed(window=window, loss=loss):
                self._note_window(notes, window, loss)
            case wire.Examined(examination=examination):
                notes.examination = examination
            case wire.Fresh(steps=fresh):
                notes.fresh = fresh
            case wire.Paced(window_ns=window_ns, burst=burst):
                notes.window_ns, notes.burst = window_ns, burst
            case wire.Signed(signs=signs):
                notes.signs = signs
            case wire.Ready():
                child.say(_wanted_again(notes, order))
            case _:
                pass

    def _note_window(self, notes: HeatNotes, window: Window, loss: float | None) -> None:
        noise = self._instruments.close_window()
        flag = self._instruments.judge(noise, window.end_ns - window.start_ns)
        notes.windows.append(replace(window, noise=noise, flag=flag))
        if loss is not None:
            notes.losses.append(loss)

    def _wait_s(self, notes: HeatNotes) -> float:
        """Compiling and first steps may take long; after them, 20 medians of a window without a word are a hang."""
        if notes.phase != "timing":
            return self._limits.patience_s
        if not notes.windows:
            steps_ns = FIRST_STEPS_OF_SILENCE * (notes.first_step_ns or 0)
            return max(self._limits.watchdog_s, steps_ns / 1e9, FIRST_WINDOWS_OF_SILENCE * notes.window_ns / 1e9)
        median_ns = statistics.median(window.end_ns - window.start_ns for window in notes.windows)
        return max(self._limits.watchdog_s, MEDIANS_OF_SILENCE * median_ns / 1e9)


def _wanted_again(notes: HeatNotes, order: HeatOrder) -> wire.Again | wire.Enough:
    """Run disturbed windows again, a few times at most; the disturbed ones stay in the record."""
    quiet = sum(window.flag is None for window in notes.windows)
    missing = len(notes.windows) - notes.reruns - quiet
    left = order.pace.reruns_max - notes.reruns
    wanted = min(missing, left)
    if wanted <= 0:
        return wire.Enough()
    notes.reruns += wanted
    return wire.Again(wanted)


def _make_heat(order: HeatOrder, round_number: int, notes: HeatNotes, dnf: Dnf | None) -> Heat:
    built, finished = notes.built, notes.finished
    gone = Missing("the heat did not finish")
    return Heat(
        lane=order.lane.name,
        order=order.number,
        round=round_number,
        status="dnf" if dnf else "ok",
        parameters=built.parameters if built else None,
        items_per_step=built.items_per_step if built else None,
        steps_per_lap=built.steps_per_lap if built else None,
        phases_s=notes.phases_s(),
        first_step_ns=notes.first_step_ns,
        proofs=tuple(notes.proofs),
        windows=tuple(notes.windows),
        losses=tuple(notes.losses),
        examination=notes.examination,
        fresh=notes.fresh,
        burst=notes.burst,
        signs=notes.signs,
        peak_memory_bytes=finished.peak_memory_bytes if finished else gone,
        device_memory_bytes=finished.device_memory_bytes if finished else gone,
        versions=built.versions if built else {},
        notes=(*built.notes, *notes.noted) if built else (),
        dnf=dnf,
    )
