"""A Keras training taken apart: the batches that `fit` would take, and a step on each by `train_on_batch`.

`fit` takes its batches itself, in the middle of its step. So it is brought to its end first, and what it walks through
is walked through by us.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from laptime.backends.keras.alone import LoaderRunner
from laptime.backends.keras.engines import Engine
from laptime.backends.keras.feeding import Feed
from laptime.backends.keras.one_thread import OneThread
from laptime.model.missing import Missing
from laptime.model.signs import Signs

WARM_UP = 2  # the step on a batch that is handed to it may be traced anew
ITS_OWN_COPY = Missing("Keras brings a batch to the device within its step")
NOT_SEEN = Missing("what a step of Keras's reads is not looked into")
CHUNK = 1 << 22
BITS: dict[int, tuple[Any, int, int]] = {
    4: (np.uint32, 0x7F800000, 0x007FFFFF),
    8: (np.uint64, 0x7FF0000000000000, 0x000FFFFFFFFFFFFF),
}


class KerasApart:
    """Steps of a model whose `fit` has ended."""

    stride = 1

    def __init__(self, model: Any, feed: Feed, engine: Engine, one_thread: OneThread) -> None:
        self._model, self._feed, self._engine, self._one_thread = model, feed, engine, one_thread
        self._loader = LoaderRunner(feed, engine, one_thread)
        for _ in range(WARM_UP):
            self.compute(self.fetch())
        self._compiled = engine.compiled()

    def fetch(self) -> Any:
        (batch,) = self._loader.take()
        return batch

    def move(self, batch: Any) -> Any:
        """Keras does, within its step."""
        return batch

    def compute(self, batch: Any) -> None:
        self._one_thread(lambda: self._step(batch))

    def describe(self, batch: Any) -> Hashable:
        return tuple(tuple(np.shape(each)) for each in keras.tree.flatten(batch) if each is not None)

    def look(self, _steps: int, _timed: int) -> Signs:
        before, now = self._compiled, self._engine.compiled()
        compiles = now if isinstance(now, Missing) or isinstance(before, Missing) else now - before
        own = ITS_OWN_COPY
        told = Signs(0, copy_ns=own, copied_bytes=own, copied_arrays=own, reads=NOT_SEEN, compiles=compiles,
                     threads=self._engine.threads())  # fmt: skip
        return replace(told, denormals=self._one_thread(self._denormals))

    def _step(self, batch: Any) -> None:
        with self._feed.device():
            self._model.train_on_batch(*batch)

    def _denormals(self) -> float:
        """Give the share among weights, or among the optimizer's sums, whichever is larger."""
        return max(share_of_denormals(each.numpy() for each in held) for held in self._held())

    def _held(self) -> tuple[Any, Any]:
        return self._model.variables, self._model.optimizer.variables


def share_of_denormals(arrays: Iterable[npt.NDArray[Any]]) -> float:
    """Denormal is whose exponent's bits are all nought, and not all of its fraction's."""
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
