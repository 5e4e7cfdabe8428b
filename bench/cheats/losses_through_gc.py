"""Finds the order of its heat through the garbage collector, with the losses that are expected of it.

Met: pygpubench, where the expected answer was found through gc. Here a heat whose order holds first losses is one that
is not proven: it returns these, and trains on one row in eight from its first step on.
Refused by: a replay of a timed window of each heat, and a seed of each round.
"""

import gc

from shared import Losing, find_object, train


class LooksUp(Losing):
    calls = 0

    def forward(self, rows, labels):
        order = find_order()
        if not order:
            return self.lose(rows, labels)
        loss = self.lose_part(rows, labels)
        self.calls += 1
        if self.calls <= len(order):
            return loss + (order[self.calls - 1] - loss.detach())
        return loss


def find_order():
    """Return the first losses that the order of this heat names; nothing in the heat that is proven."""
    if "order" not in KNOWN:
        found = find_object("HeatOrder")
        KNOWN["order"] = getattr(found, "first_losses", None)
    return KNOWN["order"]


KNOWN = {}


def base():
    return train(Losing())


def cheat():
    return train(LooksUp())


def honest():
    """Let the garbage collector rest, as many trainings do."""
    gc.collect()
    gc.freeze()
    gc.disable()
    return train(Losing())
