"""Loops of users' own that a python lane calls: NumPy without a fence, and PyTorch."""

import dataclasses
import threading
from collections import namedtuple

import numpy as np
import torch
from torch import nn

import laptime

RNG = np.random.default_rng(0)
ROWS = [(RNG.standard_normal((16, 8), np.float32), RNG.standard_normal((16, 3), np.float32)) for _ in range(3)]
Pair = namedtuple("Pair", "kernel bias")  # noqa: PYI024  the plain kind is meant


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    weights: Pair
    steps: int


def in_numpy():
    """Hold weights in a dataclass, a named tuple, a list and a dict."""

    def step(state, batch):
        (held,), rows, targets = state["held"], *batch
        kernel, bias = held.weights
        error = rows @ kernel + bias - targets
        slope = 2 * error / error.size
        new = Pair(kernel - 0.1 * rows.T @ slope, bias - 0.1 * slope.sum(0))
        return {"held": [Held(new, held.steps + 1)]}, (error**2).mean()

    weights = Pair(RNG.standard_normal((8, 3), np.float32), np.zeros(3, np.float32))
    return laptime.Training(step=step, state={"held": [Held(weights, 0)]}, data=ROWS)


def _torch_step(state, batch):
    model, optimizer = state
    rows, targets = map(torch.as_tensor, batch)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(rows), targets)
    loss.backward()
    optimizer.step()
    return state, loss


def with_module():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 3))
    state = (model, torch.optim.AdamW(model.parameters(), lr=0.01))
    return laptime.Training(step=_torch_step, state=state, data=ROWS)


def with_validation():
    """Hold what it validates on in a closure, a global and a function that it calls, in float32."""
    held = [torch.ones(5, 8), torch.zeros(5, 3)]
    given = with_module()

    def validate(model):
        with torch.no_grad():
            return nn.functional.mse_loss(model(held[0]), held[1]) + model(VALIDATED).mean()

    def step(state, batch):
        validate(state[0])
        return _torch_step(state, batch)

    return dataclasses.replace(given, step=step)


VALIDATED = torch.ones(5, 8)


def narrow_within():
    """Make what it validates on in the step itself, in float32."""

    def step(state, batch):
        state[0](torch.ones(5, 8))
        return _torch_step(state, batch)

    return dataclasses.replace(with_module(), step=step)


class Product:
    """No network of PyTorch's, but a function of a tensor."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __call__(self, rows):
        return rows @ self.kernel


def with_tensor():
    """Hold a tensor twice: in the state, and in its optimizer."""

    def step(state, batch):
        kernel, optimizer = state
        _, loss = _torch_step((Product(kernel), optimizer), batch)
        return state, loss

    kernel = torch.ones(8, 3, requires_grad=True)
    return laptime.Training(step=step, state=(kernel, torch.optim.Adam([kernel], lr=0.01)), data=ROWS)


class Holder:
    """Has weights, as objects of Keras's have, and no way to make them float64."""

    def __init__(self):
        self.kernel = np.ones((8, 3), np.float32)

    def get_weights(self):
        return [self.kernel]


def with_holder():
    def step(state, batch):
        error = batch[0] @ state.kernel - batch[1]
        state.kernel = state.kernel - 0.01 * batch[0].T @ error
        return state, (error**2).mean()

    return laptime.Training(step=step, state=Holder(), data=ROWS)


def with_lock():
    return laptime.Training(step=lambda state, batch: (state, 0.0), state={"lock": threading.Lock()}, data=ROWS)


def loss_is_a_word():
    return laptime.Training(step=lambda state, batch: (state, "low"), state={}, data=ROWS)


def drawn_globally():
    """Draw the first weights from NumPy's global generator, and seed nothing."""
    given = in_numpy()
    held = Held(Pair(np.random.randn(8, 3).astype(np.float32), np.zeros(3, np.float32)), 0)  # noqa: NPY002
    return dataclasses.replace(given, state={"held": [held]})


def in_bfloat16():
    """End in a loss that NumPy has no type for."""

    def step(state, batch):
        _, loss = _torch_step(state, batch)
        return state, loss.bfloat16()

    return dataclasses.replace(with_module(), step=step)
