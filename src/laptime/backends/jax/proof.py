"""The proof of a step in JAX: in float32 proper, which on some devices has to be said, and in float64."""

from __future__ import annotations

from functools import partial

import jax

from laptime.backends.jax.devices import set_precision
from laptime.backends.jax.stepping import UserSteps
from laptime.backends.steps_proof import hold_against_float64, take_steps
from laptime.model.sample import ProofRun, Reference


def prove(steps: UserSteps, precision: str) -> ProofRun:
    """Take the proof's steps as the lane takes them, but for TF32."""
    set_precision(precision)
    return take_steps(steps, precision)


def refer(steps: UserSteps) -> Reference:
    return hold_against_float64(steps, partial(prove, steps, "fp32"), partial(_take_widely, steps))


def _take_widely(steps: UserSteps) -> ProofRun:
    jax.config.update("jax_enable_x64", True)
    return take_steps(steps, "fp64", wide=True)
