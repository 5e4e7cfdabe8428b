"""What the display costs: the same race with it, on a real pseudo-terminal, and without it, in turns.

    python bench/live.py                a race of 3 rounds, 6 times with and without (some 6 minutes)
    python bench/live.py --rounds 1     a short try

A drawing comes between two turns, while all heats are stopped: what it costs timed steps is that the window after it
begins with colder caches. In each turn one lane is the first after the drawing, A B and then B A, so a turn compares a
window after a drawing with one that is not, in the same second. The figure is that ratio with the display over that
ratio without it; half of what it is above 1 is the cost of all timed steps. What a step takes in whole races with the
display over others without it is for information: it has the noise of races minutes apart.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from math import exp, log, prod
from pathlib import Path

from common import Figure, WorkerError, figure_of, finish, fresh_home, parser_for, side_by_side
from laptime import api, showing
from laptime.model.progress import Progress
from laptime.model.record import Record
from laptime.stats import median, paired_ratio

RACE = ("race", "cifar-mlp", "torch/cpu", "torch/cpu/threads=1", "--heats", "3", "--budget", "60s")
LAPTIME = str(Path(sys.executable).parent / "laptime")
MOST = 1.004  # of the window after a drawing: 0.2 % of all
ALPHA = 0.05
EXIT_UNTRUSTED = 4
DRAWING = re.compile(rb"\x1b\[\d+A\r\x1b\[K")  # over the last one
TRIES = 200


def racer(seen: list[tuple[Record, int]], *words: str) -> Callable[[], tuple[float, float]]:
    """Return a function that runs the race and gives the milliseconds of a step, and the ratio of first windows."""

    def race() -> tuple[float, float]:
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
        return prod(steps) ** (1 / len(steps)), first_windows(record)

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


def first_windows(record: Record) -> float:
    """Return how much longer a step of a turn's first window takes than one of its second, whichever lane is first."""
    logs: dict[str, list[float]] = {lane.name: [] for lane in record.lanes}
    heats = [(lane.name, heat.round, heat) for lane in record.lanes for heat in lane.heats]
    by_turn: dict[tuple[int, int | None], list[tuple[int, str, float]]] = {}
    for name, round_, heat in heats:
        for each in heat.windows:
            step_ns = (each.end_ns - each.start_ns) / each.steps
            by_turn.setdefault((round_, each.turn), []).append((each.start_ns, name, step_ns))
    for pair in by_turn.values():
        if len(pair) == 2:
            (_, name, first_ns), (_, _, second_ns) = sorted(pair)
            logs[name].append(log(first_ns / second_ns))
    return exp(sum(median(each) for each in logs.values()) / len(logs))  # which lane is faster cancels


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
    steps, steps_without = ([ms for ms, _ in each] for each in (with_it, without))
    firsts, firsts_without = ([ratio for _, ratio in each] for each in (with_it, without))
    figures = [
        figure_of("a window after a drawing, over one without", paired_ratio(firsts_without, firsts, ALPHA), most=MOST),
        figure_of("a step of a race with the display, over one without", paired_ratio(steps_without, steps, ALPHA)),
        Figure("drawings of a race", float(drawings)),
        Figure("a drawing, to make its lines", each_ms, "ms"),
        Figure("all drawings of a race, of its timed steps", 0.1 * drawings * each_ms / timed_s(record), "%"),
    ]
    details = {"ms with": steps, "ms without": steps_without, "first with": firsts, "first without": firsts_without}
    return finish("live", figures, given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
