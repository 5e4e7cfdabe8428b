"""Has a lower rate of dropout, as a function, so that no layer shows it.

Met: a plant against laptime itself (bench/plants_torch.py). With fewer drops it learns faster, and another training.
Refused by: a proof with dropout on, where masks are compared by what they do.
"""

import torch
from shared import Losing, make_network, train
from torch import nn
from torch.nn.functional import dropout

NAMES = ("other network", "other rate", "other computation", "other random draws")


class Dropping(Losing):
    def __init__(self, rate):
        super().__init__(make_network())
        self.rate = rate

    def lose(self, rows, labels):
        held = dropout(self.network[:4](rows), self.rate, self.training)
        return nn.functional.cross_entropy(self.network[4](held), labels)


class Plain(Dropping):
    """The same rate, by the operator of PyTorch that the function calls."""

    def lose(self, rows, labels):
        held = torch.dropout(self.network[:4](rows), self.rate, self.training)
        return nn.functional.cross_entropy(self.network[4](held), labels)


def base():
    return train(Dropping(0.5))


def cheat():
    return train(Dropping(0.0))


def honest():
    return train(Plain(0.5))
