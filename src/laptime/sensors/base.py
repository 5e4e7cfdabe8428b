"""The interface of every sensor, so that one sampler reads them all; and questions to drivers that may hang."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, Protocol, TypeVar

from laptime.model.missing import Missing
from laptime.model.timeline import Opened

T = TypeVar("T")
PATIENCE_S = 15.0  # NVML wakes sleeping cards, which takes a second or two each


class Sensor(Protocol):
    """An instrument. `probe` comes first: it returns the reason why there is nothing to read, or None."""

    name: str
    """Its name in `--sensors`."""

    period_s: float
    """The shortest useful or affordable time between two readings; 0 where any rate is."""

    def probe(self) -> Missing | None:
        """Return why there is nothing to read here, or None. It is cheap, changes nothing and never raises."""

    def open(self, pid: int) -> Opened:
        """Get ready to read the machine and the process tree that begins at `pid`; return the channels."""

    def read(self) -> tuple[float | None, ...]:
        """Return one figure per channel, None where there is none this time. Raises SensorError when all are lost."""

    def close(self) -> None:
        """Free what is held; called once after `open`, whatever happened in between."""


class PendingAnswer(Generic[T]):
    """A question to a driver, asked in a thread: drivers may hang, and must not hold up laptime."""

    def __init__(self, what: str, ask: Callable[[], T]) -> None:
        self._what, self._answers = what, SimpleQueue[T | Missing]()
        Thread(target=self._run, args=(ask,), name=f"asking {what}", daemon=True).start()

    def answer(self, patience_s: float) -> T | Missing:
        """Return the answer, or a reason if there is none in time."""
        try:
            return self._answers.get(timeout=patience_s)
        except Empty:
            return Missing(f"{self._what} gave no answer for {patience_s:g} s: it hangs")

    def _run(self, ask: Callable[[], T]) -> None:
        try:
            self._answers.put(ask())
        except Exception as error:  # noqa: BLE001  looking must never fail, whatever a driver raises
            self._answers.put(Missing(f"{type(error).__name__}: {error}"))
