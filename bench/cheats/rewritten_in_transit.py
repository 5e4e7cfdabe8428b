"""Puts a pipe of its own before laptime's, and a thread that rewrites each window on its way: it is a fifth shorter.

Met: gpu-mode/pygpubench's exploits, which rewrote results in a pipe or at a system call. laptime's code and objects are
as they were: the descriptor that they write to is another one.
Refused by: turns by the judge's own clock.
"""

import json
import os
import threading

from shared import Losing, find_frame, find_object, train

NAMES = ("hidden time",)


def shorten(line):
    told = json.loads(line)
    window = told.get("window")
    if window:
        window["start_ns"] += (window["end_ns"] - window["start_ns"]) // 5
    return json.dumps(told).encode() + b"\n"


def put_between():
    line = find_object("Lifeline")
    real = os.dup(line._write_fd)
    reading, writing = os.pipe()
    os.dup2(writing, line._write_fd)
    os.close(writing)

    def pass_on():
        with os.fdopen(reading, "rb") as lines:
            for each in lines:
                os.write(real, shorten(each))
                if b'"Phase"' in each:  # no window comes any more, and the process may end at once
                    os.dup2(real, line._write_fd)

    threading.Thread(target=pass_on, daemon=True).start()


class Passing(Losing):
    is_between = False

    def forward(self, rows, labels):
        if not self.is_between and find_frame("_run_window") is not None:
            put_between()
            self.is_between = True
        return self.lose(rows, labels)


def base():
    return train(Losing())


def cheat():
    return train(Passing())


def honest():
    """Pass its own log through a thread."""
    reading, writing = os.pipe()
    threading.Thread(target=lambda: os.read(reading, 10), daemon=True).start()
    os.write(writing, b"a log\n")
    return train(Losing())
