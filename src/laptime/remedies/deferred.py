"""A running mean of a loss without waiting for each step: it is summed on the device and read now and then.

`total += loss.item()` makes the host wait for the device in each step, and then the device for the host.
"""

from __future__ import annotations

import numbers
import sys
from dataclasses import dataclass
from typing import Any

from laptime.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class MeterReading:
    """What a meter reads: the mean since its last reset (weighted by items if they were given) and the last value.

    `steps` is how many values the mean is made of.
    """

    steps: int
    mean: float
    last: float


class Deferred:
    """A running mean of losses or metrics that asks the device for a number only when it is read.

        meter = laptime.Deferred(every=50)
        for inputs, targets in loader:
            ...
            if reading := meter.add(loss, items=len(inputs)):
                print(reading.mean, reading.last)
        print(meter.read().mean)
        meter.reset()

    Values are numbers, or arrays of one number on any device: PyTorch's, JAX's, TensorFlow's, NumPy's. Gradients are
    dropped. Each step costs two small operations on the device. Between two readings the sum is kept on the device;
    the sum of all readings is a float64 on the host.
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

    def add(self, value: Any, items: float = 1) -> MeterReading | None:
        """Add a step's value. Return a reading at every `every`th step, and None at all others.

        `items` is how many items the value is the mean of; give it if batches differ in size.
        """
        held = _hold(value)
        self._waiting = self._waiting + (held if items == 1 else held * items)
        self._last = held
        self._steps += 1
        self._items += items
        return self.read() if self._every and self._steps % self._every == 0 else None

    def read(self) -> MeterReading:
        """Wait for the device, and return the reading. Raise UsageError if nothing was added yet."""
        if not self._steps:
            raise UsageError("a meter was read before anything was added to it", "add a value first")
        self._read += float(self._waiting)
        self._waiting = 0
        return MeterReading(self._steps, self._read / self._items if self._items else float("nan"), float(self._last))

    def reset(self) -> None:
        """Start again from 0, as at the start of a lap."""
        self._waiting = 0
        self._last = 0.0
        self._read = self._items = 0.0
        self._steps = 0


def _hold(value: Any) -> Any:
    """Return a copy that stays on its device: the next step may overwrite the original."""
    if isinstance(value, numbers.Real):
        return float(value)
    shape = getattr(value, "shape", None)
    if shape is None or any(side != 1 for side in shape):
        what = f"{type(value).__name__} of shape {tuple(shape)}" if shape is not None else type(value).__name__
        raise UsageError(f"a meter was given {what}, expected one number", "give its mean: meter.add(loss.mean())")
    value = value.detach() if hasattr(value, "detach") else value
    value = value[(0,) * len(shape)] if len(shape) else value
    kind = str(getattr(value, "dtype", ""))
    if "16" in kind or "bool" in kind:  # a half-precision sum loses digits, and booleans do not add up
        if hasattr(value, "float"):
            value = value.float()
        elif hasattr(value, "astype"):
            value = value.astype("float32")
        else:
            cast = getattr(sys.modules.get("tensorflow"), "cast", None)
            value = value if cast is None else cast(value, "float32")
    return value + 0
