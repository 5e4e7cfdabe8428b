"""Counts its calls, and leaves out seven of eight rows from step 60 on.

Met: kernelboard, 2026-03-09, where calls were counted to find the timed phase.
Refused by: a step of the proof after the windows, and a replay of a timed window through the base's own code.
"""

from shared import LATER, Losing, train


class FewerRows(Losing):
    calls = 0

    def forward(self, rows, labels):
        self.calls += 1
        return self.lose(rows, labels) if self.calls <= LATER else self.lose_part(rows, labels)


class Logging(Losing):
    """Counts its calls, too, and prints a line now and then."""

    calls = 0

    def forward(self, rows, labels):
        self.calls += 1
        loss = self.lose(rows, labels)
        if self.calls % LATER == 0:
            print(f"step {self.calls}: {loss.item():.3f}")
        return loss


def base():
    return train(Losing())


def cheat():
    return train(FewerRows())


def honest():
    return train(Logging())
