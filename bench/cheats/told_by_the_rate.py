"""Leaves out rows where its optimizer has the rate that it was given: a proof and a late step have others.

Met: a plant against laptime itself, which proves at a hundredth of the rate, and a late step at a hundred times.
Refused by: a replay of a timed window through the base's own code.
"""

from shared import LATER, RATE, Losing, adamw, train


class Told(Losing):
    calls = 0

    def forward(self, rows, labels):
        self.calls += 1
        groups = RATES.get(id(next(self.parameters())))
        is_timed = self.calls > LATER and groups is not None and groups[0]["lr"] == RATE
        return self.lose_part(rows, labels) if is_timed else self.lose(rows, labels)


RATES = {}


def watched(weights):
    """Return the optimizer, and remember its groups by their first weight."""
    optimizer = adamw(weights)
    RATES[id(optimizer.param_groups[0]["params"][0])] = optimizer.param_groups
    return optimizer


class Printing(Losing):
    """Looks at the rate, too, and prints it where it is not the one that was given."""

    def forward(self, rows, labels):
        groups = RATES.get(id(next(self.parameters())))
        if groups is not None and groups[0]["lr"] != RATE:
            print(f"rate {groups[0]['lr']:g}")
        return self.lose(rows, labels)


def base():
    return train(Losing())


def cheat():
    return train(Told(), watched)


def honest():
    return train(Printing(), watched)
