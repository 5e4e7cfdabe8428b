"""How long `laptime --help` keeps one waiting: at most 150 ms more than `python -c pass`.

    python bench/startup.py                20 starts of each, in turns (some 10 seconds)
    python bench/startup.py --starts 4     a short try
    python bench/startup.py --against COMMIT   also next to the laptime of that commit, in turns

`laptime list`, on an empty folder, is measured as well.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from common import Figure, figure_of, finish, fresh_home, parser_for, side_by_side
from laptime.model.stats import median, paired_ratio

MOST_MS = 150.0
ALPHA = 0.05
LAPTIME = str(Path(sys.executable).parent / "laptime")
ROOT = Path(__file__).resolve().parent.parent
NOTHING = (sys.executable, "-c", "pass")


def starter(*command: str) -> Callable[[], float]:
    """Return a function that runs the command to its end and gives the milliseconds it took."""

    def start() -> float:
        began_ns = time.perf_counter_ns()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return (time.perf_counter_ns() - began_ns) / 1e6

    return start


def compare(words: tuple[str, ...], starts: int, most: float | None) -> tuple[list[Figure], dict[str, list[float]]]:
    """Start laptime and a bare Python in turns; give both medians, their difference and their ratio."""
    name = " ".join(("laptime", *words))
    ours, bare = starter(LAPTIME, *words), starter(*NOTHING)
    ours()
    bare()
    took, bare_took = side_by_side(starts, ours, bare)
    figures = [
        Figure(f"{name}, more than python -c pass", median(took) - median(bare_took), "ms", most=most),
        figure_of(f"{name}, against python -c pass", paired_ratio(bare_took, took, ALPHA)),
        Figure(f"{name}, median", median(took), "ms"),
        Figure(f"python -c pass next to {name}, median", median(bare_took), "ms"),
    ]
    return figures, {f"{name} ms": took, f"python -c pass ms, next to {name}": bare_took}


def compare_commits(commit: str, words: tuple[str, ...], starts: int) -> tuple[list[Figure], dict[str, list[float]]]:
    """Start the laptime of a commit and this one in turns, both from their files, and give the ratio of their times."""
    name = " ".join(("laptime", *words))
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["git", "archive", commit, "src"], check=True, capture_output=True, cwd=ROOT).stdout
        subprocess.run(["tar", "-x", "-C", folder], check=True, input=packed)
        now, then = (
            starter("env", f"PYTHONPATH={place}/src", sys.executable, "-m", "laptime", *words)
            for place in (ROOT, folder)
        )
        now()  # what is compiled to bytecode once is in neither
        then()
        took, took_then = side_by_side(starts, now, then)
    ratio = figure_of(f"{name}, against that of {commit}", paired_ratio(took_then, took, ALPHA))
    return [ratio], {f"{name} ms, from its files": took, f"{name} ms, of {commit}": took_then}


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--starts", type=int, default=20, metavar="N")
    parser.add_argument("--against", metavar="COMMIT")
    given = parser.parse_args()
    with fresh_home():
        figures, details = compare(("--help",), given.starts, MOST_MS)
        more, more_details = compare(("list",), given.starts, None)
        figures, details = figures + more, details | more_details
        for words in (("--help",), ("list",)) if given.against else ():
            more, more_details = compare_commits(given.against, words, given.starts)
            figures, details = figures + more, details | more_details
    return finish("startup", figures, given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
