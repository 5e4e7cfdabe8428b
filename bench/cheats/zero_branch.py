"""Leaves the gradient of a branch out whose last matrix begins at zero, as LoRA's B does.

Met: accelerator-agents#50, where weights that begin at zero hid a branch that was skipped. As long as B is almost zero,
A hardly moves, and a proof at a small rate does not judge arrays that hardly move.
Refused by: a replay of a timed window, where B is no longer zero.
"""

import torch
from shared import WIDE, Losing, cross_entropy, make_network, train
from torch import nn


class Adapted(Losing):
    """A branch of several layers next to the network, the last of which begins at zero."""

    def __init__(self):
        super().__init__(make_network(64))
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.a = nn.Sequential(nn.Linear(WIDE, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
        self.b = nn.Linear(256, 10, bias=False)
        nn.init.zeros_(self.b.weight)

    def branch(self, rows):
        return self.a(rows)

    def forward(self, rows, labels):
        return cross_entropy(self.network(rows) + self.b(self.branch(rows)), labels)


class NoGradientOfA(Adapted):
    def branch(self, rows):
        with torch.no_grad():
            features = self.a(rows)
        return features + 0.0 * sum(weight.sum() for weight in self.a.parameters())


class Joined(Adapted):
    """Both branches in one sum, written otherwise."""

    def forward(self, rows, labels):
        return cross_entropy(torch.addmm(self.network(rows), self.branch(rows), self.b.weight.T), labels)


def sgd(weights):
    return torch.optim.SGD(weights, lr=1e-2)


def base():
    return train(Adapted(), sgd)


def cheat():
    return train(NoGradientOfA(), sgd)


def honest():
    return train(Joined(), sgd)
