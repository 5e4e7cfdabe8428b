"""The one loop for whole trainings: laps between two fences, validation and checkpoint off the clock, then a test."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from laptime.engine import wire
from laptime.engine.backends.base import Backend, Learner
from laptime.engine.heat.loop import ParentLine, build_training, prove_training, send_notes, take_census
from laptime.engine.heat.work import Clock
from laptime.model.errors import LaneError
from laptime.model.protocol import Evaluation, FullOrder, LapResult
from laptime.model.quantities import Missing
from laptime.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

TELL_EVERY_S = 0.5
GROWTH = 4  # a stride grows at most by this factor: the first steps may be far slower than later ones


def run_protocol(backend: Backend, order: FullOrder, line: ParentLine) -> int | Missing:
    """Build, prove, train all remaining laps, test; return the most device memory that was held."""
    training = build_training(backend, order.heat, line)
    if order.prove:
        prove_training(backend, training, order.heat.lane.settings, line)
    steps = order.protocol.steps_per_lap or training.steps_per_lap
    if steps is None:
        raise LaneError("nobody said how many steps make a lap: the data have no length", "give --steps-per-lap")
    protocol = order.protocol
    learner = training.learn()
    timed = TimedLaps(backend.clock, learner, order, steps, line)
    # Go on from the checkpoint, if there is one.
    path = Path(order.checkpoint)
    held = read_checkpoint(path, _identity(timed)) if path.exists() else None
    line.say(wire.Phase("resume" if held else "set up", backend.clock()))
    timed.laps = held.laps[: protocol.laps] if held else ()
    learner.begin(len(timed.laps) * steps, held.state if held else None)
    if looked_at := max(protocol.validation_items, protocol.evaluation_items):
        learner.evaluator.read(looked_at)
    line.say(wire.Resumed(timed.laps))
    for number in range(len(timed.laps) + 1, protocol.laps + 1):
        timed.run_lap(number)
        if not isinstance(line.listen(), wire.GoOn):
            raise LaneError("expected the word to go on after a lap")
    if protocol.evaluation_items or protocol.predictions:
        line.say(wire.Phase("test", backend.clock()))
        test = evaluate(timed, protocol.evaluation_items) if protocol.evaluation_items else None
        predictions = learner.evaluator.predict(protocol.predictions) if protocol.predictions else None
        line.say(wire.Tested(test, predictions))
    notes = take_census(backend.clock, learner, line)  # in one more step, which no result has in it
    send_notes((*notes, *learner.close()), line)
    line.say(wire.Phase("end", backend.clock()))
    return training.device_memory_bytes()


@dataclass(slots=True)
class TimedLaps:
    """A training in progress: its laps so far, and how many steps run between two progress messages."""

    clock: Clock
    learner: Learner
    order: FullOrder
    steps: int
    line: ParentLine
    laps: tuple[LapResult, ...] = ()
    stride: int = 1
    fresh: bool = True

    def run_lap(self, number: int) -> None:
        """Train, validate and save one lap, and report it."""
        self.line.say(wire.Phase(f"lap {number}", self.clock()))
        self.learner.reset_score()
        taken_ns = self._train(number)
        score = self.learner.score()
        lap = LapResult(number, self.steps, taken_ns / 1e9, score, fresh=self.fresh)
        self.fresh = False
        if isinstance(score.loss, Missing):
            not_kept = Missing("a training that is lost is not kept; the lap before it is")
            self.line.say(wire.LapDone(replace(lap, checkpoint_s=not_kept)))
            raise LaneError(f"{score.loss.missing} in lap {number}: this lane does not learn")
        if items := self.order.protocol.validation_items:
            self.line.say(wire.Phase(f"validation {number}", self.clock()))
            lap = replace(lap, validation=evaluate(self, items))
        self.laps = (*self.laps, lap)
        self.laps = (*self.laps[:-1], replace(lap, checkpoint_s=self._keep(number)))
        self.line.say(wire.LapDone(self.laps[-1]))

    def _train(self, number: int) -> int:
        """Run the steps of a lap. Fence the device and report progress about twice a second, never after each step."""
        learner = self.learner
        clock = self.clock
        done = 0
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
            wanted = max(1, min(fitting, GROWTH * self.stride))
            self.stride = max(1, round(wanted / learner.stride)) * learner.stride  # whole strides of the framework
            before_ns = now_ns

    def _tell(self, number: int, done: int, taken_ns: int) -> None:
        score = self.learner.score()
        figures = (_number(score.loss), _number(score.accuracy))
        self.line.say(wire.Stepped(number, done, self.steps, taken_ns, *figures))

    def _keep(self, number: int) -> float | Missing:
        """Write the checkpoint and return the seconds. A full disk does not end the training: only resuming is lost."""
        self.line.say(wire.Phase(f"checkpoint {number}", self.clock()))
        began_ns = self.clock()
        held = Checkpoint(_identity(self), self.laps, self.learner.state())
        try:
            write_checkpoint(Path(self.order.checkpoint), held)
        except OSError as error:
            return Missing(f"it could not be written: {error.strerror or error}")
        return (self.clock() - began_ns) / 1e9


def evaluate(timed: TimedLaps, items: int) -> Evaluation:
    began_ns = timed.clock()
    score = timed.learner.evaluator.score(items)
    timed.learner.fence()
    return Evaluation(score, (timed.clock() - began_ns) / 1e9)


def _identity(timed: TimedLaps) -> dict[str, str | int]:
    """Identify the training that a checkpoint belongs to: resumed by another one, it would mix two learning curves."""
    heat = timed.order.heat
    return {
        "workload": heat.subject.name,
        "lane": heat.lane.name,
        "seed": heat.seed,
        "steps a lap": timed.steps,
        "data": heat.data.digest if heat.data else "made in memory",
    }


def _number(value: float | Missing) -> float | None:
    return None if isinstance(value, Missing) or not math.isfinite(value) else value
