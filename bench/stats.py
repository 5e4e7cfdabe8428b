"""How long laptime's own statistics keep one waiting: a million steps, and a heat of many windows.

    python bench/stats.py               7 runs of each (some 20 seconds)
    python bench/stats.py --runs 3      a short try

Limits: a median or a spread of a million values within a second, the steady state of 2,000 windows within 50 ms.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

from common import Figure, finish, parser_for
from laptime.model.stats import find_steady, mad, median

MOST_SAMPLE_S = 1.0
MOST_STEADY_MS = 50.0


def best_s(runs: int, work: Callable[[list[float]], object], values: list[float]) -> float:
    """Return the processor time of the fastest run: nothing can make one faster than it is."""
    took = []
    for _ in range(runs):
        began_s = time.process_time()
        work(values)
        took.append(time.process_time() - began_s)
    return min(took)


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--runs", type=int, default=7, metavar="N")
    given = parser.parse_args()
    generator = random.Random(1)
    million = [generator.random() for _ in range(1_000_000)]
    figures = [
        Figure(f"{work.__name__} of a million steps", best_s(given.runs, work, million), "s", most=MOST_SAMPLE_S)
        for work in (median, mad)
    ]
    for windows in (400, 2000):
        values = [1 + generator.uniform(-0.005, 0.005) for _ in range(windows)]
        took_ms = 1000 * best_s(given.runs, find_steady, values)
        figures.append(Figure(f"steady state of {windows} windows", took_ms, "ms", most=MOST_STEADY_MS))
    return finish("stats", figures, given.out)


if __name__ == "__main__":
    sys.exit(main())
