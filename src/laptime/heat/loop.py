"""The one loop that times every lane: proof, first step, then windows that are fenced only at their two ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from laptime import wire
from laptime.backends.base import Backend, BuiltTraining, Evaluator, Runner
from laptime.backends.own import digest_imported
from laptime.errors import LaneError
from laptime.heat.step_breakdown import Clock, break_down_steps
from laptime.model.lane import NO_TRAINING, Settings
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder, Pace
from laptime.model.sample import Examination, FreshSteps, ProofRun, Window

WINDOWS_LEAST = 3
HALTED_TIMES = 10  # when a window is this many times slower than the estimate, the next one corrects it again
MARKED_MOST = 4_096  # steps of a window that are timed one by one; more would make a record of megabytes
PATIENCE_FACTOR = 2  # when steps are so slow that few windows fit, measuring may take this many times as long
FAIR_PART = 0.25  # of a window: the estimate of a step times at least this much
ESTIMATE_MOST = 1 << 16
WHOLE_LAPS = 4  # this many windows of whole laps, or of all batches a loader had ready, must fit in the measuring time
STRIDES_LEAST = 3  # where batches come three at a time, one of these has waited
QUICKER = 2 / 3  # of a mean step: batches come in bursts if the faster half of the steps takes less than this
SHORTER = 0.1  # of a stride: a window may be this much short; a much shorter one cannot show other processes' load
MANY_BURSTS = 10  # a window with this many bursts needs no extra length: one burst more or less changes little
RUN_DOWN_MOST_S = 30.0
EXAMINED_NS = 500_000_000


class ParentLine(Protocol):
    """The connection to the parent."""

    def say(self, message: wire.FromChild) -> None: ...

    def listen(self) -> wire.FromParent: ...


def run_heat(backend: Backend, order: HeatOrder, line: ParentLine) -> int | Missing:
    """Build, prove, take the first step, measure; return the most device memory that was held."""
    training = build_training(backend, order, line)
    prove_training(backend, training, order.lane.settings, line)
    line.say(wire.Phase("first step", backend.clock()))
    runner = training.start()
    line.say(wire.FirstStep(time_steps(backend.clock, runner, runner.stride)))
    line.say(wire.Phase("timing", backend.clock()))
    sizing = measure(backend.clock, runner, order.pace, line, training.steps_per_lap)
    missed = look_ahead(backend.clock, runner, order.test_items, training.items_per_step, line)
    if order.breakdown:
        missed = (*missed, *break_down(backend.clock, runner, sizing.burst or 1, line))
    send_notes((*missed, *runner.close()), line)
    line.say(wire.Phase("end", backend.clock()))
    return training.device_memory_bytes()


def look_ahead(clock: Clock, runner: Runner, items: int, batch: int, line: ParentLine) -> tuple[str, ...]:
    """Measure what a whole training has and windows do not: evaluation. If that fails, keep the timing and note why."""
    if not items or runner.evaluator is None:
        return ()
    line.say(wire.Phase("look ahead", clock()))
    try:
        line.say(wire.Examined(time_evaluation(clock, runner, runner.evaluator, batch, items)))
    except Exception as error:  # noqa: BLE001  whatever a framework raises: what was asked for is the timing
        return (f"no forecast of the whole training: looking ahead ended in {type(error).__name__}: {error}",)
    return ()


def break_down(clock: Clock, runner: Runner, least: int, line: ParentLine) -> tuple[str, ...]:
    """Break down some steps to find symptoms of causes. If that fails, keep the timing and note why."""
    line.say(wire.Phase("take apart", clock()))
    try:
        apart = runner.parts()
        if isinstance(apart, Missing):
            return (f"its steps were not taken apart: {apart.missing}",)
        run_down(clock, runner)
        line.say(wire.Signed(break_down_steps(clock, runner.fence, apart, least)))
    except Exception as error:  # noqa: BLE001  whatever a framework or a user's code raises
        return (f"its steps were not taken apart: that ended in {type(error).__name__}: {error}",)
    return ()


def send_notes(notes: tuple[str, ...], line: ParentLine) -> None:
    if notes:
        line.say(wire.Noted(notes))


def build_training(backend: Backend, order: HeatOrder, line: ParentLine) -> BuiltTraining:
    line.say(wire.Phase("build", backend.clock()))
    training = backend.build(order)
    sources = digest_imported(order.subject.file) if order.subject.file else {}
    size = (training.parameters, training.items_per_step, training.steps_per_lap)
    line.say(wire.Built(*size, backend.versions(), training.notes, sources))
    return training


def prove_training(backend: Backend, training: BuiltTraining, settings: Settings, line: ParentLine) -> None:
    line.say(wire.Phase("proof", backend.clock()))
    for precision in precisions_to_prove(settings):
        line.say(wire.Proved(_checked(training.prove(precision))))


def take_proof(training: BuiltTraining, settings: Settings) -> tuple[ProofRun, ...]:
    return tuple(_checked(training.prove(precision)) for precision in precisions_to_prove(settings))


def precisions_to_prove(settings: Settings) -> tuple[str, ...]:
    """Return the precisions to prove: float32 for every lane, and also the lane's own precision where it is lower."""
    if settings.input in NO_TRAINING:
        return ()
    return ("fp32",) if settings.precision == "fp32" else ("fp32", settings.precision)


def _checked(run: ProofRun) -> ProofRun:
    """Return the run. Raise if a loss is not finite: it proves nothing, and its lane would learn nothing."""
    for step, loss in enumerate(run.losses):
        if not math.isfinite(loss):
            raise LaneError(f"the loss became {loss} at step {step + 1} of the proof, in {run.precision}")
    return run


def measure(clock: Clock, runner: Runner, pace: Pace, line: ParentLine, lap: int | None = None) -> WindowSizing:
    """Run the planned windows, then those that the parent asks for again; `lap` is the steps in a lap, if known."""
    sizing = _begin(clock, runner, pace, line, lap)
    steps = sizing.window_steps
    spent_ns, windows = 0, 0
    known_ns, is_rough = sizing.step_ns, True
    while not _is_enough(spent_ns, windows, pace):
        window_ns = _run_window(clock, runner, steps, windows, line)
        spent_ns += window_ns
        windows += 1
        if is_rough:  # the estimate came from a few steps; the first window has many
            before_ns, known_ns = known_ns, window_ns / steps
            steps = sizing.with_step(known_ns).window_steps
            is_rough = known_ns > HALTED_TIMES * before_ns  # the process may have been paused: the next window shows it
    while True:
        line.say(wire.Ready())
        answer = line.listen()
        if not isinstance(answer, wire.Again):
            return sizing
        run_down(clock, runner)
        for _ in range(answer.windows):
            _run_window(clock, runner, steps, windows, line)
            windows += 1


def _begin(clock: Clock, runner: Runner, pace: Pace, line: ParentLine, lap: int | None) -> WindowSizing:
    """Use up the batches a loader had ready, and size the windows; from here to the first window there is no pause."""
    if runner.holds:
        # More steps for the estimate would use up items that are not cached yet.
        step_ns = time_steps(clock, runner, runner.stride) / runner.stride
        _take_fresh(
            clock, runner, WindowSizing(pace, runner.stride, step_ns, lap, runner.ready_batches).window_steps, line
        )
    send_notes(run_down(clock, runner), line)
    sizing = size_windows(clock, runner, pace, lap)
    line.say(wire.Paced(round(sizing.window_steps * sizing.step_ns), sizing.burst))
    if sizing.burst is not None:
        send_notes((in_bursts(sizing.burst),), line)
    return sizing


def in_bursts(most: int) -> str:
    return f"its loader gives up to {most} batches at once, then none: no window is shorter, and its step is their mean"


def _take_fresh(clock: Clock, runner: Runner, steps: int, line: ParentLine) -> None:
    """Time some steps on items that are decoded for them, then keep using the same items, which are now held in memory.

    All laps after the first work like this. Otherwise a window's steps would depend on how many items there are: fresh,
    held or a mix.
    """
    run_down(clock, runner)
    line.say(wire.Fresh(FreshSteps(steps, time_steps(clock, runner, steps))))
    runner.repeat()


def _is_enough(spent_ns: int, windows: int, pace: Pace) -> bool:
    spent_s = spent_ns / 1e9
    if spent_s >= PATIENCE_FACTOR * pace.measure_s:
        return windows >= WINDOWS_LEAST
    return spent_s >= pace.measure_s and windows >= pace.windows_min


def _run_window(clock: Clock, runner: Runner, steps: int, number: int, line: ParentLine) -> int:
    runner.fence()
    start_ns = clock()
    marked = min(steps, math.ceil(MARKED_MOST / runner.stride) * runner.stride)
    marks = runner.run_marked(marked)
    if steps > marked:
        runner.run(steps - marked)
    runner.fence()
    end_ns = clock()
    loss = runner.loss()
    window = Window(start_ns, end_ns, steps, runner.step_ns(marks))
    line.say(wire.Closed(window, loss if math.isfinite(loss) else None))
    if not math.isfinite(loss):
        raise LaneError(f"the loss became {loss} in window {number + 1}: this lane does not learn, and cannot win")
    return end_ns - start_ns


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
        """Return how many steps make a window: as many strides of the framework as fit, at least one.

        Where laps are short, a window is whole laps, so that every window holds equally many ends of laps.
        """
        steps = max(self._fitting, self.least)
        if not self.lap or self.lap % self.stride:
            return steps
        laps = math.ceil(steps / self.lap) * self.lap
        return laps if self._is_short(laps) else steps

    @property
    def _fitting(self) -> int:
        strides = self.pace.window_s * 1e9 / max(self.step_ns, 1) / self.stride
        return max(1, math.ceil(strides - SHORTER)) * self.stride

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
    strides = _time_strides(clock, runner, pace)
    bursts = come_in_bursts(strides)
    if bursts:
        again = _time_strides(clock, runner, pace)
        strides, bursts = strides + again, come_in_bursts(again)
    steps, spent_ns = len(strides) * runner.stride, sum(strides)
    while spent_ns < FAIR_PART * pace.window_s * 1e9 and steps < ESTIMATE_MOST:
        steps = 2 * steps or runner.stride
        spent_ns = time_steps(clock, runner, steps)
    if lap and lap % runner.stride == 0 and steps < lap and lap * spent_ns / steps <= 2 * longest_ns(pace):
        steps, spent_ns = lap, time_steps(clock, runner, lap)
    return WindowSizing(pace, runner.stride, spent_ns / steps, lap, runner.ready_batches, bursts)


def longest_ns(pace: Pace) -> float:
    """Return how long a window of whole laps may be."""
    return pace.measure_s * 1e9 / WHOLE_LAPS


def come_in_bursts(strides: Sequence[int]) -> bool:
    """Whether the faster half of the strides takes far less than its share of the time."""
    quicker = sorted(strides)[: len(strides) // 2]
    return bool(quicker) and sum(quicker) / len(quicker) < QUICKER * sum(strides) / len(strides)


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
    runner.run(steps)
    runner.fence()
    return clock() - start_ns


def run_down(clock: Clock, runner: Runner) -> tuple[str, ...]:
    """Use up the batches a loader prepared during a pause, which would make a window look faster than it is.

    Steps so slow that this takes half a minute give their loader time to prepare more. The rest then stays, and a note
    reports it.
    """
    left, began_ns = runner.ready_batches, clock()
    while left > 0:
        runner.run(runner.stride)
        runner.fence()
        left -= runner.stride
        if left > 0 and clock() - began_ns > RUN_DOWN_MOST_S * 1e9:
            return (f"up to {left} batches that its loader had ready were not used up before the windows opened",)
    return ()


def time_evaluation(clock: Clock, runner: Runner, evaluator: Evaluator, batch: int, most: int) -> Examination:
    """Evaluate one batch to warm up, the same batch again to learn the speed, then about half a second of batches."""
    few = min(batch, most)
    read_ns = _time_work(clock, runner, lambda: evaluator.read(few))
    cold_ns = _time_work(clock, runner, lambda: evaluator.score(few))
    warm_ns = _time_work(clock, runner, lambda: evaluator.score(few))
    first_ns = max(0, cold_ns - warm_ns)
    many = min(most, round(few * EXAMINED_NS / max(warm_ns, 1)))
    if many < 2 * few:
        return Examination(few, warm_ns, first_ns, read_ns)
    read_ns = _time_work(clock, runner, lambda: evaluator.read(many))
    return Examination(many, _time_work(clock, runner, lambda: evaluator.score(many)), first_ns, read_ns)


def _time_work(clock: Clock, runner: Runner, work: Callable[[], object]) -> int:
    runner.fence()
    start_ns = clock()
    work()
    runner.fence()
    return clock() - start_ns
