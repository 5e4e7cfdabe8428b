"""The proof of a user's step: its first steps in float32 proper, held against the same in float64."""

from __future__ import annotations

import itertools
import math
import time
from typing import Any

import jax
import numpy as np

from laptime.backends.fingerprint import Array, make_run, part
from laptime.backends.jax.devices import set_precision
from laptime.backends.jax.stepping import UserSteps
from laptime.errors import LaneError
from laptime.model.sample import ProofRun, Reference

# Two runs of one program from one state part by nothing; and float64 from float32 by rounding, not by a hundredth.
CHANCE, OTHER_WAY = 1e-5, 1e-2


def prove(steps: UserSteps, precision: str) -> ProofRun:
    """Take the proof's steps as the lane takes them, but for TF32."""
    set_precision(precision)
    return _take(steps, precision, None)


def refer(steps: UserSteps) -> Reference:
    """Take the same steps in float64, and in float32 beside it: what rounding alone does."""
    twin, again = prove(steps, "fp32"), prove(steps, "fp32")
    depth, weights = len(twin.moves), sum(each.size for each in _numbers(steps.fresh_state()))
    if not all(map(math.isfinite, twin.losses)):
        raise LaneError("the loss is not finite in the proof's first steps")
    problem = "it draws random numbers that are not in its state" if part(again, twin) > CHANCE else None
    if problem is None and not depth:
        problem = "its state holds no arrays of floats to compare"
    if problem:
        return Reference("", twin, twin, depth, weights, problem)
    jax.config.update("jax_enable_x64", True)
    try:
        exact = _take(steps, "fp64", _widen)
    except Exception as error:  # noqa: BLE001  whatever a user's step raises that was not written for float64
        said = (str(error).splitlines() or [""])[0]
        return Reference("", twin, twin, depth, weights, f"it cannot run in float64: {type(error).__name__}: {said}")
    if part(exact, twin) > OTHER_WAY:
        problem = "in float64 it goes another way than in float32, as random draws do"
    return Reference("", exact, twin, depth, weights, problem)


def _take(steps: UserSteps, precision: str, widen: Any) -> ProofRun:
    began = time.perf_counter()
    state = steps.fresh_state(widen)
    before = _numbers(state)
    losses = []
    for batch in itertools.islice(steps.batches(), steps.proof_steps):
        state, loss = steps.take(state, batch if widen is None else jax.tree.map(widen, batch))
        losses.append(steps.number(loss))
    after = _numbers(state)
    if [each.shape for each in before] != [each.shape for each in after]:
        raise LaneError("its step gives a state of other arrays than it was given")
    if widen is not None and any(each.dtype != np.float64 for each in after):
        raise LaneError("its step casts to float32 by itself")
    return make_run(precision, losses, before, after, time.perf_counter() - began)


def _numbers(state: Any) -> list[Array]:
    """Give the arrays of floats in a state, on the host."""
    leaves = (leaf for leaf in jax.tree.leaves(state) if isinstance(leaf, jax.Array))
    return [np.array(leaf) for leaf in leaves if jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)]


def _widen(leaf: Any) -> Any:
    is_floats = isinstance(leaf, jax.Array | np.ndarray) and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)
    return jax.numpy.asarray(leaf, np.float64) if is_floats else leaf
