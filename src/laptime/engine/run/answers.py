"""Run one heat of inference in one child, and return an InferHeat whatever happens."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from laptime.engine import wire
from laptime.engine.run.child import AnyChild, Child
from laptime.engine.run.instruments import Sampler
from laptime.engine.run.runner import (
    FIRST_STEPS_OF_SILENCE,
    MEDIANS_OF_SILENCE,
    Limits,
    ProcessRunner,
    Started,
    WindowWatch,
    judge_windows,
)
from laptime.model.process import Dnf, Mark, ProcessStatus, Watched
from laptime.model.protocol import (
    AnswerRun,
    BatchRun,
    CallTurn,
    Evaluation,
    FullOrder,
    FullRun,
    InferHeat,
    InferOrder,
    LapResult,
    Moment,
    Predictions,
)
from laptime.model.quantities import Missing
from laptime.model.record import find_differing
from laptime.model.sample import Noise, Window
from laptime.model.symptoms import DenormalCensus, Profile, ProfileOrder, ProfileRun

BATCH_PHASE = "batch "
SINGLE_PHASE = "single calls"
WINDOWED = (SINGLE_PHASE, BATCH_PHASE)


class InferenceRunner(ProcessRunner):
    """Runs one heat of inference. `tell` is called with each phase, so that progress can be shown."""

    def __init__(
        self, order: InferOrder, limits: Limits, cores: int, tell: Callable[[str], None], sampler: Sampler | None = None
    ) -> None:
        super().__init__(order.heat.lane.name, limits, sampler)
        self.order = order
        self._tell = tell
        self._watch = WindowWatch(cores)
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
        batches = tuple(self._batches)
        if dnf is not None and dnf.signal is not None and dnf.kind == "memory":
            # Memory ran out at a batch size: give up this size and larger ones, and keep the rest of the heat.
            killed = self.part
            sizes = self.order.pace.batches
            if killed and killed != min(sizes):
                says = f"not tried after batch {killed}"
                after = tuple(BatchRun(batch, (), says, is_tried=False) for batch in sizes if batch > killed)
                batches = (*batches, BatchRun(killed, (), dnf.reason), *after)
                dnf = None
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
            marks=() if self.timeline is None else tuple(Mark(*phase) for phase in self.phases),
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
            case wire.BatchDone(batch=batch, reason=reason, is_tried=is_tried):
                windows = judge_windows(self._windows, shares_our_clock=self.shares_our_clock)
                self._batches.append(BatchRun(batch, windows, reason, is_tried))
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
                # Read the instruments after single calls: after all of them, or after those of one turn
                self._calls_noise, flag = self._watch.close_span(sum(ns))
                self._calls_flag = self._calls_flag or flag
                if self.turn is not None:
                    self._call_turns += (CallTurn(self.turn, len(ns), flag),)
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


# Run one whole training in one child, and note each lap as it ends. There is a FullRun whatever happens.

KEEP_READINGS_S = 60.0
STARTING = ("start", "import", "build", "proof", "set up")


class TrainingRunner(ProcessRunner):
    """Runs one whole training, or the rest of one that an earlier process began (`before`).

    `tell` is called with moments to show, and `keep` when a lap or the test is done, to save it. The readings of the
    `sampler` are saved too, but at most once a minute, because they grow and laps may be short. `check` may refuse
    what was built, before the first step. `changed` names the files that are known to differ since `before`.
    """

    def __init__(
        self,
        order: FullOrder,
        limits: Limits,
        *,
        tell: Callable[[Moment], None],
        keep: Callable[[], None],
        check: Callable[[dict[str, str]], None],
        sampler: Sampler | None = None,
        before: FullRun | None = None,
        changed: tuple[str, ...] = (),
        noted: tuple[str, ...] = (),
    ) -> None:
        super().__init__(order.heat.lane.name, limits, sampler)
        self._order = order
        self._before = before
        self._known_changed = changed
        self._tell = tell
        self._keep = keep
        self._check = check
        self.noted = noted
        self.laps: list[LapResult] = list(before.laps) if before else []
        self._test: Evaluation | None = None
        self._census: DenormalCensus | None = None
        self._predictions: Predictions | None = None
        self._stepped: wire.Stepped | None = None
        self._silence_s = 0.0
        self._heard_s = 0.0
        self._kept_s = 0.0

    def run(self) -> Dnf | None:
        """Train to the end, whether it finishes or not. `training_run` returns the result, even after an interrupt."""
        self._kept_s = time.monotonic()
        return self.follow(Started(Child(self._order.heat.lane.environment)), wire.Train(self._order))

    def training_run(self, status: ProcessStatus, dnf: Dnf | None = None) -> FullRun:
        """Return what is known of the training, including what an earlier process found."""
        before = self._before
        built = self.built
        changed: tuple[str, ...] = ()  # the source files that differ between this process and the one before it
        if built is not None and before is not None:
            changed = tuple(sorted({*self._known_changed, *find_differing(before.sources, built.sources)}))
        process = self.process_run(dnf, status)
        starting = {name: span for name, span in process.phases_s.items() if name in STARTING}
        watched = before.watched if before else ()
        if self.timeline is not None:
            marks = tuple(Mark(*phase) for phase in self.phases)
            watched = (*watched, Watched(self._on_one_clock(self.timeline), marks))
        first_ms = self.first_step_ns / 1e6 if self.first_step_ns is not None else None
        return FullRun(
            process=replace(
                process,
                phases_s=before.process.phases_s if before and before.process.phases_s else starting,
                notes=(*self._notes(changed), *self.noted),
                timeline=None,  # the readings of all the training's processes are in `watched`
            ),
            seed=self._order.heat.seed,
            order=self._order.heat.number,
            laps=tuple(self.laps),
            test=self._test,
            predictions=self._predictions,
            census=self._census,
            first_step_ms=before.first_step_ms if before and before.first_step_ms is not None else first_ms,
            proofs=before.proofs if before and before.proofs else tuple(self.proofs),
            processes=(before.processes if before else 0) + 1,
            watched=watched,
            sources=built.sources if built else before.sources if before else {},
            changed=tuple(sorted({*(before.changed if before else ()), *changed})),
        )

    def note(self, message: wire.FromChild) -> None:
        super().note(message)
        match message:
            case wire.Resumed(laps=laps):
                # The checkpoint decides which laps there are. Those noted here also know how long its writing took.
                self.laps = [*self.laps[: len(laps)], *laps[len(self.laps) :]]
            case wire.Stepped():
                # Keep the longest time between two messages of progress within a lap
                now_s = time.monotonic()
                if self._stepped is not None:
                    self._silence_s = max(self._silence_s, now_s - self._heard_s)
                self._heard_s = now_s
                self._stepped = message
            case wire.LapDone(lap=lap):
                self.laps.append(lap)
                self._stepped = None
            case wire.Tested(test=test, predictions=predictions):
                self._test = test
                self._predictions = predictions
            case wire.Counted(census=census):
                taken = sum(lap_result.steps for lap_result in self.laps)
                self._census = replace(census, step=taken + 1)
            case _:
                pass

    def answer(self, child: AnyChild, message: wire.FromChild) -> None:
        if isinstance(message, wire.Built):
            self._check(message.sources)
        if isinstance(message, wire.LapDone | wire.Tested):
            self._look()
            self._keep()
        moment = read_moment(self._order, message)
        if moment is not None:
            self._tell(moment)
        if isinstance(message, wire.LapDone):
            child.say(wire.GoOn())

    def wait_s(self) -> float:
        """Return how long to wait. In a lap, messages come twice a second or per step; else they may take long."""
        if not self.phase.startswith("lap ") or self.first_step_ns is None:
            return self.limits.patience_s
        first_s = FIRST_STEPS_OF_SILENCE * self.first_step_ns / 1e9
        return max(self.limits.watchdog_s, first_s, MEDIANS_OF_SILENCE * self._silence_s)

    def _look(self) -> None:
        now_s = time.monotonic()
        if self.sampler is not None and now_s - self._kept_s >= KEEP_READINGS_S:
            self.timeline = self._on_one_clock(self.sampler.so_far())
            self._kept_s = now_s

    def _notes(self, changed: tuple[str, ...]) -> tuple[str, ...]:
        """Return the training's notes, including those on versions or sources that differ from its beginning."""
        before = self._before
        built = self.built
        if built is None:
            return before.process.notes if before else ()
        others = [
            f"{name} {before.process.versions[name]} before, {version} now"
            for name, version in built.versions.items()
            if before and before.process.versions.get(name, version) != version
        ]
        notes = [f"it went on with other versions: {', '.join(others)}"] if others else []
        if changed and before:
            notes.append(f"after lap {len(before.laps)} it went on with changed sources: {', '.join(changed)}")
        if before and before.laps and built.sources and not before.sources:
            notes.append("whether its sources changed before it went on is not known: their digests were not kept")
        return tuple(dict.fromkeys((*(before.process.notes if before else ()), *built.notes, *notes)))


def read_moment(order: FullOrder, message: wire.FromChild) -> Moment | None:
    """Return the moment that a message shows (progress, speed, loss and time left), or None."""
    lane = order.heat.lane.name
    laps = order.protocol.laps
    seed = order.heat.seed if order.protocol.seeds > 1 else None
    match message:
        case wire.Phase(name="build"):
            return Moment(lane, seed, "begins", laps, is_news=True)
        case wire.Phase(name=name):
            doing, _, number = name.rpartition(" ")
            if not number.isdigit():
                return Moment(lane, seed, name, laps)
            return Moment(lane, seed, doing, laps, number=int(number))
        case wire.Resumed(laps=done) if done:
            return Moment(lane, seed, f"goes on after lap {len(done)}", laps, is_news=True)
        case wire.Stepped(lap=number, step=step, steps=steps):
            step_ms = message.ns / step / 1e6
            left_s = (steps - step) * step_ms / 1e3
            figures = (number, step, steps, step_ms, message.loss, message.accuracy, left_s)
            return Moment(lane, seed, "lap", laps, False, *figures)
        case wire.LapDone(lap=lap):
            return Moment(lane, seed, "lap", laps, is_news=True, number=lap.number, lap=lap)
        case _:
            return None


# Profile one lane in one child, and return a ProfileRun whatever happens.


class ProfileRunner(ProcessRunner):
    """Runs one lane under its framework's profiler. Reading the profile may take long without a message."""

    def __init__(self, order: ProfileOrder, patience_s: float, cores: int, tell: Callable[[str], None]) -> None:
        super().__init__(order.heat.lane.name, Limits(patience_s))
        self._order = order
        self._tell = tell
        self._watch = WindowWatch(cores)
        self._profile: Profile | None = None
        self._reason: str | None = None
        self._flag: str | None = None

    def run(self) -> ProfileRun:
        """Run to the end, whether it finishes or not. A profile that came is kept even if the process fails later."""
        dnf = self.follow(Started(Child(self._order.heat.lane.environment)), wire.Observe(self._order))
        profile = self._profile
        if profile is not None and dnf is not None:
            ended = Missing(f"the process ended in {dnf.phase}: {dnf.reason}")
            profile = replace(profile, absent=dict.fromkeys(profile.absent, ended))
        if profile is not None and self._flag is not None:
            profile = replace(profile, notes=(*profile.notes, f"disturbed while it was profiled: {self._flag}"))
        reason = None if profile is not None else f"in {dnf.phase}: {dnf.reason}" if dnf else self._reason
        return ProfileRun(self.process_run(dnf), profile, reason, self.first_step_ns)

    def note(self, message: wire.FromChild) -> None:
        super().note(message)
        if isinstance(message, wire.Profiled):
            self._profile = message.profile
            self._reason = message.reason

    def answer(self, child: AnyChild, message: wire.FromChild) -> None:
        if not isinstance(message, wire.Phase):
            return
        self._tell(message.name)
        if message.name == "profile":
            self._watch.open(child)
        elif message.name == "work":
            _, self._flag = self._watch.close_span(message.at_ns - dict(self.phases)["profile"])

    def end(self) -> None:
        self._watch.end()
