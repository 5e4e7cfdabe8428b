"""Did the user's code replace what judges it: the clocks, the fences, or laptime's own code?

Noted before the user's file is imported, and looked at again after the last window. It is a look in the same process,
so it finds what is done openly; the times themselves are held against the clock of laptime's own process, too
(`Window.turn_ns`), which a training cannot reach.
"""

from __future__ import annotations

import sys
import time
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

KNOWN_CLOCKS = (
    "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns", "process_time", "sleep",
)  # fmt: skip
KNOWN_FENCES = (
    ("torch.cuda", "synchronize"), ("torch.xpu", "synchronize"), ("torch.mps", "synchronize"),
    ("jax", "block_until_ready"),
)  # fmt: skip
OURS = "laptime"

Code = dict[str, tuple[object, CodeType | None]]
"""By its full name, a function or class, and a function's code."""


def note_code() -> Code:
    """Return the clocks, the fences of what is imported, and all functions of laptime's modules."""
    found: Code = {f"time.{name}": (getattr(time, name), None) for name in KNOWN_CLOCKS}
    for place, name in KNOWN_FENCES:
        fence = getattr(sys.modules.get(place), name, None)
        if fence is not None:
            found[f"{place}.{name}"] = (fence, getattr(fence, "__code__", None))
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != OURS or not isinstance(module, ModuleType):
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, FunctionType | BuiltinFunctionType):
                found[f"{name}.{key}"] = (value, getattr(value, "__code__", None))
            elif isinstance(value, type) and value.__module__ == name:
                found[f"{name}.{key}"] = (value, None)
                for part, method in list(vars(value).items()):
                    if isinstance(method, FunctionType):
                        found[f"{name}.{key}.{part}"] = (method, method.__code__)
    return found


def find_replaced_code(before: Code) -> tuple[str, ...]:
    """Return the names of what is another function now, or has other code."""
    now = note_code()
    return tuple(name for name, held in before.items() if name in now and now[name] != held)
