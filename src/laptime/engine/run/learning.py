"""Train one side of a verdict on learning in one child, while another one judges the loss after each leg."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from laptime.engine import wire
from laptime.engine.run.child import AnyChild
from laptime.engine.run.instruments import Sampler
from laptime.engine.run.runner import (
    FIRST_STEPS_OF_SILENCE,
    MEDIANS_OF_SILENCE,
    Limits,
    ProcessRunner,
    Started,
    WindowWatch,
)
from laptime.model.errors import WireError
from laptime.model.plan import HeatOrder
from laptime.model.process import Dnf
from laptime.model.protocol import LearningOrder

GoesOn = Callable[["LearningRunner"], bool]


class JudgeRunner(ProcessRunner):
    """A child with the base's code alone: it holds the items, and returns the loss of weights in a file."""

    def __init__(self, order: HeatOrder, limits: Limits, batches: int | None = None) -> None:
        super().__init__(order.lane.name, limits)
        self._order = order
        self._batches = batches
        self.drawn: wire.ItemsDrawn | None = None
        self._weighed: wire.LossWeighed | None = None

    def open(self, started: Started) -> str | None:
        """Let it draw the items. Return why no loss can be judged, or None."""
        self.begin(started, wire.Judge(self._order, self._batches))
        self.hear_on(until=wire.ItemsDrawn)
        return self.why_over() if self.drawn is None else self.drawn.reason or None

    def weigh(self, weights: str, *, are_first: bool) -> wire.LossWeighed | None:
        """Return the loss of the weights in a file, and remove the file. None where the judge's process is over."""
        self._weighed = None
        if not self.is_over:
            self.child.say(wire.WeighLoss(weights, are_first))
            self.hear_on(until=wire.LossWeighed)
        with contextlib.suppress(OSError):
            Path(weights).unlink()
        return self._weighed

    def close(self) -> None:
        if not self.is_over:
            self.child.say(wire.Enough())
            self.hear_on()
        self.finish()

    def why_over(self) -> str:
        """Return why it answers no more."""
        if self.failed is not None:
            return self.failed.reason
        return "the process that judges it ended" if self._broken is None else str(self._broken)

    def note(self, message: wire.FromChild) -> None:
        super().note(message)
        match message:
            case wire.ItemsDrawn():
                self.drawn = message
            case wire.LossWeighed():
                self._weighed = message
            case _:
                pass


class LearningRunner(ProcessRunner):
    """Trains one side. `goes_on` is asked after each leg, with this runner, whether another one is wanted.

    `points` are the steps, the seconds of training and the loss after each leg, added up from the start, what disturbed
    the leg, and its seconds by this process's clock; the loss is None where it is not finite. `misfit` says why the
    weights cannot be judged.
    """

    def __init__(
        self,
        order: LearningOrder,
        judge: JudgeRunner,
        limits: Limits,
        goes_on: GoesOn,
        *,
        cores: int,
        sampler: Sampler | None = None,
    ) -> None:
        super().__init__(order.heat.lane.name, limits, sampler)
        self._order = order
        self._loss_judge = judge
        self._goes_on = goes_on
        self._watch = WindowWatch(cores)
        self.points: list[tuple[int, float, float | None, str | None, float | None]] = []
        self._began_s = 0.0
        self.misfit = ""
        self._leg_s = order.leg_s

    def run(self, started: Started) -> Dnf | None:
        """Train as long as `goes_on` returns true. Return why it did not finish, or None."""
        return self.follow(started, wire.Learn(self._order))

    @property
    def legs(self) -> int:
        return len(self.points) - 1

    @property
    def train_s(self) -> float:
        return self.points[-1][1]

    @property
    def changed(self) -> tuple[str, ...]:
        """What its code replaced of what judges it."""
        return self.finished.changed if self.finished else ()

    @property
    def works(self) -> bool:
        return len(self.points) > 1

    def answer(self, child: AnyChild, message: wire.FromChild) -> None:
        if not isinstance(message, wire.LegTrained):
            return
        seen_s = time.monotonic() - self._began_s if len(self.points) > 1 else None  # the first leg has the first step
        _, flag = self._watch.close_span(message.ns) if self.points else (None, None)
        child.pause()  # nothing that its code has started goes on while no clock runs
        weighed = self._loss_judge.weigh(self._order.weights, are_first=not self.points)
        child.go_on()
        steps, train_s = self.points[-1][:2] if self.points else (0, 0.0)
        self._leg_s = max(self._leg_s, message.ns / 1e9)
        if weighed is None:
            self.give_up(WireError(f"its loss could not be judged: {self._loss_judge.why_over()}"))
            return
        self.misfit = weighed.misfit
        self.points.append((steps + message.steps, train_s + message.ns / 1e9, weighed.loss, flag, seen_s))
        if weighed.loss is None or not self._goes_on(self):
            child.say(wire.Enough())
            return
        if self.legs:
            self._watch.reopen()
        else:
            self._watch.open(child)
        self._began_s = time.monotonic()
        child.say(wire.GoOn())

    def end(self) -> None:
        self._watch.end()

    def wait_s(self) -> float:
        """Return how long to wait: a first step may compile; later, 20 legs without a message are a hang."""
        if self.phase != "legs":
            return self.limits.patience_s
        first_s = FIRST_STEPS_OF_SILENCE * (self.first_step_ns or 0) / 1e9
        return max(self.limits.watchdog_s, first_s, MEDIANS_OF_SILENCE * self._leg_s)
