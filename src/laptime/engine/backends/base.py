"""What a back end must provide. It never reads the clock; the loop does, so that one file times every framework."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from laptime.engine.backends.replay import StateRewinder
from laptime.model.hardware import StepWork
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder
from laptime.model.process import CollectiveSum, RankTimes
from laptime.model.protocol import AnswerReference, AnswerRun, Predictions, Score
from laptime.model.quantities import Missing
from laptime.model.sample import LateStep, ProofRun, Reference, SeenBatch, Updates
from laptime.model.symptoms import DenormalCensus, Observed, StepSymptoms

ONE_LABEL = Missing("an item has one label")

# What a network raises when it gets a batch of a size that it was not made for.
BATCH_SIZE_ERRORS = (RuntimeError, ValueError, IndexError, AssertionError)


@dataclass(frozen=True, slots=True)
class Exercise:
    """`once` starts the work one time; `fence` waits until all started work is done.

    `work` is the work of one time: floating-point operations, or bytes read plus bytes written.
    """

    once: Callable[[], object]
    fence: Callable[[], object]
    work: float


class Exercises(Protocol):
    """One device, ready for one framework to measure its limits."""

    by: str
    """The framework that computes, with its version."""

    @property
    def free_bytes(self) -> int | Missing:
        """Return how much of the device's memory is free."""

    @property
    def products(self) -> tuple[str, ...]:
        """The functions with which the framework can compute a product here; the fastest gives the device's limit."""

    @property
    def copies(self) -> tuple[str, ...]:
        """The methods with which the framework can make the device's memory move bytes."""

    def product(self, precision: str, way: str, rows: int) -> Exercise:
        """Multiply two square matrices of this many rows, with values in this precision."""

    def copy(self, way: str, size_bytes: int) -> Exercise:
        """Read this many bytes of the device's memory, and write the same number to the same or another place in it."""


# A write to another place makes many processors read that place first, which is not counted; in place, they do not.
PRODUCT = "product"
CONVOLUTION = "1x1 convolution"
COPIED_ELSEWHERE = "copied"
TURNED_IN_PLACE = "turned in place"


def product_work(rows: int) -> float:
    """Count a multiplication and its addition as two operations."""
    return 2.0 * rows**3


def copy_work(size_bytes: int) -> float:
    """Count the bytes read plus the bytes written."""
    return 2.0 * size_bytes


class Evaluator(Protocol):
    """Evaluates a network on the test items, without training."""

    def read(self, items: int) -> None:
        """Read the first test items into memory, where they are kept in memory; called off the clock."""

    def score(self, items: int) -> Score:
        """Score the first items of the test set, at most all of them."""

    def predict(self, items: int) -> Predictions:
        """Return the predictions for the first items of the test set, and the truth."""


class StepParts(Protocol):
    """A training whose steps are run part by part; the loop fences and times the parts."""

    stride: int
    """How many steps one round of the parts makes."""

    def fetch(self) -> Any:
        """Wait for the loader's next batch; it may still be on the host."""

    def move(self, batch: Any) -> Any:
        """Move the batch to where it is used."""

    def compute(self, batch: Any) -> None:
        """Do the rest of a step."""

    def describe(self, batch: Any) -> Hashable:
        """Count a used batch and return its shapes: a framework may compile or search again for new shapes.

        Called off the clock.
        """

    def look(self, steps: int, timed: int) -> StepSymptoms:
        """Run more rounds off the clock and count what can be counted; `timed` is how many rounds ran before.

        A part that cannot be separated from the others is `Missing` with its reason. For a part that this method leaves
        at "not looked at", the loop uses its own times.
        """


class Steppable(Protocol):
    """A training that is ready to run. It gets a number of steps, because a framework may have its own loop."""

    stride: int
    """How many steps the framework runs at once; a call must ask for a multiple of it, except at the end of a lap."""

    def run(self, steps: int) -> None:
        """Start this many optimizer updates; on an accelerator they may still be running on return."""

    def fence(self) -> None:
        """Wait until all started work is done."""

    def census(self) -> DenormalCensus | Missing:
        """Count denormal numbers in one more step, after all others, or return why they are not counted."""

    def close(self) -> tuple[str, ...]:
        """Free threads and memory; return notes on what was left out or done differently."""


class Runner(Steppable, Protocol):
    """A training whose steps are timed."""

    @property
    def evaluator(self) -> Evaluator | None:
        """The evaluator of the network, if one is trained."""

    ready_batches: int
    """How many batches its loader may hold ready; they are used up before a window opens."""

    holds: bool
    """Whether its loader keeps decoded items in memory, so that steps get faster once all items were seen."""

    outside_ns: int
    """The time so far that passed in `run` and belongs to no step, such as the validations of a script."""

    def run_marked(self, steps: int) -> Sequence[object]:
        """Run, and mark the points before, between and after the steps: host time, or events of an accelerator."""

    def step_ns(self, marks: Sequence[object]) -> tuple[int, ...]:
        """Return the nanoseconds between neighbouring marks; called after a fence."""

    def loss(self) -> float | None:
        """Return the loss of the last step, or None where it is not seen; called after a fence, off the clock."""

    def repeat(self) -> None:
        """From now on, step on batches that were already trained on; called where the loader holds their items."""

    def parts(self) -> StepParts | Missing:
        """Return the same training in parts, after its windows, or why its steps cannot be split."""

    def updates(self) -> Updates | None:
        """Return how often the weights were changed so far, and the rate, where both are seen; called off the clock."""

    def weights(self) -> Any | None:
        """Return the weights, and what the network remembers, as arrays by name; None where they are not seen."""

    def take_late_step(self) -> LateStep | None:
        """Go back to the start of the proof, and take a step of it as the timed steps are taken; nothing comes after.

        None where a training cannot be put back, or is laptime's own.
        """

    def take_seen(self) -> SeenBatch | None:
        """Return the batch of the last step of `run_marked`, once, and keep it no longer; called off the clock."""

    def rewinder(self) -> StateRewinder | Missing:
        """Return what puts this training back to where a turn began, or why nothing can."""

    @property
    def ranks(self) -> RankTimes | None:
        """What each rank took before the last fence, where there are several; read after `step_ns`, off the clock."""


class Learner(Steppable, Protocol):
    """A whole training: each step adds to a running score on the device, without waiting for it."""

    @property
    def evaluator(self) -> Evaluator: ...

    def begin(self, steps_done: int, state: Any | None) -> None:
        """Prepare for the step after `steps_done`; `state` is what `state` returned then, None at the start."""

    def score(self) -> Score:
        """Return the means since the last reset; called after a fence."""

    def reset_score(self) -> None:
        """Reset the running score; called off the clock."""

    def state(self) -> Any:
        """Return all that the next step depends on: dicts, lists, numbers, strings and NumPy arrays."""


class LossJudge(Protocol):
    """The network of a training, its loss, and items: what judges weights that others have trained."""

    items: int
    batches: int
    is_held_out: bool
    """Whether the training says that it does not train on these items; else they are drawn from its data."""

    def weigh(self, weights: Any, *, are_first: bool) -> float | Missing:
        """Return the loss of weights, as a runner's `weights` gives them, or why they do not fit the network.

        `are_first` are those of before the first step: then all that is not trained has to be as it is here.
        """


class Predictor(Protocol):
    """A network that only answers: in evaluation mode, without gradients, executed as the lane says."""

    parameters: int
    notes: tuple[str, ...]

    def read_items(self, most: int) -> None:
        """Read this many items into host memory; called off the clock."""

    def sizes(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        """Return the batch sizes to which the items can be cut: the wanted ones, or only the size they come in."""

    def keep_whole(self, why: str) -> bool:
        """Stop cutting the items, because the network refused them; return whether they were cut before."""

    def take(self, batch: int) -> None:
        """Prepare a batch of this many items in host memory; called off the clock."""

    def call(self) -> None:
        """Move the batch to the device and through the network, and start moving the answers back to the host."""

    def fence(self) -> None:
        """Wait until all started work is done and the answers are on the host."""

    def let_go(self) -> None:
        """Free the memory of the last batch: the next one may need it."""

    def prove(self, precision: str, batch: int) -> AnswerRun:
        """Return the answers to the first items at this precision."""

    def reference(self) -> AnswerReference:
        """Return the answers of the same weights in float64 on the processor, and also in float32."""

    def device_memory_bytes(self) -> int | Missing:
        """Return the most memory that the framework's allocator held on the device."""


class Profiler(Protocol):
    """A framework's own profiler. Its caller fences before each start and stop; it may be started more than once."""

    by: str
    """Its name and version, as shown to people."""

    def start(self) -> None:
        """Start watching."""

    def stop(self) -> None:
        """Stop watching."""

    def read(self) -> Observed:
        """Return what it saw since its last start."""

    def write_trace(self, path: Path) -> None:
        """Write the same data as a Chrome trace, in plain JSON."""


class BuiltTraining(Protocol):
    """What a heat order built: a training that can be proven and run."""

    parameters: int
    items_per_step: int
    steps_per_lap: int | None
    notes: tuple[str, ...]
    data: Any
    """The data that a user's function returned; None of a built-in training."""

    def prove(self, precision: str) -> ProofRun:
        """Run the proof's steps at this precision, executed as the lane says."""

    def reference(self) -> Reference:
        """Run the proof's steps in float64 on the processor, and also in float32."""

    def start(self) -> Runner:
        """Make the training that is timed."""

    def learn(self) -> Learner:
        """Make the training that runs as a whole."""

    def profiler(self, scratch: Path) -> Profiler | Missing:
        """Return the profiler of the training that `start` made, or why there is none; it may write into `scratch`."""

    def work(self) -> StepWork | Missing:
        """Count the operations and bytes of one step, off the clock, or return why they cannot be counted."""

    def device_memory_bytes(self) -> int | Missing:
        """Return the most memory that the framework's allocator held on the device."""


class Builder(Protocol):
    """What makes trainings and has a clock: all that the loop needs of a framework."""

    name: str

    def versions(self) -> dict[str, str]:
        """Return the framework's version first, then the versions of the libraries that it uses."""

    def build(self, order: HeatOrder) -> BuiltTraining:
        """Make the order's training on the order's device with the order's settings."""

    def clock(self) -> int:
        """Return the monotonic time in nanoseconds, from the machine's clock or the fake's virtual one."""


class Backend(Builder, Protocol):
    """One framework."""

    def devices(self) -> tuple[Device, ...]:
        """Return every device that the framework sees, usable or not."""

    def warm_up(self) -> None:
        """Import what else a training will need; compute nothing, and use no device."""

    def predict(self, order: HeatOrder) -> Predictor:
        """Make the order's network with its weights on the order's device, without what only training needs."""

    def judge(self, order: HeatOrder, batches: int | None = None) -> LossJudge | Missing:
        """Return what judges the weights of others by the order's training, or why it cannot.

        Its items are in this number of `batches`, or in as many as do not take long.
        """

    def exercises(self, device: Device) -> Exercises:
        """Prepare a device for measuring its limits."""


NO_CENSUS = Missing("denormal numbers are counted in PyTorch's lanes only")
NO_REWINDER = Missing(
    "it is put back to where a turn began on torch, jax and python lanes, not captured, on one device"
)
NO_JUDGE = Missing("its weights are seen in PyTorch's lanes only")


class UnseenWeights:
    """What a runner answers that does not see the weights which its steps change."""

    def census(self) -> DenormalCensus | Missing:
        return NO_CENSUS

    def updates(self) -> Updates | None:
        return None

    def weights(self) -> Any | None:
        return None

    def take_late_step(self) -> LateStep | None:
        return None

    def take_seen(self) -> SeenBatch | None:
        return None

    def rewinder(self) -> StateRewinder | Missing:
        return NO_REWINDER


class StepwiseRunner(UnseenWeights, ABC):
    """Runs many steps, where a subclass provides one step."""

    stride = 1
    outside_ns = 0
    ranks: RankTimes | None = None

    @abstractmethod
    def step(self) -> None:
        """Start one optimizer update."""

    def run(self, steps: int) -> None:
        step = self.step
        for _ in range(steps):
            step()


class MarkedRunner(StepwiseRunner):
    """A stepwise runner that can also mark the points between its steps.

    `mark` marks a point of the work: by host time on a processor, by an event on an accelerator.
    """

    mark: Callable[[], object]

    def step_seen(self) -> None:
        """Start an update, and keep its batch to be looked at."""
        self.step()

    def run_marked(self, steps: int) -> list[object]:
        step = self.step
        mark = self.mark
        marks = [mark()]
        for _ in range(steps - 1):
            step()
            marks.append(mark())
        self.step_seen()
        marks.append(mark())
        return marks


# What a back end must also provide where several processes train one network together.


class ExchangeProfiler(Protocol):
    """A framework's own profiler, asked only about what processes exchange. Its caller fences before start and stop."""

    by: str
    """Its name and version, as shown to people."""

    def start(self) -> None:
        """Start watching."""

    def stop(self) -> None:
        """Stop watching."""

    def collectives(self) -> CollectiveSum | Missing:
        """Return how long a collective was in progress since the last start, or why that was not seen."""


class SharedTraining(BuiltTraining, Protocol):
    """A training that several processes train together."""

    def exchange_profiler(self) -> ExchangeProfiler | Missing:
        """Return a profiler of this process's part in the exchange, or why there is none."""

    def exchange(self, size_bytes: int) -> Exercise:
        """Exchange this many bytes among all of them, as their gradients are."""
