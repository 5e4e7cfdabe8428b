"""The one loop that times everybody: proof, first step, then windows fenced at their two ends and nowhere between."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from laptime import wire
from laptime.backends.base import Backend, Runner, Training
from laptime.errors import LaneError
from laptime.heat.apart import take_apart
from laptime.heat.examination import examine
from laptime.model.lane import NO_TRAINING, Settings
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder, Pace
from laptime.model.sample import FreshSteps, ProofRun, Window

WINDOWS_LEAST = 3
RUN_DOWN_MOST_S = 30.0
PATIENCE_FACTOR = 2  # a step so slow that few windows fit may take this many times the measuring time
FAIR_PART = 0.25  # of a window, until which steps are counted before it is known how many make one
ESTIMATE_MOST = 1 << 16
WHOLE_LAPS = 4  # windows of whole laps that have to fit into the measuring time


class Line(Protocol):
    """The way to the parent."""

    def say(self, message: wire.FromChild) -> None: ...

    def listen(self) -> wire.FromParent: ...


def run_heat(backend: Backend, order: HeatOrder, line: Line) -> int | Missing:
    """Build, prove, take the first step, measure; give what the device's memory held at most."""
    training = build_training(backend, order, line)
    prove_training(backend, training, order.lane.settings, line)
    line.say(wire.Phase("first step", backend.clock()))
    runner = training.start()
    line.say(wire.FirstStep(time_steps(backend.clock, runner, runner.stride)))
    line.say(wire.Phase("timing", backend.clock()))
    measure(backend.clock, runner, order.pace, line, training.steps_per_lap)
    missed = look_ahead(backend.clock, runner, order.test_items, training.items_per_step, line)
    if order.takes_apart:
        missed = (*missed, *look_apart(backend.clock, runner, line))
    tell_notes((*missed, *runner.close()), line)
    line.say(wire.Phase("end", backend.clock()))
    return training.device_memory_bytes()


def look_ahead(clock: Callable[[], int], runner: Runner, items: int, batch: int, line: Line) -> tuple[str, ...]:
    """Learn what a whole training has and no window holds; where that fails, the timing stands, and a note says why."""
    if not items or runner.examiner is None:
        return ()
    line.say(wire.Phase("look ahead", clock()))
    try:
        line.say(wire.Examined(examine(clock, runner, runner.examiner, batch, items)))
    except Exception as error:  # noqa: BLE001  whatever a framework raises: what was asked for is the timing
        return (f"no forecast of the whole training: looking ahead ended in {type(error).__name__}: {error}",)
    return ()


def look_apart(clock: Callable[[], int], runner: Runner, line: Line) -> tuple[str, ...]:
    """Take some steps apart, for signatures of causes; where that fails, the timing stands, and a note says why."""
    line.say(wire.Phase("take apart", clock()))
    try:
        apart = runner.apart()
        if isinstance(apart, Missing):
            return (f"its steps were not taken apart: {apart.missing}",)
        run_down(clock, runner)
        line.say(wire.Signed(take_apart(clock, runner.fence, apart)))
    except Exception as error:  # noqa: BLE001  whatever a framework or a user's code raises
        return (f"its steps were not taken apart: that ended in {type(error).__name__}: {error}",)
    return ()


def tell_notes(notes: tuple[str, ...], line: Line) -> None:
    if notes:
        line.say(wire.Noted(notes))


def build_training(backend: Backend, order: HeatOrder, line: Line) -> Training:
    line.say(wire.Phase("build", backend.clock()))
    training = backend.build(order)
    versions = backend.versions()
    line.say(wire.Built(training.parameters, training.items_per_step, training.steps_per_lap, versions, training.notes))
    return training


def prove_training(backend: Backend, training: Training, settings: Settings, line: Line) -> None:
    line.say(wire.Phase("proof", backend.clock()))
    for precision in precisions_to_prove(settings):
        line.say(wire.Proved(_checked(training.prove(precision))))


def take_proof(training: Training, settings: Settings) -> tuple[ProofRun, ...]:
    return tuple(_checked(training.prove(precision)) for precision in precisions_to_prove(settings))


def precisions_to_prove(settings: Settings) -> tuple[str, ...]:
    """Every lane shows the same work in float32; one of reduced precision also shows how far it strays."""
    if settings.input in NO_TRAINING:
        return ()
    return ("fp32",) if settings.precision == "fp32" else ("fp32", settings.precision)


def _checked(run: ProofRun) -> ProofRun:
    """A proof that ends in NaN proves nothing, and its lane would learn nothing."""
    for step, loss in enumerate(run.losses):
        if not math.isfinite(loss):
            raise LaneError(f"the loss became {loss} at step {step + 1} of the proof, in {run.precision}")
    return run


def measure(clock: Callable[[], int], runner: Runner, pace: Pace, line: Line, lap: int | None = None) -> None:
    """Run the planned windows, then those that the parent wants again; `lap` is how many steps one has, if known."""
    steps = _fitting(pace, _estimate_ns(clock, runner, pace, lap), runner.stride, lap)
    spent_ns, windows = 0, 0
    if runner.holds:
        _take_fresh(clock, runner, steps, line)
    tell_notes(run_down(clock, runner), line)
    while not _is_enough(spent_ns, windows, pace):
        spent_ns += _run_window(clock, runner, steps, windows, line)
        windows += 1
        if windows == 1:  # the estimate stood on a few steps; the first window stands on many
            steps = _fitting(pace, spent_ns / steps, runner.stride, lap)
    while True:
        line.say(wire.Ready())
        answer = line.listen()
        if not isinstance(answer, wire.Again):
            return
        run_down(clock, runner)
        for _ in range(answer.windows):
            _run_window(clock, runner, steps, windows, line)
            windows += 1


def _estimate_ns(clock: Callable[[], int], runner: Runner, pace: Pace, lap: int | None) -> float:
    """Time one step, then twice as many and so on, until they fill a fair part of a window; then a lap, if it is short.

    One step alone may take a thousandth of the mean, as in a loader that works at a lap's end only. One has to do for a
    loader of ours that holds what it has decoded: what this uses up is not fresh any more.
    """
    steps = runner.stride
    if runner.holds:
        return time_steps(clock, runner, steps) / steps
    while True:
        spent_ns = time_steps(clock, runner, steps)
        if spent_ns >= FAIR_PART * pace.window_s * 1e9 or steps >= ESTIMATE_MOST:
            break
        steps *= 2
    if not lap or lap % runner.stride or steps >= lap or lap * spent_ns / steps > 2 * _longest_ns(pace):
        return spent_ns / steps
    return time_steps(clock, runner, lap) / lap


def _fitting(pace: Pace, step_ns: float, stride: int, lap: int | None) -> int:
    """Give how many steps make a window: as many of the framework's own strides as fit, one at least.

    Where laps are short they are whole laps, so that each window holds as many lap ends as the others.
    """
    steps = max(1, round(pace.window_s * 1e9 / max(step_ns, 1) / stride)) * stride
    if not lap or lap % stride:
        return steps
    whole = math.ceil(steps / lap) * lap
    return whole if whole * step_ns <= _longest_ns(pace) else steps


def _longest_ns(pace: Pace) -> float:
    """Give how long a window of whole laps may be."""
    return pace.measure_s * 1e9 / WHOLE_LAPS


def _take_fresh(clock: Callable[[], int], runner: Runner, steps: int, line: Line) -> None:
    """Time some steps on items that are decoded for them; then stay with these, which are held by now.

    All laps but the first are so. Else windows would be of either kind, or of both, by how many items there are.
    """
    run_down(clock, runner)
    line.say(wire.Fresh(FreshSteps(steps, time_steps(clock, runner, steps))))
    runner.repeat()


def _is_enough(spent_ns: int, windows: int, pace: Pace) -> bool:
    spent_s = spent_ns / 1e9
    if spent_s >= PATIENCE_FACTOR * pace.measure_s:
        return windows >= WINDOWS_LEAST
    return spent_s >= pace.measure_s and windows >= pace.windows_min


def time_steps(clock: Callable[[], int], runner: Runner, steps: int) -> int:
    """Time some steps between two fences, marking none of them."""
    runner.fence()
    start_ns = clock()
    runner.run(steps)
    runner.fence()
    return clock() - start_ns


def run_down(clock: Callable[[], int], runner: Runner) -> tuple[str, ...]:
    """Use up what a loader had ready: after a pause that is a gift; from window to window there is no pause.

    Steps so slow that this takes half a minute leave their loader the time to make more: the rest stays, and is told.
    """
    left, began_ns = runner.ready_batches, clock()
    while left > 0:
        runner.run(runner.stride)
        runner.fence()
        left -= runner.stride
        if left > 0 and clock() - began_ns > RUN_DOWN_MOST_S * 1e9:
            return (f"up to {left} batches that its loader had ready were not used up before the windows opened",)
    return ()


def _run_window(clock: Callable[[], int], runner: Runner, steps: int, number: int, line: Line) -> int:
    runner.fence()
    start_ns = clock()
    marks = runner.run_marked(steps)
    runner.fence()
    end_ns = clock()
    loss = runner.loss()
    window = Window(start_ns, end_ns, steps, runner.step_ns(marks))
    line.say(wire.Closed(window, loss if math.isfinite(loss) else None))
    if not math.isfinite(loss):
        raise LaneError(f"the loss became {loss} in window {number + 1}: this lane does not learn, and cannot win")
    return end_ns - start_ns
