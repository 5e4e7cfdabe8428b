"""Follows one child to its end, whichever that is: listens, times the silences, and tells why it did not finish."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from laptime import wire
from laptime.errors import WireError
from laptime.model.memory import find_refusal
from laptime.model.missing import Missing
from laptime.model.sample import Dnf, ProofRun
from laptime.model.timeline import Timeline
from laptime.run.child import Child, Ended, Silence

MEDIANS_OF_SILENCE = 20
FIRST_STEPS_OF_SILENCE = 12  # until more is known, the first step is all there is; some run down what was ready
OWN_CLOCK = Missing("the heat has a clock of its own: no reading can be laid beside its windows")
CRASHES = {"SIGSEGV", "SIGABRT", "SIGBUS"}
Tell = Callable[[str], None]
Answer = Callable[[Child, wire.FromChild], None]


@dataclass(frozen=True, slots=True)
class Started:
    """A child that has no order yet: what it has said so far, and what broke the line to it, if that happened."""

    child: Child
    heard: tuple[wire.FromChild, ...] = ()
    broken: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait for a word: `patience_s` until timing has begun, `watchdog_s` (or 20 medians) after."""

    patience_s: float = 600.0
    watchdog_s: float = 60.0


@dataclass(slots=True)
class Notes:
    """What has been heard of a child so far, and every child says."""

    started_ns: int = 0
    built: wire.Built | None = None
    proofs: list[ProofRun] = field(default_factory=list)
    first_step_ns: int | None = None
    phases: list[tuple[str, int]] = field(default_factory=list)
    noted: tuple[str, ...] = ()
    finished: wire.Finished | None = None
    failed: wire.Failed | None = None
    shares_our_clock: bool = True

    @property
    def phase(self) -> str:
        return self.phases[-1][0] if self.phases else "start"

    def phases_s(self) -> dict[str, float]:
        """Give how long each phase took; starting the process is the time until its first word."""
        if not self.phases:
            return {}
        spans = {"start": (self.phases[0][1] - self.started_ns) / 1e9}
        for (name, begin), (_, end) in zip(self.phases, self.phases[1:], strict=False):
            spans[name] = spans.get(name, 0.0) + (end - begin) / 1e9
        return spans

    def take(self, message: wire.FromChild) -> None:
        match message:
            case wire.Phase(name=name, at_ns=at_ns):
                self.phases.append((name, at_ns))
                self.shares_our_clock &= self.started_ns <= at_ns <= time.monotonic_ns()
            case wire.Built():
                self.built = message
            case wire.Proved(run=run):
                self.proofs.append(run)
            case wire.FirstStep(ns=ns):
                self.first_step_ns = ns
            case wire.Noted(notes=notes):
                self.noted = (*self.noted, *notes)
            case wire.Finished():
                self.finished = message
            case wire.Failed():
                self.failed = message
            case _:
                pass


def follow(
    started: Started,
    order: wire.FromParent,
    notes: Notes,
    answer: Answer,
    wait_s: Callable[[], float],
) -> Dnf | None:
    """Give a child its order, and note all it says; tell why it did not finish, if it did not.

    `answer` is told each message after it was noted; `wait_s` says how long the next silence may be.
    """
    child, broken = started.child, started.broken
    notes.started_ns = child.started_ns
    try:
        for message in started.heard:
            notes.take(message)
        if broken is None:
            child.say(order)
            _hear_out(child, notes, answer, wait_s)
    except Silence:
        broken = f"hung: no word for {wait_s():.3g} s"
    except WireError as error:
        broken = str(error)
    except BaseException:
        child.abandon()
        raise
    return _judge(notes, child.end(grace_s=0 if broken else 5), broken)


def on_one_clock(timeline: Timeline | None, notes: Notes) -> Timeline | None:
    """Say so where the child's clock is not ours: what it told then lies outside the time from its start to our ear."""
    if timeline is None or notes.shares_our_clock:
        return timeline
    return replace(timeline, clock=OWN_CLOCK)


def _hear_out(child: Child, notes: Notes, answer: Answer, wait_s: Callable[[], float]) -> None:
    while notes.finished is None and notes.failed is None and (message := child.hear(wait_s())) is not None:
        notes.take(message)
        answer(child, message)


def _judge(notes: Notes, ended: Ended, broken: str | None) -> Dnf | None:
    if notes.failed is not None:
        told = notes.failed
        return Dnf(told.phase, told.reason, None, ended.exit_code, told.peak_memory_bytes, ended.stderr_tail)
    if broken is None and notes.finished is not None:
        return None
    reason = broken or _why_gone(ended)
    sent = None if broken else ended.signal
    return Dnf(notes.phase, reason, sent, ended.exit_code, ended.peak_memory_bytes, ended.stderr_tail)


def _why_gone(ended: Ended) -> str:
    """Say what ended a process that has not said so itself.

    TensorFlow's convolutions on a processor tell that memory was refused, and then go on without it into a SIGSEGV.
    """
    refusal = find_refusal(ended.stderr_tail) if ended.signal in CRASHES else ""
    if refusal:
        return f"out of memory: {refusal.rstrip('.')}; a smaller batch needs less"
    if ended.signal == "SIGKILL":
        return "killed by SIGKILL: most often the system ran out of memory"
    if ended.signal:
        return f"ended by {ended.signal}"
    return "the process ended by itself"
