"""How fast one core runs code like Python's: what a forecast needs to know of the machine that was measured.

It is measured on what the interpreter does in C, which differs little between its versions: reading and writing JSON,
and sorting.
"""

from __future__ import annotations

import json
import time

# Of an AMD EPYC of the third generation, which Geekbench 6's compiler scores 1,703 to 1,808 on one core in three
# instances of a cloud: 1.20 to 1.25 ms for our work with the core's other thread idle, 1.8 times that with it busy
# (Python 3.11, 2026-11-25).
SCORE, ITS_S = 1_747, 1.23e-3
SCORE_TRIES = 16  # the fastest counts: others may use the core, too
SCORED_ROWS = 400


def measure_core() -> float:
    """Return about what Geekbench 6's compiler would score on one core here, as busy as it is; it takes 20 ms."""
    text = json.dumps([
        {"name": f"layer-{7919 * row % 1009}", "rows": 37 * row % 4001, "share": 0.618 * row % 1, "of": [row, row + 1]}
        for row in range(SCORED_ROWS)
    ])  # fmt: skip
    return SCORE * ITS_S / min(_work_s(text) for _ in range(SCORE_TRIES))


def _work_s(text: str) -> float:
    began_s = time.perf_counter()
    rows = json.loads(text)
    rows.sort(key=lambda row: (row["name"], row["share"]))
    json.dumps(rows)
    return time.perf_counter() - began_s
