"""What the script's other threads do while the lines of its training are timed: one that computes in Python keeps the
interpreter busy, and the training waits for it.
"""

from __future__ import annotations

import sys
import time
from _thread import get_ident

from .places import describe_place, own_line, place_number

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

    from .agent import Agent

RAN_LEAST = 0.2  # of the time: a thread that computes less is not told


class OtherThreads:
    """Notes how long each thread has computed, from its making to `tell`. The system has a clock for each."""

    def __init__(self) -> None:
        self._began = time.monotonic_ns()
        self._ran = time.thread_time_ns() + _queued_ns()
        self._clocks: dict = {}
        clock_of = getattr(time, "pthread_getcpuclockid", None)
        # A thread of Python that is listed here lives, as this thread holds the interpreter.
        for thread in _other_frames():
            if clock_of is not None:
                clock = clock_of(thread)
                self._clocks[thread] = clock, time.clock_gettime_ns(clock)

    def tell(self, agent: Agent) -> None:
        """Send which thread computed most, and which part of the time this thread neither computed nor could."""
        took = time.monotonic_ns() - self._began
        frames = _other_frames()
        ran: dict = {}
        for thread, (clock, before) in self._clocks.items():
            if thread in frames:
                ran[thread] = time.clock_gettime_ns(clock) - before
        most: Any = max(ran, key=ran.__getitem__, default=None)
        if most is None or ran[most] < RAN_LEAST * took:
            return
        key = own_line(frames[most])
        number = 0 if key is None else place_number(agent, key)
        if number:
            agent.describe_once(number, describe_place, key)
        idle = max(0, took - (time.thread_time_ns() + _queued_ns() - self._ran))
        agent.tell(busy_thread=number, ran=ran[most] / took, idle=idle / took)


def _other_frames() -> dict:
    """Return what the other threads run. A frame that held its own would stay, with all that its callers hold."""
    found = sys._current_frames()
    del found[get_ident()]
    return found


def _queued_ns() -> int:
    """Return how long this thread has waited for a core, where the system counts it (Linux)."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
