"""Profile a lane's steps with its framework's own profiler, and time plain steps before and after to show its cost.

This is not a race. The lane is built and stepped as in a heat; the back end runs the profiler, and this file reads the
clock.
"""

from __future__ import annotations

import gzip
import math
import shutil
import statistics
from dataclasses import dataclass, replace
from pathlib import Path

from laptime.engine import wire
from laptime.engine.backends.base import Builder, BuiltTraining, Profiler, Runner
from laptime.engine.heat.loop import ParentLine, build_training, run_down, send_notes, time_steps
from laptime.engine.heat.work import Clock, count_step
from laptime.model.quantities import Missing
from laptime.model.symptoms import (
    PROFILED_STEPS_LEAST,
    DeviceSum,
    Observed,
    Operator,
    Profile,
    ProfileOrder,
)
from laptime.store.disk import open_atomically

PROFILE_WARM_S = 1.0
PLAIN_WINDOWS = 3  # before, and the same number after
PLAIN_WINDOW_S = 0.3
COMPRESSION = 6  # a trace is very repetitive text


def run_profile(backend: Builder, order: ProfileOrder, line: ParentLine) -> int | Missing:
    """Build, take the first step, warm up, profile, count work; return the most device memory that was held."""
    clock = backend.clock
    training = build_training(backend, order.heat, line)
    line.say(wire.Phase("first step", clock()))
    runner = training.start()
    line.say(wire.FirstStep(time_steps(clock, runner, runner.stride)))
    profiler = training.profiler(Path(order.scratch))
    if isinstance(profiler, Missing):
        line.say(wire.Profiled(None, profiler.missing))
        send_notes(runner.close(), line)
        return training.device_memory_bytes()
    line.say(wire.Phase("warm-up", clock()))
    timed = TimedSteps(clock, runner, order, warm_up(clock, runner))
    line.say(wire.Phase("profile", clock()))
    profile = timed.profile(profiler)
    send_notes(runner.close(), line)
    line.say(wire.Profiled(profile))  # sent before the counting, which may run out of memory
    line.say(wire.Phase("work", clock()))
    del timed, runner, profiler
    line.say(wire.Profiled(with_work(profile, training)))
    line.say(wire.Phase("end", clock()))
    return training.device_memory_bytes()


def warm_up(clock: Clock, runner: Runner) -> float:
    """Run about a second of steps and return what one of the last took; cached images are then in memory."""
    steps = runner.stride
    taken_ns = time_steps(clock, runner, steps)
    spent_ns = taken_ns
    while spent_ns < PROFILE_WARM_S * 1e9:
        steps = _fitting(PROFILE_WARM_S * 1e9 - spent_ns, taken_ns / steps, runner.stride)
        taken_ns = time_steps(clock, runner, steps)
        spent_ns += max(taken_ns, 1)
    if runner.holds:
        runner.repeat()
    return taken_ns / steps


@dataclass(frozen=True, slots=True)
class Timing:
    """How many steps were profiled, how long they took together, and how long a step takes without the profiler."""

    steps: int
    window_ns: float
    plain_ns: float


@dataclass(slots=True)
class TimedSteps:
    """A warmed-up lane and the time of one of its steps."""

    clock: Clock
    runner: Runner
    order: ProfileOrder
    step_ns: float

    def profile(self, profiler: Profiler) -> Profile:
        plain = self._plain_windows()
        # The first start of a profiler loads its libraries, and its first steps differ from later ones.
        self._watch(profiler, self.runner.stride)
        steps = self._steps()
        run_down(self.clock, self.runner)
        window_ns = self._watch(profiler, steps)
        plain += self._plain_windows()
        trace = keep_trace(profiler, self.order)
        timing = Timing(steps, window_ns, statistics.median(plain))
        return describe(profiler.by, profiler.read(), timing, trace)

    def _steps(self) -> int:
        """Return how many steps to profile: up to the order's limits, at least three, in whole strides."""
        stride = self.runner.stride
        fitting = min(self.order.steps, self.order.seconds * 1e9 / max(self.step_ns, 1))
        return math.ceil(max(PROFILED_STEPS_LEAST, int(fitting)) / stride) * stride

    def _plain_windows(self) -> list[float]:
        """Return the mean step time of each of some windows."""
        steps = _fitting(PLAIN_WINDOW_S * 1e9, self.step_ns, self.runner.stride)
        run_down(self.clock, self.runner)
        return [time_steps(self.clock, self.runner, steps) / steps for _ in range(PLAIN_WINDOWS)]

    def _watch(self, profiler: Profiler, steps: int) -> int:
        self.runner.fence()
        profiler.start()
        try:
            return time_steps(self.clock, self.runner, steps)
        finally:
            profiler.stop()


def describe(by: str, observed: Observed, timing: Timing, trace: str | Missing) -> Profile:
    """Convert the sums over all steps into figures of one step."""
    steps = timing.steps
    operators: list[Operator] = []
    for total in observed.operators:
        memory = total.memory_bytes
        per_step = memory if isinstance(memory, Missing) else memory / steps
        operators.append(Operator(total.name, total.where, total.calls / steps, total.own_ns / steps / 1e6, per_step))
    operators.sort(key=lambda operator: -operator.own_ms)
    busy, device_ms, kernels, length = _device_figures(observed.device, timing)
    return Profile(
        by=by,
        steps=timing.steps,
        plain_ms=timing.plain_ns / 1e6,
        profiled_ms=timing.window_ns / steps / 1e6,
        operators=tuple(operators),
        device_busy=busy,
        kernels=kernels,
        kernel_mean_us=length,
        trace=trace,
        work=None,
        device_ms=device_ms,
        absent={"work": Missing("its counting did not come to an end")},
        notes=observed.notes,
    )


def _device_figures(device: DeviceSum | Missing, timing: Timing) -> tuple[float | Missing, ...]:
    """Return the device's busy share, its time per step, its kernels per step, and their mean length."""
    if isinstance(device, Missing):
        return (device,) * 4
    length = device.kernels_ns / device.kernels / 1e3 if device.kernels else Missing("no kernel ran")
    steps = timing.steps
    return device.busy_ns / timing.window_ns, device.busy_ns / steps / 1e6, device.kernels / steps, length


def keep_trace(profiler: Profiler, order: ProfileOrder) -> str | Missing:
    """Compress the trace and move it to its place. If the disk is full, only the trace is lost, not the profile."""
    plain = Path(order.scratch) / "trace.json"
    try:
        profiler.write_trace(plain)
        with (
            plain.open("rb") as source,
            open_atomically(Path(order.trace)) as file,
            gzip.GzipFile("", "wb", COMPRESSION, file, mtime=0) as packed,
        ):
            shutil.copyfileobj(source, packed)
    except OSError as error:
        return Missing(f"it could not be written to {order.trace}: {error.strerror or error}")
    return order.trace


def with_work(profile: Profile, training: BuiltTraining) -> Profile:
    """Add the operations and bytes that a step needs; where they cannot be counted, keep the profile and the reason."""
    work = count_step(training)
    if isinstance(work, Missing):
        return replace(profile, absent={"work": work})
    return replace(profile, work=work, absent={})


def _fitting(time_ns: float, step_ns: float, stride: int) -> int:
    """Return how many steps fit into a time: whole strides, at least one."""
    return max(1, round(time_ns / max(step_ns, 1) / stride)) * stride
