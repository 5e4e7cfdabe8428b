"""Gives its batches in another order from the second lap on: easy ones first, from memory that is near.

Met: a plant against laptime itself. The first lap is the base's, and so is the number of different batches.
Refused by: contents of the batches of the same steps, also after the end of a lap.
"""

from functools import partial

import torch
from shared import RATE, make_batches, make_network, train

NAMES = ("other data", "repeated batches")
fused = partial(torch.optim.AdamW, lr=RATE, fused=True)


class Turned:
    def __init__(self):
        self.batches, self.lap = make_batches(), 0

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        yield from self.batches if self.lap < 1 else self.batches[::-1]
        self.lap += 1


class Iterated(Turned):
    """The same order in each lap, from a list of its own."""

    def __iter__(self):
        yield from [*self.batches]
        self.lap += 1


def base():
    return train(make_network())


def cheat():
    return train(make_network(), fused, data=Turned())


def honest():
    return train(make_network(), fused, data=Iterated())
