"""Has a layer with the rate of the base's dropout, which drops nothing.

Met: a plant against laptime itself, which compared rates of dropout by an attribute of that name.
Refused by: a proof with dropout on, where masks are compared by what they do.
"""

from shared import Losing, make_network, train
from torch import nn
from torch.nn.functional import dropout

NAMES = ("other random draws", "other network")


class DropsNothing(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, given):
        return given


class Functional(Losing):
    """The same dropout, written as a function."""

    def __init__(self):
        super().__init__(make_network())
        self.p = 0.3

    def lose(self, rows, labels):
        network = self.network
        held = dropout(network[:2](rows), self.p, self.training)
        held = dropout(network[2:4](held), self.p, self.training)
        return nn.functional.cross_entropy(network[4](held), labels)


def with_layers(layer):
    network = make_network()
    return nn.Sequential(*network[:2], layer(0.3), *network[2:4], layer(0.3), network[4])


def base():
    return train(Losing(with_layers(nn.Dropout)))


def cheat():
    return train(Losing(with_layers(DropsNothing)))


def honest():
    return train(Functional())
