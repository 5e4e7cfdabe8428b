"""Prints the tables of docs/evidence-scripts.md, from what bench/public_scripts.py found.

python bench/public_scripts_page.py bench/results/2026-11-28-public_scripts.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from public_scripts import line_word, of_planted

NATURAL = ("script", "changed", "laptime's first sentence", "torch.profiler", "TraceML")
PLANTED = ("script", "planted", "laptime's first sentence", "line", "slower by", "torch.profiler", "TraceML")
# Of torch.profiler's names of a loader, what a reader needs.
PROFILER_NAMES = {
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__": "enumerate(DataLoader)",
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__": "enumerate(DataLoader) with workers",
}
# What laptime says after a colon of some causes is the same in each row.
COMMON = (
    ": numbers of twice the bytes, at half the speed of a processor and less of most cards",
    ": logging, metrics, or reading the loss",
    ": evaluation, or metrics",
)


def main() -> int:
    scripts = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["details"]["scripts"]
    natural = [each for each in scripts if not each["planted"]]
    planted = [each for each in scripts if each["planted"]]
    print(*table(NATURAL, [natural_row(each) for each in natural]), sep="\n")
    print()
    print(*table(PLANTED, [planted_row(each) for each in planted]), sep="\n")
    return 0


def table(head: tuple[str, ...], rows: list[list[str]]) -> list[str]:
    lines = (list(head), ["---"] * len(head), *rows)
    return [f"| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in line)} |" for line in lines]


def natural_row(each: dict[str, Any]) -> list[str]:
    return [named(each), each["changes"], sentence(each["first"]), *others(each)]


def planted_row(each: dict[str, Any]) -> list[str]:
    finding = of_planted(each)
    if finding is None:
        found = "not found"
    else:
        found = ", ".join(filter(None, (line_word(each), "" if each["says"] in each["first"] else "not first")))
    said = sentence(each["first"])
    return [named(each), each["planted"], said, found or "found", gain_words(each), *others(each)]


def named(each: dict[str, Any]) -> str:
    """Return a script as its repository, its commit and its name in the list."""
    return f"{each['repository']} {each['commit']}: {each['name'].rpartition('/')[2]}"


def sentence(says: str) -> str:
    for each in COMMON:
        says = says.replace(each, "")
    return says.rstrip(".") or "none"


def gain_words(each: dict[str, Any]) -> str:
    found = each.get("gain") or {}
    ratio = found.get("ratio")
    return "" if ratio is None else f"{ratio:.3g} ({found['low']:.3g} to {found['high']:.3g})"


def others(each: dict[str, Any]) -> tuple[str, str]:
    return profiler(each), traceml(each)


def profiler(each: dict[str, Any]) -> str:
    found = each.get("torch.profiler")
    first = "" if found is None else found["first"] or "nothing"
    for long, short in PROFILER_NAMES.items():
        first = first.replace(long, short)
    return first


def traceml(each: dict[str, Any]) -> str:
    found = each.get("TraceML")
    return "" if found is None else (found["verdict"] or "nothing").lower()


if __name__ == "__main__":
    raise SystemExit(main())
