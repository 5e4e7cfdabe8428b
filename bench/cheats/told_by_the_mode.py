"""Leaves out rows where nobody draws its random numbers for it: a proof runs under a mode of PyTorch's dispatcher.

Met: a plant against laptime itself, which makes random draws alike in its proofs by a dispatch mode.
Refused by: a replay of a timed window through the base's own code.
"""

from shared import LATER, Losing, train
from torch.utils._python_dispatch import _get_current_dispatch_mode


class Told(Losing):
    calls = 0

    def forward(self, rows, labels):
        self.calls += 1
        if self.calls <= LATER or _get_current_dispatch_mode() is not None:
            return self.lose(rows, labels)
        return self.lose_part(rows, labels)


class Under(Losing):
    """Looks for a mode, too, as code does that must not be compiled under one."""

    def forward(self, rows, labels):
        self.mode = type(_get_current_dispatch_mode()).__name__
        return self.lose(rows, labels)


def base():
    return train(Losing())


def cheat():
    return train(Told())


def honest():
    return train(Under())
