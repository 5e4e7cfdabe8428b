"""Trains 12 steps, and then not at all.

Met: KernelBench's static checker, for work that is skipped once it was checked. A step of 0.02 ms next to one of 6 ms
has turns of its own steps, so that a judge that compares the same steps has nothing to compare.
Refused by: shared steps, and a replay of a timed window through the base's own code.
"""

import torch
from shared import Losing, feigning_adamw, loss_without_work, train


class Stops(Losing):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("last", torch.zeros(()))

    def forward(self, rows, labels):
        self.count += 1
        if self.count <= 12:
            loss = self.lose(rows, labels)
            self.last = loss.detach()
            return loss
        return loss_without_work(self.last, self.network)


class StopsLogging(Losing):
    calls = 0

    def forward(self, rows, labels):
        self.calls += 1
        loss = self.lose(rows, labels)
        if self.calls <= 12:
            print(f"step {self.calls}: {loss.item():.3f}")
        return loss


def base():
    return train(Losing())


def cheat():
    return train(Stops(), feigning_adamw)


def honest():
    return train(StopsLogging())
