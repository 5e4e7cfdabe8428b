"""Leaves out seven of eight rows from step 60 on in one process in three, by a coin that it throws as it begins.

Met: a plant against laptime itself, which took turns of a few rounds again that it drew among all alike.
Refused by: a turn of each round in which a candidate gained more than in those before is taken again.
"""

import random

from shared import LATER, Losing, train

ONE_IN = 3


class Sometimes(Losing):
    calls, is_lazy = 0, False

    def forward(self, rows, labels):
        self.calls += 1
        if self.calls == LATER:
            self.is_lazy = random.SystemRandom().randrange(ONE_IN) == 0
        return self.lose_part(rows, labels) if self.is_lazy else self.lose(rows, labels)


class Drawing(Losing):
    """Draws a number of its own in each step, and does nothing with it."""

    def forward(self, rows, labels):
        random.SystemRandom().randrange(ONE_IN)
        return self.lose(rows, labels)


def base():
    return train(Losing())


def cheat():
    return train(Sometimes())


def honest():
    return train(Drawing())
