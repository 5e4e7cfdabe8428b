"""One side of a verdict on learning, trained in legs between two fences; and what judges the loss of its weights.

The weights are written after each leg, off the clock. This process then waits until their loss is known in another one,
which runs the base's code alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median

from laptime.engine import wire
from laptime.engine.backends.base import Backend, Runner
from laptime.engine.heat.loop import ParentLine, build_training, send_notes, time_steps
from laptime.engine.heat.work import Clock
from laptime.model.errors import LaneError
from laptime.model.plan import HeatOrder
from laptime.model.protocol import LearningOrder
from laptime.model.quantities import Missing
from laptime.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

SIZING_STRIDES = 9
LEG_STRIDES_LEAST = 2  # of a leg: the first step counts as the others of its leg take


def run_learning(backend: Backend, order: LearningOrder, line: ParentLine) -> int | Missing:
    """Build, and train leg by leg until the parent has seen enough; return the most device memory that was held."""
    training = build_training(backend, order.heat, line)
    line.say(wire.Phase("first step", backend.clock()))
    runner = training.start()
    steps_asked = order.leg_steps  # of a leg, where they do not follow from its time
    if order.leg_laps is not None:
        if training.steps_per_lap is None:
            raise LaneError(
                "--laps: the data have no length", "give steps_per_lap= in the training, or leave out --laps"
            )
        steps_asked = max(1, round(order.leg_laps * training.steps_per_lap))
    legs = Legs(backend.clock, runner, order, line, steps_asked)
    if legs.show(0, 0):
        steps, taken_ns = legs.begin()
        while legs.show(steps, taken_ns):
            taken_ns = time_steps(backend.clock, legs.runner, steps)
    send_notes(legs.runner.close(), line)
    line.say(wire.Phase("end", backend.clock()))
    return training.device_memory_bytes()


@dataclass(slots=True)
class Legs:
    """A training that is timed leg by leg, and shows its weights after each."""

    clock: Clock
    runner: Runner
    order: LearningOrder
    line: ParentLine
    steps: int | None

    def begin(self) -> tuple[int, int]:
        """Train the first leg; return its steps, which all others have, too, and its time.

        The very first step may compile, or read what no later one reads. A real training is much longer than this one,
        so it counts as long as the mean of the steps after it.
        """
        clock = self.clock
        runner = self.runner
        first_ns = time_steps(clock, runner, runner.stride)
        self.line.say(wire.FirstStep(first_ns))
        self.line.say(wire.Phase("legs", clock()))
        done = runner.stride
        taken_ns = 0
        if self.steps is None:
            # Some strides one by one: the middle one sizes a leg, as early ones may be slow, or be disturbed.
            strides_ns: list[int] = []
            while len(strides_ns) < SIZING_STRIDES and sum(strides_ns) < self.order.leg_s * 1e9:
                strides_ns.append(time_steps(clock, runner, runner.stride))
            done += len(strides_ns) * runner.stride
            taken_ns = sum(strides_ns)
            strides = max(round(self.order.leg_s * 1e9 / median(strides_ns)), done // runner.stride)
            steps = strides * runner.stride
        else:
            steps = max(self.steps, LEG_STRIDES_LEAST * runner.stride)
        if steps > done:
            taken_ns += time_steps(clock, runner, steps - done)
        return steps, round(taken_ns * steps / (steps - runner.stride))

    def show(self, steps: int, taken_ns: int) -> bool:
        """Write the weights, report the leg, and return whether another one is wanted."""
        held = self.runner.weights()
        if held is None:
            raise LaneError("the weights of this lane are not seen", "name a lane of torch")
        write_checkpoint(Path(self.order.weights), Checkpoint({}, (), held))
        self.line.say(wire.LegTrained(steps, taken_ns))
        return isinstance(self.line.listen(), wire.GoOn)


def run_judge(backend: Backend, order: HeatOrder, batches: int | None, line: ParentLine) -> None:
    """Draw the items, then return the loss of each file of weights that the parent names."""
    line.say(wire.Phase("build", backend.clock()))
    judge = backend.judge(order, batches)
    if isinstance(judge, Missing):
        line.say(wire.ItemsDrawn(0, reason=judge.missing))
        return
    line.say(wire.Phase("judge", backend.clock()))
    line.say(wire.ItemsDrawn(judge.items, judge.batches, judge.is_held_out))
    while isinstance(asked := line.listen(), wire.WeighLoss):
        weights = read_checkpoint(Path(asked.weights), {}).state
        loss = judge.weigh(weights, are_first=asked.are_first)
        line.say(wire.LossWeighed(None, loss.missing) if isinstance(loss, Missing) else wire.LossWeighed(loss))
