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
from laptime.heat.gait import Gait, find_gait
from laptime.heat.stepping import run_down, time_steps
from laptime.model.lane import NO_TRAINING, Settings
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder, Pace
from laptime.model.sample import FreshSteps, ProofRun, Window

WINDOWS_LEAST = 3
MARKED_MOST = 4_096  # steps of a window that are timed one by one; more would be a record of megabytes
PATIENCE_FACTOR = 2  # a step so slow that few windows fit may take this many times the measuring time


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
    gait = measure(backend.clock, runner, order.pace, line, training.steps_per_lap)
    missed = look_ahead(backend.clock, runner, order.test_items, training.items_per_step, line)
    if order.takes_apart:
        missed = (*missed, *look_apart(backend.clock, runner, gait.burst or 1, line))
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


def look_apart(clock: Callable[[], int], runner: Runner, least: int, line: Line) -> tuple[str, ...]:
    """Take some steps apart, for signatures of causes; where that fails, the timing stands, and a note says why."""
    line.say(wire.Phase("take apart", clock()))
    try:
        apart = runner.apart()
        if isinstance(apart, Missing):
            return (f"its steps were not taken apart: {apart.missing}",)
        run_down(clock, runner)
        line.say(wire.Signed(take_apart(clock, runner.fence, apart, least)))
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


def measure(clock: Callable[[], int], runner: Runner, pace: Pace, line: Line, lap: int | None = None) -> Gait:
    """Run the planned windows, then those that the parent wants again; `lap` is how many steps one has, if known."""
    gait = _begin(clock, runner, pace, line, lap)
    steps = gait.window_steps
    spent_ns, windows = 0, 0
    while not _is_enough(spent_ns, windows, pace):
        spent_ns += _run_window(clock, runner, steps, windows, line)
        windows += 1
        if windows == 1:  # the estimate stood on a few steps; the first window stands on many
            steps = gait.after(spent_ns / steps).window_steps
    while True:
        line.say(wire.Ready())
        answer = line.listen()
        if not isinstance(answer, wire.Again):
            return gait
        run_down(clock, runner)
        for _ in range(answer.windows):
            _run_window(clock, runner, steps, windows, line)
            windows += 1


def _begin(clock: Callable[[], int], runner: Runner, pace: Pace, line: Line, lap: int | None) -> Gait:
    """Use up what a loader had ready, and learn the gait; from here to the first window there is no pause."""
    if runner.holds:
        # What more steps of an estimate used up would not be fresh any more.
        step_ns = time_steps(clock, runner, runner.stride) / runner.stride
        _take_fresh(clock, runner, Gait(pace, runner.stride, step_ns, lap, runner.ready_batches).window_steps, line)
    tell_notes(run_down(clock, runner), line)
    gait = find_gait(clock, runner, pace, lap)
    line.say(wire.Paced(round(gait.window_steps * gait.step_ns), gait.burst))
    if gait.burst is not None:
        tell_notes((in_bursts(gait.burst),), line)
    return gait


def in_bursts(most: int) -> str:
    return f"its loader gives up to {most} batches at once, then none: no window is shorter, and its step is their mean"


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


def _run_window(clock: Callable[[], int], runner: Runner, steps: int, number: int, line: Line) -> int:
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
