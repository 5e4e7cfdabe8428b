"""Sees that laptime has kept two of its turns, and leaves out seven of eight rows in those that are left of the heat.

Met: a plant against laptime itself, which kept a drawn turn as soon as it was timed, and two in a heat at most.
Refused by: all turns of a heat are kept alike, and the one that is taken again is drawn after the last of them.
"""

from shared import LATER, Losing, find_frame, find_object, train

KEPT = 2  # turns


class Told(Losing):
    keeper, calls = None, 0

    def forward(self, rows, labels):
        self.calls += 1
        if self.calls == LATER // 2:
            self.keeper = find_object("TurnKeeper")
        is_over = self.keeper is not None and len(self.keeper._kept) >= KEPT and find_frame("_run_window") is not None
        return self.lose_part(rows, labels) if is_over else self.lose(rows, labels)


class Looking(Losing):
    """Counts the objects of its process, as a search for a leak does."""

    calls = 0

    def forward(self, rows, labels):
        self.calls += 1
        if self.calls == LATER // 2:
            find_object("Tensor")
        return self.lose(rows, labels)


def base():
    return train(Losing())


def cheat():
    return train(Told())


def honest():
    return train(Looking())
