"""Sleeps in its first 24 steps, so that it seems ten times as slow, and then leaves out seven of eight rows.

Met: pygpubench, where sleeping in warm-up made the judge take fewer samples. Here a lane that seems far slower gets
turns of its own steps, so that a judge that compares the same steps has fewer or none.
Refused by: shared steps of both sides, and a replay of a timed window through the base's own code.
"""

import time

import torch
from shared import LATER, Losing, train


class Sleeping(Losing):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, rows, labels):
        self.count += 1
        if 5 < self.count <= 24:
            time.sleep(0.06)
        return self.lose(rows, labels) if self.count <= LATER else self.lose_part(rows, labels)


class Settling(Losing):
    """Its first steps are slower, too: it fills a table that every later step reads."""

    table = None

    def forward(self, rows, labels):
        if self.table is None:
            time.sleep(0.2)
            self.table = torch.eye(10)
        return -(self.table[labels] * torch.log_softmax(self.network(rows), -1)).sum(-1).mean()


def base():
    return train(Losing())


def cheat():
    return train(Sleeping())


def honest():
    return train(Settling())
