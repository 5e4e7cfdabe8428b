"""A loss that is read without waiting for it: added up where it was computed, and brought over now and then.

`total += loss.item()` makes the host wait for the device in each step, and the device then for the host.
"""

from __future__ import annotations

import numbers
import sys
from dataclasses import dataclass
from typing import Any

from laptime.errors import UsageError


@dataclass(frozen=True, slots=True)
class Reading:
    """What a meter says: the mean since it was last reset, weighed by items where they were told, and the last value.

    `steps` is how many values it stands on.
    """

    steps: int
    mean: float
    last: float


class Deferred:
    """A running mean of losses or metrics that asks the device for a number only when it is read.

        meter = laptime.Deferred(every=50)
        for inputs, targets in loader:
            ...
            if told := meter.add(loss, items=len(inputs)):
                print(told.mean, told.last)
        print(meter.read().mean)
        meter.reset()

    Values are numbers, or arrays of one number on any device: PyTorch's, JAX's, TensorFlow's, NumPy's. Gradients are
    left behind. What is added are two small operations on the device; sums are float64 on the host from reading to
    reading.
    """

    def __init__(self, every: int | None = None) -> None:
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise UsageError(f"every={every!r}: expected how many steps lie between two readings, 1 or more",
                             "leave it out to read only when you ask")  # fmt: skip
        self._every = every
        self._waiting: Any = 0
        self._last: Any = 0.0
        self._read = self._items = 0.0
        self._steps = 0

    def add(self, value: Any, items: float = 1) -> Reading | None:
        """Take a step's value; give a reading at every `every`th step, and None at all others.

        `items` is how many items the value is the mean of, where batches differ in size.
        """
        held = _hold(value)
        self._waiting = self._waiting + (held if items == 1 else held * items)
        self._last = held
        self._steps += 1
        self._items += items
        return self.read() if self._every and self._steps % self._every == 0 else None

    def read(self) -> Reading:
        """Wait for the device, and give what there is; before the first step that is nothing to be had."""
        if not self._steps:
            raise UsageError("a meter was read before anything was added to it", "add a value first")
        self._read += float(self._waiting)
        self._waiting = 0
        return Reading(self._steps, self._read / self._items if self._items else float("nan"), float(self._last))

    def reset(self) -> None:
        """Begin anew, as at the start of a lap."""
        self._waiting, self._last = 0, 0.0
        self._read = self._items = 0.0
        self._steps = 0


def _hold(value: Any) -> Any:
    """Give a copy that stays on its device: what was handed over may be overwritten by the next step."""
    if isinstance(value, numbers.Real):
        return float(value)
    shape = getattr(value, "shape", None)
    if shape is None or any(side != 1 for side in shape):
        what = f"{type(value).__name__} of shape {tuple(shape)}" if shape is not None else type(value).__name__
        raise UsageError(f"a meter was given {what}, expected one number", "give its mean: meter.add(loss.mean())")
    value = value.detach() if hasattr(value, "detach") else value
    return _widened(value[(0,) * len(shape)] if len(shape) else value) + 0


def _widened(value: Any) -> Any:
    """Half precision would lose what is added to a sum, and truth values have none."""
    kind = str(getattr(value, "dtype", ""))
    if "16" not in kind and "bool" not in kind:
        return value
    if hasattr(value, "float"):
        return value.float()
    if hasattr(value, "astype"):
        return value.astype("float32")
    cast = getattr(sys.modules.get("tensorflow"), "cast", None)
    return value if cast is None else cast(value, "float32")
