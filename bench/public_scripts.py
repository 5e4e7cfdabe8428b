"""How right `laptime watch` is about training scripts that others published, and what other tools say about them.

    python bench/public_scripts.py LIST.json --python PYTHON --rows FOLDER --out FILE.json
    python bench/public_scripts.py LIST.json --rows FOLDER --part gain --part TraceML --traceml FOLDER ...

No script is kept here: you bring them. LIST.json is a list of objects:

    {"name": "mnist", "repository": "pytorch/examples", "commit": "77f55b9", "folder": "/where/it/is/mnist",
     "command": ["main.py", "--epochs", "1"], "changes": "none", "counts": "steps", "per": 1, "batch": 64,
     "planted": "", "says": "", "line": "", "remedy": "workers", "without": "/where/it/is/mnist-with-workers",
     "traced": ""}

`counts` names what one iteration of the script is: "steps" of optimizers, "backwards", "batches" of a DataLoader or
"keras" batches, and `per` how many of these (2 for a generator and a discriminator). Scripts run with one thread.

laptime         the script runs under `laptime watch`; a counter of our own, set by PyTorch's hooks and not by
                laptime's, counts into a shared file
torch.profiler  the unchanged script runs under torch.profiler; the first row of its table is kept
TraceML         `traceml run` runs `traced`, a copy with the lines of code that TraceML needs, or else the unchanged
                script; `--traceml` is a folder with traceml-ai (pip install --target)
gain            the script and `without`, a copy in which the cause was removed, take turns; nothing watches them

In a script with something `planted`, the first sentence of laptime's page has to contain `says`, and a `line`
(file:line) has to be the one that a finding names. `--rows` keeps what each part found, so that parts can be run one
after another; what is there is not run again. `bench/public_scripts_page.py` makes the tables of the docs.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from common import Figure, finish, fresh_home, parser_for
from public_scripts_gain import gain
from public_scripts_others import profile, trace
from public_scripts_run import Published, run_counted

LAPTIME = str(Path(sys.executable).parent / "laptime")
SUM_LIMIT = 0.01  # of the headline; a page has three digits
UNITS = {"ns": 1e-6, "µs": 1e-3, "ms": 1.0, "s": 1e3, "min": 6e4}
HEADLINE = re.compile(r" takes ([\d.,]+) (ns|µs|ms|s|min) [^.]*?per iteration")
ROW = re.compile(r"^  \S.*?  +([\d.,]+) (ns|µs|ms|s|min) +([\d.]+) %$", re.MULTILINE)
Part = Callable[[Published, argparse.Namespace], "dict[str, Any] | None"]
PARTS: dict[str, Part] = {
    "laptime": lambda script, given: watch(script, given.python, given.pages),
    "torch.profiler": lambda script, given: profile(script, given.python),
    "TraceML": lambda script, given: trace(script, given.python, given.traceml, script.traced or script.folder),
    "gain": lambda script, given: gain(script, given.python, given.rounds) if script.without else None,
}


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("list", type=Path, metavar="LIST.json")
    parser.add_argument("--python", default=sys.executable, metavar="PYTHON", help="the Python that runs the scripts")
    parser.add_argument("--only", action="append", metavar="NAME", help="scripts of this name")
    parser.add_argument("--part", action="append", choices=PARTS, help="what to do (default: laptime)")
    parser.add_argument("--rows", type=Path, required=True, metavar="FOLDER", help="keep what each part found there")
    parser.add_argument("--pages", type=Path, metavar="FOLDER", help="keep pages and what scripts printed there")
    parser.add_argument("--traceml", type=Path, metavar="FOLDER", help="where traceml-ai is")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of the gain (default: 3)")
    given = parser.parse_args()
    if "TraceML" in (given.part or ()) and given.traceml is None:
        parser.error("--part TraceML: --traceml FOLDER has to say where traceml-ai is")
    scripts = [Published(**load) for load in json.loads(given.list.read_text(encoding="utf-8"))]
    given.rows.mkdir(parents=True, exist_ok=True)
    found = []
    for script in scripts:
        if given.only and script.name not in given.only:
            continue
        for part in given.part or ("laptime",):
            kept = kept_at(given.rows, script, part)
            if not kept.exists():
                row = PARTS[part](script, given)
                kept.write_text(json.dumps(row), encoding="utf-8")
                shown = {name: value for name, value in (row or {}).items() if name in SHOWN}
                print(json.dumps({"name": script.name, "part": part, **shown}), flush=True)
        found.append(all_of(script, given.rows))
    return finish("public_scripts", figures_of(found), given.out, details={"scripts": found})


def kept_at(rows: Path, script: Published, part: str) -> Path:
    return rows / f"{re.sub(r'[^a-z0-9]+', '_', script.name.lower())}.{part}.json"


def all_of(script: Published, rows: Path) -> dict[str, Any]:
    """Return what the list says of a script, and what all parts found that were run."""
    files = {part: kept_at(rows, script, part) for part in PARTS}
    kept = {part: json.loads(file.read_text(encoding="utf-8")) for part, file in files.items() if file.exists()}
    own = {name: value for name, value in asdict(script).items() if name not in {"folder", "without", "traced"}}
    watched = kept.pop("laptime", None) or {}
    return {**own, "is_traced": bool(script.traced), **watched, **{part: row for part, row in kept.items() if row}}


SHOWN = (
    "expected",
    "iterations",
    "exact",
    "exit_code",
    "parts_over_headline",
    "batch",
    "seen_batch",
    "first",
    "where",
    "verdict",
    "why",
    "ratio",
    "low",
    "high",
)


def watch(script: Published, python: str, pages: Path | None) -> dict[str, Any]:
    """Run a script watched, and put what laptime and the counter say next to each other."""
    with fresh_home() as home:
        record_file = home / "record.json"
        command = [LAPTIME, "watch", "--json", str(record_file), "--", python, *script.command]
        watched = run_counted(command, script, script.folder)
        record = json.loads(record_file.read_text(encoding="utf-8")) if record_file.exists() else {}
    if pages is not None:
        pages.mkdir(parents=True, exist_ok=True)
        (pages / f"{script.name.replace('/', '-')}.txt").write_text(watched["tail"], encoding="utf-8")
        (pages / f"{script.name.replace('/', '-')}.json").write_text(json.dumps(record), encoding="utf-8")
    loops = [each["loop"] for each in record.get("answer", {}).get("processes", []) if each.get("loop")]
    iterations = [loop["iterations"] for loop in loops]
    expected = [count // script.per for count in watched["counts"][script.counts]]
    page = watched["tail"]
    findings = [each for each in record.get("findings", []) if each["rule"] != "not reliable"]
    return {
        "counted": watched["counts"],
        "expected": expected,
        "iterations": iterations,
        "exact": bool(expected) and sorted(iterations) == sorted(expected),
        "unsure": [loop["unsure"] for loop in loops if loop.get("unsure")],
        "exit_code": watched["exit_code"],
        "seconds": watched["seconds"],
        "parts_over_headline": parts_over_headline(page),
        "loader_batches": loader_batches(record),
        "seen_batch": loops[0]["items_per_iteration"] if loops else None,
        "first": findings[0]["says"] if findings else "",
        "where": findings[0]["where"] if findings else None,
        "findings": [{name: each[name] for name in ("rule", "says", "where")} for each in findings],
    }


def loader_batches(record: dict[str, Any]) -> list[int]:
    """Return the batch sizes of all loaders that were seen."""
    processes = record.get("answer", {}).get("processes", [])
    return [loader["batch"] for process in processes for loader in process["loaders"]]


def parts_over_headline(page: str) -> float | None:
    """Return the sum of the parts that a page shows, over its headline; None where it has no headline."""
    headline = HEADLINE.search(page)
    if headline is None:
        return None
    rows = ROW.findall(page[headline.end() :])
    return sum(_in_ms(value, unit) for value, unit, _ in rows) / _in_ms(*headline.groups())


def _in_ms(value: str, unit: str) -> float:
    return float(value.replace(",", "")) * UNITS[unit]


def figures_of(found: list[dict[str, Any]]) -> list[Figure]:
    """Return how many scripts were seen rightly, of those that ran under laptime."""
    seen = [each for each in found if "exact" in each]
    both = [(each["exit_code"], each["torch.profiler"]["exit_code"]) for each in seen if "torch.profiler" in each]
    shown = [each["parts_over_headline"] for each in seen if each["parts_over_headline"] is not None]
    batches = [each for each in seen if each["batch"] is not None]
    planted = [each for each in seen if each["planted"]]
    words = [line_word(each) for each in planted]
    return [
        Figure("scripts", len(found)),
        Figure("counted exactly", sum(each["exact"] for each in seen), least=len(seen)),
        Figure("exit codes as without laptime", sum(len(set(each)) == 1 for each in both), least=len(both)),
        Figure("pages with a headline", len(shown)),
        Figure("parts that sum to it", sum(abs(each - 1) <= SUM_LIMIT for each in shown), least=len(shown)),
        Figure("batches seen rightly", sum(_is_batch(batch) for batch in batches), least=len(batches)),
        Figure("planted causes found", sum(bool(of_planted(each)) for each in planted), least=0.9 * len(planted)),
        Figure("planted causes named first", sum(each["says"] in each["first"] for each in planted)),
        Figure("planted lines named right", words.count("right"), least=sum(bool(each["line"]) for each in planted)),
        Figure("planted lines named wrong", words.count("wrong"), most=0),
        Figure("gains measured", sum(each.get("gain", {}).get("ratio") is not None for each in found)),
    ]


def of_planted(each: dict[str, Any]) -> dict[str, Any] | None:
    """Return the finding that names what was planted."""
    return next((finding for finding in each["findings"] if each["says"] in finding["says"]), None)


def line_word(each: dict[str, Any]) -> str:
    """Return whether the line of what was planted is "right", "wrong" or "none"; "" where a plant has no line."""
    finding = of_planted(each)
    if finding is None or finding["where"] is None:
        return "none" if each["line"] else ""
    return "right" if finding["where"] == each["line"] else "wrong"


def _is_batch(each: dict[str, Any]) -> bool:
    """Whether a loader has this batch, and the mean iteration no more: the last one of an epoch may be smaller."""
    seen = each["seen_batch"]
    return each["batch"] in each["loader_batches"] and isinstance(seen, float) and seen <= each["batch"]


if __name__ == "__main__":
    raise SystemExit(main())
