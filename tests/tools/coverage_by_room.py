"""Run tests under coverage.py, child processes included, and print line and branch coverage by room.

    python tests/tools/coverage_by_room.py [--root ANOTHER_CHECKOUT] [-- PYTEST_WORDS]

It needs coverage 7.10 or newer, which measures what is started and what is forked. Without words it runs the whole
suite, side by side as `make tests` does; it takes about twice as long.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parents[2]
SETTINGS = """\
[run]
branch = true
parallel = true
sigterm = true
concurrency = multiprocessing,thread
patch = subprocess,fork,_exit
source = {sources}
data_file = {folder}/data
[report]
exclude_also =
    if TYPE_CHECKING:
"""
ALL = ("tests", "-n", "auto", "--dist", "worksteal")
COUNTS = ("covered_lines", "num_statements", "covered_branches", "num_branches")


def measure(root: Path, words: list[str]) -> dict[str, dict[str, int]]:
    """Run pytest in a checkout, and return how much of each room ran."""
    with tempfile.TemporaryDirectory(prefix="laptime-coverage-") as folder:
        settings = Path(folder) / "coveragerc"
        settings.write_text(SETTINGS.format(sources=root / "src" / "laptime", folder=folder), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(root / "src")}
        coverage = [sys.executable, "-m", "coverage"]

        def call(*arguments: str) -> int:
            command = [*coverage, *arguments]
            return subprocess.run(command, cwd=root, env=environment, check=False).returncode

        code = call("run", f"--rcfile={settings}", "-m", "pytest", "-p", "no:cacheprovider", *words)
        print(f"pytest ended with {code}", flush=True)
        call("combine", f"--rcfile={settings}", "--quiet")
        call("json", f"--rcfile={settings}", "--quiet", "-o", f"{folder}/coverage.json")
        files = json.loads((Path(folder) / "coverage.json").read_bytes())["files"]
    rooms: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COUNTS, 0))
    for name, told in files.items():
        room = Path(name).resolve().relative_to(root.resolve() / "src" / "laptime").parts[0].removesuffix(".py")
        for key in COUNTS:
            rooms[room][key] += told["summary"][key]
            rooms["all"][key] += told["summary"][key]
    return dict(rooms)


def main() -> None:
    """Measure, and print a row a room."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=HERE)
    parser.add_argument("words", nargs="*", default=ALL, help="for pytest; all tests by default")
    asked = parser.parse_args()
    rooms = measure(asked.root.resolve(), list(asked.words))
    print(f"{'room':16}{'lines':>8}{'covered':>9}{'branches':>10}{'covered':>9}")
    for room in sorted(rooms, key=lambda each: (each == "all", each)):
        lines, statements, taken, branches = (rooms[room][key] for key in COUNTS)
        print(f"{room:16}{statements:8}{_share(lines, statements)}{branches:10}{_share(taken, branches)}")


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:7.1f} %" if whole else f"{'-':>9}"


if __name__ == "__main__":
    main()
