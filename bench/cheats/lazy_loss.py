"""Returns a loss that computes its step when it is read, and so never where nobody reads it.

Met: gpu-mode/reference-kernels#162, as a subclass of a tensor. A judge reads each loss of its proof, and of the timed
steps the last of a window alone, after its clock has stopped.
Refused by: a replay of a timed window through the base's own code; time outside of the window by the judge's own clock.
"""

import numpy as np
from shared import feign_update, take_back, take_step, train_by


class LazyLoss:
    def __init__(self, state, batch):
        self.state, self.batch, self.known = state, batch, None

    def __float__(self):
        if self.known is None:
            take_back(self.state.optimizer)
            self.known = float(take_step(self.state, self.batch)[1])
        return self.known

    def __array__(self, dtype=None, copy=None):
        return np.asarray(float(self), dtype)


def base():
    return train_by(take_step)


def cheat():
    def step(state, batch):
        if state.optimizer.state:
            feign_update(state.optimizer, 2)
        return state, LazyLoss(state, batch)

    return train_by(step)


def honest():
    """Return a loss that only its reading turns into a number: the step was taken."""

    class Loss(LazyLoss):
        def __float__(self):
            return float(self.known)

    def step(state, batch):
        loss = Loss(state, batch)
        loss.known = take_step(state, batch)[1].detach()
        return state, loss

    return train_by(step)
