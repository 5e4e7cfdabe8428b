"""Sets `clock` on the object of laptime's back end: it runs at five sixths of its speed.

Met: a plant against laptime itself, which looks whether its classes and functions are as they were, and not whether an
object has a function of its own.
Refused by: a factor of a verdict that comes from the judge's own clock alone.
"""

import time

from shared import Losing, find_object, train

NAMES = ("hidden time", "changed clock", "changed laptime")


def base():
    return train(Losing())


def cheat():
    backend, began_ns = find_object("TorchBackend"), time.perf_counter_ns()
    if backend is not None:
        backend.clock = lambda: began_ns + (time.perf_counter_ns() - began_ns) * 5 // 6
    return train(Losing())


class Clocked(Losing):
    """Has a clock of its own."""

    def __init__(self):
        super().__init__()
        self.clock = time.perf_counter_ns

    def forward(self, rows, labels):
        assert self.clock() > 0
        return self.lose(rows, labels)


def honest():
    return train(Clocked())
