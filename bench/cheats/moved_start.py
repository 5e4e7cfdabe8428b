"""Moves the moment at which its window began, in the frame of laptime's loop, while the window is open.

Met: gpu-mode/pygpubench's exploits swapped the handles of two events; on a processor, the moments are two numbers. Its
shift is under the quarter of a window that laptime takes for chance.
Refused by: a factor of a verdict that comes from the judge's own clock alone.
"""

import time

from shared import Losing, find_frame, set_local, train

NAMES = ("hidden time",)


class Moving(Losing):
    last_ns = 0

    def forward(self, rows, labels):
        frame, now_ns = find_frame("_run_window"), time.perf_counter_ns()
        if frame is not None and "start_ns" in frame.f_locals:
            begun_ns = max(self.last_ns, frame.f_locals["start_ns"])
            set_local(frame, "start_ns", frame.f_locals["start_ns"] + max(0, (now_ns - begun_ns) // 6))
        self.last_ns = now_ns
        return self.lose(rows, labels)


class Timing(Losing):
    """Takes the time of its own steps."""

    last_ns = 0

    def forward(self, rows, labels):
        self.last_ns, before_ns = time.perf_counter_ns(), self.last_ns
        assert self.last_ns >= before_ns
        return self.lose(rows, labels)


def base():
    return train(Losing())


def cheat():
    return train(Moving())


def honest():
    return train(Timing())
