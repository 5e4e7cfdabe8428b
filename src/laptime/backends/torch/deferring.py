"""A step whose reads do not wait: each is told what the same line read in an earlier step. What reads cost shows so.

A training that is told stale values is no training to keep; it is there to be timed.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from laptime.backends.torch.callers import caller, is_users

STALE = "reads=deferred: item(), tolist(), float(), int() and bool() of a tensor give its code values of earlier steps"
DEFERRED = ("item", "tolist", "__float__", "__int__", "__bool__")
Place = tuple[Any, ...]


class Reading:
    """What one line of code reads in each step: the newest value that has arrived, while another is on its way."""

    def __init__(self, first: Tensor, take: Callable[[Tensor], Any], event: Any) -> None:
        self._take, self._event = take, event
        self._arrived = first.detach().to("cpu", copy=True)  # the first of all is waited for
        self._coming = torch.empty_like(self._arrived, pin_memory=first.device.type == "cuda")
        self._is_coming = False

    def fits(self, tensor: Tensor) -> bool:
        return tensor.shape == self._arrived.shape and tensor.dtype == self._arrived.dtype

    def value(self) -> Any:
        """Give the newest that is here by now."""
        if self._is_coming and (self._event is None or self._event.query()):
            self._arrived, self._coming = self._coming, self._arrived
            self._is_coming = False
        return self._take(self._arrived)

    def send(self, tensor: Tensor) -> None:
        """Start bringing the next value over, unless one is still on its way."""
        if not self._is_coming:
            self._coming.copy_(tensor.detach(), non_blocking=True)
            if self._event is not None:
                self._event.record()
            self._is_coming = True


class Deferred:
    """Within a step that it is entered for, reads of the user's own code are deferred; all others are as ever.

    A read is known by its line, its place in that line, and how many it is of these in the step: so a loop that reads
    until it is content ends as it did in the step before.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._events: Any = {"cuda": torch.cuda, "xpu": getattr(torch, "xpu", None), "mps": torch.mps}.get(device.type)
        self._real: dict[str, Any] = {}
        self._readings: dict[Place, Reading] = {}
        self._times: Counter[Place] = Counter()
        self._is_open = False

    def begin(self) -> None:
        """Stand before the methods of all tensors."""
        for name in DEFERRED:
            self._real[name] = vars(Tensor).get(name)
            setattr(Tensor, name, self._deferring(name, getattr(Tensor, name)))

    def end(self) -> None:
        for name, real in self._real.items():
            if real is None:
                delattr(Tensor, name)
            else:
                setattr(Tensor, name, real)
        self._real.clear()

    def __enter__(self) -> None:
        self._times.clear()
        self._is_open = True

    def __exit__(self, *_error: object) -> None:
        self._is_open = False

    def _deferring(self, name: str, real: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
        @functools.wraps(real)
        def deferring(tensor: Tensor) -> Any:
            if not self._is_open or tensor.device.type != self._device.type:
                return real(tensor)
            frame = caller()
            if not is_users(frame):
                return real(tensor)
            line = (name, frame.f_code, frame.f_lasti)
            self._times[line] += 1
            return self._read((*line, self._times[line]), tensor, real)

        return deferring

    def _read(self, place: Place, tensor: Tensor, real: Callable[[Tensor], Any]) -> Any:
        reading = self._readings.get(place)
        if reading is None or not reading.fits(tensor):
            reading = self._readings[place] = Reading(tensor, real, self._make_event())
        told = reading.value()
        reading.send(tensor)
        return told

    def _make_event(self) -> Any:
        return self._events.Event() if self._events is not None else None
