"""What slows each step down while it is on, and is meant for a search or a proof: profilers, tracers, checks.

The words are those of `LEFT_ON` in analysis/diagnosis/script_computing.py.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

    from .agent import Agent

DEBUG_MALLOC = ("debug", "malloc_debug", "pymalloc_debug", "mimalloc_debug")
BINDS_THREADS = ("OMP_PROC_BIND", "KMP_AFFINITY", "GOMP_CPU_AFFINITY")  # each to a core of its own, this one, too


def _count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


CORES_AT_FIRST = _count_cores()


def find_slow_settings(agent: Agent) -> list:
    """Return the words for what is on now. Call this while no line is timed: that traces, too."""
    import _tracemalloc  # built in

    torch: Any = sys.modules.get("torch")
    config = getattr(sys.modules.get("tensorflow"), "config", None)
    cuda = getattr(torch, "cuda", None)
    is_blocking = os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"
    monitoring = getattr(sys, "monitoring", None)  # from Python 3.12 on, for debuggers, coverage tools, and profilers
    tools = [] if monitoring is None else [monitoring.get_tool(number) for number in range(3)]
    is_on = {
        "profiler": getattr(getattr(torch, "autograd", None), "_profiler_enabled", _is_off)(),
        "deterministic": getattr(torch, "are_deterministic_algorithms_enabled", _is_off)(),
        "tracemalloc": _tracemalloc.is_tracing(),
        "tracing": sys.gettrace() is not None or sys.getprofile() is not None or any(tools),
        "debug": getattr(sys.flags, "dev_mode", False) or os.environ.get("PYTHONMALLOC") in DEBUG_MALLOC,
        "one after another": is_blocking and cuda is not None and cuda.is_initialized(),
        # Something has kept this process on fewer cores since it began.
        "fewer cores": 0 < _count_cores() < CORES_AT_FIRST and not any(name in os.environ for name in BINDS_THREADS),
        "eager": getattr(config, "functions_run_eagerly", _is_off)() or agent.fits_eagerly,
    }
    return [name for name, is_so in is_on.items() if is_so]


def _is_off() -> bool:
    return False
