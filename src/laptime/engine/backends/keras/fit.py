"""Keras's own `fit`, in a separate thread: it runs as many steps as requested, and waits in between.

It is controlled through the list of callbacks that `fit` takes. A callback of our own would change how it runs: as soon
as one callback looks at batches, Keras waits for each batch's results before it starts the next.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from time import perf_counter_ns  # taken now: a user's code comes later, and may replace it
from typing import Any

import keras
from keras.src.utils import module_utils

from laptime.engine.backends.keras.engines import KerasThread
from laptime.model.errors import LaneError

ENDLESS = 1_000_000


class FitRun:
    """One call of `fit`. It runs only while a caller waits in `advance`."""

    def __init__(
        self,
        model: Any,
        fit: Callable[[Any], object],
        one_thread: KerasThread,
        *,
        steps_an_epoch: int,
        verbose: str | int,
        trouble: Callable[[], Exception | None] = lambda: None,
    ) -> None:
        self._model = model
        self._fit = fit
        self._one_thread = one_thread
        self._trouble = trouble
        self._list = FitCallbacks(self, model, steps_an_epoch, verbose)
        self._go = threading.Semaphore(0)
        self._held = threading.Semaphore(0)
        self._running: Future[None] | None = None
        self._goal = self._taken = self._taken_before = 0
        self._is_ending = self._is_over = False
        self._error: BaseException | None = None
        self._marks: list[int] | None = None
        self._errand: Callable[[], object] | None = None
        self.logs: Any = {}
        self.epochs: list[tuple[int, Any]] = []

    def advance(self, steps: int) -> None:
        """Let `fit` run this many more steps, and wait until they are started."""
        self._goal += steps
        if self._running is None:
            self._running = self._one_thread.begin(self._run, self.finish)
        else:
            self._go.release()
        self._held.acquire()
        if self._error is not None:
            raise self._trouble() or self._error
        if self._is_over:
            raise self._trouble() or LaneError(f"Keras's fit ended on its own after {self._taken} steps")

    def advance_marked(self, steps: int) -> list[int]:
        """Do the same, and return the times before and after each call of the framework."""
        self._marks = [perf_counter_ns()]
        self.advance(steps)
        marks = self._marks
        self._marks = None
        return marks

    def within(self, errand: Callable[[], object]) -> None:
        """Run something in `fit`'s own thread while `fit` waits between two steps, and wait until it is done.

        PyTorch's profiler watches the thread that starts it.
        """
        if self._running is None or self._is_over:
            errand()
            return
        answer: Future[object] = Future()
        self._errand = lambda: _settle(answer, errand)
        self._go.release()
        self._held.acquire()
        answer.result()

    def finish(self) -> None:
        """Let `fit` end normally after its current step."""
        if self._running is None or self._is_over:
            return
        self._is_ending = self._model.stop_training = True
        self._go.release()
        self._running.result()
        if self._error is not None:
            raise self._trouble() or self._error

    def steps_of_epoch(self) -> int:
        return self._taken - self._taken_before

    def batch_done(self, steps: int, logs: Any) -> None:
        """Note, in `fit`'s own thread, that a call was started; block here until more steps are wanted."""
        self._taken += steps
        self.logs = logs
        if self._marks is not None:
            self._marks.append(perf_counter_ns())
        while self._taken >= self._goal and not self._is_ending:
            self._held.release()
            self._go.acquire()
            errand = self._errand
            self._errand = None
            if errand is not None:
                errand()

    def epoch_done(self, logs: Any) -> None:
        self.epochs.append((self.steps_of_epoch(), logs))
        self._taken_before = self._taken
        self.logs = {}

    def _run(self) -> None:
        try:
            self._fit(self._list)
        except BaseException as error:  # noqa: BLE001  `advance` raises it
            self._error = error
        self._is_over = True
        self._held.release()


def _settle(answer: Future[object], errand: Callable[[], object]) -> None:
    """Pass an error to the caller: it must not end `fit`."""
    try:
        answer.set_result(errand())
    except BaseException as error:  # noqa: BLE001  the waiting thread raises it
        answer.set_exception(error)


class FitCallbacks(keras.callbacks.CallbackList):
    """The list that `fit` would make itself, which also reports each batch to the fit run."""

    def __init__(self, fit_run: FitRun, model: Any, steps: int, verbose: str | int) -> None:
        super().__init__(
            None, add_history=True, add_progbar=verbose != 0, verbose=verbose, epochs=ENDLESS, steps=steps, model=model
        )
        self._fit_run = fit_run
        self._first = 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._first = batch
        super().on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        super().on_train_batch_end(batch, logs)
        self._fit_run.batch_done(batch - self._first + 1, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_end(epoch, logs)
        self._fit_run.epoch_done(logs)


# How all that a Keras training draws from is seeded, without the seconds that an unused TensorFlow takes to import.


def seed_all(seed: int) -> None:
    """Seed Python, NumPy and the engine, as `keras.utils.set_random_seed` does, and TensorFlow if it is imported.

    Keras's function imports TensorFlow on every engine. A user's code may import it later, so only a workload of the
    catalogue is built after this.
    """
    if "tensorflow" in sys.modules:
        keras.utils.set_random_seed(seed)
        return
    module_utils.tensorflow._available = False  # noqa: SLF001  Keras has no other way to leave it out
    try:
        keras.utils.set_random_seed(seed)
    finally:
        module_utils.tensorflow._available = None  # noqa: SLF001  as it was: nobody has tried to import it
