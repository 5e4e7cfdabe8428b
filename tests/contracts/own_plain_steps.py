"""Step functions of users in NumPy, sound and unsound, for the tests of python lanes; named as those in JAX are."""

import numpy as np

import laptime

RNG = np.random.default_rng(0)
ROWS = [(RNG.standard_normal((32, 8), np.float32), np.zeros(32, np.int64)) for _ in range(6)]
FENCED = []


def _weights():
    return {"kernel": np.random.default_rng(1).standard_normal((8, 3), np.float32), "steps": np.asarray(0)}


def _loss(kernel, rows, labels):
    """Return the loss and its slope."""
    each = np.arange(len(labels))
    scores = rows @ kernel
    scores = scores - scores.max(1, keepdims=True)
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    slope = np.exp(logs)
    slope[each, labels] -= 1
    return -logs[each, labels].mean(), rows.T @ slope / len(labels)


def _step(state, batch, rate=0.1):
    """Change the state in place, as a step may."""
    loss, slope = _loss(state["kernel"], *batch)
    state["kernel"] -= rate * slope
    state["steps"] += 1
    return state, loss


def _fence(state):
    FENCED.append(int(state["steps"]))


def sound():
    return laptime.Training(step=_step, state=_weights(), data=ROWS, fence=_fence)


def global_weights():
    """Its weights are drawn from NumPy's global generator, which no code of its own seeds."""
    drawn = np.random.standard_normal((8, 3)).astype(np.float32)  # noqa: NPY002  that is what it is about
    return laptime.Training(step=_step, state={**_weights(), "kernel": drawn}, data=ROWS)


def two_lengths():
    """Batches of two shapes, in turns."""
    rows = [(each[:16], labels[:16]) if number % 2 else (each, labels) for number, (each, labels) in enumerate(ROWS)]
    return laptime.Training(step=_step, state=_weights(), data=rows)


def other_rate():
    return laptime.Training(step=lambda state, batch: _step(state, batch, 0.11), state=_weights(), data=ROWS)


def with_key():
    """Draw from a generator in the state, in the rows' own precision: float64 draws other numbers than float32."""

    def step(state, batch):
        kept = state["rng"].random(batch[0].shape, batch[0].dtype) > 0.5
        _, loss = _step(state["weights"], (batch[0] * kept, batch[1]))
        return state, loss

    return laptime.Training(step=step, state={"rng": np.random.default_rng(3), "weights": _weights()}, data=ROWS)


def draws():
    def step(state, batch):
        rows = batch[0] * np.random.default_rng().random(batch[0].shape, np.float32)
        return _step(state, (rows, batch[1]))

    return laptime.Training(step=step, state=_weights(), data=ROWS)


def casts():
    def step(state, batch):
        new, loss = _step(state, batch)
        return {**new, "kernel": new["kernel"].astype(np.float32)}, loss

    return laptime.Training(step=step, state=_weights(), data=ROWS)


def coarse():
    """Compute in the precision in which the weights are held, which is a low one."""

    def step(state, batch):
        return _step(state, (batch[0].astype(state["kernel"].dtype), batch[1]))

    weights = {**_weights(), "kernel": _weights()["kernel"].astype(np.float16)}
    return laptime.Training(step=step, state=weights, data=ROWS)


def elsewhere():
    """Train what is not in the state."""
    held = _weights()

    def step(state, batch):
        loss, _ = _loss(state["kernel"], *batch)
        _step(held, batch)
        return state, loss

    return laptime.Training(step=step, state=_weights(), data=ROWS)


def no_floats():
    return laptime.Training(step=lambda state, batch: (state + 1, batch[0].sum()), state=np.asarray(0), data=ROWS)


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
