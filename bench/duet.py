"""Does a ratio settle sooner where the heats of a round take turns than where they run one after another?

    python bench/duet.py                       10 repeats of each race, in turns and one after another (80 minutes)
    python bench/duet.py --repeats 3 --only cifar-cnn --only itself
    python bench/duet.py --default 10          how often `laptime race` settles within its minute (10 minutes)
    python bench/duet.py --neighbour           the ratio while another process takes a core, 2 s in every 5
    python bench/duet.py --settle 10           `laptime race` ten times, and next to such a process (25 minutes)

The two kinds of race are interleaved, in one run, and get the same seconds each. `--margin 0.1%` lets neither stop
early. Held: the interval in turns is at most a third as wide, in the middle; both ratios agree within 2 % where both
are settled; a lane against itself is not called different.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from common import Figure, finish, fresh_home, parser_for
from laptime.machine.sensors.cgroup import usable_cores
from laptime.model.stats import median

LAPTIME = str(Path(sys.executable).parent / "laptime")
AS_WRITTEN_AND_BEST = ("torch/cpu", "torch/cpu/best")
RACES = {
    "cifar-mlp": ("cifar-mlp", *AS_WRITTEN_AND_BEST),
    "cifar-cnn": ("cifar-cnn", *AS_WRITTEN_AND_BEST),
    "scenes-cnn": ("scenes-cnn", *AS_WRITTEN_AND_BEST, "--items", "600"),
    "itself": ("cifar-mlp", "torch/cpu/best", "torch/cpu/best+threads={cores}"),
}
FLUSHED = ("cifar-cnn", "torch/cpu+denormals=flush", "torch/cpu/best+denormals=flush")
NEIGHBOUR = ("cifar-mlp", "torch/cpu/best", "torch/cpu/fastest")
WAYS = {"in turns": (), "one after another": ("--alone",)}
MARGIN = 0.05
NOT_RELIABLE = 4  # a busy machine is what is measured here
BURN = """
import time
while True:
    end = time.monotonic() + 2
    while time.monotonic() < end:
        pass
    time.sleep(3)
"""
Told = dict[str, Any]


def race(*words: str) -> Told | None:
    """Run a race of two lanes; return its comparison, or None if it has none."""
    began_s = time.monotonic()
    ended = subprocess.run([LAPTIME, "race", *words, "--json"], check=False, capture_output=True, text=True)
    took_s = time.monotonic() - began_s
    is_done = ended.returncode in {0, NOT_RELIABLE}
    told = json.loads(ended.stdout) if is_done else {}
    found = told.get("answer", {}).get("comparisons")
    if not found:
        print(f"  {' '.join(words)}: {ended.stderr[-300:]}", flush=True)
        return None
    half = math.sqrt(found[0]["high"] / found[0]["low"]) - 1
    timed_s = (
        sum(
            window["end_ns"] - window["start_ns"]
            for lane in told["lanes"]
            for result in lane["heats"]
            for window in result["heat"]["windows"]
        )
        / 1e9
    )
    print(
        f"  {' '.join(words)}: {found[0]['ratio']:.3f} ±{half:.1%}, {found[0]['pairs']} rounds, {took_s:.0f} s, "
        f"{timed_s:.0f} timed",
        flush=True,
    )
    steps = {lane["name"]: (lane["step_ms"]["median"], lane["lap_s"]["median"]) for lane in told["lanes"]}
    return {**found[0], "half": half, "took_s": took_s, "timed_s": timed_s, "steps": steps}


@contextlib.contextmanager
def neighbour() -> Iterator[None]:
    """Let another process take a core, 2 s in every 5, and end it however this ends."""
    with subprocess.Popen([sys.executable, "-c", BURN]) as busy:
        try:
            yield
        finally:
            busy.kill()


def compare_ways(name: str, words: Sequence[str], repeats: int, budget: str) -> tuple[list[Figure], Told]:
    """Race both ways in turn, and compare the widths of their intervals and their ratios."""
    told: dict[str, list[Told]] = {way: [] for way in WAYS}
    for repeat in range(repeats):
        for way in list(WAYS)[:: 1 if repeat % 2 == 0 else -1]:
            found = race(*words, *WAYS[way], "--budget", budget, "--margin", "0.1%")
            told[way] += [found] if found else []
    duets, alone = (told[way] for way in WAYS)
    if not duets or not alone:
        return [Figure(f"{name}: narrower", None, "times", least=3.0)], {}
    narrower = median([each["half"] for each in alone]) / median([duet["half"] for duet in duets])
    ratios = [median([each["ratio"] for each in way]) for way in (duets, alone)]
    are_settled = all(median([each["half"] for each in way]) <= MARGIN for way in (duets, alone))
    figures = [
        Figure(f"{name}: half an interval, in turns", 100 * median([duet["half"] for duet in duets]), "%"),
        Figure(f"{name}: half an interval, one after another", 100 * median([each["half"] for each in alone]), "%"),
        Figure(f"{name}: narrower", narrower, "times", least=3.0),
        Figure(f"{name}: ratio in turns", ratios[0], "times"),
        Figure(f"{name}: ratio one after another", ratios[1], "times"),
        Figure(f"{name}: apart", 100 * abs(ratios[0] / ratios[1] - 1), "%", most=2.0 if are_settled else None),
    ]
    if name == "itself":
        called = sum(duet["verdict"] != "not distinguishable" for duet in duets)
        figures.append(Figure("itself: called different", 100 * called / len(duets), "%", most=5.0))
    return figures, dict(told)


def default_races(repeats: int) -> tuple[list[Figure], Told]:
    """Count how often the command that everybody types first settles within its minute."""
    kinds = {"laptime race": (), "cifar-mlp, best and fastest": NEIGHBOUR}
    figures, details = [], {}
    for name, words in kinds.items():
        told = [found for _ in range(repeats) if (found := race(*words))]
        settled = sum(each["settled"] for each in told)
        least = repeats if words else math.ceil(0.8 * repeats)
        figures.append(Figure(f"{name}: settled of {repeats}", settled, "races", least=least))
        figures.append(Figure(f"{name}: half an interval", 100 * median([each["half"] for each in told]), "%"))
        details[name] = told
    return figures, details


def beside_a_neighbour(repeats: int) -> tuple[list[Figure], Told]:
    """Race with and without another process that takes a core, 2 s in every 5; the ratio should not move."""
    quiet: list[Told] = []
    busy: list[Told] = []
    for _ in range(repeats):
        quiet += [found] if (found := race(*NEIGHBOUR)) else []
        with neighbour():
            busy += [found] if (found := race(*NEIGHBOUR)) else []
    ratios = [median([each["ratio"] for each in told]) for told in (quiet, busy)]
    moved = Figure("a neighbour moves the ratio by", 100 * abs(ratios[1] / ratios[0] - 1), "%", most=3.0)
    return [moved], {"quiet": quiet, "busy": busy}


def settle(repeats: int) -> tuple[list[Figure], Told]:
    """Run the default race, and next to a neighbour in between; every third time also with denormal numbers flushed."""
    told: dict[str, list[Told]] = {"quiet": [], "busy": [], "flushed": []}
    for number in range(repeats):
        told["quiet"] += [found] if (found := race()) else []
        with neighbour():
            told["busy"] += [found] if (found := race()) else []
        if number % 3 == 0:
            told["flushed"] += [found] if (found := race(*FLUSHED)) else []
    middle = {kind: median([each["ratio"] for each in races]) for kind, races in told.items()}
    off = [abs(each["ratio"] / middle["quiet"] - 1) for each in told["busy"]]
    quiet = told["quiet"]
    return [
        Figure(f"settled of {repeats}", sum(each["settled"] for each in quiet), "", least=math.ceil(0.9 * repeats)),
        Figure("half an interval, in the middle", 100 * median([each["half"] for each in quiet]), "%", most=3.0),
        Figure("seconds timed, in the middle", median([each["timed_s"] for each in quiet]), "s", least=30.0),
        Figure("rounds, in the middle", median([each["pairs"] for each in quiet]), ""),
        Figure("least ratio", min(each["ratio"] for each in quiet), "times"),
        Figure("largest ratio", max(each["ratio"] for each in quiet), "times"),
        Figure("next to a neighbour: settled", sum(each["settled"] for each in told["busy"]), "races",
               least=math.ceil(0.7 * repeats)),
        Figure("next to a neighbour: furthest off", 100 * max(off), "%", most=3.0),
        Figure("flushed: apart from the default", 100 * abs(middle["flushed"] / middle["quiet"] - 1), "%", most=3.0),
    ], dict(told)  # fmt: skip


def parse() -> argparse.Namespace:
    parser = parser_for(__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--only", action="append", choices=RACES, help="a race; all by default")
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--default", type=int, metavar="N", help="instead: run the default race so often")
    parser.add_argument(
        "--settle", type=int, metavar="N", help="instead: the default race, quiet and next to a neighbour"
    )
    parser.add_argument("--neighbour", action="store_true", help="instead: race next to a busy process")
    return parser.parse_args()


def main() -> int:
    given = parse()
    cores = usable_cores()
    figures: list[Figure] = []
    details: Told = {}
    with fresh_home():
        if given.settle:
            figures, details = settle(given.settle)
        elif given.default or given.neighbour:
            figures, details = default_races(given.default) if given.default else beside_a_neighbour(given.repeats)
        else:
            for name in given.only or RACES:
                words = [word.format(cores=cores) for word in RACES[name]]
                more, details[name] = compare_ways(name, words, given.repeats, given.budget)
                figures += more
    return finish("duet", figures, given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
