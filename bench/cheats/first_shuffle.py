"""Shuffles in the first lap alone, and gives the same order for ever after.

Met: a plant against laptime itself. To draw and gather a new order takes a part of each lap; which items come together
is a part of a training.
Refused by: contents of the batches of the same steps, also after the end of a lap.
"""

import torch
from shared import make_batches, make_network, train

NAMES = ("other data", "repeated batches")


class Shuffled:
    """The items in a new order in each lap, drawn from the number of the lap."""

    def __init__(self):
        self.rows, self.labels = (torch.cat(parts) for parts in zip(*make_batches(), strict=True))
        self.lap = 0

    def __len__(self):
        return len(self.labels) // 512

    def order(self):
        return torch.randperm(len(self.labels), generator=torch.Generator().manual_seed(self.lap)).split(512)

    def __iter__(self):
        for chosen in self.order():
            yield self.rows[chosen], self.labels[chosen]
        self.lap += 1


class Once(Shuffled):
    kept = None

    def __iter__(self):
        if self.kept is None:
            self.kept = list(super().__iter__())
        return iter(self.kept)


class Selecting(Shuffled):
    """The same order, gathered by another function."""

    def __iter__(self):
        for chosen in self.order():
            yield self.rows.index_select(0, chosen), self.labels.index_select(0, chosen)
        self.lap += 1


def base():
    return train(make_network(64), data=Shuffled())


def cheat():
    return train(make_network(64), data=Once())


def honest():
    return train(make_network(64), data=Selecting())
