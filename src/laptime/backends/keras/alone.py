"""One stage of a Keras training alone: the batches that `fit` would take without `fit`, or their copy to the device."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import keras
from keras.src.trainers.epoch_iterator import EpochIterator

from laptime.backends.keras.engines import Engine
from laptime.backends.keras.feeding import Feed
from laptime.backends.keras.one_thread import OneThread
from laptime.errors import LaneError
from laptime.model.missing import Missing

PARTS = ("x", "y", "sample_weight")


class Placed:
    """A batch, looked at as engines look at the model that they await."""

    def __init__(self, batch: Any) -> None:
        arrays = [each for each in keras.tree.flatten(batch) if keras.ops.is_tensor(each)]
        self.variables = [SimpleNamespace(value=each) for each in arrays]


class Alone(ABC):
    """Takes batches in Keras's own thread, and trains nothing."""

    examiner = None

    def __init__(self, feed: Feed, engine: Engine, one_thread: OneThread) -> None:
        self._feed, self._engine, self._one_thread = feed, engine, one_thread
        self.stride, self.ready_batches, self.holds = feed.at_once, feed.ready_batches, feed.holds
        self._batches: Iterator[Any] | None = None
        self._last: Any = None

    @abstractmethod
    def batches(self) -> Iterator[Any]:
        """Give one stride's batches after another, without end."""

    def run(self, steps: int) -> None:
        self._one_thread(lambda: self._take(steps // self.stride))

    def take(self) -> Any:
        """Give the batches of one stride."""
        self.run(self.stride)
        return self._last

    def run_marked(self, steps: int) -> Sequence[object]:
        self.run(steps)
        return ()

    def fence(self) -> None:
        if self._last is not None:
            self._one_thread(lambda: self._engine.await_model(Placed(self._last)))

    def step_ns(self, _marks: Sequence[object]) -> tuple[int, ...]:
        return ()

    def loss(self) -> float:
        """There is none; a constant that is finite keeps the loop's question simple."""
        return 0.0

    def repeat(self) -> None:
        self._feed.repeat()

    def apart(self) -> Missing:
        return Missing("this lane has one stage alone")

    def close(self) -> tuple[str, ...]:
        self._batches = None
        return self._feed.close()

    def _take(self, strides: int) -> None:
        """Let go of nothing in between: an engine may have threads of its own behind its data."""
        with self._feed.device():
            if self._batches is None:
                self._batches = self.batches()
            try:
                for _ in range(strides):
                    self._last = next(self._batches)
            except Exception as error:
                raise self._feed.trouble() or error from error


class LoaderRunner(Alone):
    """What `fit` walks through, walked through."""

    def batches(self) -> Iterator[Any]:
        epochs = self._engine.epochs(self._feed.data(0), self.stride)
        while True:
            iter(epochs)
            is_empty = True
            for batches in self._epoch(epochs):
                is_empty = False
                yield batches
            if is_empty:
                raise LaneError(
                    "its data give no batch any more", "give data that can be walked through again and again"
                )

    def _epoch(self, epochs: Any) -> Iterator[Any]:
        """Some engines leave taking the batches to their step; Keras's own iterator takes them itself."""
        while True:
            try:
                _, _, batches = EpochIterator.__next__(epochs)
            except StopIteration:
                return
            yield batches


class CopyRunner(Alone):
    """Batches of host memory made the engine's own kind on the lane's device, one after another."""

    def __init__(
        self, feed: Feed, engine: Engine, one_thread: OneThread, convert: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(feed, engine, one_thread)
        self._convert = convert or keras.ops.convert_to_tensor

    def batches(self) -> Iterator[Any]:
        told = self._feed.data(0)
        parts = [told[name] for name in PARTS if name in told]
        size, strides = self._feed.batch, max(1, self._feed.epoch_steps() // self.stride)
        for number in itertools.cycle(range(strides)):
            first = number * self.stride * size
            yield [
                keras.tree.map_structure(lambda each, start=start: self._convert(each[start : start + size]), parts)
                for start in range(first, first + self.stride * size, size)
            ]
