"""A user's own step function: the parts that are the same for every framework."""

from __future__ import annotations

import contextlib
import copy
import itertools
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from laptime.backends.base import Learner, Predictor, StepwiseRunner
from laptime.backends.fingerprint import Array
from laptime.backends.own import call_own, endless, length_of
from laptime.backends.python.arrays import has_floats, list_arrays, read_array, widen_batch, widen_state
from laptime.errors import LaneError, TrainingError
from laptime.model.lane import KEPT
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.symptoms import StepSymptoms
from laptime.model.workload import Training

KEPT_BATCHES = 64
ITS_OWN_COPY = Missing("a step of your own brings its batches to the device on its own")
NOT_LOOKED_INTO = Missing("a step of your own is called as it is: laptime sees no tensors in it")


@dataclass(frozen=True, slots=True)
class OwnSteps:
    """What a user's function returned, except the state: each back end keeps that in its own way."""

    name: str
    data: Any
    step: Callable[[Any, Any], tuple[Any, Any]]
    fence: Callable[[Any], object] | None
    steps_per_lap: int | None
    proof_steps: int
    seed: int

    def batches(self) -> Iterator[Any]:
        return endless(self.data, self.name)

    def take(self, state: Any, batch: Any) -> tuple[Any, Any]:
        told = self.step(state, batch)
        if not (isinstance(told, tuple) and len(told) == 2):
            raise TrainingError(f"{self.name}: step returned {type(told).__name__}, expected a pair (state, loss)")
        return told

    def number(self, loss: Any) -> float:
        if np.size(loss) != 1:
            raise TrainingError(f"{self.name}: the loss has {np.size(loss)} numbers, expected one")
        return float(np.asarray(loss).reshape(()))


class JoinedBatches:
    """A user's batches, several joined to one; without end, so that a lap may end within a joined batch."""

    def __init__(self, own: OwnSteps, times: int, join: Callable[[Sequence[Any]], Any]) -> None:
        self._own, self._times, self._join = own, times, join

    def __iter__(self) -> Iterator[Any]:
        batches = self._own.batches()
        while True:
            yield self._join([next(batches) for _ in range(self._times)])


def join_batches(own: OwnSteps, times: int, join: Callable[[Sequence[Any]], Any]) -> OwnSteps:
    """Return the steps with this many of the user's batches joined to one."""
    if times == 1:
        return own
    lap = None if own.steps_per_lap is None else max(1, round(own.steps_per_lap / times))
    return replace(own, data=JoinedBatches(own, times, join), steps_per_lap=lap)


class Steps(Protocol):
    """What a back end knows about the arrays in a user's states and batches."""

    own: OwnSteps

    def fresh_state(self, *, wide: bool = False) -> Any:
        """Return a copy of the state that the user's function returned, for one run to use up; in float64 if `wide`."""

    def widen(self, batch: Any) -> Any:
        """Return a batch in float64."""

    def floats(self, state: Any) -> list[Array]:
        """Copy the float arrays of a state to the host."""

    def number(self, loss: Any) -> float:
        """Return a loss as a number."""

    def fence(self, state: Any, loss: Any) -> None:
        """Wait until the state and the loss are computed."""

    def await_batch(self, batch: Any) -> None:
        """Wait until a batch is ready."""

    def leaves(self, batch: Any) -> Iterable[Any]:
        """Return the arrays in a batch."""

    def compiled(self) -> int | Missing:
        """Return how often the framework has compiled so far, or why that is not known."""


def call_for_steps(order: HeatOrder, lanes: str) -> tuple[OwnSteps, Training]:
    """Call the user's function, which must return a training with a step."""
    subject = order.subject
    assert subject.file is not None and subject.function is not None  # noqa: PT018  a subject of a file has both
    training = call_own(subject.file, subject.function)
    if training.step is None:
        raise TrainingError(
            f"{subject.name}: gives a model, and {lanes} lanes take a step",
            "race it on torch or Keras lanes, or return laptime.Training(step=..., state=..., data=...)",
        )
    return make_own_steps(order, training), training


def make_own_steps(order: HeatOrder, training: Training) -> OwnSteps:
    assert training.step is not None
    lap = training.steps_per_lap or length_of(training.data)
    return OwnSteps(
        order.subject.name, training.data, training.step, training.fence, lap, order.proof.steps, order.seed
    )


class CopiedSteps:
    """Steps of which each run begins from a deep copy of the state that the user's function returned."""

    def __init__(self, own: OwnSteps, state: Any) -> None:
        self.own, self._start = own, state

    def fresh_state(self, *, wide: bool = False) -> Any:
        try:
            with _whole_optimizers():
                state = copy.deepcopy(self._start)
        except Exception as error:
            raise TrainingError(
                f"{self.own.name}: its state cannot be copied: {type(error).__name__}: {error}",
                "each run begins from a copy: keep files, locks and generators out of the state",
            ) from error
        return widen_state(state) if wide else state

    def widen(self, batch: Any) -> Any:
        return widen_batch(batch)

    def floats(self, state: Any) -> list[Array]:
        return [read_array(leaf) for leaf in list_arrays(state) if has_floats(leaf)]

    def leaves(self, batch: Any) -> Iterator[Any]:
        return list_arrays(batch)

    def number(self, loss: Any) -> float:
        try:
            return self.own.number(read_array(loss).astype(np.float64))
        except (TypeError, ValueError) as error:
            kind = type(loss).__name__
            raise TrainingError(f"{self.own.name}: the loss is {kind}, expected a number: {error}") from error


def _whole_optimizers() -> contextlib.AbstractContextManager[None]:
    """Where PyTorch is loaded, have its optimizers copied with all that they hold."""
    if "torch" not in sys.modules:
        return contextlib.nullcontext()
    from laptime.backends.torch.copying import whole_optimizers

    return whole_optimizers()


def count_items(leaves: Iterable[Any]) -> int:
    """Return the length of the first array in a batch that has one."""
    shapes = (tuple(np.shape(leaf)) for leaf in leaves)
    return next((int(shape[0]) for shape in shapes if shape), 1)


def supply_batches(own: OwnSteps, kind: str, place: Callable[[Any], Any]) -> Callable[[], Any]:
    """Return a function that returns the next batch: of the user's data, or of some that are kept as the lane says."""
    if kind not in KEPT:
        return own.batches().__next__
    count = 1 if kind == "one" else min(KEPT_BATCHES, own.steps_per_lap or KEPT_BATCHES)
    kept = [place(batch) for batch in itertools.islice(own.batches(), count)]
    return itertools.cycle(kept).__next__


class WindowRunner(StepwiseRunner):
    """Is timed by windows, not by single steps: the device may still be computing when a step returns."""

    ready_batches = 0
    holds = False
    evaluator = None

    def run_marked(self, steps: int) -> Sequence[object]:
        self.run(steps)
        return ()

    def step_ns(self, _marks: Sequence[object]) -> tuple[int, ...]:
        return ()

    def repeat(self) -> None:
        """Do nothing: a batch costs the same each time."""

    def close(self) -> tuple[str, ...]:
        return ()


class StepRunner(WindowRunner):
    """A user's training, ready to be timed."""

    def __init__(self, steps: Steps, supply: Callable[[], Any]) -> None:
        self._steps, self._supply, self._take = steps, supply, steps.own.take
        self._state: Any = steps.fresh_state()
        self._loss: Any = None

    def step(self) -> None:
        self._state, self._loss = self._take(self._state, self._supply())

    def fence(self) -> None:
        self._steps.fence(self._state, self._loss)

    def loss(self) -> float:
        return self._steps.number(self._loss)

    def parts(self) -> OwnStepParts | Missing:
        return OwnStepParts(self._steps, self._supply, self._take_batch)

    def _take_batch(self, batch: Any) -> None:
        self._state, self._loss = self._take(self._state, batch)


class SupplyRunner(WindowRunner):
    """Iterates over the user's data without training, or moves batches from the host to the device."""

    def __init__(self, steps: Steps, supply: Callable[[], Any], place: Callable[[Any], Any] | None = None) -> None:
        self._steps, self._supply, self._place = steps, supply, place
        self._batch: Any = None

    def step(self) -> None:
        batch = self._supply()
        self._batch = batch if self._place is None else self._place(batch)

    def fence(self) -> None:
        self._steps.await_batch(self._batch)

    def loss(self) -> float:
        """Return 0: there is no loss, and the loop only checks that it is finite."""
        return 0.0

    def parts(self) -> Missing:
        return Missing("this lane has one stage alone")


class OwnStepParts:
    """A user's own step in two parts: the wait for its batch, and the step."""

    stride = 1

    def __init__(self, steps: Steps, supply: Callable[[], Any], take: Callable[[Any], None]) -> None:
        self._steps, self.fetch, self.compute = steps, supply, take
        self._compiled = steps.compiled()

    def move(self, batch: Any) -> Any:
        """Return the batch as it is: the step itself moves it to a device."""
        return batch

    def describe(self, batch: Any) -> Hashable:
        return tuple(tuple(np.shape(leaf)) for leaf in self._steps.leaves(batch))

    def look(self, _steps: int, _timed: int) -> StepSymptoms:
        before, now = self._compiled, self._steps.compiled()
        compiles = now if isinstance(now, Missing) or isinstance(before, Missing) else now - before
        own = ITS_OWN_COPY
        return StepSymptoms(
            0,
            copy_ns=own,
            copied_bytes=own,
            copied_arrays=own,
            reads=NOT_LOOKED_INTO,
            compiles=compiles,
            denormals=NOT_LOOKED_INTO,
            threads=NOT_LOOKED_INTO,
        )


class StepBackend:
    """What is the same in all back ends that run a user's step: they know nothing but the step itself."""

    def warm_up(self) -> None:
        """Do nothing: the framework or the user's file imports all there is."""

    def predict(self, order: HeatOrder) -> Predictor:
        raise LaneError(
            f"{order.lane.framework}: a step of your own gives no answers to be timed", "laptime race takes it"
        )

    def clock(self) -> int:
        return time.perf_counter_ns()


class StepTraining:
    """A user's steps, to be proven and timed. The state does not show which arrays are weights."""

    parameters = 0
    notes: tuple[str, ...] = ()
    data: Any

    def learn(self) -> Learner:
        raise LaneError("a step function is timed, and not trained whole, in this version", "laptime race takes it")


def start_runner(
    steps: Steps, kind: str, supply: Callable[[], Any], place: Callable[[Any], Any], runner: type[StepRunner]
) -> StepRunner | SupplyRunner:
    """Return a runner for the training, or for the one stage that the lane names."""
    if kind == "only":
        return SupplyRunner(steps, supply)
    return SupplyRunner(steps, supply, place) if kind == "copy" else runner(steps, supply)
