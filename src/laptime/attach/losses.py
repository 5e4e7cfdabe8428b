"""Losses of PyTorch: each is read when the device is done with it, so that no step waits."""

from __future__ import annotations

import sys
from struct import pack, unpack

from . import kinds
from .agent import Agent

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any


class Losses:
    """Losses that wait to be read. On a card, each is copied on a stream of its own once its step is done."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._kept: list = []
        self._has_failed = False
        self._stream: Any = None  # of the card, so that reading a loss waits for no step

    def keep(self, tensors: Any, at_ns: int) -> None:
        """Keep a scalar loss. Reading one takes as long as all hooks together, so few are kept."""
        if self._has_failed:
            return
        try:
            if isinstance(tensors, (list, tuple)):
                tensors = tensors[0] if len(tensors) == 1 else None
            if tensors is None or tensors.numel() != 1 or self._agent.is_off:
                return
            device = tensors.device.type
            mark = self._mark() if device == "cuda" else None
            if device == "cpu" or mark is not None:
                self._kept.append((tensors.detach(), mark, at_ns))
        except Exception as error:
            self._fail(error)

    def read(self) -> None:
        """Note the losses whose device is done with them."""
        try:
            waiting = []
            for loss, mark, at_ns in self._kept:
                if at_ns < self._agent.began_ns:
                    continue
                if mark is not None and not mark.query():
                    waiting.append((loss, mark, at_ns))
                    continue
                bits = unpack("<q", pack("<d", self._value_of(loss, mark)))[0]
                self._agent.keep((kinds.LOSS, at_ns, at_ns, bits))
            self._kept = waiting
        except Exception as error:
            self._fail(error)

    def _mark(self) -> Any:
        """Return an event after which the loss is there; None while a graph is captured, where nothing can be read."""
        cuda = sys.modules["torch"].cuda
        if cuda.is_current_stream_capturing():
            return None
        mark = cuda.Event()
        mark.record()
        return mark

    def _value_of(self, loss: Any, mark: Any) -> float:
        if mark is None:
            return loss.item()
        cuda = sys.modules["torch"].cuda
        if self._stream is None:
            self._stream = cuda.Stream(loss.device)
        with cuda.stream(self._stream):
            return loss.item()

    def _fail(self, error: Exception) -> None:
        self._kept, self._has_failed = [], True
        self._agent.failed("loss", error)
