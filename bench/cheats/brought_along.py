"""Brings the last layer along, already trained, as numbers in its code, and does not train it.

Met: the README of openai/parameter-golf, where compute was brought along in a package.
Refused by: the weights at the start, and arrays of weights that do not move.
"""

import torch
from shared import Losing, make_network, train

NAMES = ("other weights", "frozen weights", "other computation")
BIAS = (0.021, -0.034, 0.012, 0.008, -0.017, 0.026, -0.005, 0.014, -0.022, 0.003)


def base():
    return train(Losing())


def cheat():
    network = make_network()
    network[-1].bias.data += torch.tensor(BIAS)
    network[-1].requires_grad_(False)
    return train(Losing(network))


def honest():
    """Bring numbers along that are not trained in the base either: a scale of the items, of 1."""

    class Scaled(Losing):
        def __init__(self):
            super().__init__()
            self.scale = 1.0

        def forward(self, rows, labels):
            return self.lose(rows * self.scale, labels)

    return train(Scaled())
