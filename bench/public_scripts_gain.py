"""What it gains to remove the cause of a published script, for `bench/public_scripts.py`."""

from __future__ import annotations

import statistics
from typing import Any

from public_scripts_run import Published, run_counted


def gain(script: Published, python: str, rounds: int) -> dict[str, Any]:
    """Run a script with its cause and without, in turns, and return how many times as long an iteration takes.

    No laptime is in these runs: the counter's clock times all iterations behind the first three, and what is between
    them.
    """
    folders = {"with": script.folder, "without": script.without}
    times: dict[str, list[float]] = {name: [] for name in folders}
    for number in range(rounds):
        for name in list(folders)[:: -1 if number % 2 else 1]:
            found = run_counted([python, *script.command], script, folders[name])
            if found["iteration_ms"] is None:
                return {"ratio": None, "times_ms": times, "why": found["tail"][-500:]}
            times[name].append(found["iteration_ms"])
    ratios = [slow / fast for slow, fast in zip(times["with"], times["without"], strict=True)]
    return {"ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios), "times_ms": times}
