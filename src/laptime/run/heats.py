"""Run one heat of a race in one child. Read the machine's noise after each window; return a Heat whatever happens."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from laptime import wire
from laptime.model.plan import HeatOrder
from laptime.model.process import Dnf
from laptime.model.sample import Examination, FreshSteps, Heat, LateStep, Window
from laptime.model.symptoms import DenormalCensus, StepSymptoms
from laptime.run.child import AnyChild
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

FIRST_WINDOWS_OF_SILENCE = 3  # the child reports before it how long the first one should take
Tell = Callable[[str], None]


class HeatRunner(ProcessRunner):
    """Runs one heat. `tell` is called with each phase, so that progress can be shown."""

    def __init__(
        self, order: HeatOrder, limits: Limits, cores: int, tell: Tell, sampler: Sampler | None = None
    ) -> None:
        super().__init__(order.lane.name, limits, sampler)
        self.order, self._tell, self._watch = order, tell, WindowWatch(cores)
        self._windows: list[Window] = []
        self._losses: list[float] = []
        self._first_losses: tuple[float, ...] = ()
        self._examination: Examination | None = None
        self._fresh: FreshSteps | None = None
        self._burst: int | None = None
        self._window_ns = 0
        self.needs: wire.TurnNeeds | None = None
        self.taken = 0
        self._signs: StepSymptoms | None = None
        self._census: DenormalCensus | None = None
        self._late_step: LateStep | None = None
        self._early_ns: tuple[int, ...] = ()
        self._reruns = 0

    def run(self, started: Started, round_number: int) -> Heat:
        """Run the heat in a started child to its end, whether it finishes or not."""
        return self.heat(self.follow(started, self.message), round_number)

    @property
    def message(self) -> wire.Run:
        return wire.Run(self.order)

    def heat(self, dnf: Dnf | None, round_number: int) -> Heat:
        """Return what is known of the heat."""
        return Heat(
            process=self.process_run(dnf),
            order=self.order.number,
            round=round_number,
            steps_per_lap=self.built.steps_per_lap if self.built else None,
            first_step_ns=self.first_step_ns,
            proofs=tuple(self.proofs),
            windows=self._judged_windows(),
            losses=tuple(self._losses),
            examination=self._examination,
            fresh=self._fresh,
            burst=self._burst,
            signs=self._signs,
            census=self._census,
            ranks=self.finished.ranks if self.finished else (),
            exchanges=self.finished.exchanges if self.finished else (),
            first_losses=self._first_losses,
            late_step=self._late_step,
            early_ns=self._early_ns,
        )

    def answer(self, child: AnyChild, message: wire.FromChild) -> None:
        match message:
            case wire.Phase(name=name):
                self._tell(name)
                if name == "timing":
                    self._watch.open(child)
            case wire.Closed(window=window, loss=loss):
                self._windows.append(self._watch.close_window(replace(window, turn=self.turn)))
                if loss is not None:
                    self._losses.append(loss)
            case wire.Ready(steps=taken):
                self.taken = taken
                if self.turn is None:
                    child.say(self._wanted_again())
            case _:
                self._keep(message)

    def _keep(self, message: wire.FromChild) -> None:
        """Store what needs no answer."""
        match message:
            case wire.Examined(examination=examination):
                self._examination = examination
            case wire.Fresh(steps=fresh):
                self._fresh = fresh
            case wire.Paced(window_ns=window_ns, burst=burst, needs=needs):
                self._window_ns, self._burst, self.needs = window_ns, burst, needs
            case wire.Counted(census=census):
                self._census = replace(census, step=self.taken + 1)
            case wire.Early(step_ns=step_ns):
                self._early_ns = step_ns
            case wire.TookLate(step=step):
                self._late_step = step
            case wire.Signed(signs=signs):
                self._signs = signs
            case wire.FirstStep(losses=losses):
                self._first_losses = losses
            case _:
                pass

    def wait_s(self) -> float:
        """Return how long to wait. Compiling and first steps may take long; later, 20 median windows are a hang."""
        if self.phase != "timing":
            return self.limits.patience_s
        if not self._windows:
            steps_ns = FIRST_STEPS_OF_SILENCE * (self.first_step_ns or 0)
            return max(self.limits.watchdog_s, steps_ns / 1e9, FIRST_WINDOWS_OF_SILENCE * self._window_ns / 1e9)
        median_ns = statistics.median(window.end_ns - window.start_ns for window in self._windows)
        return max(self.limits.watchdog_s, MEDIANS_OF_SILENCE * median_ns / 1e9)

    def reopen(self) -> None:
        self._watch.reopen()

    def end(self) -> None:
        self._watch.end()

    @property
    def works(self) -> bool:
        """Whether the training works; of a script nothing is known before steps of it were timed."""
        return super().works and (bool(self._windows) or not self.order.subject.command)

    @property
    def windows(self) -> Sequence[Window]:
        """The windows so far."""
        return self._windows

    @property
    def is_bursty(self) -> bool:
        """Whether its loader works in bursts, so that the time of a single window is chance."""
        return self._burst is not None

    @property
    def usual_step_ns(self) -> float | None:
        """How long a step takes, for later heats of the lane; None where each has to find bursts of its loader."""
        needs = self.needs
        if needs is None or needs.least > needs.stride or not self._windows:
            return None
        return statistics.median((each.end_ns - each.start_ns) / each.steps for each in self._windows)

    def flag_window(self, number: int, flag: str) -> None:
        """Flag a window that nothing else flagged."""
        window = self._windows[number]
        self._windows[number] = replace(window, flag=window.flag or flag)

    def _judged_windows(self) -> tuple[Window, ...]:
        return judge_windows(self._windows, shares_our_clock=self.shares_our_clock)

    def _wanted_again(self) -> wire.Again | wire.Enough:
        """Ask for another window for each disturbed one, up to a limit. The record keeps the disturbed ones."""
        quiet = sum(window.flag is None for window in self._judged_windows())
        missing = len(self._windows) - self._reruns - quiet
        wanted = min(missing, self.order.pace.reruns_max - self._reruns)
        if wanted <= 0:
            return wire.Enough()
        self._reruns += wanted
        return wire.Again(wanted)
