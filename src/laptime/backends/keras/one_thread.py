"""The one thread in which Keras computes: building, proof, `fit` and looking at test items.

`fit` cannot run in the heat's own thread, which times it. On PyTorch each thread that computes gets helpers of its own
from OpenMP, and with two sets of them on one processor both are slow to wake: where the proof was taken in another
thread than `fit`, a step took 30 % longer than in a script. Keras, too, keeps its settings a thread apart.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class OneThread:
    """Runs one thing after another, in one thread."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "keras")
        self._end_the_last: Callable[[], None] | None = None

    def __call__(self, work: Callable[[], T]) -> T:
        """Run something, and wait for it; a call of `fit` that still holds the thread is ended before."""
        self._free()
        return self._pool.submit(work).result()

    def begin(self, work: Callable[[], None], end: Callable[[], None]) -> Future[None]:
        """Start what will hold the thread until `end` is called."""
        self._free()
        self._end_the_last = end
        return self._pool.submit(work)

    def _free(self) -> None:
        end, self._end_the_last = self._end_the_last, None
        if end is not None:
            end()
