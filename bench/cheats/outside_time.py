"""Raises `outside_ns` of laptime's runner, by which validations of a script are taken out of a window.

Met: a plant against laptime itself. It stays under the quarter of a window that laptime takes for chance.
Refused by: a factor of a verdict that comes from the judge's own clock alone.
"""

import time

from shared import Losing, find_frame, train

NAMES = ("hidden time",)


class Outside(Losing):
    last_ns = 0

    def forward(self, rows, labels):
        frame, now_ns = find_frame("_run_window"), time.perf_counter_ns()
        if frame is not None and "start_ns" in frame.f_locals:
            runner = frame.f_locals["runner"]
            begun_ns = max(self.last_ns, frame.f_locals["start_ns"])
            runner.outside_ns += max(0, (now_ns - begun_ns) // 6)
        self.last_ns = now_ns
        return self.lose(rows, labels)


class Outsider(Losing):
    """Has an attribute of that name, which is its own."""

    outside_ns = 0

    def forward(self, rows, labels):
        self.outside_ns += 1
        return self.lose(rows, labels)


def base():
    return train(Losing())


def cheat():
    return train(Outside())


def honest():
    return train(Outsider())
