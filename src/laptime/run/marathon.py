"""Directs one child through a whole training: notes each lap as it ends, and always comes back with a FullRun."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from laptime import wire
from laptime.model.missing import Missing
from laptime.model.protocol import Evaluation, FullOrder, FullRun, LapResult, Moment, Predictions
from laptime.model.sample import Dnf
from laptime.model.timeline import Mark, Timeline, Watched
from laptime.run.child import Child
from laptime.run.following import (
    FIRST_STEPS_OF_SILENCE,
    MEDIANS_OF_SILENCE,
    Limits,
    Notes,
    Started,
    follow,
    on_one_clock,
)
from laptime.run.moments import read_moment
from laptime.run.sampler import Sampler

KEEP_READINGS_S = 60.0
STARTING = ("start", "import", "build", "proof", "set up")


@dataclass(slots=True)
class TrainingNotes(Notes):
    """What has been heard of a training so far; `laps` may hold those of an earlier process."""

    laps: list[LapResult] = field(default_factory=list)
    test: Evaluation | None = None
    predictions: Predictions | None = None
    stepped: wire.Stepped | None = None
    silence_s: float = 0.0
    heard_s: float = 0.0
    timeline: Timeline | None = None

    def watched(self) -> tuple[Watched, ...]:
        """Give what the instruments saw, with the marks of laps and all else that this process did."""
        timeline = on_one_clock(self.timeline, self)
        return () if timeline is None else (Watched(timeline, tuple(Mark(*each) for each in self.phases)),)

    def take(self, message: wire.FromChild) -> None:
        Notes.take(self, message)  # not super(): a slotted dataclass is another class than the one written here
        match message:
            case wire.Resumed(laps=laps):
                # The checkpoint is the truth; of the laps in it, those noted here know more of their own writing.
                self.laps = [*self.laps[: len(laps)], *laps[len(self.laps) :]]
            case wire.Stepped():
                self._note_silence()
                self.stepped = message
            case wire.LapDone(lap=lap):
                self.laps.append(lap)
                self.stepped = None
            case wire.Tested(test=test, predictions=predictions):
                self.test, self.predictions = test, predictions
            case _:
                pass

    def _note_silence(self) -> None:
        """Keep the longest time between two words of progress within a lap."""
        now_s = time.monotonic()
        if self.stepped is not None:
            self.silence_s = max(self.silence_s, now_s - self.heard_s)
        self.heard_s = now_s


class Marathon:
    """Runs whole trainings one after another.

    `tell` is told what is to be shown, `keep` is called when a lap or the test is done and worth writing down. What the
    `sampler` has read by then goes with it, once a minute at most: it grows, and laps may be short.
    """

    def __init__(
        self,
        limits: Limits,
        tell: Callable[[Moment], None],
        keep: Callable[[], None],
        sampler: Sampler | None = None,
    ) -> None:
        self._limits, self._tell, self._keep, self._sampler = limits, tell, keep, sampler
        self._kept_s = 0.0

    def run(self, order: FullOrder, notes: TrainingNotes) -> Dnf | None:
        """Train one lane; what is heard is in `notes` by then, even where an interrupt ends it."""

        def answer(child: Child, message: wire.FromChild) -> None:
            if isinstance(message, wire.LapDone | wire.Tested):
                self._look(notes)
                self._keep()
            moment = read_moment(order, message)
            if moment is not None:
                self._tell(moment)
            if isinstance(message, wire.LapDone):
                child.say(wire.GoOn())

        started = Started(Child(order.heat.lane.environment))
        if self._sampler is None:
            return follow(started, wire.Train(order), notes, answer, lambda: self._wait_s(notes))
        self._kept_s = time.monotonic()
        self._sampler.begin(started.child.pid)
        try:
            return follow(started, wire.Train(order), notes, answer, lambda: self._wait_s(notes))
        finally:
            notes.timeline = self._sampler.end()

    def _look(self, notes: TrainingNotes) -> None:
        now_s = time.monotonic()
        if self._sampler is not None and now_s - self._kept_s >= KEEP_READINGS_S:
            notes.timeline, self._kept_s = self._sampler.so_far(), now_s

    def _wait_s(self, notes: TrainingNotes) -> float:
        """Within a lap a word comes about twice a second, or after each step; elsewhere patience is asked for."""
        if not notes.phase.startswith("lap ") or notes.first_step_ns is None:
            return self._limits.patience_s
        first_s = FIRST_STEPS_OF_SILENCE * notes.first_step_ns / 1e9
        return max(self._limits.watchdog_s, first_s, MEDIANS_OF_SILENCE * notes.silence_s)


def make_run(
    order: FullOrder,
    notes: TrainingNotes,
    before: FullRun | None,
    status: Literal["ok", "dnf", "running", "interrupted"],
    dnf: Dnf | None = None,
) -> FullRun:
    """Give what is known of a training; what an earlier process found out once is kept from `before`."""
    built, finished = notes.built, notes.finished
    gone = Missing("the training did not finish")
    first_ms = notes.first_step_ns / 1e6 if notes.first_step_ns is not None else None
    starting = {name: span for name, span in notes.phases_s().items() if name in STARTING}
    return FullRun(
        lane=order.heat.lane.name,
        seed=order.heat.seed,
        order=order.heat.number,
        status=status,
        laps=tuple(notes.laps),
        test=notes.test,
        predictions=notes.predictions,
        parameters=built.parameters if built else None,
        items_per_step=built.items_per_step if built else None,
        first_step_ms=before.first_step_ms if before and before.first_step_ms is not None else first_ms,
        phases_s=before.phases_s if before and before.phases_s else starting,
        proofs=before.proofs if before and before.proofs else tuple(notes.proofs),
        processes=(before.processes if before else 0) + 1,
        peak_memory_bytes=finished.peak_memory_bytes if finished else gone,
        device_memory_bytes=finished.device_memory_bytes if finished else gone,
        versions=built.versions if built else {},
        notes=(*_notes(built, before), *notes.noted),
        dnf=dnf,
        watched=(*(before.watched if before else ()), *notes.watched()),
    )


def _notes(built: wire.Built | None, before: FullRun | None) -> tuple[str, ...]:
    """Give the training's own notes, and say where it went on with other versions than it began with."""
    if built is None:
        return before.notes if before else ()
    changed = [
        f"{name} {before.versions[name]} before, {version} now"
        for name, version in built.versions.items()
        if before and before.versions.get(name, version) != version
    ]
    said = (f"it went on with other versions: {', '.join(changed)}",) if changed else ()
    return tuple(dict.fromkeys((*(before.notes if before else ()), *built.notes, *said)))
