"""The one thread in which a process uses Keras.

It does all computing: building, proof, `fit` and test items. `fit` cannot run in the heat's own thread, which
times it. With PyTorch, each computing thread gets its own OpenMP helpers. With two sets of helpers on one processor,
both are slow to wake: when the proof ran in another thread than `fit`, a step took 30 % longer than in a script. Keras,
too, keeps its settings per thread.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


class KerasThread:
    """Runs one task after another in one thread.

    It is a daemon thread, so a call of `fit` that was not ended does not keep the process alive, as it would in a pool
    of the standard library.
    """

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        Thread(target=self._run, name="keras", daemon=True).start()
        self._end_the_last: Callable[[], None] | None = None

    def __call__(self, work: Callable[[], T]) -> T:
        """Run a task and wait for it; end a call of `fit` first if one holds the thread."""
        self._free()
        return self._ask(work).result()

    def begin(self, work: Callable[[], None], end: Callable[[], None]) -> Future[None]:
        """Start a task that will hold the thread until `end` is called."""
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
            except BaseException as error:  # noqa: BLE001  its caller raises it
                told.set_exception(error)

    def _free(self) -> None:
        end, self._end_the_last = self._end_the_last, None
        if end is not None:
            end()
