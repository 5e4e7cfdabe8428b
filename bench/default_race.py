"""How long the command that everybody types first takes: `laptime race`, with nothing else, answers within 75 s.

    python bench/default_race.py                  twice: with nothing kept yet, and again (some 2.5 minutes)
    python bench/default_race.py -- --budget 5s   a short try: what follows the dashes is handed to `laptime race`

The first run has to compute the float64 reference of the proof, the second finds it where the first has kept it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import Figure, finish, fresh_home, parser_for

MOST_S = 75.0
LAPTIME = str(Path(sys.executable).parent / "laptime")


def race(name: str, words: list[str]) -> tuple[list[Figure], dict[str, Any]]:
    """Run it as a person would, wait for its end, then read what it has saved."""
    began_s = time.monotonic()
    ended = subprocess.run([LAPTIME, "race", *words], check=False, capture_output=True, text=True)
    took_s = time.monotonic() - began_s
    print(f"{name}, {took_s:.1f} s:\n{ended.stdout}", flush=True)
    figures = [
        Figure(f"{name}: until the answer", took_s, "s", most=MOST_S),
        Figure(f"{name}: exit code", ended.returncode, most=0),
    ]
    with contextlib.suppress(subprocess.CalledProcessError):
        shown = subprocess.run([LAPTIME, "show", "--json"], check=True, capture_output=True, text=True)
        figures += told_by(name, json.loads(shown.stdout))
    return figures, {"wall_s": took_s, "answer": ended.stdout, "stderr": ended.stderr[-2000:]}


def told_by(name: str, record: dict[str, Any]) -> Iterator[Figure]:
    for lane in record["lanes"]:
        lap = lane["lap_s"]
        if lap is not None:
            low, high = (end if isinstance(end, float) else None for end in (lap["low"], lap["high"]))
            yield Figure(f"{name}: {lane['name']}, {len(lane['heats'])} heats, a lap", lap["median"], "s", low, high)
    for each in record["answer"]["comparisons"]:
        low, high = (end if isinstance(end, float) else None for end in (each["low"], each["high"]))
        yield Figure(f"{name}: {each['lane']}, {each['verdict']}", each["ratio"], "times", low, high)


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="given to `laptime race`; usually none")
    given = parser.parse_args()
    with fresh_home():
        cold, cold_details = race("cold", given.words)
        warm, warm_details = race("warm", given.words)
    return finish("default_race", cold + warm, given.out, details={"cold": cold_details, "warm": warm_details})


if __name__ == "__main__":
    sys.exit(main())
