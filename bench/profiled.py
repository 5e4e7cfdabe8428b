"""Runs a script under torch.profiler, from its first line to its last, and writes what the profiler's table has first.

    python bench/profiled.py OUT.json SCRIPT ARGUMENTS...

The script runs as `__main__`, from its own file, so that processes which it starts find it. OUT.json has the operators
that took most of the processor's time themselves (`key_averages()` by `self_cpu_time_total`, as the profiler's own
examples sort it), each with its share and its calls.
"""

import sys
from json import dumps
from pathlib import Path

import torch

ROWS = 5


def main() -> None:
    out, script = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    sys.argv[:] = sys.argv[2:]
    sys.path[0] = str(script.parent)
    space = sys.modules["__main__"].__dict__
    space.update(__file__=str(script), __spec__=None)
    code = compile(script.read_text(encoding="utf-8"), str(script), "exec")
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    profiler.start()
    try:
        exec(code, space)  # what Python itself does with a script
    finally:
        profiler.stop()
        events = sorted(profiler.key_averages(), key=lambda each: -each.self_cpu_time_total)
        whole = sum(each.self_cpu_time_total for each in events)
        rows = [
            {"name": each.key, "share": each.self_cpu_time_total / whole, "calls": each.count} for each in events[:ROWS]
        ]
        out.write_text(dumps({"rows": rows, "self_cpu_s": whole / 1e6}), encoding="utf-8")


if __name__ == "__main__":
    main()
