"""Reads from /proc what kind of process it is in: a heat that was forked to be timed, or one that computes a reference.

Met: a plant against laptime itself. A timed heat is a fork of a process with a third number behind its name; in the
others, and in its first steps and those of a late step, it is honest.
Refused by: a replay of a timed window through the base's own code.
"""

from pathlib import Path

import torch
from shared import LATER, Losing, train


def is_timed():
    words = Path("/proc/self/cmdline").read_bytes().split(b"\0")
    return b"laptime.engine.heat" in words and len([word for word in words if word.isdigit()]) > 2


class Told(Losing):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.is_timed = is_timed()

    def forward(self, rows, labels):
        self.count += 1
        if not self.is_timed or self.count <= LATER:
            return self.lose(rows, labels)
        return self.lose_part(rows, labels)


class Named(Losing):
    """Reads its command line, too, for the name of a log."""

    def __init__(self):
        super().__init__()
        self.title = Path("/proc/self/cmdline").read_bytes().split(b"\0")[0].decode()


def base():
    return train(Losing())


def cheat():
    return train(Told())


def honest():
    return train(Named())
