"""What the display costs: the same race with it, on a real pseudo-terminal, and without it, in turns.

    python bench/live.py                a race of 3 rounds, 6 times with and without (some 6 minutes)
    python bench/live.py --rounds 1     a short try

The figure is of the timed steps: what a step takes with the display over what it takes without. While it is drawn, all
heats are stopped; how long that takes is a figure of its own, as a share of the time in which steps are timed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from math import prod
from pathlib import Path

from common import Figure, WorkerError, figure_of, finish, fresh_home, parser_for, side_by_side
from laptime import api, showing
from laptime.model.progress import Progress
from laptime.model.record import Record
from laptime.stats import median, paired_ratio

RACE = ("race", "cifar-mlp", "torch/cpu", "torch/cpu/threads=1", "--heats", "3", "--budget", "60s")
LAPTIME = str(Path(sys.executable).parent / "laptime")
MOST = 1.002
ALPHA = 0.05
EXIT_UNTRUSTED = 4
DRAWING = re.compile(rb"\x1b\[\d+A\r\x1b\[K")  # over the last one
TRIES = 200


def racer(seen: list[tuple[Record, int]], *words: str) -> Callable[[], float]:
    """Return a function that runs the race and gives the milliseconds of a step, in the mean of both lanes."""

    def race() -> float:
        ours, theirs = os.openpty()
        on = {**os.environ, "TERM": "xterm-256color"}
        shown: list[bytes] = []
        reader = threading.Thread(target=_read, args=(ours, shown))
        reader.start()
        ended = subprocess.run([LAPTIME, *RACE, *words], check=False, stdout=subprocess.DEVNULL, stderr=theirs, env=on)
        os.close(theirs)
        reader.join()
        os.close(ours)
        if ended.returncode not in {0, EXIT_UNTRUSTED}:  # that is of a busy machine, and the pairs show how busy
            raise WorkerError(f"{' '.join(RACE)} ended with {ended.returncode}: {b''.join(shown).decode()[-500:]}")
        record = api.load("latest")
        seen.append((record, len(DRAWING.findall(b"".join(shown)))))
        steps = [lane.step_ms.median for lane in record.lanes if lane.step_ms is not None]
        return prod(steps) ** (1 / len(steps))

    return race


def _read(terminal: int, shown: list[bytes]) -> None:
    while True:
        try:
            data = os.read(terminal, 65_536)
        except OSError:  # no process has the other end any more
            return
        shown.append(data)


def drawing_ms(record: Record) -> float:
    """Return how long it takes to make the lines of one drawing."""
    now = Progress("round 3 of 3", 24.0, 36.0, lanes=dict.fromkeys((lane.name for lane in record.lanes), "turn 3 of 4"))
    took = []
    for _ in range(TRIES):
        began_ns = time.perf_counter_ns()
        showing.live_lines(record, now, showing.View(100, color=True))
        took.append((time.perf_counter_ns() - began_ns) / 1e6)
    return median(took)


def timed_s(record: Record) -> float:
    """Return how long steps were timed."""
    windows = [window for lane in record.lanes for heat in lane.heats for window in heat.windows]
    return sum(window.end_ns - window.start_ns for window in windows) / 1e9


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--rounds", type=int, default=6, metavar="N")
    given = parser.parse_args()
    shown: list[tuple[Record, int]] = []
    with fresh_home():
        with_it, without = side_by_side(given.rounds, racer(shown), racer([], "--quiet"))
    record, drawings = shown[-1]
    each_ms = drawing_ms(record)
    figures = [
        figure_of("a step with the display, over one without", paired_ratio(without, with_it, ALPHA), most=MOST),
        Figure("drawings of a race", float(drawings)),
        Figure("a drawing, to make its lines", each_ms, "ms"),
        Figure("all drawings of a race, of its timed steps", 0.1 * drawings * each_ms / timed_s(record), "%"),
    ]
    return finish("live", figures, given.out, details={"with ms": with_it, "without ms": without})


if __name__ == "__main__":
    sys.exit(main())
