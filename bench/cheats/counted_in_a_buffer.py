"""Keeps its count in a buffer of the network, and leaves out seven of eight rows from step 60 on.

Met: the same as counted_calls.py, by a candidate that knows that laptime puts a training back to its start to take a
step of the proof again: that puts the count back, too, and the late step is honest.
Refused by: a replay of a timed window through the base's own code.
"""

import torch
from shared import LATER, Losing, train


class Counting(Losing):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))


class FewerRows(Counting):
    def forward(self, rows, labels):
        self.count += 1
        return self.lose(rows, labels) if self.count <= LATER else self.lose_part(rows, labels)


class Warming(Counting):
    """Keeps a count for a warm-up of its loss that has no effect after the first step, as batch norm keeps one."""

    def forward(self, rows, labels):
        self.count += 1
        return self.lose(rows, labels) * (self.count / self.count)


def base():
    return train(Losing())


def cheat():
    return train(FewerRows())


def honest():
    return train(Warming())
