"""A training in JAX alone for laptime: `laptime race examples/jax_training.py:training jax/cpu jax/cpu/input=resident`.

The function returns a step, the state that it begins with, and the data; laptime makes a fresh process for each heat,
calls the function in it, and does the rest. The step may be compiled, and may use up the state that it is given.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import laptime

WIDTHS = (100, 512, 5)
RATE = 0.05


def training() -> laptime.Training:
    """Return a small classifier on made data: 64 batches of 128 rows with 100 columns, 5 classes."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((64, 128, 100), np.float32)
    return laptime.Training(
        step=step, state=first_weights(), data=list(zip(rows, rows[..., :5].argmax(-1), strict=True))
    )


def first_weights() -> list[tuple[jax.Array, jax.Array]]:
    keys = jax.random.split(jax.random.key(0), len(WIDTHS) - 1)
    shapes = zip(keys, WIDTHS[:-1], WIDTHS[1:], strict=True)
    return [(jax.random.normal(key, (inputs, units)) / inputs**0.5, jnp.zeros(units)) for key, inputs, units in shapes]


def loss_of(weights: list[tuple[jax.Array, jax.Array]], rows: jax.Array, labels: jax.Array) -> jax.Array:
    (wide, bias), (last, last_bias) = weights
    scores = jax.nn.relu(rows @ wide + bias) @ last + last_bias
    chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1)
    return -chosen.mean()


@partial(jax.jit, donate_argnums=0)
def step(weights: list[tuple[jax.Array, jax.Array]], batch: tuple[jax.Array, jax.Array]) -> tuple[object, jax.Array]:
    loss, slopes = jax.value_and_grad(loss_of)(weights, *batch)
    return jax.tree.map(lambda weight, slope: weight - RATE * slope, weights, slopes), loss
