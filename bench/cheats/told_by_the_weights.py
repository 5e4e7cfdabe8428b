"""Leaves out rows once its weights have moved by more than a proof moves them.

Met: a plant against laptime itself. A proof and a late step begin from the first weights, and take steps at a hundredth
of the rate: a network that knows how long its first weights were needs no count.
Refused by: a replay of a timed window, from the weights at its beginning.
"""

import torch
from shared import Losing, train

MOVED = 1.5e-3  # a proof of five steps moves a bias by a hundredth of it


class Told(Losing):
    def __init__(self):
        super().__init__()
        self.first = self.network[0].bias.detach().clone()

    @torch.no_grad()
    def has_moved_far(self):
        return float((self.network[0].bias - self.first.to(self.network[0].bias)).abs().max()) > MOVED

    def forward(self, rows, labels):
        return self.lose_part(rows, labels) if self.has_moved_far() else self.lose(rows, labels)


class Measuring(Told):
    """Measures how far its weights have moved, too, and leaves out nothing."""

    def forward(self, rows, labels):
        if self.has_moved_far():
            self.has_moved = True
        return self.lose(rows, labels)


def base():
    return train(Losing())


def cheat():
    return train(Told())


def honest():
    return train(Measuring())
