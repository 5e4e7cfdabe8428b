"""A Keras training that stands ready to be timed: `fit`, driven from fence to fence."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from laptime.backends.base import Examiner
from laptime.backends.keras.apart import KerasApart
from laptime.backends.keras.driving import Drive
from laptime.backends.keras.engines import Engine
from laptime.backends.keras.feeding import Feed
from laptime.backends.keras.one_thread import OneThread
from laptime.model.missing import Missing


class KerasRunner:
    def __init__(
        self,
        model: Any,
        drive: Drive,
        feed: Feed,
        engine: Engine,
        *,
        one_thread: OneThread,
        examiner: Examiner | None,
    ) -> None:
        self._one_thread = one_thread
        self._model, self._drive, self._feed, self._engine, self.examiner = model, drive, feed, engine, examiner
        self.stride = feed.at_once
        self.ready_batches, self.holds = feed.ready_batches, feed.holds

    def run(self, steps: int) -> None:
        self._drive.advance(steps)

    def run_marked(self, steps: int) -> Sequence[object]:
        return self._drive.advance_marked(steps)

    def fence(self) -> None:
        self._engine.await_model(self._model)

    def step_ns(self, marks: Sequence[object]) -> tuple[int, ...]:
        """Where the engine computes behind the host's back, or several at once, two moments are not around a step."""
        if self.stride > 1 or not self._engine.marks_are_steps:
            return ()
        return tuple(after - before for before, after in itertools.pairwise(marks))  # type: ignore[operator]

    def loss(self) -> float:
        """Give Keras's running mean: once it is no number, it stays none."""
        return float(self._drive.logs["loss"])

    def repeat(self) -> None:
        self._feed.repeat()

    def apart(self) -> KerasApart | Missing:
        if self.stride > 1:
            return Missing(f"Keras gives its engine {self.stride} steps at once")
        self._drive.finish()
        return KerasApart(self._model, self._feed, self._engine, self._one_thread)

    def close(self) -> tuple[str, ...]:
        self._drive.finish()
        return self._feed.close()
