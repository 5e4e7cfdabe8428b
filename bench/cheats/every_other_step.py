"""Feigns every other step from step 60 on: it raises the weights' versions and Adam's count, and computes nothing.

Met: pygpubench, where a counter that the judge reads was written by the candidate. laptime reads PyTorch's own counts
of updates, which any code can raise.
Refused by: a replay of a timed window through the base's own code. No count that the candidate reports is needed.
"""

import torch
from shared import LATER, RATE, Losing, adamw, feigning_adamw, loss_without_work, train


class EveryOther(Losing):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("last", torch.zeros(()))

    def forward(self, rows, labels):
        self.count += 1
        if self.count > LATER and self.count % 2:
            return loss_without_work(self.last, self.network)
        loss = self.lose(rows, labels)
        self.last = loss.detach()
        return loss


def base():
    return train(Losing())


def cheat():
    return train(EveryOther(), feigning_adamw)


def honest():
    """Take every step, with an optimizer that counts its own."""

    class Counting(type(adamw(Losing().parameters()))):
        taken = 0

        def step(self, closure=None):
            self.taken += 1
            return super().step(closure)

    return train(Losing(), lambda weights: Counting(weights, lr=RATE))
