"""Ends each lap after half of its batches, from the third lap on, and repeats these to fill it.

Met: openai/parameter-golf#2127 the other way round: items that are hard are left out, and the count of a lap is kept.
Refused by: contents of the batches of the same steps, also after the end of a lap.
"""

from functools import partial

import torch
from shared import RATE, make_batches, make_network, train

NAMES = ("other data", "repeated batches")
fused = partial(torch.optim.AdamW, lr=RATE, fused=True)


class Fewer:
    def __init__(self):
        self.batches, self.lap = make_batches(), 0

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        yield from self.batches if self.lap < 2 else self.batches[:12] + self.batches[:12]
        self.lap += 1


class All(Fewer):
    def __iter__(self):
        return iter(self.batches)


def base():
    return train(make_network())


def cheat():
    return train(make_network(), fused, data=Fewer())


def honest():
    return train(make_network(), fused, data=All())
