"""What a sandbox adds to the start of a heat: the same start with one and without, in turns.

`python bench/sandbox_start.py [--starts 20]` prints JSON: the milliseconds until a heat says that it is there, forked
from a template that has imported PyTorch, and as a fresh process, and until it has ended.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable

from laptime import wire
from laptime.model.machine import Device
from laptime.model.plan import PlannedLane
from laptime.model.process import Settings
from laptime.run.child import Child
from laptime.run.confined import ConfinedLauncher
from laptime.run.templates import ForkedChild, HeatTemplate

IMPORT_S = 300.0


def time_start(start: Callable[[], Child]) -> tuple[float, float]:
    """Return the milliseconds until a child has greeted, and is gone."""
    began_s = time.perf_counter()
    child = start()
    while not isinstance(child.hear(IMPORT_S), wire.Hello):
        pass
    greeted_s = time.perf_counter()
    child.end(grace_s=0)
    return (greeted_s - began_s) * 1e3, (time.perf_counter() - greeted_s) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--starts", type=int, default=20)
    starts = parser.parse_args().starts
    lane = PlannedLane("torch/cpu", "torch", Device("cpu", "cpu", "processor", usable=True), Settings())
    template = HeatTemplate(lane, 1)
    template.make_ready(time.monotonic() + IMPORT_S)
    sandboxes = {"without": None, "with": ConfinedLauncher().sandbox_for(None)}
    took: dict[str, list[tuple[float, float]]] = {}
    for _ in range(starts):
        for name, sandbox in sandboxes.items():
            forked = time_start(lambda sandbox=sandbox: ForkedChild(template, sandbox))
            fresh = time_start(lambda sandbox=sandbox: Child({}, sandbox=sandbox))
            took.setdefault(f"forked, {name}", []).append(forked)
            took.setdefault(f"fresh, {name}", []).append(fresh)
    template.close()
    found = {
        name: {
            part: {
                "median_ms": round(statistics.median(values), 1),
                "range_ms": [round(min(values), 1), round(max(values), 1)],
            }
            for part, values in zip(("start", "end"), zip(*pairs, strict=True), strict=True)
        }
        for name, pairs in took.items()
    }
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
