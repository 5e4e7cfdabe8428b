"""Gives sequences a quarter as long from its 60th batch on: the batches have as many items.

Met: a plant against laptime itself, which counted the items of later batches, and not their elements.
Refused by: shapes and elements of the batches of the same steps.
"""

import torch
from shared import LATER, Losing, make_batches, train
from torch.nn.functional import cross_entropy

NAMES = ("fewer items", "other data")
LONG = 8


class OverTime(Losing):
    """Answers for each moment of a sequence, and takes the mean."""

    def lose(self, rows, labels):
        return cross_entropy(self.network(rows).mean(1), labels)


def sequences():
    made = torch.Generator().manual_seed(3)
    for rows, labels in make_batches(rows=64):
        yield rows[:, None] + torch.randn(len(rows), LONG, rows.shape[1], generator=made), labels


class Sequences:
    def __init__(self):
        self.batches, self.given = list(sequences()), 0

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter(self.batches)


class Shorter(Sequences):
    def __iter__(self):
        for rows, labels in self.batches:
            self.given += 1
            yield (rows if self.given <= LATER else rows[:, : LONG // 4]), labels


class Counted(Sequences):
    """Counts what it gives, too, and gives all of it."""

    def __iter__(self):
        for batch in self.batches:
            self.given += 1
            yield batch


def base():
    return train(OverTime(), data=Sequences())


def cheat():
    return train(OverTime(), data=Shorter())


def honest():
    return train(OverTime(), data=Counted())
