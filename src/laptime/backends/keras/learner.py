"""A whole training in Keras: a call of `fit` for each lap, an account of its running means, a state to go on from."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from laptime.backends.keras.driving import Drive
from laptime.backends.keras.engines import Engine
from laptime.backends.keras.examination import NoExaminer
from laptime.backends.keras.feeding import Feed
from laptime.backends.keras.one_thread import OneThread
from laptime.backends.keras.work import Work
from laptime.errors import LaneError
from laptime.model.missing import Missing
from laptime.model.protocol import Score

NO_STEP = Missing("no step was taken")


class KerasLearner:
    """One lane's training, from its first step to its last."""

    def __init__(self, work: Work, model: Any, feed: Feed, engine: Engine, one_thread: OneThread) -> None:
        self._work, self._model, self._feed, self._engine = work, model, feed, engine
        self._one_thread = one_thread
        self.stride = feed.at_once
        self.examiner = work.examiner(model, feed, self._rest, one_thread) or NoExaminer()
        self._drive: Drive | None = None
        self._last: Drive | None = None
        self._done = 0

    def begin(self, steps_done: int, state: Any | None) -> None:
        self._done = steps_done
        self._one_thread(lambda: self._take_up(state))

    def _take_up(self, state: Any | None) -> None:
        self._model.optimizer.build(self._model.trainable_variables)
        if state is not None:
            self._feed.build(self._model)
            for variable, value in zip(self._variables(), state["variables"], strict=True):
                variable.assign(value)

    def run(self, steps: int) -> None:
        """Draw each lap's order from its own seed, so that a training which goes on meets the same."""
        if steps % self.stride:
            raise LaneError(f"{steps} steps are no whole number of {self.stride}, which Keras takes at once")
        if self._drive is None:
            self._one_thread(lambda: keras.utils.set_random_seed(self._work.seed + self._done))
            self._drive = self._last = self._feed.drive(self._model, self._one_thread, self._done)
        self._drive.advance(steps)
        self._done += steps

    def fence(self) -> None:
        self._engine.await_model(self._model)

    def score(self) -> Score:
        """Give the means over the lap so far: of its finished epochs, and of the one that is under way."""
        drive = self._last
        parts = [] if drive is None else [*drive.epochs, (drive.steps_of_epoch(), drive.logs)]
        parts = [(steps, logs) for steps, logs in parts if steps]
        if not parts:
            return Score(0, NO_STEP, NO_STEP)
        steps = sum(each for each, _ in parts)
        means = {key: sum(taken * float(logs[key]) for taken, logs in parts) / steps for key in parts[-1][1]}
        return self._work.score(steps * self._feed.batch, means)

    def open_account(self) -> None:
        self._rest()
        self._last = None

    def state(self) -> Any:
        self._rest()
        return self._one_thread(
            lambda: {"variables": [np.array(keras.ops.convert_to_numpy(each)) for each in self._variables()]}
        )

    def close(self) -> tuple[str, ...]:
        self._rest()
        return self._feed.close()

    def _rest(self) -> None:
        if self._drive is not None:
            self._drive.finish()
            self._drive = None

    def _variables(self) -> list[Any]:
        model = self._model
        return [*model.trainable_variables, *model.non_trainable_variables, *model.optimizer.variables]
