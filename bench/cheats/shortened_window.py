"""Replaces how a window is made, so that each is a tenth shorter than it was.

Met: gpu-mode/reference-kernels#162, where `elapsed_time` and the statistics were patched.
Refused by: a look at laptime's own functions and classes, and turns by the judge's own clock.
"""

from shared import Losing, train

from laptime.model.sample import Window

NAMES = ("changed laptime", "hidden time")


def base():
    return train(Losing())


def cheat():
    real = Window.__init__

    def make(self, start_ns, end_ns, *rest, **named):
        real(self, start_ns, end_ns - (end_ns - start_ns) // 10, *rest, **named)

    Window.__init__ = make
    return train(Losing())


def honest():
    """Replace a method of a class of its own."""
    real = Losing.lose

    def lose(self, rows, labels):
        return real(self, rows, labels) * 1.0

    Losing.lose = lose
    return train(Losing())
