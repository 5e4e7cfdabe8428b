"""A user's state in whatever framework: each run begins from a deep copy of it."""

from __future__ import annotations

import copy
import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from laptime.backends.fingerprint import Array
from laptime.backends.python.leaves import has_floats, list_arrays, read_array, widen_batch, widen_state
from laptime.backends.steps import StepRunner, call_for_steps, count_items, supply_batches
from laptime.errors import TrainingError
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder


class PlainSteps:
    """What the user's function returned. Nobody but its own code can place it, or wait for it."""

    def __init__(self, order: HeatOrder) -> None:
        random.seed(order.seed)
        np.random.seed(order.seed)  # noqa: NPY002  where a user's code draws from the global generator
        self.own, training = call_for_steps(order, "python")
        self._start = training.state
        device = order.lane.device
        if device.kind != "cpu" and self.own.fence is None:
            raise TrainingError(
                f"{self.own.name}: gives no fence, and on {device.name} a step may still be running when it returns",
                "give fence=, a function of the state that waits for the device",
            )

    def items_per_step(self) -> int:
        return count_items(self.leaves(next(self.own.batches())))

    def leaves(self, batch: Any) -> Iterator[Any]:
        return list_arrays(batch)

    def await_batch(self, _batch: Any) -> None:
        """Wait for the device as the user's code does, if it gives a way."""
        if self.own.fence is not None:
            self.own.fence(self._start)

    def compiled(self) -> Missing:
        return Missing("a python lane does not know what computes")

    def fresh_state(self, *, wide: bool = False) -> Any:
        try:
            state = copy.deepcopy(self._start)
        except Exception as error:
            raise TrainingError(
                f"{self.own.name}: its state cannot be copied: {type(error).__name__}: {error}",
                "each run begins from a copy: keep files, locks and generators out of the state",
            ) from error
        return widen_state(state) if wide else state

    def widen(self, batch: Any) -> Any:
        return widen_batch(batch)

    def floats(self, state: Any) -> list[Array]:
        return [read_array(leaf) for leaf in list_arrays(state) if has_floats(leaf)]

    def number(self, loss: Any) -> float:
        try:
            return self.own.number(read_array(loss).astype(np.float64))
        except (TypeError, ValueError) as error:
            kind = type(loss).__name__
            raise TrainingError(f"{self.own.name}: the loss is {kind}, expected a number: {error}") from error

    def fence(self, state: Any, loss: Any) -> None:
        """Wait as the user's code does. A loss is read besides: it is there when the steps before it are."""
        if self.own.fence is not None:
            self.own.fence(state)
        if loss is not None:
            self.number(loss)

    def supply(self, kind: str) -> Callable[[], Any]:
        return supply_batches(self.own, kind, lambda batch: batch)


class HostRunner(StepRunner):
    """Steps that are done when they return, each with its time."""

    def run_marked(self, steps: int) -> list[int]:
        step, now = self.step, time.perf_counter_ns
        marks = [now()]
        for _ in range(steps):
            step()
            marks.append(now())
        return marks

    def step_ns(self, marks: Sequence[Any]) -> tuple[int, ...]:
        return tuple(after - before for before, after in itertools.pairwise(marks))
