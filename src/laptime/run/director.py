"""Directs one child through one heat: listens, times the silences, and always comes back with a Heat."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from laptime import wire
from laptime.errors import WireError
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.sample import Dnf, Heat, ProofRun, Window
from laptime.run.child import Child, Ended, Silence
from laptime.run.instruments import Instruments

MEDIANS_OF_SILENCE = 20
FIRST_STEPS_OF_SILENCE = 5  # until a window has closed, the first step is all that is known; it may hold compiling
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait for a word: `patience_s` until timing has begun, `watchdog_s` (or 20 medians) after."""

    patience_s: float = 600.0
    watchdog_s: float = 60.0


@dataclass(slots=True)
class Notes:
    """What has been heard of a heat so far."""

    built: wire.Built | None = None
    proofs: list[ProofRun] = field(default_factory=list)
    first_step_ns: int | None = None
    windows: list[Window] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    phases: list[tuple[str, int]] = field(default_factory=list)
    finished: wire.Finished | None = None
    failed: wire.Failed | None = None
    reruns: int = 0

    @property
    def phase(self) -> str:
        return self.phases[-1][0] if self.phases else "start"

    def phases_s(self, started_ns: int) -> dict[str, float]:
        """Give how long each phase took; starting the process is the time until its first word."""
        if not self.phases:
            return {}
        spans = {"start": (self.phases[0][1] - started_ns) / 1e9}
        for (name, begin), (_, end) in zip(self.phases, self.phases[1:], strict=False):
            spans[name] = (end - begin) / 1e9
        return spans


class Director:
    """Runs heats one after another; `tell` is told the phase, for whoever shows progress."""

    def __init__(self, limits: Limits, cores: int, tell: Tell) -> None:
        self._limits, self._tell = limits, tell
        self._instruments = Instruments(cores)

    def run_heat(self, order: HeatOrder, round_number: int) -> Heat:
        """Run one heat to its end, whichever that is."""
        notes = Notes()
        child = Child(order.lane.environment)
        broken: str | None = None
        try:
            child.say(wire.Run(order))
            self._listen(child, notes, order)
        except Silence:
            broken = f"hung: no word for {self._wait_s(notes):.3g} s"
        except WireError as error:
            broken = str(error)
        except BaseException:
            child.abandon()
            raise
        ended = child.end(grace_s=0 if broken else 5)
        dnf = _judge(notes, ended, broken)
        return _make_heat(order, round_number, notes, child.started_ns, dnf)

    def _listen(self, child: Child, notes: Notes, order: HeatOrder) -> None:
        while (message := child.hear(self._wait_s(notes))) is not None:
            match message:
                case wire.Phase(name=name, at_ns=at_ns):
                    notes.phases.append((name, at_ns))
                    self._tell(name)
                    if name == "timing":
                        self._instruments.open(child.pid)
                case wire.Built():
                    notes.built = message
                case wire.Proved(run=run):
                    notes.proofs.append(run)
                case wire.FirstStep(ns=ns):
                    notes.first_step_ns = ns
                case wire.Closed(window=window, loss=loss):
                    self._note_window(notes, window, loss)
                case wire.Ready():
                    child.say(_wanted_again(notes, order))
                case wire.Finished():
                    notes.finished = message
                    return
                case wire.Failed():
                    notes.failed = message
                    return
                case _:
                    pass

    def _note_window(self, notes: Notes, window: Window, loss: float | None) -> None:
        noise = self._instruments.close_window()
        flag = self._instruments.judge(noise, window.end_ns - window.start_ns)
        notes.windows.append(replace(window, noise=noise, flag=flag))
        if loss is not None:
            notes.losses.append(loss)

    def _wait_s(self, notes: Notes) -> float:
        """Compiling and first steps may take long; after them, 20 medians of a window without a word are a hang."""
        if notes.phase != "timing":
            return self._limits.patience_s
        if not notes.windows:
            return max(self._limits.watchdog_s, FIRST_STEPS_OF_SILENCE * (notes.first_step_ns or 0) / 1e9)
        median_ns = statistics.median(window.end_ns - window.start_ns for window in notes.windows)
        return max(self._limits.watchdog_s, MEDIANS_OF_SILENCE * median_ns / 1e9)


def _wanted_again(notes: Notes, order: HeatOrder) -> wire.Again | wire.Enough:
    """Run disturbed windows again, a few times at most; the disturbed ones stay in the record."""
    quiet = sum(window.flag is None for window in notes.windows)
    missing = len(notes.windows) - notes.reruns - quiet
    left = order.pace.reruns_max - notes.reruns
    wanted = min(missing, left)
    if wanted <= 0:
        return wire.Enough()
    notes.reruns += wanted
    return wire.Again(wanted)


def _judge(notes: Notes, ended: Ended, broken: str | None) -> Dnf | None:
    """Tell why a heat did not finish, if it did not."""
    if notes.failed is not None:
        told = notes.failed
        return Dnf(told.phase, told.reason, None, ended.exit_code, told.peak_memory_bytes, ended.stderr_tail)
    if broken is None and notes.finished is not None:
        return None
    reason = broken or _why_gone(ended)
    sent = None if broken else ended.signal
    return Dnf(notes.phase, reason, sent, ended.exit_code, ended.peak_memory_bytes, ended.stderr_tail)


def _why_gone(ended: Ended) -> str:
    if ended.signal == "SIGKILL":
        return "killed by SIGKILL: most often the system ran out of memory"
    if ended.signal:
        return f"ended by {ended.signal}"
    return "the process ended by itself"


def _make_heat(order: HeatOrder, round_number: int, notes: Notes, started_ns: int, dnf: Dnf | None) -> Heat:
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
        phases_s=notes.phases_s(started_ns),
        first_step_ns=notes.first_step_ns,
        proofs=tuple(notes.proofs),
        windows=tuple(notes.windows),
        losses=tuple(notes.losses),
        peak_memory_bytes=finished.peak_memory_bytes if finished else gone,
        device_memory_bytes=finished.device_memory_bytes if finished else gone,
        versions=built.versions if built else {},
        notes=built.notes if built else (),
        dnf=dnf,
    )
