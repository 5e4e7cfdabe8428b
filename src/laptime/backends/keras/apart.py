"""What can be told of the steps of a `fit`, which takes its batches itself: little, and why."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from laptime.backends.keras.driving import Drive
from laptime.backends.keras.engines import Engine
from laptime.model.missing import Missing
from laptime.model.signs import Signs

WITHIN = Missing("Keras's fit takes its batches itself: its step comes in one piece")
BITS: dict[int, tuple[Any, int, int]] = {
    4: (np.uint32, 0x7F800000, 0x007FFFFF),
    8: (np.uint64, 0x7FF0000000000000, 0x000FFFFFFFFFFFFF),
}


class KerasApart:
    """Steps of a `fit`, let run a stride at a time."""

    def __init__(self, model: Any, drive: Drive, engine: Engine, stride: int) -> None:
        self._model, self._drive, self._engine, self.stride = model, drive, engine, stride
        self._compiled = engine.compiled()

    def fetch(self) -> None:
        """`fit` does."""

    def move(self, _batch: Any) -> None:
        """`fit` does."""

    def compute(self, _batch: Any) -> None:
        self._drive.advance(self.stride)

    def describe(self, _batch: Any) -> Hashable:
        return ()

    def look(self, _steps: int, _timed: int) -> Signs:
        before, now = self._compiled, self._engine.compiled()
        compiles = now if isinstance(now, Missing) or isinstance(before, Missing) else now - before
        return Signs(
            steps=0,
            wait_ns=WITHIN,
            copy_ns=WITHIN,
            compute_ns=WITHIN,
            copied_bytes=WITHIN,
            copied_arrays=WITHIN,
            reads=WITHIN,
            shapes=WITHIN,
            compiles=compiles,
            denormals=self._denormals(),
        )

    def _denormals(self) -> float:
        """Give the share among weights, or among the optimizer's sums, whichever is larger, after `fit` has ended."""
        self._drive.finish()
        weights = [each.numpy() for each in self._model.variables]
        sums = [each.numpy() for each in self._model.optimizer.variables]
        return max(_share(weights), _share(sums))


def _share(arrays: list[npt.NDArray[Any]]) -> float:
    """Denormal is whose exponent's bits are all nought, and not all of its fraction's."""
    floats = [np.ascontiguousarray(each) for each in arrays if each.dtype in {np.dtype("f4"), np.dtype("f8")}]
    found = 0
    for each in floats:
        kind, exponent, fraction = BITS[each.itemsize]
        bits = each.reshape(-1).view(kind)
        found += int(np.count_nonzero(((bits & kind(exponent)) == 0) & ((bits & kind(fraction)) != 0)))
    return found / max(1, sum(each.size for each in floats))
