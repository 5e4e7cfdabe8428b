"""A step function of a user's own: what is alike, whichever framework computes it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from laptime.backends.fingerprint import Array
from laptime.backends.own import call_own, endless, length_of
from laptime.backends.stepwise import Stepwise
from laptime.errors import TrainingError
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.signs import Signs
from laptime.model.workload import Training

KEPT_BATCHES = 64
KEPT = {"cached", "resident", "one", "copy"}
ITS_OWN_COPY = Missing("a step of your own brings its batches to the device by itself")
NOT_LOOKED_INTO = Missing("a step of your own is called as it is: laptime sees no tensors in it")
NOT_TRAINED_WHOLE = "--full: a step function is timed, and not trained whole, in this version"


@dataclass(frozen=True, slots=True)
class OwnSteps:
    """What a user's function returned, but for the state: how that is kept is a room's affair."""

    name: str
    data: Any
    step: Callable[[Any, Any], tuple[Any, Any]]
    fence: Callable[[Any], object] | None
    steps_per_lap: int | None
    proof_steps: int

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


class Steps(Protocol):
    """What a room knows of the arrays in a user's states and batches."""

    own: OwnSteps

    def fresh_state(self, *, wide: bool = False) -> Any:
        """Give the state that the user's function gave, for one run to use up; in float64, if wide."""

    def widen(self, batch: Any) -> Any:
        """Give a batch in float64."""

    def floats(self, state: Any) -> list[Array]:
        """Copy the arrays of floats in a state to the host."""

    def number(self, loss: Any) -> float:
        """Give a loss as a number."""

    def fence(self, state: Any, loss: Any) -> None:
        """Wait until both are there."""

    def await_batch(self, batch: Any) -> None:
        """Wait until a batch is there."""

    def leaves(self, batch: Any) -> Iterable[Any]:
        """Give the arrays in a batch."""

    def compiled(self) -> int | Missing:
        """Give how often the framework has compiled so far, or why that is not known."""


def call_for_steps(order: HeatOrder, lanes: str) -> tuple[OwnSteps, Training]:
    """Call the user's function, which has to give a step."""
    subject = order.subject
    assert subject.file is not None and subject.function is not None  # noqa: PT018  a subject of a file has both
    training = call_own(subject.file, subject.function)
    if training.step is None:
        raise TrainingError(
            f"{subject.name}: gives a model, and {lanes} lanes take a step",
            "race it on torch or Keras lanes, or return laptime.Training(step=..., state=..., data=...)",
        )
    lap = training.steps_per_lap or length_of(training.data)
    own = OwnSteps(subject.name, training.data, training.step, training.fence, lap, order.proof.steps)
    return own, training


def count_items(leaves: Iterable[Any]) -> int:
    """Give the length of a batch's first array."""
    shapes = (tuple(np.shape(leaf)) for leaf in leaves)
    return next((int(shape[0]) for shape in shapes if shape), 1)


def supply_batches(own: OwnSteps, kind: str, place: Callable[[Any], Any]) -> Callable[[], Any]:
    """Give batches as the user's data does; or keep some, or one, placed as the lane says."""
    if kind not in KEPT:
        return own.batches().__next__
    count = 1 if kind == "one" else min(KEPT_BATCHES, own.steps_per_lap or KEPT_BATCHES)
    kept = [place(batch) for batch in itertools.islice(own.batches(), count)]
    return itertools.cycle(kept).__next__


class StepRunner(Stepwise):
    """The training, ready to be timed: windows, and no single steps, of what may be computed behind the host's back."""

    ready_batches = 0
    holds = False
    examiner = None

    def __init__(self, steps: Steps, supply: Callable[[], Any]) -> None:
        self._steps, self._supply, self._take = steps, supply, steps.own.take
        self._state: Any = steps.fresh_state()
        self._loss: Any = None

    def step(self) -> None:
        self._state, self._loss = self._take(self._state, self._supply())

    def run_marked(self, steps: int) -> Sequence[object]:
        self.run(steps)
        return ()

    def step_ns(self, _marks: Sequence[object]) -> tuple[int, ...]:
        return ()

    def fence(self) -> None:
        self._steps.fence(self._state, self._loss)

    def loss(self) -> float:
        return self._steps.number(self._loss)

    def repeat(self) -> None:
        """A batch costs the same each time."""

    def apart(self) -> StepApart | Missing:
        return StepApart(self._steps, self._supply, self._take_batch)

    def close(self) -> tuple[str, ...]:
        return ()

    def _take_batch(self, batch: Any) -> None:
        self._state, self._loss = self._take(self._state, batch)


class SupplyRunner(Stepwise):
    """The user's data walked through with no step behind it, or batches of the host brought to the device."""

    ready_batches = 0
    holds = False
    examiner = None

    def __init__(self, steps: Steps, supply: Callable[[], Any], place: Callable[[Any], Any] | None = None) -> None:
        self._steps, self._supply, self._place = steps, supply, place
        self._batch: Any = None

    def step(self) -> None:
        batch = self._supply()
        self._batch = batch if self._place is None else self._place(batch)

    def run_marked(self, steps: int) -> Sequence[object]:
        self.run(steps)
        return ()

    def step_ns(self, _marks: Sequence[object]) -> tuple[int, ...]:
        return ()

    def fence(self) -> None:
        self._steps.await_batch(self._batch)

    def loss(self) -> float:
        """There is none; a constant that is finite keeps the loop's question simple."""
        return 0.0

    def repeat(self) -> None:
        """A batch costs the same each time."""

    def apart(self) -> Missing:
        return Missing("this lane has one stage alone")

    def close(self) -> tuple[str, ...]:
        return ()


class StepApart:
    """A step of somebody's own in its two parts: the wait for its batch, and the step."""

    stride = 1

    def __init__(self, steps: Steps, supply: Callable[[], Any], take: Callable[[Any], None]) -> None:
        self._steps, self.fetch, self.compute = steps, supply, take
        self._compiled = steps.compiled()

    def move(self, batch: Any) -> Any:
        """Where the step takes it is the step's affair."""
        return batch

    def describe(self, batch: Any) -> Hashable:
        return tuple(tuple(np.shape(leaf)) for leaf in self._steps.leaves(batch))

    def look(self, _steps: int, _timed: int) -> Signs:
        before, now = self._compiled, self._steps.compiled()
        compiles = now if isinstance(now, Missing) or isinstance(before, Missing) else now - before
        own = ITS_OWN_COPY
        return Signs(0, copy_ns=own, copied_bytes=own, copied_arrays=own, reads=NOT_LOOKED_INTO, compiles=compiles,
                     denormals=NOT_LOOKED_INTO, threads=NOT_LOOKED_INTO)  # fmt: skip


def start_runner(
    steps: Steps, kind: str, supply: Callable[[], Any], place: Callable[[Any], Any], runner: type[StepRunner]
) -> StepRunner | SupplyRunner:
    """Give the training, or the one stage of it that the lane names."""
    if kind == "only":
        return SupplyRunner(steps, supply)
    return SupplyRunner(steps, supply, place) if kind == "copy" else runner(steps, supply)
