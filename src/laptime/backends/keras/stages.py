"""One stage of a Keras training alone (loader, copy), and a step in parts: the batch, then `train_on_batch` on it.

`fit` takes its batches itself, in the middle of its step. So it is ended first, and this module iterates over its data.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras.src.trainers.epoch_iterator import EpochIterator

from laptime.backends.base import UnseenWeights
from laptime.backends.keras.engines import Engine
from laptime.backends.keras.feeds import Feed
from laptime.backends.keras.one_thread import KerasThread
from laptime.errors import LaneError
from laptime.model.missing import Missing
from laptime.model.symptoms import StepSymptoms

PARTS = ("x", "y", "sample_weight")
WARM_UP = 2  # the first step on a batch passed in this way may be traced again
ITS_OWN_COPY = Missing("Keras brings a batch to the device within its step")
NOT_SEEN = Missing("what a step of Keras's reads is not looked into")
CHUNK = 1 << 22
BITS: dict[int, tuple[Any, int, int]] = {
    4: (np.uint32, 0x7F800000, 0x007FFFFF),
    8: (np.uint64, 0x7FF0000000000000, 0x000FFFFFFFFFFFFF),
}


class AwaitedBatch:
    """A batch in the form of a model, so that an engine can wait for it."""

    def __init__(self, batch: Any) -> None:
        arrays = [each for each in keras.tree.flatten(batch) if keras.ops.is_tensor(each)]
        self.variables = [SimpleNamespace(value=each) for each in arrays]


class StageRunner(UnseenWeights, ABC):
    """Takes batches in Keras's own thread, without training."""

    evaluator = None
    outside_ns = 0
    ranks = None

    def __init__(self, feed: Feed, engine: Engine, one_thread: KerasThread) -> None:
        self._feed, self._engine, self._one_thread = feed, engine, one_thread
        self.stride, self.ready_batches, self.holds = feed.at_once, feed.ready_batches, feed.holds
        self._batches: Iterator[Any] | None = None
        self._last: Any = None

    @abstractmethod
    def batches(self) -> Iterator[Any]:
        """Yield the batches of one stride after another, without end."""

    def run(self, steps: int) -> None:
        self._one_thread(lambda: self._take(steps // self.stride))

    def take(self) -> Any:
        """Return the batches of one stride."""
        self.run(self.stride)
        return self._last

    def run_marked(self, steps: int) -> Sequence[object]:
        self.run(steps)
        return ()

    def fence(self) -> None:
        if self._last is not None:
            self._one_thread(lambda: self._engine.await_model(AwaitedBatch(self._last)))

    def step_ns(self, _marks: Sequence[object]) -> tuple[int, ...]:
        return ()

    def loss(self) -> float:
        """Return 0: there is no loss, and the loop only checks that it is finite."""
        return 0.0

    def repeat(self) -> None:
        self._feed.repeat()

    def parts(self) -> Missing:
        return Missing("this lane has one stage alone")

    def census(self) -> Missing:
        return Missing("this lane has one stage alone")

    def close(self) -> tuple[str, ...]:
        self._batches = None
        return self._feed.close()

    def _take(self, strides: int) -> None:
        """Take some strides' batches. The iterator is kept between calls: an engine may have its own threads."""
        with self._feed.device():
            if self._batches is None:
                self._batches = self.batches()
            try:
                for _ in range(strides):
                    self._last = next(self._batches)
            except Exception as error:
                raise self._feed.trouble() or error from error


class KerasLoaderRunner(StageRunner):
    """Iterates over the data as `fit` does, without training."""

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
        """Yield the batches of an epoch by Keras's own iterator: some engines' iterators leave that to their step."""
        while True:
            try:
                _, _, batches = EpochIterator.__next__(epochs)
            except StopIteration:
                return
            yield batches


class KerasCopyRunner(StageRunner):
    """Converts batches from host memory to tensors of the engine on the lane's device, one after another."""

    def __init__(
        self, feed: Feed, engine: Engine, one_thread: KerasThread, convert: Callable[[Any], Any] | None = None
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


class KerasStepParts:
    """Steps of a model whose `fit` has ended."""

    stride = 1

    def __init__(self, model: Any, feed: Feed, engine: Engine, one_thread: KerasThread) -> None:
        self._model, self._feed, self._engine, self._one_thread = model, feed, engine, one_thread
        self._loader = KerasLoaderRunner(feed, engine, one_thread)
        for _ in range(WARM_UP):
            self.compute(self.fetch())
        self._compiled = engine.compiled()

    def fetch(self) -> Any:
        (batch,) = self._loader.take()
        return batch

    def move(self, batch: Any) -> Any:
        """Return the batch as it is: Keras moves it within its step."""
        return batch

    def compute(self, batch: Any) -> None:
        self._one_thread(lambda: self._step(batch))

    def describe(self, batch: Any) -> Hashable:
        return tuple(tuple(np.shape(each)) for each in keras.tree.flatten(batch) if each is not None)

    def look(self, _steps: int, _timed: int) -> StepSymptoms:
        before, now = self._compiled, self._engine.compiled()
        compiles = now if isinstance(now, Missing) or isinstance(before, Missing) else now - before
        own = ITS_OWN_COPY
        told = StepSymptoms(0, copy_ns=own, copied_bytes=own, copied_arrays=own, reads=NOT_SEEN, compiles=compiles,
                     threads=self._engine.threads())  # fmt: skip
        return replace(told, denormals=self._one_thread(self._denormals))

    def _step(self, batch: Any) -> None:
        with self._feed.device():
            self._model.train_on_batch(*batch)

    def _denormals(self) -> float:
        """Return the share among the model's variables or the optimizer's, the larger of the two."""
        return max(share_of_denormals(each.numpy() for each in held) for held in self._held())

    def _held(self) -> tuple[Any, Any]:
        return self._model.variables, self._model.optimizer.variables


def share_of_denormals(arrays: Iterable[npt.NDArray[Any]]) -> float:
    """Return the share of denormal numbers: all bits of their exponent are 0, and their fraction is not 0."""
    found = numbers = 0
    for each in arrays:
        if each.dtype.kind != "f" or each.itemsize not in BITS:
            continue
        kind, exponent, fraction = BITS[each.itemsize]
        bits = np.ascontiguousarray(each).reshape(-1).view(kind)
        numbers += bits.size
        for start in range(0, bits.size, CHUNK):
            part = bits[start : start + CHUNK]
            found += int(np.count_nonzero(((part & kind(exponent)) == 0) & ((part & kind(fraction)) != 0)))
    return found / max(1, numbers)
