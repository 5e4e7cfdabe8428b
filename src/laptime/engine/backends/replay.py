"""A turn that was timed, taken again: from where it began, on the same batches, by the code of this process.

So the base of a verdict takes a turn of its candidate: it begins with the candidate's weights, and has to come to where
the candidate came. What the candidate reports of its losses or its updates is not needed for that. How far honest code
may be off is measured on the spot, by a twin that begins where rounding may have put it, and by other random draws.

docs/decisions/0061-a-timed-turn-is-taken-again.md says why so.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from laptime.engine.backends.arrays import FloatArray, has_floats, list_leaves, read_array, rebuild, seed_globals
from laptime.engine.backends.own import LapNotes, put_generator, read_generator
from laptime.model.errors import LaneError
from laptime.model.quantities import Missing
from laptime.model.sample import REPLAY_MARGIN, ReplayChance, ReplayPart, TurnTakenAgain

WEIGHT_ARRAYS = "weights"
BUFFER_ARRAYS = "buffers"
OPTIMIZER_ARRAYS = "optimizer"
WHOLE_NUMBERS = "counts"
StateNumbers = list[tuple[str, FloatArray]]
"""The arrays of a state in order, each with what it is of. Those of an optimizer name their key, too."""

ARRAY_APART = 0.25  # of how far an array moves, where rounding explains no more
MOVED_LEAST = 1e-3  # of the whole movement: an array that moves less is held against this
STATE_SAMPLE = 1_024  # numbers of an array: enough to know a state again
LARGEST_STATE_BYTES = 1 << 30  # of a state that is copied in each turn
OTHER_DRAWS = 5  # further replays that show how far random draws alone lead apart
ROUNDED_BY = {"fp32": 2.0**-23, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8}


class Leaf(Protocol):
    """What is known of one kind of object in a state."""

    def takes(self, leaf: Any) -> bool:
        """Whether a leaf is of this kind."""

    def arrays(self, leaf: Any) -> Iterator[tuple[str, Any]]:
        """Yield its arrays, each with what it is of."""

    def rest(self, leaf: Any) -> Any:
        """Return a copy of all else that its next step depends on."""

    def put(self, leaf: Any, arrays: Sequence[FloatArray], rest: Any) -> Any:
        """Return the leaf with these arrays, which it holds in the same order, and the rest of it."""


class ArrayLeaf:
    """An array of NumPy."""

    def takes(self, leaf: Any) -> bool:
        return isinstance(leaf, np.ndarray)

    def arrays(self, leaf: Any) -> Iterator[tuple[str, Any]]:
        yield WEIGHT_ARRAYS if has_floats(leaf) else WHOLE_NUMBERS, leaf

    def rest(self, leaf: Any) -> Any:  # noqa: ARG002  an array is nothing else
        return None

    def put(self, leaf: Any, arrays: Sequence[FloatArray], rest: Any) -> Any:  # noqa: ARG002
        if not leaf.flags.writeable:
            return np.array(arrays[0], leaf.dtype)
        leaf[...] = arrays[0]
        return leaf


class GeneratorLeaf:
    """A generator of random numbers."""

    def takes(self, leaf: Any) -> bool:
        return isinstance(leaf, np.random.Generator | random.Random)

    def arrays(self, leaf: Any) -> Iterator[tuple[str, Any]]:  # noqa: ARG002
        yield from ()

    def rest(self, leaf: Any) -> Any:
        return read_generator(leaf)

    def put(self, leaf: Any, arrays: Sequence[FloatArray], rest: Any) -> Any:  # noqa: ARG002
        put_generator(leaf, rest)
        return leaf


LEAVES: tuple[Leaf, ...] = (ArrayLeaf(), GeneratorLeaf())


@dataclass(frozen=True, slots=True)
class Generators:
    """How the generators that all code shares are read, put back, and seeded."""

    read: Callable[[], Any]
    put: Callable[[Any], None]
    seed: Callable[[int], None]


def read_shared() -> Any:
    return random.getstate(), np.random.get_state()  # noqa: NPY002  a user's code may draw from the global generator


def put_shared(state: Any) -> None:
    random.setstate(state[0])
    np.random.set_state(state[1])  # noqa: NPY002


SHARED = Generators(read_shared, put_shared, seed_globals)


@dataclass(frozen=True, slots=True)
class DataPlace:
    """How far a training is in its data: how its source is opened again, and how many batches of it were used.

    That source begins after the `laps` of its `notes`, with the data in these `states`.
    """

    open: Callable[[], Callable[[], Any]]
    used: int
    notes: LapNotes | None = None
    laps: int = 0
    states: Sequence[Any] = ()


def place_in_laps(
    open_again: Callable[[], Callable[[], Any]], taken: int, lap: int | None, notes: LapNotes | None
) -> DataPlace:
    """Return the place after this many batches, in data that are walked through lap by lap."""
    if notes is None or (notes.laps > 1 and lap is None):
        raise LaneError("its data do not say how many batches a lap has")
    before = max(notes.laps - 1, 0)
    return DataPlace(open_again, taken - before * (lap or 0), notes, before, notes.states)


@dataclass(frozen=True, slots=True)
class Note:
    """All that the coming steps of a training depend on, as it was at one moment."""

    structure: Any
    leaves: tuple[tuple[Any, Leaf, int, Any], ...]  # an object, its kind, how many arrays it has, and its rest
    numbers: StateNumbers
    generators: Any
    place: DataPlace


@dataclass(frozen=True, slots=True)
class StateRewinder:
    """Puts a training back by its state: any tree of arrays, and of objects whose kinds are in `kinds`.

    `state` returns the tree, and `take_state` is given it again. `supply_from` feeds the training from another source,
    or from its own again.
    """

    kinds: Sequence[Leaf]
    generators: Generators
    state: Callable[[], Any]
    take_state: Callable[[Any], None]
    place: Callable[[int], DataPlace]
    supply_from: Callable[[Callable[[], Any] | None], None]
    run: Callable[[int], None]
    precision: str

    def note(self, taken: int) -> Note:
        structure = rebuild(self.state(), lambda leaf: leaf, {})
        leaves: list[tuple[Any, Leaf, int, Any]] = []
        numbers: StateNumbers = []
        for leaf, kind in self._leaves(structure):
            mine = [(of, read_array(array)) for of, array in kind.arrays(leaf)]
            leaves.append((leaf, kind, len(mine), kind.rest(leaf)))
            numbers += mine
        return Note(structure, tuple(leaves), numbers, self.generators.read(), self.place(taken))

    def size_bytes(self) -> int:
        return sum(4 * math.prod(array.shape) for _, array in self._arrays())

    def numbers(self) -> StateNumbers:
        """Return a copy of all arrays as they are now."""
        return [(of, read_array(array)) for of, array in self._arrays()]

    def digest(self) -> str:
        return digest_numbers(self._arrays())

    def open(self, note: Note) -> Callable[[], Any]:
        """Return what supplies the batches that followed the note."""
        place = note.place
        if place.notes is not None:
            place.notes.go_back(place.laps, place.states)
        supply = place.open()
        for _ in range(place.used):
            supply()
        self.generators.put(note.generators)
        return supply

    def put_back(self, note: Note, supply: Callable[[], Any], numbers: StateNumbers | None = None) -> None:
        self.supply_from(supply)
        arrays = iter([array for _, array in (note.numbers if numbers is None else numbers)])
        made = {
            id(leaf): kind.put(leaf, [next(arrays) for _ in range(count)], copy.deepcopy(rest))
            for leaf, kind, count, rest in note.leaves
        }
        self.take_state(rebuild(note.structure, lambda leaf: made.get(id(leaf), leaf), {}))
        self.generators.put(note.generators)

    def _arrays(self) -> Iterator[tuple[str, Any]]:
        for leaf, kind in self._leaves(self.state()):
            yield from kind.arrays(leaf)

    def _leaves(self, state: Any) -> list[tuple[Any, Leaf]]:
        found: dict[int, tuple[Any, Leaf]] = {}

        def look(leaf: Any) -> Any:
            for kind in self.kinds:
                if kind.takes(leaf):
                    found[id(leaf)] = leaf, kind
                    break
            return leaf

        rebuild(state, look, {})
        return list(found.values())


def digest_numbers(numbers: Iterable[tuple[str, Any]]) -> str:
    """Return a digest of the shapes of some arrays, and of a sample of their numbers."""
    found = hashlib.blake2b(digest_size=12)
    for of, array in numbers:
        found.update(f"{of} {tuple(array.shape)}".encode())
        flat = array.reshape(-1)
        sample = read_array(flat[:: max(1, len(flat) // STATE_SAMPLE)])
        found.update(np.ascontiguousarray(sample, np.float32 if has_floats(sample) else None).tobytes())
    return found.hexdigest()


# A turn is taken again as often as it needs.


STEPS_MOST = 20_000  # what is noted of a step takes 0.1 ms and 5 kB: steps of some microseconds would take a minute


class TooLargeError(LaneError):
    """A turn that would take too much memory or time to be taken again."""


class RecordedBatches:
    """The batches of a turn: fetched once, and what its data drew for each from the shared generators."""

    def __init__(self, supply: Callable[[], Any], generators: Generators) -> None:
        self._supply = supply
        self._generators = generators
        self._held: list[tuple[Any, Any]] = []
        self._bytes: dict[int, int] = {}  # of each array: a training in memory gives the same ones again
        self.steps_draw = False

    def record(self) -> Any:
        self.note_draws()
        batch = self._supply()
        state = self._generators.read()
        if self._held and _same(self._held[-1][1], state):
            state = self._held[-1][1]  # of thousands of steps that draw nothing, one is kept
        self._held.append((batch, state))
        sizes = {id(leaf): math.prod(leaf.shape) * 4 for leaf in list_leaves(batch) if hasattr(leaf, "shape")}
        self._bytes |= sizes
        if sum(self._bytes.values()) > LARGEST_STATE_BYTES:
            raise TooLargeError(f"the batches of a turn are larger than {LARGEST_STATE_BYTES >> 30} GiB")
        return batch

    def note_draws(self) -> None:
        """Note whether anything was drawn since the last batch: by a step."""
        if self._held and not self.steps_draw:
            self.steps_draw = not _same(self._held[-1][1], self._generators.read())

    def again(self, *, as_drawn: bool) -> Callable[[], Any]:
        """Return what gives the same batches again; `as_drawn`, with the generators as they were then, too."""
        held = iter(self._held)

        def supply() -> Any:
            batch, state = next(held)
            if as_drawn:
                self._generators.put(state)
            return batch

        return supply


@dataclass(frozen=True, slots=True)
class TurnReplay:
    """A turn to be taken again, as often as it needs."""

    rewinder: StateRewinder
    note: Note
    steps: int

    def compare(
        self, own_end: StateNumbers, start: StateNumbers, end: StateNumbers, *, is_shown: bool, is_joined: bool
    ) -> TurnTakenAgain | Missing:
        """Take the turn from the other's start, and return how far the other's end is from where it leads."""
        if self.steps > STEPS_MOST:
            raise TooLargeError(f"a turn has {self.steps:,} steps, and one of up to {STEPS_MOST:,} is taken again")
        fitted = fit_numbers(self.note.numbers, start, end)
        if isinstance(fitted, str):
            return Missing(fitted)
        start, end = fitted
        source = self.rewinder.open(self.note)
        batches = RecordedBatches(source, self.rewinder.generators)
        again = self._take(batches.record, start)
        batches.note_draws()
        groups = [of for of in dict.fromkeys(of for of, _ in start) if of != WHOLE_NUMBERS]
        parts = tuple(compare_part(of, *(_of(numbers, of) for numbers in (start, end, again, again))) for of in groups)
        found = TurnTakenAgain(self.steps, None, is_shown, is_joined, parts)
        if not all(part.is_same for part in parts):
            found = self._compare_closely(found, batches, own_end, (start, end, again))
        self.rewinder.supply_from(None)
        getattr(source, "close", lambda: None)()  # a loader may have workers
        return found

    def _compare_closely(
        self,
        found: TurnTakenAgain,
        batches: RecordedBatches,
        own_end: StateNumbers,
        turn: tuple[StateNumbers, StateNumbers, StateNumbers],
    ) -> TurnTakenAgain:
        """Measure what rounding and other draws make of the turn, and whether the base repeats its own."""
        start, end, again = turn
        mine = self._take(batches.again(as_drawn=True))
        weights = (_of(numbers, WEIGHT_ARRAYS) for numbers in (self.note.numbers, own_end, mine, mine))
        size = ROUNDED_BY[self.rewinder.precision] * math.sqrt(self.steps)
        twin = self._take(batches.again(as_drawn=True), _rounded(start, again, size))
        parts = tuple(
            compare_part(part.of, *(_of(numbers, part.of) for numbers in (start, end, again, twin)))
            for part in found.parts
        )
        chance: list[ReplayChance] = []
        if batches.steps_draw and not all(part.is_same for part in parts):
            others = [self._take(batches.again(as_drawn=False), start, draw) for draw in range(1, OTHER_DRAWS + 1)]
            chance = [
                compare_with_chance(of, _of(start, of), _of(end, of), [_of(numbers, of) for numbers in others])
                for of in (WEIGHT_ARRAYS, BUFFER_ARRAYS)
                if _of(start, of)
            ]
        return replace(found, repeats=compare_part(WEIGHT_ARRAYS, *weights).apart, parts=parts, chance=tuple(chance))

    def _take(
        self, supply: Callable[[], Any], numbers: StateNumbers | None = None, seed: int | None = None
    ) -> StateNumbers:
        """Return where the turn leads; with a seed, with other random draws than it had."""
        self.rewinder.put_back(self.note, supply, numbers)
        if seed is not None:
            self.rewinder.generators.seed(seed)
        self.rewinder.run(self.steps)
        return self.rewinder.numbers()


def fit_numbers(own: StateNumbers, start: StateNumbers, end: StateNumbers) -> tuple[StateNumbers, StateNumbers] | str:
    """Return another training's numbers in the order of ours, or why they do not fit.

    What it has beyond them is left out. Buffers that it lacks are ours: they are no weights.
    """
    fitted: tuple[StateNumbers, StateNumbers] = ([], [])
    for of in dict.fromkeys(of for of, _ in own):
        mine = [array.shape for array in _of(own, of)]
        theirs = [_of(numbers, of) for numbers in (start, end)]
        fits = all([array.shape for array in arrays] == mine for arrays in theirs)
        if not fits and of not in {BUFFER_ARRAYS, WHOLE_NUMBERS}:
            kept = "other weights" if of == WEIGHT_ARRAYS else "another state of its optimizer"
            return f"it keeps {kept}, by number or shape"
        for side, arrays in zip(fitted, theirs, strict=True):
            side += [(of, array) for array in (arrays if fits and of != WHOLE_NUMBERS else _of(own, of))]
    # They are grouped by what they are of: bring them in the order of ours.
    ordered: list[StateNumbers] = []
    for numbers in fitted:
        by_group = {of: iter(_of(numbers, of)) for of in dict.fromkeys(of for of, _ in own)}
        ordered.append([(of, next(by_group[of])) for of, _ in own])
    return ordered[0], ordered[1]


def _of(numbers: StateNumbers, of: str) -> list[FloatArray]:
    return [array for group, array in numbers if group == of]


def _rounded(start: StateNumbers, end: StateNumbers, size: float) -> StateNumbers:
    """Return numbers that rounding may have made of the start, for as long as the way to the end is."""
    draws = np.random.default_rng(0)
    made: StateNumbers = []
    for (of, old), (_, new) in zip(start, end, strict=True):
        off = old
        if of == WEIGHT_ARRAYS:
            moved = float(np.sqrt(np.mean(np.square(new.astype(np.float64) - old)))) if old.size else 0.0
            off = old + size * (old * draws.standard_normal(old.shape) + moved * draws.standard_normal(old.shape))
        made.append((of, np.asarray(off, old.dtype)))
    return made


def _same(one: Any, other: Any) -> bool:
    """Whether two states of generators are equal, at any depth of tuples."""
    if isinstance(one, tuple):
        with contextlib.suppress(ValueError, RuntimeError):  # arrays are among them, which have no one truth
            return bool(one == other)
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))


def compare_part(
    of: str, start: Sequence[FloatArray], end: Sequence[FloatArray], again: Sequence[FloatArray],
    twin: Sequence[FloatArray],
) -> ReplayPart:  # fmt: skip
    """Return how far an end is from the one of the replay, as a part of how far that moved."""
    moved, apart, chance = (
        [float(np.linalg.norm((one.astype(np.float64) - other).ravel())) for one, other in zip(*pair, strict=True)]
        for pair in ((again, start), (end, again), (twin, again))
    )
    whole = max(math.hypot(*moved), 1e-30)
    arrays = (
        far / max(ARRAY_APART * (part + MOVED_LEAST * whole), REPLAY_MARGIN * off, 1e-30)
        for far, part, off in zip(apart, moved, chance, strict=True)
    )
    return ReplayPart(of, math.hypot(*apart) / whole, math.hypot(*chance) / whole, max(arrays, default=0.0))


def compare_with_chance(
    of: str, start: Sequence[FloatArray], end: Sequence[FloatArray], others: Sequence[Sequence[FloatArray]]
) -> ReplayChance:
    """Return where an end is among those to which the same turn led with other random draws.

    An honest end is one more of them: as far from their middle as each of them is from the middle of the rest, and no
    further along the way than they are.
    """
    ends = [_joined(sequence) for sequence in (*others, end)]
    begun = _joined(start)
    far: list[float] = []
    along: list[float] = []
    for number, one in enumerate(ends):
        middle = np.mean(ends[:number] + ends[number + 1 :], axis=0, dtype=np.float64)
        way = middle - begun
        off = one - middle
        far.append(float(np.linalg.norm(off)))
        along.append(float(off @ way / max(float(np.linalg.norm(way)), 1e-30)))
    return ReplayChance(of, tuple(far), tuple(along))


def _joined(arrays: Sequence[FloatArray]) -> FloatArray:
    return np.concatenate([array.ravel() for array in arrays]).astype(np.float32)
