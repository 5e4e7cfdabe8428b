"""The proof of a user's step: its first steps as it runs them, compared with the same steps in float64."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from laptime.backends.fingerprint import STEPS_A_SEED, make_run, part, restored_globals, seed_globals
from laptime.backends.python.arrays import read_array
from laptime.backends.steps import Steps
from laptime.errors import LaneError
from laptime.model.sample import ProofRun, Reference

# Two runs of one program from one state are equal; float64 and float32 differ by rounding, not by a hundredth.
CHANCE, OTHER_WAY = 1e-5, 1e-2
# How far a first loss may be off float32, times the root of the depth, before the step counts as imprecise.
FLOAT32 = 8 * 2.0**-24
OTHER_BATCHES = "its data give other batches each time, from the same seeds too: seed what they draw"


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
    with _draws_for(steps) as draws:
        state, own = steps.fresh_state(wide=wide), steps.own
        before = steps.floats(state)
        losses = []
        drawn = (draw_batches(steps, draws) if given is None else list(given))[:most]
        for number, batch in enumerate(drawn):
            used = _copied(batch)
            with draws.step(number):
                state, loss = own.take(state, steps.widen(used) if wide else used)
            losses.append(steps.number(loss))
    after = steps.floats(state)
    if [each.shape for each in before] != [each.shape for each in after]:
        raise LaneError("its step gives a state of other arrays than it was given")
    if wide and any(each.dtype != np.float64 for each in after):
        raise LaneError("its step casts to float32 on its own")
    run = make_run(precision, losses, before, after, time.perf_counter() - began)
    beyond = f"it draws random numbers within {draws.beyond}, a kernel that draws its own" if draws.beyond else None
    return replace(run, batches=_digest(steps, drawn), problem=beyond)


def compare_with_float64(
    steps: Steps, take: Callable[[list[Any]], ProofRun], widely: Callable[[list[Any]], ProofRun]
) -> Reference:
    """Run the steps in float64, and in float32 to see the effect of rounding alone; or return why nothing is proven."""
    with _draws_for(steps) as draws:
        batches, again = draw_batches(steps, draws), draw_batches(steps, draws)
    twin = take(batches)
    depth, weights = len(twin.moves), sum(each.size for each in steps.floats(steps.fresh_state()))
    if not all(map(math.isfinite, twin.losses)):
        raise LaneError("the loss is not finite in the proof's first steps")
    problem = OTHER_BATCHES if _digest(steps, again) != twin.batches else _why_unproven(twin, take(batches))
    if problem:
        return Reference("", twin, twin, depth, weights, problem)
    try:
        exact = widely(batches)
    except Exception as error:  # noqa: BLE001  whatever a user's step raises that was not written for float64
        said = (str(error).splitlines() or [""])[0]
        return Reference("", twin, twin, depth, weights, f"it cannot run in float64: {type(error).__name__}: {said}")
    return Reference("", exact, twin, depth, weights, _why_apart(exact, twin))


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
    from laptime.backends.torch.random_numbers import SameRandomNumbers, restored_generators

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


def _why_apart(exact: ProofRun, twin: ProofRun) -> str | None:
    if part(exact, twin) > OTHER_WAY:
        return "in float64 it goes another way than in float32, as random draws do"
    off = abs(twin.losses[0] - exact.losses[0]) / max(abs(exact.losses[0]), 1e-30)
    if off > FLOAT32 * math.sqrt(len(twin.moves)):
        return f"its first loss is {off:.0e} off float64's: it computes in less than float32 on its own"
    return None
