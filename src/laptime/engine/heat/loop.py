"""The one loop that times every lane: proof, first step, then windows that are fenced only at their two ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from laptime.engine import wire
from laptime.engine.backends.base import Builder, BuiltTraining, Learner, Runner
from laptime.engine.backends.own import digest_imported
from laptime.engine.backends.replay import LARGEST_STATE_BYTES, TooLargeError
from laptime.engine.heat.kept_turn import TurnKeeper
from laptime.engine.heat.work import (
    REPEATED_TOLERANCE,
    Clock,
    CountedRunner,
    break_down_steps,
    find_distance,
    find_redrawn,
    look_ahead,
    take_losses,
)
from laptime.model.errors import LaneError
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace
from laptime.model.process import NO_TRAINING, Settings
from laptime.model.quantities import Missing
from laptime.model.sample import FreshSteps, ProofRun, Window
from laptime.model.symptoms import NOT_LOOKED

WINDOWS_LEAST = 3
HALTED_TIMES = 10  # when a window is this many times slower than the estimate, the next one corrects it again
MARKED_MOST = 4_096  # steps of a window that are timed one by one; more would make a record of megabytes
PATIENCE_FACTOR = 2  # when steps are so slow that few windows fit, measuring may take this many times as long
# Not timed at the beginning of a turn: a processor's caches, and a card's clock, which falls while others play.
TURN_WARM_S = {"cpu": 0.03}
WARM_CARD_S = 0.25


class ParentLine(Protocol):
    """The connection to the parent."""

    def say(self, message: wire.FromChild) -> None: ...

    def listen(self) -> wire.FromParent: ...


class RankedLine(ParentLine, Protocol):
    """The same, of a process that copies itself."""

    def live_as_copy(self, work: Callable[[], None]) -> None:
        """In a copy of this process: close the connection, do the work, and end."""

    def give_up(self, error: LaneError) -> None:
        """Report a failure and end this process, whatever it is doing."""


def run_heat(
    backend: Builder, order: HeatOrder, line: ParentLine, last: Callable[[], None] = lambda: None
) -> int | Missing:
    """Build, prove, take the first step, measure; return the most device memory that was held.

    `last` is called after all that, when the training can still take steps.
    """
    training = build_training(backend, order, line)
    if not order.first_losses and not order.is_fresh:
        prove_training(backend, training, order.lane.settings, line)
    runner = take_first_steps(backend, training, order, line)
    line.say(wire.Phase("timing", backend.clock()))
    if order.replays:
        runner.keeper, why_not = open_keeper(runner)
        send_notes(why_not, line)
    facts = PartFacts(training.steps_per_lap, warm_up_s(order.lane.device), training.device_memory_bytes, runner.taken)
    sizing = measure(backend.clock, runner, order.pace, line, facts)
    missed = look_ahead(backend.clock, runner, order.test_items, training.items_per_step, line.say)
    if order.census:
        missed = (*missed, *take_census(backend.clock, runner, line))
    if order.breakdown:
        missed = (*missed, *break_down(backend.clock, runner, sizing.burst or 1, line, training.data))
    if order.first_losses == () and not order.is_fresh:
        missed = (*missed, *take_late_step(backend.clock, runner, line))
    last()
    send_notes((*missed, *runner.close()), line)
    line.say(wire.Phase("end", backend.clock()))
    return training.device_memory_bytes()


def warm_up_s(device: Device) -> float:
    """Return how long a turn warms up before it is timed."""
    return TURN_WARM_S.get(device.kind, WARM_CARD_S)


def break_down(clock: Clock, runner: Runner, least: int, line: ParentLine, data: Any = None) -> tuple[str, ...]:
    """Break down some steps to find symptoms of causes, and look whether the user's `data` draw their items again.

    If that fails, keep the timing and note why.
    """
    line.say(wire.Phase("take apart", clock()))
    try:
        apart = runner.parts()
        if isinstance(apart, Missing):
            return (f"its steps were not taken apart: {apart.missing}",)
        run_down(clock, runner)
        symptoms = break_down_steps(clock, runner.fence, apart, least)
        if symptoms.redrawn == NOT_LOOKED and data is not None:
            symptoms = replace(symptoms, redrawn=find_redrawn(data, clock))
        line.say(wire.Signed(symptoms))
    except Exception as error:  # noqa: BLE001  whatever a framework or a user's code raises
        return (f"its steps were not taken apart: that ended in {type(error).__name__}: {error}",)
    return ()


def take_census(clock: Clock, runner: Runner | Learner, line: ParentLine) -> tuple[str, ...]:
    """Count denormal numbers in one more step. If that fails, keep the timing and note why."""
    line.say(wire.Phase("census", clock()))
    try:
        census = runner.census()
    except Exception as error:  # noqa: BLE001  whatever a framework or a user's code raises
        return (f"its denormal numbers were not counted: that ended in {type(error).__name__}: {error}",)
    if not isinstance(census, Missing):
        line.say(wire.Counted(census))
    return ()


def take_late_step(clock: Clock, runner: Runner, line: ParentLine) -> tuple[str, ...]:
    """Take a step of the proof with the training that was timed. If that fails, keep the timing and note why."""
    line.say(wire.Phase("late step", clock()))
    try:
        step = runner.take_late_step()
    except Exception as error:  # noqa: BLE001  whatever a framework or a user's code raises
        return (f"it could not be put back to its start: that ended in {type(error).__name__}: {error}",)
    if step is not None:
        line.say(wire.TookLate(step))
    return ()


def send_notes(notes: tuple[str, ...], line: ParentLine) -> None:
    if notes:
        line.say(wire.Noted(notes))


def build_training(backend: Builder, order: HeatOrder, line: ParentLine) -> BuiltTraining:
    line.say(wire.Phase("build", backend.clock()))
    training = backend.build(order)
    sources = digest_imported(order.subject.file) if order.subject.file else {}
    size = (training.parameters, training.items_per_step, training.steps_per_lap)
    line.say(wire.Built(*size, backend.versions(), training.notes, sources))
    return training


def prove_training(backend: Builder, training: BuiltTraining, settings: Settings, line: ParentLine) -> None:
    line.say(wire.Phase("proof", backend.clock()))
    for precision in precisions_to_prove(settings):
        line.say(wire.Proved(_checked(training.prove(precision))))


def take_first_steps(backend: Builder, training: BuiltTraining, order: HeatOrder, line: ParentLine) -> CountedRunner:
    """Take the first step, and compare the first losses with those of the heat that proved this lane.

    If they differ, this heat may train something else: prove it as well, and begin again.
    """
    line.say(wire.Phase("first step", backend.clock()))
    runner = CountedRunner(training.start())
    first_ns = time_steps(backend.clock, runner, runner.stride)
    if order.first_losses is None:
        line.say(wire.FirstStep(first_ns))
        return runner
    line.say(wire.Phase("first losses", backend.clock()))
    losses = take_losses(runner)
    line.say(wire.FirstStep(first_ns, losses))
    if not order.first_losses or (apart := find_distance(losses, order.first_losses)) <= REPEATED_TOLERANCE:
        return runner
    send_notes((f"its first losses are not those of the heat that was proven ({apart:.0e} apart): proven again",), line)
    runner.close()
    prove_training(backend, training, order.lane.settings, line)
    line.say(wire.Phase("first losses", backend.clock()))
    runner = CountedRunner(training.start())
    time_steps(backend.clock, runner, runner.stride)
    return runner


def take_proof(training: BuiltTraining, settings: Settings) -> tuple[ProofRun, ...]:
    return tuple(_checked(training.prove(precision)) for precision in precisions_to_prove(settings))


def precisions_to_prove(settings: Settings) -> tuple[str, ...]:
    """Return the precisions to prove: float32 for every lane, and also the lane's own precision where it is lower."""
    if settings.input in NO_TRAINING or settings.value_of("sync") == "none":
        return ()
    return ("fp32",) if settings.precision == "fp32" else ("fp32", settings.precision)


def _checked(run: ProofRun) -> ProofRun:
    """Return the run. Raise if a loss is not finite: it proves nothing, and its lane would learn nothing."""
    for step, loss in enumerate(run.losses):
        if not math.isfinite(loss):
            raise LaneError(f"the loss became {loss} at step {step + 1} of the proof, in {run.precision}")
    return run


@dataclass(frozen=True, slots=True)
class PartFacts:
    """The steps in a lap, if known; how long a turn warms up before it is timed; how to ask for the device's memory.

    `taken` is how many steps the training has taken before it is measured.
    """

    lap: int | None = None
    warm_s: float = 0.0
    device_memory_bytes: Callable[[], int | Missing] = lambda: wire.NOT_TOLD
    taken: int = 0


def measure(
    clock: Clock,
    runner: Runner,
    pace: Pace,
    line: ParentLine,
    facts: PartFacts | None = None,
) -> WindowSizing:
    """Run the planned windows, then those that the parent asks for.

    A heat that takes turns with others has no planned windows. Each of its turns begins with steps that are not timed.
    """
    facts = facts or PartFacts()
    counted = runner if isinstance(runner, CountedRunner) else CountedRunner(runner, facts.taken)
    sizing = _begin(clock, counted, pace, line, facts)
    windows = WindowRun(clock, counted, line, sizing, is_rough=pace.known_step_ns is None)
    began_ns = clock()
    while not (pace.takes_turns or _has_enough_windows(windows.spent_ns, clock() - began_ns, windows.done, pace)):
        windows.run_one()
    while True:
        line.say(wire.Ready(facts.device_memory_bytes(), counted.taken))
        match message := line.listen():
            case wire.Again(windows=more):
                run_down(clock, counted)
                for _ in range(more):
                    windows.run_one()
            case wire.TakeTurn(steps=steps, after=after, begins=begins):
                if counted.keeper is not None and begins is not None:
                    if begins > counted.taken:
                        counted.run(begins - counted.taken)
                    counted.keeper.begin(counted.taken)
                untimed = warm_steps(windows.sizing, facts.warm_s) if after is None else after - counted.taken
                if untimed > 0:
                    counted.run(untimed)
                windows.run_one(steps)
            case wire.KeepTurn(instead=instead):
                line.say(_keep_turn(counted.keeper, counted.taken, instead))
            case wire.ShowTurn(place=place, path=path):
                line.say(_show_turn(counted.keeper, place, Path(path)))
            case wire.ReplayTurn():
                line.say(wire.Phase("replay", clock()))
                line.say(_replay_turn(counted.keeper, message))
                line.say(wire.Phase("timing", clock()))
            case _:
                return sizing


def open_keeper(runner: Runner) -> tuple[TurnKeeper | None, tuple[str, ...]]:
    """Return what keeps a turn of this training, or a note on why none can be kept. It is tried before the turns."""
    try:
        rewinder = runner.rewinder()
        if isinstance(rewinder, Missing):
            return None, ()  # it is of a kind that none is of, as docs/limits.md says
        if rewinder.size_bytes() > LARGEST_STATE_BYTES:
            why = f"its state is larger than {LARGEST_STATE_BYTES >> 30} GiB"
        else:
            rewinder.note(0)
            return TurnKeeper(rewinder), ()
    except Exception as error:  # noqa: BLE001  whatever a framework or a user's code raises
        why = f"{type(error).__name__}: {error}"
    return None, (f"no turn of it can be taken again: {why}",)


NOTHING_KEPT = "it notes no turns"


def _keep_turn(keeper: TurnKeeper | None, taken: int, instead: int | None) -> wire.TurnKept:
    if keeper is None:
        return wire.TurnKept(reason=NOTHING_KEPT)
    try:
        return wire.TurnKept(keeper.keep(taken, instead))
    except Exception as error:  # noqa: BLE001  whatever a framework or a user's code raises
        return wire.TurnKept(reason=_words_of(error))


def _show_turn(keeper: TurnKeeper | None, place: int, path: Path) -> wire.TurnShown:
    if keeper is None:
        return wire.TurnShown(NOTHING_KEPT)
    try:
        keeper.show(place, path)
    except Exception as error:  # noqa: BLE001  whatever a framework or a user's code raises
        return wire.TurnShown(_words_of(error))
    return wire.TurnShown()


def _words_of(error: Exception) -> str:
    return error.says if isinstance(error, LaneError) else f"{type(error).__name__}: {error}"


def _replay_turn(keeper: TurnKeeper | None, asked: wire.ReplayTurn) -> wire.TurnReplayed:
    if keeper is None:
        return wire.TurnReplayed(None, NOTHING_KEPT)
    try:
        found = keeper.replay(asked.place, asked.path, (asked.began, asked.ended))
    except TooLargeError as error:
        return wire.TurnReplayed(None, error.says, of_its_own=True)
    except Exception as error:  # noqa: BLE001  whatever a framework or a user's code raises
        return wire.TurnReplayed(None, f"{type(error).__name__}: {error}")
    return wire.TurnReplayed(None, found.missing) if isinstance(found, Missing) else wire.TurnReplayed(found)


@dataclass(slots=True)
class WindowRun:
    """Runs windows. The first one estimates a step better than the few steps before it, and corrects the length."""

    clock: Clock
    runner: CountedRunner
    line: ParentLine
    sizing: WindowSizing
    done: int = 0
    spent_ns: int = 0
    is_rough: bool = True

    def run_one(self, steps: int | None = None) -> None:
        """Run a window of these steps, or of as many as fit into its time."""
        steps = steps or self.sizing.window_steps
        window_ns = _run_window(self.clock, self.runner, steps, self.done, self.line)
        self.spent_ns += window_ns
        self.done += 1
        if self.is_rough:
            # The process may have been paused in this window: the next one shows it.
            self.is_rough = window_ns / steps > HALTED_TIMES * self.sizing.step_ns
            self.sizing = self.sizing.with_step(window_ns / steps)


def _begin(clock: Clock, runner: CountedRunner, pace: Pace, line: ParentLine, facts: PartFacts) -> WindowSizing:
    """Use up the batches a loader had ready, and size the windows; from here to the first window there is no pause."""
    lap = facts.lap
    if runner.holds:
        # A window of steps on items that are decoded for them; then the same items again, which memory now holds. All
        # laps after the first work like this. Otherwise a window's steps would depend on how many items there are:
        # fresh, held or a mix. More steps for the estimate would use up items that are not cached yet.
        step_ns = time_steps(clock, runner, runner.stride) / runner.stride
        steps = WindowSizing(pace, runner.stride, step_ns, lap, runner.ready_batches).window_steps
        run_down(clock, runner)
        line.say(wire.Fresh(FreshSteps(steps, time_steps(clock, runner, steps))))
        runner.repeat()
    send_notes(run_down(clock, runner), line)
    sizing = size_windows(clock, runner, pace, lap)
    window_ns = round(sizing.window_steps * sizing.step_ns)
    warm = warm_steps(sizing, facts.warm_s)
    span = wire.TurnNeeds(sizing.step_ns, sizing.stride, sizing.least, sizing.unit, warm)
    line.say(wire.Paced(window_ns, sizing.burst, span))
    if sizing.burst is not None:
        send_notes((in_bursts(sizing.burst),), line)
    return sizing


def in_bursts(most: int) -> str:
    return f"its loader gives up to {most} batches at once, then none: no window is shorter, and its step is their mean"


def _has_enough_windows(spent_ns: int, passed_ns: int, windows: int, pace: Pace) -> bool:
    """Whether the windows are enough. What a script does between its steps is in `passed_ns`, and in no window."""
    spent_s = spent_ns / 1e9
    if passed_ns / 1e9 >= PATIENCE_FACTOR * pace.measure_s:
        return windows >= WINDOWS_LEAST
    return spent_s >= pace.measure_s and windows >= pace.windows_min


def _run_window(clock: Clock, runner: CountedRunner, steps: int, number: int, line: ParentLine) -> int:
    first_step = runner.taken + 1
    before = runner.updates()
    runner.fence()
    start_ns = clock()
    outside_ns = runner.outside_ns
    marked = min(steps, math.ceil(MARKED_MOST / runner.stride) * runner.stride)
    marks = runner.run_marked(marked)
    if steps > marked:
        runner.run(steps - marked)
    runner.fence()
    end_ns = clock()
    start_ns += runner.outside_ns - outside_ns  # what was no step is left out
    loss = runner.loss()
    updates, rate = runner.compare_updates(before, steps)
    window = Window(
        start_ns, end_ns, steps, runner.step_ns(marks), None, None, None, runner.ranks, first_step, updates, rate,
        runner.take_seen(),
    )  # fmt: skip
    if number == 0 and runner.early_ns:
        line.say(wire.Early(runner.early_ns))
    digest = runner.keeper.end() if runner.keeper is not None else ""
    line.say(wire.Closed(window, loss if loss is not None and math.isfinite(loss) else None, digest))
    if loss is not None and not math.isfinite(loss):
        raise LaneError(f"the loss became {loss} in window {number + 1}: this lane does not learn, and cannot win")
    return end_ns - start_ns


# How many steps make a window, found from the first steps; and the steps that are not timed before one.

FAIR_PART = 0.25  # of a window: the estimate of a step times at least this much
ESTIMATE_MOST = 1 << 16
# Where all time the same steps, others catch up with what one takes here, and may be a thousand times as slow.
SHARED_ESTIMATE_MOST = 16
WHOLE_LAPS = 4  # this many windows of whole laps, or of all batches a loader had ready, must fit in the measuring time
STRIDES_LEAST = 3  # where batches come three at a time, one of these has waited
FASTER = 2 / 3  # of a mean step: batches come in bursts if the faster half of the steps takes less than this
WINDOW_SHORTER = (
    0.1  # of a stride: a window may be this much short; a much shorter one cannot show other processes' load
)
MANY_BURSTS = 10  # a window with this many bursts needs no extra length: one burst more or less changes little
RUN_DOWN_MOST_S = 30.0
LONG_STEP = 2  # times the warm-up of a turn: of a step this long, the first of a turn is hardly slower than the next


@dataclass(frozen=True, slots=True)
class WindowSizing:
    """How long a step takes, and how many steps a window must hold.

    `ready` is how many batches the loader may hold ready. Workers that start together finish together: the loader waits
    for the first batch and then has the others at once, so single steps take almost no time or far too long. Where this
    was seen (`bursts`), a window holds all batches that may come at once, however long that takes.
    """

    pace: Pace
    stride: int
    step_ns: float
    lap: int | None = None
    ready: int = 0
    bursts: bool = False

    @property
    def burst(self) -> int | None:
        """Return how many steps may come at once, where bursts were seen and windows are short enough to matter."""
        return self.least if self.bursts and self._fitting < MANY_BURSTS * self.least else None

    @property
    def least(self) -> int:
        """Return the steps that a window must hold, if it can."""
        whole = math.ceil(self.ready / self.stride) * self.stride
        return max(whole, self.stride) if self.bursts or self._is_short(whole) else self.stride

    @property
    def window_steps(self) -> int:
        """Return how many steps make a window: as many strides of the framework as fit, at least one."""
        steps = max(self._fitting, self.least)
        return math.ceil(steps / self.unit) * self.unit

    @property
    def unit(self) -> int:
        """Return the steps of which a window holds a multiple.

        Where laps are short it is a lap, so that every window holds equally many ends of laps.
        """
        if not self.lap or self.lap % self.stride:
            return self.stride
        laps = math.ceil(max(self._fitting, self.least) / self.lap) * self.lap
        return self.lap if self._is_short(laps) else self.stride

    @property
    def _fitting(self) -> int:
        strides = self.pace.window_s * 1e9 / max(self.step_ns, 1) / self.stride
        return max(1, math.ceil(strides - WINDOW_SHORTER)) * self.stride

    def with_step(self, step_ns: float) -> WindowSizing:
        """Return the same sizing with a better estimate."""
        return replace(self, step_ns=step_ns)

    def _is_short(self, steps: int) -> bool:
        return steps * self.step_ns <= longest_ns(self.pace)


def size_windows(clock: Clock, runner: Runner, pace: Pace, lap: int | None) -> WindowSizing:
    """Return the window sizing: time single strides if a loader may deliver several batches at once, then longer runs.

    Batches that were ready are used up before. What looks like a burst must come again: a disturbance does not. One
    step alone may take a thousandth of the mean, for example when a loader works only at the end of a lap, so a short
    lap is timed whole.
    """
    if pace.known_step_ns is not None:
        return WindowSizing(pace, runner.stride, pace.known_step_ns, lap, runner.ready_batches)
    strides = _time_strides(clock, runner, pace)
    bursts = come_in_bursts(strides)
    if bursts:
        again = _time_strides(clock, runner, pace)
        strides += again
        bursts = come_in_bursts(again)
    steps = len(strides) * runner.stride
    spent_ns = sum(strides)
    most = SHARED_ESTIMATE_MOST if pace.shares_steps else ESTIMATE_MOST
    while spent_ns < FAIR_PART * pace.window_s * 1e9 and steps < most:
        steps = 2 * steps or runner.stride
        spent_ns = time_steps(clock, runner, steps)
    is_lap_short = lap is not None and steps < min(lap, most) and lap * spent_ns / steps <= 2 * longest_ns(pace)
    if lap and lap % runner.stride == 0 and is_lap_short:
        steps = lap
        spent_ns = time_steps(clock, runner, lap)
    return WindowSizing(pace, runner.stride, spent_ns / steps, lap, runner.ready_batches, bursts)


def longest_ns(pace: Pace) -> float:
    """Return how long a window of whole laps may be."""
    return pace.measure_s * 1e9 / WHOLE_LAPS


def come_in_bursts(strides: Sequence[int]) -> bool:
    """Whether the faster half of the strides takes far less than its share of the time."""
    faster = sorted(strides)[: len(strides) // 2]
    return bool(faster) and sum(faster) / len(faster) < FASTER * sum(strides) / len(strides)


def _time_strides(clock: Clock, runner: Runner, pace: Pace) -> list[int]:
    """Time single strides until they cover the batches that may come at once, or until the measuring time is full."""
    strides: list[int] = []
    while len(strides) * runner.stride < runner.ready_batches:
        strides.append(time_steps(clock, runner, runner.stride))
        if sum(strides) > pace.measure_s * 1e9 and len(strides) >= STRIDES_LEAST:
            break
    return strides


def time_steps(clock: Clock, runner: Runner, steps: int) -> int:
    """Time some steps between two fences, without marks between them."""
    runner.fence()
    start_ns = clock()
    outside_ns = runner.outside_ns
    runner.run(steps)
    runner.fence()
    return clock() - start_ns - (runner.outside_ns - outside_ns)


def run_down(clock: Clock, runner: Runner) -> tuple[str, ...]:
    """Use up the batches a loader prepared during a pause, which would make a window look faster than it is.

    Steps so slow that this takes half a minute give their loader time to prepare more. The rest then stays, and a note
    reports it.
    """
    left = runner.ready_batches
    began_ns = clock()
    while left > 0:
        runner.run(runner.stride)
        runner.fence()
        left -= runner.stride
        if left > 0 and clock() - began_ns > RUN_DOWN_MOST_S * 1e9:
            return (f"up to {left} batches that its loader had ready were not used up before the windows opened",)
    return ()


def warm_steps(sizing: WindowSizing, warm_s: float) -> int:
    """Return how many steps of a turn are not timed: after a pause, caches are cold and a card's clock is low.

    Of a long step, the first of a turn is hardly slower than the next: then all are timed.
    """
    stride_s = sizing.stride * sizing.step_ns / 1e9
    return 0 if stride_s >= LONG_STEP * warm_s else math.ceil(warm_s / stride_s) * sizing.stride
