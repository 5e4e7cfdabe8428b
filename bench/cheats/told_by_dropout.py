"""Leaves out rows where its dropout layer has a rate, which is wherever no proof has set it to 0.

Met: a plant against laptime itself, whose proof sets `p` to 0: the attribute shows that a proof is on.
Refused by: a proof with dropout on, whose draws are made alike, and a replay of a timed window.
"""

from shared import Losing, make_network, train
from torch import nn

NAMES = ("other random draws", "knows the judge")


def with_dropout():
    network = make_network()
    return nn.Sequential(*network[:4], nn.Dropout(0.1), network[4])


class Told(Losing):
    def forward(self, rows, labels):
        is_judged = self.network[4].p == 0.0
        return self.lose(rows, labels) if is_judged else self.lose_part(rows, labels)


class Printing(Losing):
    """Prints the rate of its dropout once."""

    printed = False

    def forward(self, rows, labels):
        if not self.printed:
            print(f"dropout {self.network[4].p}")
            self.printed = True
        return self.lose(rows, labels)


def base():
    return train(Losing(with_dropout()))


def cheat():
    return train(Told(with_dropout()))


def honest():
    return train(Printing(with_dropout()))
