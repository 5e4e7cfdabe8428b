"""Reads, widens and fingerprints states and batches without knowing which library their arrays are from.

Arrays are recognized by a dtype and a shape, and converted to NumPy. Objects with weights are recognized by
`state_dict` or `get_weights`.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from laptime.model.errors import LaneError
from laptime.model.protocol import AnswerRun
from laptime.model.sample import Movement, ProofRun


def list_arrays(tree: Any) -> Iterator[Any]:
    """Yield every array in a state or a batch; those of a dict in key order, as in JAX."""
    if callable(getattr(tree, "state_dict", None)):
        # An optimizer's state holds dicts and lists that fill up during training; weights are at the top level.
        yield from filter(_is_array, tree.state_dict().values())
    elif callable(getattr(tree, "get_weights", None)):
        yield from filter(_is_array, tree.get_weights())
    elif _is_array(tree):
        yield tree
    else:
        for part in _parts(tree).values():
            yield from list_arrays(part)


def list_leaves(tree: Any) -> Iterator[Any]:
    """Yield every array, number and word in an item, and no other object."""
    parts = _parts(tree)
    if parts:
        for part in parts.values():
            yield from list_leaves(part)
    elif _is_array(tree) or isinstance(tree, bool | int | float | complex | str | bytes):
        yield tree


def has_floats(leaf: Any) -> bool:
    """Whether the name of an array's dtype contains "float": float32, torch.float32, <dtype: 'float32'>."""
    return _is_array(leaf) and "float" in str(leaf.dtype)


def read_array(leaf: Any) -> FloatArray:
    """Copy an array to the host, with the methods that frameworks have for that."""
    for word in ("detach", "cpu"):
        if hasattr(leaf, word):
            leaf = getattr(leaf, word)()
    if "bfloat16" in str(getattr(leaf, "dtype", "")) and hasattr(leaf, "float"):
        leaf = leaf.float()  # NumPy has no such type
    on_card = ("get",) if hasattr(leaf, "__cuda_array_interface__") else ()
    for word in ("numpy", "asnumpy", *on_card):
        if hasattr(leaf, word):
            return np.array(getattr(leaf, word)())
    return np.array(leaf)


def widen_batch(batch: Any) -> Any:
    """Return a batch in float64; leave the given one unchanged."""
    return rebuild(batch, _widened, {})


def widen_state(state: Any) -> Any:
    """Widen our own copy of a state to float64; an object that is held twice stays one object."""
    return rebuild(state, widen_held, {})


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and hasattr(leaf, "shape")


def _parts(tree: Any) -> dict[Any, Any]:
    """Return the parts of a dict, a list, a tuple or a dataclass; an empty dict for anything else."""
    if isinstance(tree, dict):
        try:
            keys = sorted(tree)
        except TypeError:  # its keys have no order
            keys = list(tree)
        return {key: tree[key] for key in keys}
    if isinstance(tree, list | tuple):
        return dict(enumerate(tree))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
    return {}


def rebuild(tree: Any, change: Callable[[Any], Any], changed: dict[int, Any]) -> Any:
    """Return the tree with each leaf changed once, even if it is held several times."""
    parts = _parts(tree)
    if not parts:
        if id(tree) not in changed:
            changed[id(tree)] = change(tree)
        return changed[id(tree)]
    made = {key: rebuild(part, change, changed) for key, part in parts.items()}
    if isinstance(tree, tuple):
        return tree._make(made.values()) if hasattr(tree, "_make") else tuple(made.values())
    new = copy.copy(tree)
    for key, part in made.items():
        if isinstance(tree, dict | list):
            new[key] = part
        else:
            object.__setattr__(new, key, part)  # a dataclass may be frozen
    return new


def widen_held(leaf: Any) -> Any:
    """Widen a leaf. A network or a PyTorch tensor is changed in place: an optimizer in the same state holds it too."""
    if not any(map(has_floats, list_arrays(leaf))):
        return leaf
    if not _is_array(leaf):
        return leaf.double() if hasattr(leaf, "double") else _refuse(leaf)
    if hasattr(getattr(leaf, "data", None), "double"):
        leaf.data = _widened(leaf.data)
        return leaf
    return _widened(leaf)


def _widened(leaf: Any) -> Any:
    if not has_floats(leaf):
        return leaf
    wide = leaf.astype("float64") if hasattr(leaf, "astype") else leaf.double() if hasattr(leaf, "double") else leaf
    if "float64" not in str(wide.dtype) and "double" not in str(wide.dtype):
        _refuse(leaf)
    return wide


def _refuse(leaf: Any) -> NoReturn:
    raise LaneError(f"laptime cannot widen {type(leaf).__name__} to float64")


# The numbers of a proof, for every framework: weight movements, answer values, and seeds of global generators.

CHANCE = 1e-5  # two float32 runs on the same numbers differ by less; on other numbers by far more

FloatArray = npt.NDArray[np.floating]
# The proof multiplies gradients by this many times an optimizer's epsilon: 1e-4 for Keras's Adam.
TIMES_EPSILON = 1e3
LEAST_SCALE = 1e-8  # with smaller scales, the squares of gradients underflow in float32
MOST_VALUES = 512
SEEDS = 1 << 32
STEPS_A_SEED = 1_000


def make_run(
    precision: str, losses: Sequence[float], before: Sequence[FloatArray], after: Sequence[FloatArray], seconds: float
) -> ProofRun:
    """Return the fingerprint of the proof's steps."""
    moved = measure_movement(before, after)
    start = 0.0
    for old in before:
        start = math.hypot(start, float(np.linalg.norm(old.astype(np.float64))))
    return ProofRun(precision, tuple(losses), start, moved.shrink, moved.moves, seconds)


def measure_movement(before: Iterable[FloatArray], after: Iterable[FloatArray]) -> Movement:
    """Return the fingerprint of weights before and after; float64 holds the difference of two float32 exactly."""
    moves: list[float] = []
    along = 0.0
    square = 0.0
    for old, new in zip(before, after, strict=True):
        wide = old.astype(np.float64)
        move = new.astype(np.float64) - wide
        moves.append(float(np.linalg.norm(move)))
        along += float(np.vdot(move, wide))
        square += float(np.vdot(wide, wide))
    return Movement(along / square if square else 0.0, tuple(moves))


def scale_near(epsilon: float) -> float:
    """Return the factor that brings gradients near an optimizer's epsilon; see `ProofPlan`."""
    return min(1.0, max(LEAST_SCALE, TIMES_EPSILON * epsilon))


def part(one: ProofRun, other: ProofRun) -> float:
    """Return the largest relative difference between the losses of two runs."""
    pairs = zip(one.losses, other.losses, strict=True)
    return max((abs(mine - its) / max(abs(its), 1e-30) for mine, its in pairs), default=0.0)


def make_answers(precision: str, flat: npt.NDArray[Any]) -> AnswerRun:
    """Return values spread evenly over all answers, and the norm of all; an empty run where there are no numbers."""
    if not len(flat):
        return AnswerRun(precision, (), 0.0, 0)
    exact = flat.astype(np.float64)
    length = float(np.linalg.norm(exact))
    if not np.isfinite(length):
        raise LaneError(f"its answers are no finite numbers in {precision}", "such a network answers nothing")
    places = np.linspace(0, len(exact) - 1, min(len(exact), MOST_VALUES)).round().astype(np.int64)
    return AnswerRun(precision, tuple(exact[places].tolist()), length, len(exact))


def seed_globals(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % SEEDS)  # noqa: NPY002  a user's code may draw from the global generator


def read_globals() -> tuple[Any, ...]:
    """Return the states of the global generators, to see later whether anything was drawn."""
    kind, words, *place = np.random.get_state()  # noqa: NPY002
    return random.getstate(), kind, np.asarray(words).tobytes(), *place


@contextlib.contextmanager
def restored_globals() -> Iterator[None]:
    """Restore the states of the global generators on exit."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
