"""Leaves out seven of eight rows in one timed turn in four, by a coin that it throws as the turn begins.

Met: a plant against laptime itself, which took a few turns again that it drew among all alike.
Refused by: the turns in which a candidate gained most are the first to be taken again.
"""

import random

from shared import LATER, Losing, find_frame, train

ONE_IN = 4


class Sometimes(Losing):
    calls, window, is_lazy = 0, None, False

    def forward(self, rows, labels):
        self.calls += 1
        window = find_frame("_run_window") if self.calls > LATER else None
        if window is None:
            return self.lose(rows, labels)
        number = window.f_locals["number"]
        if number != self.window:
            self.window, self.is_lazy = number, random.SystemRandom().randrange(ONE_IN) == 0
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
