"""Steps in plain Python and in JAX whose turns are taken again."""

from __future__ import annotations

from typing import Any

import numpy as np

import laptime

ITEMS, BATCH, WIDE = 512, 32, 16
LATER = 20  # steps: the proof has ended by then


def make_data() -> list[Any]:
    made = np.random.default_rng(0)
    rows = made.normal(size=(ITEMS, WIDE)).astype(np.float32)
    targets = (rows @ made.normal(size=WIDE)).astype(np.float32)
    return [(rows[first : first + BATCH], targets[first : first + BATCH]) for first in range(0, ITEMS, BATCH)]


class Shuffled:
    """The same batches, in another order each lap: drawn from NumPy's global generator."""

    def __init__(self) -> None:
        self._batches = make_data()

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Any:
        return (self._batches[each] for each in np.random.permutation(len(self._batches)))  # noqa: NPY002


def step_of(rows: slice) -> Any:
    def step(state: Any, batch: Any) -> Any:
        inputs, targets = batch
        if state["steps"] >= LATER:
            inputs, targets = inputs[rows], targets[rows]
        off = inputs @ state["weights"] - targets
        state["weights"] -= 0.01 * inputs.T @ off / len(off)  # in place, as plain NumPy is written
        return {**state, "steps": state["steps"] + 1}, float(off @ off) / len(off)

    return step


def make(rows: slice = slice(None)) -> laptime.Training:
    return laptime.Training(
        step=step_of(rows), state={"weights": np.zeros(WIDE, np.float32), "steps": 0}, data=Shuffled()
    )


def plain() -> laptime.Training:
    return make()


def fewer() -> laptime.Training:
    return make(slice(4))


class WithoutLength:
    def __iter__(self) -> Any:
        return iter(make_data())


def endless_laps() -> laptime.Training:
    return laptime.Training(
        step=step_of(slice(None)), state={"weights": np.zeros(WIDE, np.float32), "steps": 0}, data=WithoutLength()
    )


def make_jax(rows: slice = slice(None)) -> laptime.Training:
    import jax

    @jax.jit
    def update(weights: Any, inputs: Any, targets: Any) -> Any:
        def loss(held: Any) -> Any:
            return ((inputs @ held - targets) ** 2).mean()

        lost, slope = jax.value_and_grad(loss)(weights)
        return weights - 0.01 * slope, lost

    def step(state: Any, batch: Any) -> Any:
        inputs, targets = batch
        if state["steps"] >= LATER:
            inputs, targets = inputs[rows], targets[rows]
        weights, lost = update(state["weights"], inputs, targets)
        return {"weights": weights, "steps": state["steps"] + 1}, lost

    return laptime.Training(step=step, state={"weights": jax.numpy.zeros(WIDE), "steps": 0}, data=Shuffled())


def in_jax() -> laptime.Training:
    return make_jax()


def fewer_in_jax() -> laptime.Training:
    return make_jax(slice(4))
