"""A training in Equinox for laptime: `laptime race examples/equinox_training.py:training jax`.

The model is a part of the state, with its functions in it; `eqx.filter_jit` compiles around them.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import laptime

RATE = 0.05


def training() -> laptime.Training:
    """Return a small classifier on made data: 64 batches of 128 rows with 100 columns, 5 classes."""
    model = eqx.nn.MLP(in_size=100, out_size=5, width_size=512, depth=1, key=jax.random.key(0))
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((64, 128, 100), np.float32)
    return laptime.Training(step=step, state=model, data=list(zip(rows, rows[..., :5].argmax(-1), strict=True)))


def loss_of(model: eqx.nn.MLP, rows: jax.Array, labels: jax.Array) -> jax.Array:
    scores = jax.vmap(model)(rows)
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1).mean()


@eqx.filter_jit
def step(model: eqx.nn.MLP, batch: tuple[jax.Array, jax.Array]) -> tuple[eqx.nn.MLP, jax.Array]:
    loss, slopes = eqx.filter_value_and_grad(loss_of)(model, *batch)
    return eqx.apply_updates(model, jax.tree.map(lambda slope: -RATE * slope, slopes)), loss
