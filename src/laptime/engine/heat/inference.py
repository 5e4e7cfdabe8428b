"""The one loop for inference: the first call alone, the proof, single calls between fences, windows at each batch size.

The proof comes after the first call, not before the timing as in a race: a program started for a single answer also
waits for a process that has computed nothing yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from laptime.engine import wire
from laptime.engine.backends.base import BATCH_SIZE_ERRORS, Backend, Predictor
from laptime.engine.heat.loop import (
    LONG_STEP,
    PATIENCE_FACTOR,
    WINDOWS_LEAST,
    ParentLine,
    precisions_to_prove,
    warm_up_s,
)
from laptime.engine.heat.work import Clock
from laptime.model.errors import LaptimeError
from laptime.model.protocol import PROOF_ITEMS, InferOrder, InferPace
from laptime.model.quantities import Missing
from laptime.model.sample import Window
from laptime.model.symptoms import is_memory_error, refusal_words

CALLS_LEAST = 3
WARM_MOST_S = 0.1  # not timed at the beginning of a turn; between single calls a card is idle in any case


def run_inference(backend: Backend, order: InferOrder, line: ParentLine) -> int | Missing:
    """Build, make the first call, prove, make the other calls; return the most device memory that was held."""
    line.say(wire.Phase("build", backend.clock()))
    predictor = backend.predict(order.heat)
    predictor.fence()
    line.say(wire.Phase("items", backend.clock()))
    predictor.read_items(max(order.pace.batches))
    line.say(wire.Built(predictor.parameters, 1, None, backend.versions(), predictor.notes))
    timed = TimedAnswers(backend.clock, predictor, order, line)
    timed.call_first()
    timed.prove()
    timed.call_singly()
    for batch in predictor.sizes(order.pace.batches):
        timed.measure(batch)
    line.say(wire.Phase("end", backend.clock()))
    if predictor.notes:
        line.say(wire.Noted(predictor.notes))
    return predictor.device_memory_bytes()


@dataclass(slots=True)
class TimedAnswers:
    """An inference heat in progress; `item_ns` is what one item took in the latest calls."""

    clock: Clock
    predictor: Predictor
    order: InferOrder
    line: ParentLine
    item_ns: float = 0.0

    @property
    def pace(self) -> InferPace:
        return self.order.pace

    @property
    def smallest(self) -> int:
        return self.predictor.sizes(self.pace.batches)[0]

    def call_first(self) -> None:
        """Time the first call. A user's own network may refuse every batch size but its own."""
        try:
            taken_ns = self._first(self.smallest)
        except BATCH_SIZE_ERRORS as error:
            if is_memory_error(error) or not self.predictor.keep_whole(
                str(error).splitlines()[0] if str(error) else "-"
            ):
                raise
            taken_ns = self._first(self.smallest)
        self.line.say(wire.FirstCall(taken_ns, self.smallest))

    def _first(self, batch: int) -> int:
        self.predictor.take(batch)
        self.line.say(wire.Phase("first call", self.clock()))
        return self.time_calls(1)

    def prove(self) -> None:
        self.line.say(wire.Phase("proof", self.clock()))
        (items,) = self.predictor.sizes((PROOF_ITEMS,))
        for precision in precisions_to_prove(self.order.heat.lane.settings):
            self.line.say(wire.Answered(self.predictor.prove(precision, items)))

    def call_singly(self) -> None:
        """Fence before and after each call: each is one question with its answer, and no two overlap."""
        self.line.say(wire.Phase("single calls", self.clock()))
        self.predictor.take(self.smallest)
        self.time_calls(1)  # not counted: the proof computed another batch in between
        calls = 0
        spent_ns = 0
        while not _is_enough_calls(calls, spent_ns / 1e9, self.pace):
            self._await_turn(self.smallest)
            # Make calls until there are enough, or until the turn is over.
            calls_ns: list[int] = []
            turn_ends_ns = spent_ns + (self.pace.window_s * 1e9 if self.pace.takes_turns else math.inf)
            while spent_ns < turn_ends_ns and not _is_enough_calls(calls, spent_ns / 1e9, self.pace):
                calls_ns.append(self.time_calls(1))
                calls += 1
                spent_ns += calls_ns[-1]
            self.line.say(wire.Calls(tuple(calls_ns)))
            self.item_ns = spent_ns / calls / self.smallest

    def measure(self, batch: int) -> None:
        """Run the windows of one batch size. Running out of memory is a result, and the next size is tried."""
        self.line.say(wire.Phase(f"batch {batch}", self.clock()))
        reason: str | None = None
        # A size whose calls would take too long is left out; the smallest one is always measured.
        expected_s = self.item_ns * batch / 1e9
        is_tried = batch == self.smallest or 2 * expected_s <= self.pace.patience_s
        if is_tried:
            try:
                self._run_windows(batch)
            except Exception as error:
                if isinstance(error, LaptimeError) or not is_memory_error(error):
                    raise
                reason = f"out of memory: {refusal_words(error)}"
        else:
            seconds = f"{expected_s:.2g}" if expected_s < 10 else f"{expected_s:.0f}"
            reason = f"left out: a call would take about {seconds} s; a longer --budget makes room for it"
        self.predictor.let_go()
        self.line.say(wire.BatchDone(batch, reason, is_tried=is_tried))

    def _run_windows(self, batch: int) -> None:
        pace = self.pace
        self.predictor.take(batch)
        self.time_calls(1)  # memory is allocated here, and a compiler or a graph sees this size for the first time
        calls = max(1, round(pace.window_s * 1e9 / max(self.time_calls(1), 1)))
        spent_ns = 0
        windows = 0
        while not _is_enough_windows(windows, spent_ns / 1e9, pace):
            self._await_turn(batch)
            start_ns, end_ns = self._calls_between_fences(calls)
            self.line.say(wire.Closed(Window(start_ns, end_ns, calls), None))
            taken_ns = end_ns - start_ns
            self.item_ns = taken_ns / calls / batch
            spent_ns += taken_ns
            windows += 1
            if windows == 1:  # the estimate came from one call; the first window has many
                calls = max(1, round(pace.window_s * 1e9 * calls / max(taken_ns, 1)))

    def _await_turn(self, batch: int) -> None:
        """Wait until the other heats are paused, where heats take turns; then make calls that are not timed."""
        if not self.pace.takes_turns:
            return
        self.line.say(wire.Ready(self.predictor.device_memory_bytes()))
        self.line.listen()
        warm_s = min(warm_up_s(self.order.heat.lane.device), WARM_MOST_S)
        if self.item_ns * batch > LONG_STEP * warm_s * 1e9:
            return
        began_ns = self.clock()
        while self.time_calls(1) and self.clock() - began_ns < warm_s * 1e9:
            pass

    def time_calls(self, calls: int) -> int:
        start_ns, end_ns = self._calls_between_fences(calls)
        return end_ns - start_ns

    def _calls_between_fences(self, calls: int) -> tuple[int, int]:
        predictor = self.predictor
        clock = self.clock
        predictor.fence()
        start_ns = clock()
        for _ in range(calls):
            predictor.call()
        predictor.fence()
        return start_ns, clock()


def _is_enough_calls(calls: int, spent_s: float, pace: InferPace) -> bool:
    if calls >= pace.calls_max:
        return True
    if spent_s >= PATIENCE_FACTOR * pace.measure_s:
        return calls >= CALLS_LEAST
    return spent_s >= pace.measure_s and calls >= pace.calls_min


def _is_enough_windows(windows: int, spent_s: float, pace: InferPace) -> bool:
    if spent_s >= pace.patience_s:
        return windows >= 1
    if spent_s >= PATIENCE_FACTOR * pace.measure_s:
        return windows >= WINDOWS_LEAST
    return spent_s >= pace.measure_s and windows >= pace.windows_min
