"""Three small trainings in JAX whose batches are each of another length, so that every step is compiled again."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import laptime

WIDTH, ITEMS, CLASSES = 64, 32, 8
FIRST, MIDDLE = 40, 120
RATE = 0.01
FIXED = os.environ.get("LAPTIME_CAUSE", "") != "changing shapes"

State = dict[str, jax.Array]


def mlp() -> laptime.Training:
    return make_training(lambda state, rows: jnp.tanh(rows @ state["first"]) @ state["second"])


def attention() -> laptime.Training:
    return make_training(_attend)


def conv() -> laptime.Training:
    return make_training(_slide)


def make_training(answer: Any) -> laptime.Training:
    """Return a training of 160 batches, as long as they are many and the middle one first."""
    rng = np.random.default_rng(0)
    lengths = [
        MIDDLE,
        *(length for length in rng.permutation(np.arange(FIRST, 2 * MIDDLE - FIRST)) if length != MIDDLE),
    ]
    if FIXED:
        lengths = [MIDDLE] * len(lengths)
    data = [
        (rng.standard_normal((ITEMS, length, WIDTH), np.float32), rng.integers(0, CLASSES, ITEMS)) for length in lengths
    ]
    shapes = {"first": (WIDTH, WIDTH), "second": (WIDTH, CLASSES), "other": (WIDTH, WIDTH)}
    state = {name: jnp.asarray(0.1 * rng.standard_normal(shape), jnp.float32) for name, shape in shapes.items()}
    return laptime.Training(step=partial(_step, answer), state=state, data=data)


def _attend(state: State, rows: jax.Array) -> jax.Array:
    asked, told = rows @ state["first"], rows @ state["other"]
    weights = jax.nn.softmax(asked @ told.transpose(0, 2, 1) / np.sqrt(WIDTH))
    return weights @ rows @ state["second"]


def _slide(state: State, rows: jax.Array) -> jax.Array:
    beside = jnp.roll(rows, 1, axis=1) @ state["other"]
    return jax.nn.relu(rows @ state["first"] + beside) @ state["second"]


@partial(jax.jit, static_argnums=0)
def _step(answer: Any, state: State, batch: tuple[jax.Array, jax.Array]) -> tuple[State, jax.Array]:
    def loss_of(state: State) -> jax.Array:
        rows, labels = batch
        scores = jax.nn.log_softmax(answer(state, rows).mean(1))
        return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

    loss, slopes = jax.value_and_grad(loss_of)(state)
    return jax.tree.map(lambda value, slope: value - RATE * slope, state, slopes), loss
