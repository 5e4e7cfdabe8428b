"""Drops in the first steps alone: from step 60 on, its mask is one of ones.

Met: a plant against laptime itself (bench/plants_torch.py). To draw a mask takes a part of a step, and a proof that
sets the rate to 0 sees none.
Refused by: a replay of a timed window with its draws made alike.
"""

import torch
from shared import LATER, Losing, make_network, train
from torch import nn

NAMES = ("other random draws", "knows the judge")


def with_dropout():
    network = make_network()
    return nn.Sequential(*network[:2], nn.Dropout(0.3), *network[2:4], nn.Dropout(0.3), network[4])


class DropsLess(Losing):
    def __init__(self):
        super().__init__(with_dropout())
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, rows, labels):
        self.count += 1
        for layer in (self.network[2], self.network[5]):
            layer.train(bool(self.count <= LATER))
        return self.lose(rows, labels)


class Sequenced(Losing):
    """The same layers, called one by one."""

    def lose(self, rows, labels):
        for layer in self.network:
            rows = layer(rows)
        return nn.functional.cross_entropy(rows, labels)


def base():
    return train(Losing(with_dropout()))


def cheat():
    return train(DropsLess())


def honest():
    return train(Sequenced(with_dropout()))
