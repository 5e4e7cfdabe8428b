"""The numbers of a proof, for every framework: weight movements, answer values, and seeds of global generators."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from laptime.errors import LaneError
from laptime.model.protocol import AnswerRun
from laptime.model.sample import Movement, ProofRun

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
    moved, start = measure_movement(before, after), 0.0
    for old in before:
        start = math.hypot(start, float(np.linalg.norm(old.astype(np.float64))))
    return ProofRun(precision, tuple(losses), start, moved.shrink, moved.moves, seconds)


def measure_movement(before: Iterable[FloatArray], after: Iterable[FloatArray]) -> Movement:
    """Return the fingerprint of weights before and after; float64 holds the difference of two float32 exactly."""
    moves, along, square = [], 0.0, 0.0
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
