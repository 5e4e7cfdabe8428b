"""A user's own step function: the parts that are the same for every framework."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import inspect
import itertools
import math
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter_ns  # taken now: a user's code comes later, and may replace it
from typing import Any, Protocol

import numpy as np

from laptime.engine.backends.arrays import (
    CHANCE,
    STEPS_A_SEED,
    FloatArray,
    has_floats,
    list_arrays,
    list_leaves,
    make_run,
    part,
    read_array,
    restored_globals,
    seed_globals,
    widen_batch,
    widen_state,
)
from laptime.engine.backends.base import NO_JUDGE, NO_REWINDER, Learner, Predictor, StepwiseRunner
from laptime.engine.backends.closures import widened_closure
from laptime.engine.backends.own import LapNotes, call_own, endless, find_own_error, is_keras, length_of
from laptime.engine.backends.replay import LEAVES, SHARED, DataPlace, Generators, Leaf, StateRewinder, place_in_laps
from laptime.model.errors import LaneError, TrainingError
from laptime.model.plan import HeatOrder, OwnBatches, OwnKind, OwnTraining, Subject
from laptime.model.process import KEPT_INPUTS
from laptime.model.quantities import Missing
from laptime.model.sample import LateStep, ProofRun, Reference, SeenBatch
from laptime.model.symptoms import StepSymptoms
from laptime.model.workload import Training

KEPT_BATCHES = 64
COPIES_ITSELF = Missing("a step of your own brings its batches to the device on its own")
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
    laps: LapNotes | None = None

    def batches(self) -> Iterator[Any]:
        return endless(self.data, self.name)

    def timed_batches(self, first: int = 0) -> Iterator[Any]:
        """Return the same, from batch number `first` on, with notes on its laps where these are wanted."""
        draws_nothing = type(self.data) in {list, tuple}  # to begin a lap
        return itertools.islice(endless(self.data, self.name, None if draws_nothing else self.laps), first, None)

    def take(self, state: Any, batch: Any) -> tuple[Any, Any]:
        pair = self.step(state, batch)
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise TrainingError(f"{self.name}: step returned {type(pair).__name__}, expected a pair (state, loss)")
        return pair

    def number(self, loss: Any) -> float:
        if np.size(loss) != 1:
            raise TrainingError(f"{self.name}: the loss has {np.size(loss)} numbers, expected one")
        return float(np.asarray(loss).reshape(()))


class JoinedBatches:
    """A user's batches, several joined to one; without end, so that a lap may end within a joined batch."""

    def __init__(self, own: OwnSteps, times: int, join: Callable[[Sequence[Any]], Any]) -> None:
        self._own = own
        self._times = times
        self._join = join

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

    def floats(self, state: Any) -> list[FloatArray]:
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
    laps = LapNotes(_generators().seed, order.seed, training.data) if order.replays else None
    return OwnSteps(
        order.subject.name, training.data, training.step, training.fence, lap, order.proof.steps, order.seed, laps
    )


class CopiedSteps:
    """Steps of which each run begins from a deep copy of the state that the user's function returned."""

    def __init__(self, own: OwnSteps, state: Any) -> None:
        self.own = own
        self._start = state

    def fresh_state(self, *, wide: bool = False) -> Any:
        try:
            whole: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
            if "torch" in sys.modules:  # its optimizers are copied with all that they hold
                from laptime.engine.backends.torch.devices import whole_optimizers

                whole = whole_optimizers()
            with whole:
                state = copy.deepcopy(self._start)
        except Exception as error:
            raise TrainingError(
                f"{self.own.name}: its state cannot be copied: {type(error).__name__}: {error}",
                "each run begins from a copy: keep files, locks and generators out of the state",
            ) from error
        return widen_state(state) if wide else state

    def widen(self, batch: Any) -> Any:
        return widen_batch(batch)

    def floats(self, state: Any) -> list[FloatArray]:
        return [read_array(leaf) for leaf in list_arrays(state) if has_floats(leaf)]

    def leaves(self, batch: Any) -> Iterator[Any]:
        return list_arrays(batch)

    def number(self, loss: Any) -> float:
        try:
            return self.own.number(read_array(loss).astype(np.float64))
        except (TypeError, ValueError) as error:
            kind = type(loss).__name__
            raise TrainingError(f"{self.own.name}: the loss is {kind}, expected a number: {error}") from error


def count_items(leaves: Iterable[Any]) -> int:
    """Return the length of the first array in a batch that has one."""
    for leaf in leaves:
        shape = tuple(np.shape(leaf))
        if shape:
            return int(shape[0])
    return 1


SAMPLED = 4096  # numbers of an array: enough to know a batch again


def see_batch(batch: Any, items: int | None = None) -> SeenBatch | None:
    """Return what is kept of a batch that was trained on: its items, and a digest of some of its numbers."""
    found = hashlib.blake2b(digest_size=6)
    arrays = list(list_leaves(batch))
    try:
        for leaf in arrays:
            if hasattr(leaf, "shape") and hasattr(leaf, "reshape"):
                found.update(f"{leaf.dtype} {tuple(leaf.shape)}".encode())
                flat = leaf.reshape(-1)
                leaf = read_array(flat[:: max(1, math.prod(leaf.shape) // SAMPLED)])  # noqa: PLW2901  a part of it
            found.update(leaf.tobytes() if isinstance(leaf, np.ndarray) else repr(leaf).encode())
    except Exception:  # noqa: BLE001  sparse, nested, or of a library of which nothing is known
        return None
    numbers = sum(math.prod(leaf.shape) for leaf in arrays if hasattr(leaf, "shape"))
    return SeenBatch(items or count_items(arrays), found.hexdigest(), numbers)


def supply_batches(own: OwnSteps, kind: str, place: Callable[[Any], Any]) -> Callable[[], Any]:
    """Return a function that returns the next batch: of the user's data, or of some that are kept as the lane says."""
    if kind not in KEPT_INPUTS:
        return own.batches().__next__ if own.laps is None else own.timed_batches().__next__
    count = 1 if kind == "one" else min(KEPT_BATCHES, own.steps_per_lap or KEPT_BATCHES)
    kept = [place(batch) for batch in itertools.islice(own.batches(), count)]
    return itertools.cycle(kept).__next__


class WindowRunner(StepwiseRunner):
    """Is timed by windows, not by single steps: the device may still be computing when a step returns."""

    ready_batches = 0
    holds = False
    evaluator = None

    def step_seen(self) -> None:
        """Start an update, and keep its batch to be looked at."""
        self.step()

    def run_marked(self, steps: int) -> Sequence[object]:
        self.run(steps - 1)
        self.step_seen()
        return ()

    def step_ns(self, _marks: Sequence[object]) -> tuple[int, ...]:
        return ()

    def repeat(self) -> None:
        """Do nothing: a batch costs the same each time."""

    def close(self) -> tuple[str, ...]:
        return ()


class StepRunner(WindowRunner):
    """A user's training, ready to be timed."""

    keeps_batches = False

    def __init__(self, steps: Steps, supply: Callable[[], Any]) -> None:
        self._steps = steps
        self._supply = supply
        self._take = steps.own.take
        self._own_supply = supply
        self._state: Any = steps.fresh_state()
        self._loss: Any = None
        self._seen: Any = None

    def step(self) -> None:
        self._state, self._loss = self._take(self._state, self._supply())

    def step_seen(self) -> None:
        self._seen = batch = self._supply()
        self._take_batch(batch)

    def take_seen(self) -> SeenBatch | None:
        batch = self._seen
        self._seen = None
        return None if batch is None else see_batch(batch)

    def fence(self) -> None:
        self._steps.fence(self._state, self._loss)

    def loss(self) -> float:
        return self._steps.number(self._loss)

    def take_late_step(self) -> LateStep | None:
        """Take the proof's first step with the code that was timed: it may count its calls."""
        run = take_steps(self._steps, "fp32", most=1)
        return None if run.problem else LateStep("fp32", run.losses[0], run.moves)

    def rewinder(self) -> StateRewinder | Missing:
        if self._steps.own.laps is None or self.keeps_batches:
            return NO_REWINDER
        # What is known of the objects that a state may hold, of the frameworks that are loaded.
        kinds: tuple[Leaf, ...] = LEAVES
        if "jax" in sys.modules:
            from laptime.engine.backends.jax.rewinding import JaxLeaf

            kinds = (JaxLeaf(), *kinds)
        if "torch" in sys.modules:
            from laptime.engine.backends.torch.rewinding import TORCH_LEAVES

            kinds = (*kinds, *TORCH_LEAVES)
        return StateRewinder(
            kinds, _generators(), lambda: self._state, self._hold, self._find_place, self._feed,
            self._run_again, "fp32",
        )  # fmt: skip

    def _hold(self, state: Any) -> None:
        self._state = state

    def _feed(self, supply: Callable[[], Any] | None) -> None:
        self._supply = supply or self._own_supply

    def _run_again(self, steps: int) -> None:
        self.run(steps)
        self.fence()

    def _find_place(self, taken: int) -> DataPlace:
        own = self._steps.own
        if type(own.data) in {list, tuple}:
            return DataPlace(lambda: own.timed_batches(taken % len(own.data)).__next__, 0)
        return place_in_laps(lambda: own.timed_batches().__next__, taken, length_of(own.data), own.laps)

    def parts(self) -> OwnStepParts | Missing:
        return OwnStepParts(self._steps, self._supply, self._take_batch)

    def _take_batch(self, batch: Any) -> None:
        self._state, self._loss = self._take(self._state, batch)


class SupplyRunner(WindowRunner):
    """Iterates over the user's data without training, or moves batches from the host to the device."""

    def __init__(self, steps: Steps, supply: Callable[[], Any], place: Callable[[Any], Any] | None = None) -> None:
        self._steps = steps
        self._supply = supply
        self._place = place
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
        self._steps = steps
        self.fetch = supply
        self.compute = take
        self._compiled = steps.compiled()

    def move(self, batch: Any) -> Any:
        """Return the batch as it is: the step itself moves it to a device."""
        return batch

    def describe(self, batch: Any) -> Hashable:
        return tuple(tuple(np.shape(leaf)) for leaf in self._steps.leaves(batch))

    def look(self, _steps: int, _timed: int) -> StepSymptoms:
        before = self._compiled
        now = self._steps.compiled()
        compiles = now if isinstance(now, Missing) or isinstance(before, Missing) else now - before
        own = COPIES_ITSELF
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

    def judge(self, _order: HeatOrder, _batches: int | None = None) -> Missing:
        return NO_JUDGE

    def predict(self, order: HeatOrder) -> Predictor:
        raise LaneError(
            f"{order.lane.framework}: a step of your own gives no answers to be timed", "laptime race takes it"
        )

    def clock(self) -> int:
        return perf_counter_ns()


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
    if kind == "copy":
        return SupplyRunner(steps, supply, place)
    made = runner(steps, supply)
    made.keeps_batches = kind in KEPT_INPUTS
    return made


def _generators() -> Generators:
    """Return the generators that a step in Python draws from: PyTorch's, too, where it is loaded."""
    if "torch" not in sys.modules:
        return SHARED
    from laptime.engine.backends.torch.rewinding import generators_of

    return generators_of(None)


# The proof of a user's step: its first steps as it runs them, compared with the same steps in float64.

# Two runs of one program from one state are equal; float64 and float32 differ by rounding, not by a hundredth.
OTHER_WAY = 1e-2
# How far a first loss may be off float32, times the root of the depth, before the step counts as imprecise.
FLOAT32 = 8 * 2.0**-24
DATA_CHANGES = "its data give other batches each time, from the same seeds too: seed what they draw"


class RandomSource(Protocol):
    """Draws the random numbers of a step, or makes other generators draw the same ones."""

    beyond: str | None

    def seed(self) -> None:
        """Seed the generators that a loader draws from."""

    def step(self, number: int) -> contextlib.AbstractContextManager[None]:
        """Seed the generators that this step draws from."""


class GlobalRandom:
    """Seeds the generators that all code of a process shares."""

    beyond: str | None = None

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def seed(self) -> None:
        seed_globals(self._seed)

    @contextlib.contextmanager
    def step(self, number: int) -> Iterator[None]:
        seed_globals(self._seed * STEPS_A_SEED + number)
        yield


def take_steps(
    steps: Steps, precision: str, given: Iterable[Any] | None = None, *, wide: bool = False, most: int | None = None
) -> ProofRun:
    """Run the proof's steps from the user's own state, on the given batches or on the user's data with the seed."""
    began = time.perf_counter()
    held = widened_closure(steps.own.step) if wide else contextlib.nullcontext()
    with _draws_for(steps) as draws, held:
        own = steps.own
        state = steps.fresh_state(wide=wide)
        before = steps.floats(state)
        losses = []
        drawn = (draw_batches(steps, draws) if given is None else list(given))[:most]
        for number, batch in enumerate(drawn):
            used = _copied(batch)
            with draws.step(number):
                state, loss = own.take(state, steps.widen(used) if wide else used)
            losses.append(steps.number(loss))
    after = steps.floats(state)
    if [array.shape for array in before] != [array.shape for array in after]:
        raise LaneError("its step gives a state of other arrays than it was given")
    if wide and any(array.dtype != np.float64 for array in after):
        raise LaneError("its step casts to float32 on its own")
    run = make_run(precision, losses, before, after, time.perf_counter() - began)
    beyond = f"it draws random numbers within {draws.beyond}, a kernel that draws its own" if draws.beyond else None
    return replace(run, batches=_digest(steps, drawn), problem=beyond)


def compare_with_float64(
    steps: Steps, take: Callable[[list[Any]], ProofRun], widely: Callable[[list[Any]], ProofRun]
) -> Reference:
    """Run the steps in float64, and in float32 to see the effect of rounding alone; or return why nothing is proven."""
    with _draws_for(steps) as draws:
        batches = draw_batches(steps, draws)
        again = draw_batches(steps, draws)
    twin = take(batches)
    depth = len(twin.moves)
    weights = sum(array.size for array in steps.floats(steps.fresh_state()))
    if not all(map(math.isfinite, twin.losses)):
        raise LaneError("the loss is not finite in the proof's first steps")
    problem = DATA_CHANGES if _digest(steps, again) != twin.batches else _why_unproven(twin, take(batches))
    if problem:
        return Reference("", twin, twin, depth, weights, problem)
    try:
        exact = widely(batches)
    except Exception as error:  # noqa: BLE001  whatever a user's step raises that was not written for float64
        # The error in one line, with the user's line that raised it.
        code = getattr(inspect.unwrap(steps.own.step), "__code__", None)
        own_error = None if code is None else find_own_error(error, code.co_filename)
        if own_error is None:
            reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        else:
            reason = own_error.reason
        return Reference("", twin, twin, depth, weights, f"it cannot run in float64: {reason}")
    off = abs(twin.losses[0] - exact.losses[0]) / max(abs(exact.losses[0]), 1e-30)
    if part(exact, twin) > OTHER_WAY:
        problem = "in float64 it goes another way than in float32, as random draws do"
    elif off > FLOAT32 * math.sqrt(depth):
        problem = f"its first loss is {off:.0e} off float64's: it computes in less than float32 on its own"
    return Reference("", exact, twin, depth, weights, problem)


def draw_batches(steps: Steps, draws: RandomSource) -> list[Any]:
    draws.seed()
    return list(itertools.islice(steps.own.batches(), steps.own.proof_steps))


@contextlib.contextmanager
def _draws_for(steps: Steps) -> Iterator[RandomSource]:
    """Return the source of random draws. If the user's code imported PyTorch, float32 and float64 draw the same."""
    if "torch" not in sys.modules:
        with restored_globals():
            yield GlobalRandom(steps.own.seed)
        return
    from laptime.engine.backends.torch.random_numbers import SameRandomNumbers, restored_generators

    with restored_generators():
        yield SameRandomNumbers(steps.own.seed)


def _copied(batch: Any) -> Any:
    """Return a copy, since a step may change its batch; return the batch itself if it cannot be copied."""
    try:
        return copy.deepcopy(batch)
    except Exception:  # noqa: BLE001  whatever a user's own class raises
        return batch


def _digest(steps: Steps, batches: Iterable[Any]) -> str:
    """Return a digest of the numbers in the batches, to recognize other batches."""
    found = hashlib.blake2b(digest_size=16)
    for leaf in itertools.chain.from_iterable(map(steps.leaves, batches)):
        try:
            array = read_array(leaf)
        except (TypeError, ValueError, RuntimeError):  # a JAX key is not a NumPy array
            continue
        if array.dtype != object:
            found.update(f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _why_unproven(twin: ProofRun, again: ProofRun) -> str | None:
    if not twin.moves:
        return "its state holds no arrays of floats to compare, in dicts, lists, tuples or dataclasses"
    if part(again, twin) > CHANCE:
        return "it draws random numbers, or keeps something, that is not in its state"
    if not any(twin.moves):
        return "its steps leave its state as it was: what they train is not in it"
    return twin.problem


# What kind of training a user's function returns: asked once, before a plan is made.


def describe_own(subject: Subject) -> OwnTraining:
    """Call the user's function, and describe what it returns."""
    assert subject.file is not None and subject.function is not None  # noqa: PT018  a subject of a file has both
    training = call_own(subject.file, subject.function)
    kind: OwnKind = "other"
    if training.step is not None:
        kind = "step"
    elif is_keras(training.model):
        kind = "keras"
    elif _is_a(training.model, "torch.nn", "Module"):
        kind = "torch"
    # Worker processes or threads can load a DataLoader over numbered items, and a PyDataset.
    data = training.data
    is_loader = _is_a(data, "torch.utils.data", "DataLoader")
    is_numbered = is_loader and not _is_a(data.dataset, "torch.utils.data", "IterableDataset")
    # Where PyTorch is not loaded, there are no batches that torch lanes can cut.
    if "torch" in sys.modules:
        from laptime.engine.backends.torch.batches import look_at_batches

        batches = look_at_batches(data)
    else:
        batches = OwnBatches("only torch lanes cut and join them, and it holds nothing of PyTorch's")
    return OwnTraining(
        kind,
        data=type(data).__name__,
        takes_workers=is_numbered or _is_a(data, "keras", "PyDataset"),
        batches=batches,
        has_fence=training.fence is not None,
        has_workers=is_loader and data.num_workers > 0,
    )


def _is_a(value: Any, package: str, name: str) -> bool:
    """Whether a value is of such a class, found without importing its package."""
    return any(
        kind.__name__ == name and f"{kind.__module__}.".startswith(f"{package}.") for kind in type(value).__mro__
    )
