"""Hooks of Python: how long a training waits until a disk has what it wrote."""

from __future__ import annotations

import os
from functools import wraps
from time import monotonic_ns as now_ns

from . import kinds
from .agent import Agent
from .places import place_here

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any


def hook_syncs(agent: Agent) -> None:
    """Note each wait for a disk, once this process trains."""
    for name in ("fsync", "fdatasync"):
        if hasattr(os, name):
            setattr(os, name, _noted(agent, getattr(os, name)))


def _noted(agent: Agent, sync: Any) -> Any:
    @wraps(sync)
    def watched(*given, **named):
        if not agent.steps or agent.is_off:
            return sync(*given, **named)
        begin = now_ns()
        try:
            return sync(*given, **named)
        finally:
            agent.note(kinds.SYNC, begin, now_ns(), place_here(agent))

    return watched
