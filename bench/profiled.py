"""Runs a script under a profiler.

    python bench/profiled.py torch OUT.json SCRIPT ARGUMENTS...   torch.profiler: what its table has first
    python bench/profiled.py jax FOLDER SCRIPT ARGUMENTS...       jax.profiler: a profile that XProf reads

The script runs as `__main__`, from its own file, so that processes which it starts find it. torch.profiler sees all
from the script's first line to its 20th step of an optimizer: its events fill memory, and those of a whole training
take minutes to add up. OUT.json has the operators that took most of the processor's time themselves
(`key_averages()` by `self_cpu_time_total`, as the profiler's own examples sort it), each with its share and its calls.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from json import dumps
from pathlib import Path

ROWS = 5
STEPS = 20


def main() -> None:
    kind, out, script = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]).resolve()
    sys.argv[:] = sys.argv[3:]
    sys.path[0] = str(script.parent)
    space = sys.modules["__main__"].__dict__
    space.update(__file__=str(script), __spec__=None)
    code = compile(script.read_text(encoding="utf-8"), str(script), "exec")
    with under_torch(out) if kind == "torch" else under_jax(out):
        exec(code, space)  # what Python itself does with a script


@contextmanager
def under_torch(out: Path) -> Iterator[None]:
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    write, dump, most, last = out.write_text, dumps, ROWS, STEPS  # the script may give these names another meaning
    left = list(range(last))

    def stepped(*_: object) -> None:
        if left:
            left.pop()
            if not left:
                profiler.stop()

    register_optimizer_step_post_hook(stepped)
    profiler.start()
    try:
        yield
    finally:
        if left:
            profiler.stop()
        events = sorted(profiler.key_averages(), key=lambda each: -each.self_cpu_time_total)
        whole = sum(each.self_cpu_time_total for each in events)
        shares = [(each.key, each.self_cpu_time_total / whole, each.count) for each in events[:most]]
        rows = [{"name": name, "share": share, "calls": calls} for name, share, calls in shares]
        write(dump({"rows": rows, "self_cpu_s": whole / 1e6}), encoding="utf-8")


@contextmanager
def under_jax(folder: Path) -> Iterator[None]:
    import jax

    jax.profiler.start_trace(str(folder))
    try:
        yield
    finally:
        jax.profiler.stop_trace()


if __name__ == "__main__":
    main()
