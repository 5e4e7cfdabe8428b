"""The memory of this process and of a card, each time that events are sent; how many tensors are alive; and what has
memory handed out, and looked through, over and over.
"""

from __future__ import annotations

import gc
import os
import sys
from time import monotonic_ns as now_ns

from . import kinds

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from .agent import Agent

MEMORY_NS = 200_000_000  # at least, from one look to the next
# Of Linux only
STATM_FILE = "/proc/self/statm"
STAT_FILE = "/proc/self/stat"
MINOR_FAULTS = 7  # in the latter, behind the name of the program
STATM_UNIT_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
GROWN_BYTES = 4 << 20  # since the look before: else tensors are not counted, which takes some 0.1 s
COUNTED_FROM = 200  # steps: before, memory is taken that is used again
NEVER_DUE_NS = 1 << 62


def resident_bytes() -> int:
    """Return how many bytes this process has. Raise OSError where the system does not say it."""
    with open(STATM_FILE, "rb") as file:
        return int(file.read().split()[1]) * STATM_UNIT_BYTES


def minor_faults() -> int:
    """Return how many pages this process was handed out. Raise OSError where the system does not say it."""
    with open(STAT_FILE, "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[MINOR_FAULTS])


class Memory:
    """Notes how many bytes this process has, once it trains; what it was handed out, and for how long it looked."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._due_ns = 0
        self._began_ns = self._collected_ns = 0
        gc.callbacks.append(self._collected)

    def _collected(self, phase: str, _found: dict) -> None:
        """Add what a search for garbage takes. Python calls this at its begin and its end."""
        if phase == "start":
            self._began_ns = now_ns()
        else:
            self._collected_ns += now_ns() - self._began_ns

    def look(self) -> None:
        """Note it, unless it was noted just before."""
        now = now_ns()
        if now < self._due_ns or not self._agent.trains:
            return
        self._due_ns = now + MEMORY_NS
        try:
            self._agent.keep((kinds.COLLECTED, now, now, self._collected_ns))
            self._agent.keep((kinds.MEMORY, now, now, resident_bytes()))
            self._agent.keep((kinds.PAGES, now, now, minor_faults()))
            cuda = getattr(sys.modules["torch"], "cuda", None)
            if cuda is not None and cuda.is_initialized():
                self._agent.keep((kinds.CARD_MEMORY, now, now, cuda.memory_allocated()))
        except Exception as error:
            self._due_ns = NEVER_DUE_NS
            if not isinstance(error, OSError):
                self._agent.failed("memory", error)


class LivingTensors:
    """Counts the tensors that are alive, where the memory of this process has grown since it was asked before."""

    def __init__(self) -> None:
        self._before = 0

    def count(self, steps: int) -> int:
        """Return how many there are after this many steps; 0 where they were not counted."""
        try:
            now = resident_bytes()
        except OSError:
            return 0
        grown = now - self._before if self._before else 0
        self._before = now
        if grown < GROWN_BYTES or steps < COUNTED_FROM or "torch" not in sys.modules:
            return 0
        # By type alone: an object may stand in for another one, and say that it is a tensor.
        tensor = sys.modules["torch"].Tensor
        types = [type(thing) for thing in gc.get_objects()]
        of_tensors = {kind for kind in set(types) if issubclass(kind, tensor)}
        return sum([kind in of_tensors for kind in types])
