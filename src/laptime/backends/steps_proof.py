"""The proof of a user's step: its first steps as it takes them, held against the same in float64."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable

import numpy as np

from laptime.backends.fingerprint import make_run, part
from laptime.backends.steps import Steps
from laptime.errors import LaneError
from laptime.model.sample import ProofRun, Reference

# Two runs of one program from one state part by nothing; and float64 from float32 by rounding, not by a hundredth.
CHANCE, OTHER_WAY = 1e-5, 1e-2
# What a first loss in float32 may be off, by the root of the depth, before a lane is told to do other work.
FLOAT32 = 8 * 2.0**-24


def take_steps(steps: Steps, precision: str, *, wide: bool = False) -> ProofRun:
    """Take the proof's steps from the user's own state and on the user's own batches."""
    began = time.perf_counter()
    state, own = steps.fresh_state(wide=wide), steps.own
    before = steps.floats(state)
    losses = []
    for batch in itertools.islice(own.batches(), own.proof_steps):
        state, loss = own.take(state, steps.widen(batch) if wide else batch)
        losses.append(steps.number(loss))
    after = steps.floats(state)
    if [each.shape for each in before] != [each.shape for each in after]:
        raise LaneError("its step gives a state of other arrays than it was given")
    if wide and any(each.dtype != np.float64 for each in after):
        raise LaneError("its step casts to float32 by itself")
    return make_run(precision, losses, before, after, time.perf_counter() - began)


def hold_against_float64(steps: Steps, take: Callable[[], ProofRun], widely: Callable[[], ProofRun]) -> Reference:
    """Take the steps in float64, and in float32 beside it: what rounding alone does. Or say why nothing is proven."""
    twin = take()
    depth, weights = len(twin.moves), sum(each.size for each in steps.floats(steps.fresh_state()))
    if not all(map(math.isfinite, twin.losses)):
        raise LaneError("the loss is not finite in the proof's first steps")
    problem = _why_unproven(twin, take())
    if problem:
        return Reference("", twin, twin, depth, weights, problem)
    try:
        exact = widely()
    except Exception as error:  # noqa: BLE001  whatever a user's step raises that was not written for float64
        said = (str(error).splitlines() or [""])[0]
        return Reference("", twin, twin, depth, weights, f"it cannot run in float64: {type(error).__name__}: {said}")
    return Reference("", exact, twin, depth, weights, _why_apart(exact, twin))


def _why_unproven(twin: ProofRun, again: ProofRun) -> str | None:
    if not twin.moves:
        return "its state holds no arrays of floats to compare"
    if part(again, twin) > CHANCE:
        return "it draws random numbers, or keeps something, that is not in its state"
    if not any(twin.moves):
        return "its steps leave its state as it was: what they train is not in it"
    return None


def _why_apart(exact: ProofRun, twin: ProofRun) -> str | None:
    if part(exact, twin) > OTHER_WAY:
        return "in float64 it goes another way than in float32, as random draws do"
    off = abs(twin.losses[0] - exact.losses[0]) / max(abs(exact.losses[0]), 1e-30)
    if off > FLOAT32 * math.sqrt(len(twin.moves)):
        return f"its first loss is {off:.0e} off float64's: it computes in less than float32 by itself"
    return None
