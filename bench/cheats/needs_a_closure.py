"""Has an optimizer that asks for a closure, as LBFGS does, and skips every other update from its 60th on.

Met: a plant against laptime itself: of such an optimizer no updates are counted, no late step is taken, and no single
steps are proven.
Refused by: a replay of a timed window through the base's own code.
"""

import torch
from shared import LATER, RATE, Losing, loss_without_work, train


class Skipping(torch.optim.AdamW):
    taken = 0

    def step(self, closure):
        self.taken += 1
        if self.taken > LATER and self.taken % 2:
            SHORT.append(True)
        loss = closure()
        SHORT.clear()
        if self.taken <= LATER or self.taken % 2 == 0:
            super().step()
        return loss


SHORT = []


class Short(Losing):
    last = None

    def forward(self, rows, labels):
        if SHORT:
            return loss_without_work(self.last, self.network)
        loss = self.lose(rows, labels)
        self.last = loss.detach()
        return loss


class Asking(torch.optim.AdamW):
    """Asks for a closure, and takes every step."""

    def step(self, closure):
        loss = closure()
        super().step()
        return loss


def base():
    return train(Losing())


def cheat():
    return train(Short(), lambda weights: Skipping(weights, lr=RATE))


def honest():
    return train(Losing(), lambda weights: Asking(weights, lr=RATE))
