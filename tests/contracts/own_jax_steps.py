"""Step functions of users, sound and unsound, for the tests of JAX lanes."""

import jax
import jax.numpy as jnp
import numpy as np

import laptime

RNG = np.random.default_rng(0)
ROWS = [(RNG.standard_normal((32, 8), np.float32), np.zeros(32, np.int64)) for _ in range(6)]
FENCED = []
NOTED = []


def _weights():
    return {
        "kernel": jnp.asarray(np.random.default_rng(1).standard_normal((8, 3), np.float32)),
        "steps": jnp.asarray(0),
    }


def _loss(kernel, rows, labels):
    return -jax.nn.log_softmax(rows @ kernel)[jnp.arange(len(labels)), labels].mean()


def _step(state, batch):
    loss, slope = jax.value_and_grad(_loss)(state["kernel"], *batch)
    return {"kernel": state["kernel"] - 0.1 * slope, "steps": state["steps"] + 1}, loss


def _fence(state):
    FENCED.append(int(state["steps"]))  # which waits for it


def sound():
    return laptime.Training(step=jax.jit(_step, donate_argnums=0), state=_weights(), data=ROWS, fence=_fence)


def noted():
    """Note how many rows each device is given, and on how many devices the weights are."""

    def step(state, batch):
        shards, devices = batch[0].addressable_shards, state["kernel"].sharding.device_set
        NOTED.append(([len(each.data) for each in shards], len(devices)))
        return _step(state, batch)

    return laptime.Training(step=step, state=_weights(), data=ROWS, fence=_fence)


def odd():
    """The first batch can be halved, the second cannot."""
    return laptime.Training(step=jax.jit(_step), state=_weights(), data=[ROWS[0], (ROWS[1][0][:31], ROWS[1][1][:31])])


def all_odd():
    return laptime.Training(step=jax.jit(_step), state=_weights(), data=[(ROWS[0][0][:31], ROWS[0][1][:31])])


def with_a_number():
    def step(state, batch):
        return _step(state, batch[:2])

    return laptime.Training(step=step, state=_weights(), data=[(*each, 1.5) for each in ROWS])


def global_weights():
    """Its weights are drawn from NumPy's global generator, which no code of its own seeds."""
    drawn = np.random.standard_normal((8, 3)).astype(np.float32)  # noqa: NPY002  that is what it is about
    return laptime.Training(step=jax.jit(_step), state={**_weights(), "kernel": jnp.asarray(drawn)}, data=ROWS)


def two_lengths():
    """Batches of two shapes, in turns."""
    rows = [(each[:16], labels[:16]) if number % 2 else (each, labels) for number, (each, labels) in enumerate(ROWS)]
    return laptime.Training(step=jax.jit(_step), state=_weights(), data=rows)


def other_rate():
    def step(state, batch):
        loss, slope = jax.value_and_grad(_loss)(state["kernel"], *batch)
        return {**state, "kernel": state["kernel"] - 0.11 * slope}, loss

    return laptime.Training(step=jax.jit(step), state=_weights(), data=ROWS)


def with_key():
    """Draw from a key in the state, as dropout does."""

    def step(state, batch):
        key, used = jax.random.split(state["key"])
        kept = jax.random.bernoulli(used, 0.5, batch[0].shape)
        new, loss = _step(state["weights"], (batch[0] * kept, batch[1]))
        return {"key": key, "weights": new}, loss

    return laptime.Training(step=jax.jit(step), state={"key": jax.random.key(3), "weights": _weights()}, data=ROWS)


def draws():
    def step(state, batch):
        rows = batch[0] * np.random.default_rng().random(batch[0].shape, np.float32)
        return _step(state, (rows, batch[1]))

    return laptime.Training(step=step, state=_weights(), data=ROWS)


def casts():
    def step(state, batch):
        new, loss = _step(state, batch)
        return {**new, "kernel": new["kernel"].astype(jnp.float32)}, loss

    return laptime.Training(step=jax.jit(step), state=_weights(), data=ROWS)


def coarse():
    """Compute in the precision in which the weights are held, which is a low one."""

    def step(state, batch):
        return _step(state, (batch[0].astype(state["kernel"].dtype), batch[1]))

    weights = {**_weights(), "kernel": _weights()["kernel"].astype(jnp.bfloat16)}
    return laptime.Training(step=jax.jit(step), state=weights, data=ROWS)


def elsewhere():
    """Train what is not in the state."""
    held = [_weights()]

    def step(state, batch):
        _, loss = _step(state, batch)
        held[0], _ = _step(held[0], batch)
        return state, loss

    return laptime.Training(step=step, state=_weights(), data=ROWS)


def no_floats():
    return laptime.Training(step=lambda state, batch: (state + 1, batch[0].sum()), state=jnp.asarray(0), data=ROWS)


def other_arrays():
    return laptime.Training(
        step=lambda state, batch: ({"kernel": state["kernel"][1:]}, batch[0].sum()), state=_weights(), data=ROWS
    )


def gives_one():
    return laptime.Training(step=lambda state, _batch: state, state=_weights(), data=ROWS)


def many_losses():
    return laptime.Training(step=lambda state, batch: (state, batch[0]), state=_weights(), data=ROWS)


def step_and_model():
    return laptime.Training(step=_step, model=object(), state=_weights(), data=ROWS)


def no_function():
    return laptime.Training(step=7, state=_weights(), data=ROWS)


def fence_is_none():
    return laptime.Training(step=_step, fence=7, state=_weights(), data=ROWS)


def empty():
    return laptime.Training(step=_step, state=_weights(), data=[])
