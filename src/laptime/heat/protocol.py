"""The one loop for whole trainings: laps between two fences, validation and checkpoint off the clock, then a test."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from laptime import wire
from laptime.backends.base import Backend, Learner, Training
from laptime.errors import LaneError
from laptime.heat.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from laptime.heat.loop import Line, build_training, prove_training, tell_notes
from laptime.model.missing import Missing
from laptime.model.protocol import Evaluation, FullOrder, LapResult

TELL_EVERY_S = 0.5
GROWTH = 4  # a stride grows by no more than this: the first steps may be far slower than those to come


def run_protocol(backend: Backend, order: FullOrder, line: Line) -> int | Missing:
    """Build, prove, train all laps that are not done yet, test; give what the device's memory held at most."""
    training = build_training(backend, order.heat, line)
    if order.prove:
        prove_training(backend, training, order.heat.lane.settings, line)
    course = Course(backend.clock, training.learn(), order, _steps_of_lap(order, training), line)
    for number in range(_take_up(course) + 1, order.protocol.laps + 1):
        course.run_lap(number)
        if not isinstance(line.listen(), wire.GoOn):
            raise LaneError("expected the word to go on after a lap")
    _test(course)
    tell_notes(course.learner.close(), line)
    line.say(wire.Phase("end", backend.clock()))
    return training.device_memory_bytes()


def _steps_of_lap(order: FullOrder, training: Training) -> int:
    steps = order.protocol.steps_per_lap or training.steps_per_lap
    if steps is None:
        raise LaneError("nobody said how many steps make a lap: the data have no length", "give --steps-per-lap")
    return steps


@dataclass(slots=True)
class Course:
    """A training under way: its laps so far, and how many steps are taken between two words of progress."""

    clock: Callable[[], int]
    learner: Learner
    order: FullOrder
    steps: int
    line: Line
    laps: tuple[LapResult, ...] = ()
    stride: int = 1
    fresh: bool = True

    def run_lap(self, number: int) -> None:
        """Train, validate and keep one lap, and tell it."""
        self.line.say(wire.Phase(f"lap {number}", self.clock()))
        self.learner.open_account()
        taken_ns = self._train(number)
        score = self.learner.score()
        lap = LapResult(number, self.steps, taken_ns / 1e9, score, fresh=self.fresh)
        self.fresh = False
        if isinstance(score.loss, Missing):
            not_kept = Missing("a training that is lost is not kept; the lap before it is")
            self.line.say(wire.LapDone(replace(lap, checkpoint_s=not_kept)))
            raise LaneError(f"{score.loss.missing} in lap {number}: this lane does not learn")
        lap = replace(lap, validation=self._validate(number))
        self.laps = (*self.laps, lap)
        self.laps = (*self.laps[:-1], replace(lap, checkpoint_s=self._keep(number)))
        self.line.say(wire.LapDone(self.laps[-1]))

    def _train(self, number: int) -> int:
        """Take a lap's steps; about twice a second the device is fenced and progress told, never for each step."""
        learner, clock, done = self.learner, self.clock, 0
        learner.fence()
        start_ns = before_ns = clock()
        while True:
            count = min(max(self.stride, learner.stride), self.steps - done)
            learner.run(count)
            learner.fence()
            now_ns = clock()
            done += count
            if self.fresh and done == count:
                self.line.say(wire.FirstStep(now_ns - start_ns))
            if done == self.steps:
                return now_ns - start_ns
            self._tell(number, done, now_ns - start_ns)
            fitting = round(TELL_EVERY_S * 1e9 * count / max(now_ns - before_ns, 1))
            self.stride = _whole(max(1, min(fitting, GROWTH * self.stride)), learner.stride)
            before_ns = now_ns

    def _tell(self, number: int, done: int, taken_ns: int) -> None:
        score = self.learner.score()
        loss, accuracy = _number(score.loss), _number(score.accuracy)
        self.line.say(wire.Stepped(number, done, self.steps, taken_ns, loss, accuracy))

    def _validate(self, number: int) -> Evaluation | None:
        items = self.order.protocol.validation_items
        if not items:
            return None
        self.line.say(wire.Phase(f"validation {number}", self.clock()))
        return evaluate(self, items)

    def _keep(self, number: int) -> float | Missing:
        """Write the checkpoint. A disk that is full ends no training: what is lost is only the way back."""
        self.line.say(wire.Phase(f"checkpoint {number}", self.clock()))
        began_ns = self.clock()
        held = Checkpoint(_identity(self), self.laps, self.learner.state())
        try:
            write_checkpoint(Path(self.order.checkpoint), held)
        except OSError as error:
            return Missing(f"it could not be written: {error.strerror or error}")
        return (self.clock() - began_ns) / 1e9


def evaluate(course: Course, items: int) -> Evaluation:
    began_ns = course.clock()
    score = course.learner.examiner.score(items)
    course.learner.fence()
    return Evaluation(score, (course.clock() - began_ns) / 1e9)


def _take_up(course: Course) -> int:
    """Go on from the checkpoint where there is one; give how many laps are done."""
    path = Path(course.order.checkpoint)
    held = read_checkpoint(path, _identity(course)) if path.exists() else None
    course.line.say(wire.Phase("resume" if held else "set up", course.clock()))
    course.laps = held.laps[: course.order.protocol.laps] if held else ()
    course.learner.begin(len(course.laps) * course.steps, held.state if held else None)
    if looked_at := max(course.order.protocol.validation_items, course.order.protocol.evaluation_items):
        course.learner.examiner.read(looked_at)
    course.line.say(wire.Resumed(course.laps))
    return len(course.laps)


def _test(course: Course) -> None:
    protocol = course.order.protocol
    if not (protocol.evaluation_items or protocol.predictions):
        return
    course.line.say(wire.Phase("test", course.clock()))
    test = evaluate(course, protocol.evaluation_items) if protocol.evaluation_items else None
    predictions = course.learner.examiner.predict(protocol.predictions) if protocol.predictions else None
    course.line.say(wire.Tested(test, predictions))


def _identity(course: Course) -> dict[str, str | int]:
    """Name what a checkpoint belongs to: taken up by another training, it would give a curve that never was."""
    heat = course.order.heat
    return {
        "workload": heat.subject.name,
        "lane": heat.lane.name,
        "seed": heat.seed,
        "steps a lap": course.steps,
        "data": heat.data.digest if heat.data else "made in memory",
    }


def _whole(steps: int, stride: int) -> int:
    """Give the multiple of the framework's own stride that is nearest, one at least."""
    return max(1, round(steps / stride)) * stride


def _number(value: float | Missing) -> float | None:
    return None if isinstance(value, Missing) or not math.isfinite(value) else value
