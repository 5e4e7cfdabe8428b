"""Run one heat of inference in one child, and return an InferHeat whatever happens."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace

from laptime import wire
from laptime.model.inference import AnswerRun, BatchRun, CallTurn, InferHeat, InferOrder
from laptime.model.process import Dnf
from laptime.model.sample import Noise, Window
from laptime.model.timeline import Mark
from laptime.run.child import AnyChild, Child
from laptime.run.runner import (
    FIRST_STEPS_OF_SILENCE,
    MEDIANS_OF_SILENCE,
    Limits,
    ProcessRunner,
    Started,
    WindowWatch,
    judge_windows,
)
from laptime.run.sampler import Sampler

BATCH_PHASE = "batch "
SINGLE_PHASE = "single calls"
WINDOWED = (SINGLE_PHASE, BATCH_PHASE)


class InferenceRunner(ProcessRunner):
    """Runs one heat of inference. `tell` is called with each phase, so that progress can be shown."""

    def __init__(
        self, order: InferOrder, limits: Limits, cores: int, tell: Callable[[str], None], sampler: Sampler | None = None
    ) -> None:
        super().__init__(order.heat.lane.name, limits, sampler)
        self.order, self._tell, self._watch = order, tell, WindowWatch(cores)
        self._answers: list[AnswerRun] = []
        self._first_call: wire.FirstCall | None = None
        self._calls_ns: tuple[int, ...] = ()
        self._calls_noise: Noise | None = None
        self._calls_flag: str | None = None
        self._call_turns: tuple[CallTurn, ...] = ()
        self._windows: list[Window] = []  # of the current batch size
        self._batches: list[BatchRun] = []

    def run(self, round_number: int) -> InferHeat:
        """Run the heat to its end. The child is not started in advance, because its start-up counts as well."""
        dnf = self.follow(Started(Child(self.order.heat.lane.environment)), self.message)
        return self.heat(dnf, round_number)

    @property
    def message(self) -> wire.Infer:
        return wire.Infer(self.order)

    def heat(self, dnf: Dnf | None, round_number: int) -> InferHeat:
        """Return what is known of the heat."""
        batches, dnf = self._without_memory(dnf)
        return InferHeat(
            process=self.process_run(dnf),
            order=self.order.heat.number,
            round=round_number,
            items_a_call=self._first_call.items if self._first_call else None,
            first_call_ns=self._first_call.ns if self._first_call else None,
            calls_ns=self._calls_ns,
            calls_noise=self._calls_noise,
            calls_flag=self._calls_flag,
            call_turns=self._call_turns,
            batches=batches,
            proofs=tuple(self._answers),
            marks=() if self.timeline is None else tuple(Mark(*each) for each in self.phases),
        )

    def note(self, message: wire.FromChild) -> None:
        super().note(message)
        match message:
            case wire.Answered(run=run):
                self._answers.append(run)
            case wire.FirstCall():
                self._first_call = message
            case wire.Calls(ns=ns):
                self._calls_ns += ns
            case wire.BatchDone(batch=batch, reason=reason):
                windows = judge_windows(self._windows, shares_our_clock=self.shares_our_clock)
                self._batches.append(BatchRun(batch, windows, reason))
                self._windows = []
            case _:
                pass

    def answer(self, child: AnyChild, message: wire.FromChild) -> None:
        match message:
            case wire.Phase(name=name):
                self._tell(name)
                if name.startswith(WINDOWED):
                    self._watch.open(child)
            case wire.Calls(ns=ns):
                self._close_calls(ns)
            case wire.Closed(window=window):
                self._windows.append(self._watch.close_window(replace(window, turn=self.turn)))
            case _:
                pass

    @property
    def works(self) -> bool:
        """Whether its answers were proven."""
        return bool(self._answers)

    def wait_s(self) -> float:
        """Return how long to wait: compiling may take long, single calls come in one message, windows one by one."""
        if self.phase == SINGLE_PHASE and self._first_call is not None:
            first_s = FIRST_STEPS_OF_SILENCE * self._first_call.ns / 1e9
            return max(self.limits.watchdog_s, first_s) + 2 * self.order.pace.measure_s
        if self.phase.startswith(BATCH_PHASE) and self._windows:
            median_ns = statistics.median(window.end_ns - window.start_ns for window in self._windows)
            return max(self.limits.watchdog_s, MEDIANS_OF_SILENCE * median_ns / 1e9)
        return self.limits.patience_s

    def reopen(self) -> None:
        self._watch.reopen()

    def end(self) -> None:
        self._watch.end()

    @property
    def part(self) -> int:
        """The batch size that is timed; 0 before the first one, so in single calls."""
        return int(self.phase.removeprefix(BATCH_PHASE)) if self.phase.startswith(BATCH_PHASE) else 0

    def _close_calls(self, ns: tuple[int, ...]) -> None:
        """Read the instruments after single calls: after all of them, or after those of one turn."""
        self._calls_noise, flag = self._watch.close_span(sum(ns))
        self._calls_flag = self._calls_flag or flag
        if self.turn is not None:
            self._call_turns += (CallTurn(self.turn, len(ns), flag),)

    def _without_memory(self, dnf: Dnf | None) -> tuple[tuple[BatchRun, ...], Dnf | None]:
        """If memory ran out at a batch size, give up this size and larger ones, and keep the rest of the heat."""
        batches = tuple(self._batches)
        if dnf is None or not _is_memory(dnf) or not self.phase.startswith(BATCH_PHASE):
            return batches, dnf
        killed = self.part
        sizes = self.order.pace.batches
        if killed == min(sizes):
            return batches, dnf
        after = tuple(BatchRun(batch, (), f"not tried after batch {killed}") for batch in sizes if batch > killed)
        return (*batches, BatchRun(killed, (), dnf.reason), *after), None


def _is_memory(dnf: Dnf) -> bool:
    return dnf.signal == "SIGKILL" or (dnf.signal is not None and dnf.reason.startswith("out of memory"))
