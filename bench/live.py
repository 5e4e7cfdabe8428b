"""What the display costs timed steps: one race, drawn on a real pseudo-terminal before half of its turns.

    python bench/live.py                12 rounds (some 2 minutes)
    python bench/live.py --rounds 4     a short try

A drawing comes between two turns, while all heats are stopped: what it costs timed steps is that those after it begin
with colder caches. So turns after a drawing are compared with turns of the same round that have none, two and two, as
the lane that is first in a turn alternates. The next round draws before the others: what turns differ in by their place
cancels in two rounds, which are one pair of the interval. A against A: nothing else differs.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import exp, log
from pathlib import Path
from statistics import fmean

from common import Figure, figure_of, finish, fresh_home, parser_for
from laptime import api
from laptime.cli.progress import Display
from laptime.library.asking import make_ask
from laptime.model.record import LaneResult, Progress, Record
from laptime.model.stats import log_mean_interval, median

WHAT, LANES = "cifar-mlp", ("torch/cpu", "torch/cpu/threads=1")
MOST = 1.002
ALPHA = 0.05
TURN = re.compile(r"turn (\d+)")
ROUND = re.compile(r"round (\d+)")


def is_drawn(round_: int, turn: int) -> bool:
    """Whether the display is drawn before this turn of this round; both count from 0."""
    return (turn // 2 + round_) % 2 == 0


class HalfShown(Display):
    """The display of a race, before half of the turns; what else there is to show, always."""

    def __init__(self) -> None:
        super().__init__(quiet=False)
        self.took_ms: list[float] = []

    def show(self, record: Record | None, progress: Progress) -> None:
        turns = [int(found[1]) for lane in progress.lanes.values() if (found := TURN.match(lane))]
        round_ = ROUND.match(progress.doing)
        if turns and round_ and not is_drawn(int(round_[1]) - 1, max(turns) - 1):
            return
        began_ns = time.perf_counter_ns()
        super().show(record, progress)
        if turns:
            self.took_ms.append((time.perf_counter_ns() - began_ns) / 1e6)


@contextlib.contextmanager
def on_a_terminal(kept: Path) -> Iterator[None]:
    """Let stderr be a pseudo-terminal, which another process reads, as a terminal's does."""
    ours, theirs = os.openpty()
    before, term = sys.stderr, os.environ.get("TERM")
    with kept.open("wb") as file:
        reader = subprocess.Popen(["cat"], stdin=ours, stdout=file, stderr=subprocess.DEVNULL)
    os.close(ours)
    try:
        with os.fdopen(theirs, "w", encoding="utf-8") as sys.stderr:
            os.environ["TERM"] = "xterm-256color"
            yield
    finally:
        sys.stderr = before
        os.environ.pop("TERM") if term is None else os.environ.update(TERM=term)
        reader.wait(timeout=20)


def rounds_of(lane: LaneResult) -> dict[int, float]:
    """Return, by round, the logarithm of a step after a drawing over one without; the first turn finds its length."""
    found = {}
    for result in lane.heats:
        logs: dict[bool, list[float]] = {True: [], False: []}
        for window in result.heat.windows:
            if window.turn:
                step_ns = (window.end_ns - window.start_ns) / window.steps
                logs[is_drawn(result.heat.round, window.turn)].append(log(step_ns))
        if logs[True] and logs[False]:
            found[result.heat.round] = fmean(logs[True]) - fmean(logs[False])
    return found


def ratios(lanes: Sequence[LaneResult]) -> list[float]:
    """Return a ratio for each lane and two rounds that follow each other, of which each is in one pair."""
    found = []
    for lane in lanes:
        by_round = rounds_of(lane)
        pairs = [(one, two) for one, two in pairwise(sorted(by_round)) if one % 2 == 0 and two == one + 1]
        found += [exp((by_round[one] + by_round[two]) / 2) for one, two in pairs]
    return found


def timed_s(record: Record) -> float:
    """Return how long steps were timed."""
    windows = [window for lane in record.lanes for result in lane.heats for window in result.heat.windows]
    return sum(window.end_ns - window.start_ns for window in windows) / 1e9


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--rounds", type=int, default=12, metavar="N")
    given = parser.parse_args()
    began_s = time.monotonic()
    with fresh_home() as home:
        kept = home / "drawn"
        with on_a_terminal(kept), HalfShown() as display:
            record = api.race(make_ask(WHAT, LANES, heats=given.rounds), show=display.show)
        drawn_bytes = kept.stat().st_size
    found, each_ms = ratios(record.lanes), median(display.took_ms)
    figures = [
        figure_of("a step after a drawing, over one without", log_mean_interval(found, ALPHA), most=MOST),
        Figure("a drawing, with its write, while all heats are stopped", each_ms, "ms"),
        Figure("drawings before turns", float(len(display.took_ms))),
        Figure("what was drawn", drawn_bytes / 1000, "kB"),
        Figure("all of them, of the timed steps", 0.1 * sum(display.took_ms) / timed_s(record), "%"),
        Figure("this benchmark", time.monotonic() - began_s, "s", most=180.0),
    ]
    return finish("live", figures, given.out, details={"ratios": found, "drawings ms": display.took_ms})


if __name__ == "__main__":
    sys.exit(main())
