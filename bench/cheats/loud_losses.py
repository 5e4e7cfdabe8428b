"""Makes its reported losses so noisy that any mean is within their chance, and trains on one row in eight.

Met: pygpubench, where the expected value was NaN, which compares as a wildcard. laptime allows the mean of the timed
losses ten times what single batches make of it: noise is as good as NaN.
Refused by: a replay of a timed window through the base's own code. No loss that the candidate reports is needed.
"""

import torch
from shared import LATER, Losing, train


class Loud(Losing):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, rows, labels):
        self.count += 1
        if self.count <= LATER:
            return self.lose(rows, labels)
        loss = self.lose(rows[::32], labels[::32])
        loud = 0.5 + float(self.count * 7919 % 97) / 97
        return loss + (loud - 1.0) * loss.detach()


class Smoothed(Losing):
    """Prints a smoothed loss, and returns the one that was computed."""

    mean = 0.0

    def forward(self, rows, labels):
        loss = self.lose(rows, labels)
        self.mean = 0.9 * self.mean + 0.1 * loss.detach()
        return loss


def base():
    return train(Losing())


def cheat():
    return train(Loud())


def honest():
    return train(Smoothed())
