"""A question to a driver, and how long its answer is waited for: one that never comes must not hold up laptime."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

from laptime.model.missing import Missing

Told = TypeVar("Told")


class Asked(Generic[Told]):
    """A question under way, in a thread that dies with laptime if it hangs."""

    def __init__(self, what: str, ask: Callable[[], Told]) -> None:
        self._what, self._answers = what, SimpleQueue[Told | Missing]()
        Thread(target=self._run, args=(ask,), name=f"asking {what}", daemon=True).start()

    def answer(self, patience_s: float) -> Told | Missing:
        """Give the answer, or that there is none by then."""
        try:
            return self._answers.get(timeout=patience_s)
        except Empty:
            return Missing(f"{self._what} gave no answer for {patience_s:g} s: it hangs")

    def _run(self, ask: Callable[[], Told]) -> None:
        try:
            self._answers.put(ask())
        except Exception as error:  # noqa: BLE001  who only looks must never fail for what a driver raises
            self._answers.put(Missing(f"{type(error).__name__}: {error}"))
