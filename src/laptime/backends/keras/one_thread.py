"""The one thread in which Keras computes: building, proof, `fit` and looking at test items.

`fit` cannot run in the heat's own thread, which times it. On PyTorch each thread that computes gets helpers of its own
from OpenMP, and with two sets of them on one processor both are slow to wake: where the proof was taken in another
thread than `fit`, a step took 30 % longer than in a script. Keras, too, keeps its settings a thread apart.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


class OneThread:
    """Runs one thing after another, in one thread. A call of `fit` that nobody ended does not keep the process alive,
    as it would in one of the standard library's pools.
    """

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        Thread(target=self._run, name="keras", daemon=True).start()
        self._end_the_last: Callable[[], None] | None = None

    def __call__(self, work: Callable[[], T]) -> T:
        """Run something, and wait for it; a call of `fit` that still holds the thread is ended before."""
        self._free()
        return self._ask(work).result()

    def begin(self, work: Callable[[], None], end: Callable[[], None]) -> Future[None]:
        """Start what will hold the thread until `end` is called."""
        self._free()
        self._end_the_last = end
        return self._ask(work)

    def _ask(self, work: Callable[[], T]) -> Future[T]:
        told: Future[T] = Future()
        self._asked.put((work, told))
        return told

    def _run(self) -> None:
        while True:
            work, told = self._asked.get()
            try:
                told.set_result(work())
            except BaseException as error:  # noqa: BLE001  whoever waits for it is told
                told.set_exception(error)

    def _free(self) -> None:
        end, self._end_the_last = self._end_the_last, None
        if end is not None:
            end()
