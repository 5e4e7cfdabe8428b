"""Is it true what laptime says of a script that nobody here wrote, is it the largest thing, and does it help?

    python bench/strangers.py --part watch --out FILE.json             all of them: some two hours
    python bench/strangers.py --only nanoGPT --only "fsync of a log"   some of them
    python bench/strangers.py --part gain --part watch --part apply --plants
    python bench/strangers.py --sources FOLDER ...                     with clones that are there already

The tables in bench/strangers/ name published scripts, with repository and commit, and causes that are planted in
copies of them by an edit. None of their code is kept here: repositories are cloned into the folder `--work`. Data sets
are made, and so is torchvision; `edits` of a script say what else was changed. Parts of a row:

watch   a copy runs bare, watched, and bare again. A counter of our own counts in all three
gain    the copy with its cause and the copy without take turns, bare (planted rows)
why     `laptime why` asks, within its default budget (planted rows)
apply   `laptime apply` makes the change that the first finding has, and both take turns, bare

A part that is done is kept in WORK/rows, and not done again (`--again` does it); what `laptime watch` recorded is in
WORK/records.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common import ROOT, Figure, finish, fresh_home, parser_for
from strangers.checkouts import CheckoutError, Checkouts
from strangers.measure import apply_change, ask_why, copy_script, copy_side, gain_of, in_turns, watch
from strangers.nouns import Plant, Script
from strangers.plants import PLANTS
from strangers.scripts import COMMITS, SCRIPTS

NEAR, NEAR_WHERE_NOISY, NOISY = 0.03, 0.05, 0.03  # of the headline; and how far two bare runs may differ
WORTH = 1.15  # times: a control has no finding that would likely gain so much
GAIN_NEAR = 0.9  # of what was said, that a change has to gain
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """A row to be measured: an unchanged script, or one with a cause planted in it."""

    name: str
    script: Script
    plant: Plant | None = None


def part_watch(checkouts: Checkouts, task: Task, _given: argparse.Namespace) -> Row:
    record_file = checkouts.work / "records" / f"{slug(task.name)}.json"
    if task.plant is None:
        return watch(copy_script(checkouts, task.script), None, record_file)
    return watch(copy_side(checkouts, task.script, task.plant, "cause"), task.plant, record_file)


def part_gain(checkouts: Checkouts, task: Task, given: argparse.Namespace) -> Row | None:
    if task.plant is None:
        return None
    sides = {side: copy_side(checkouts, task.script, task.plant, side) for side in ("cause", "remedy")}
    return gain_of(in_turns(sides, given.rounds), task.plant.measure)


def part_why(checkouts: Checkouts, task: Task, given: argparse.Namespace) -> Row | None:
    return task.plant and ask_why(copy_side(checkouts, task.script, task.plant, "cause"), given.budget)


def part_apply(checkouts: Checkouts, task: Task, given: argparse.Namespace) -> Row | None:
    return apply_change(checkouts, task.script, task.plant, given.rounds)


Part = Callable[[Checkouts, Task, argparse.Namespace], Row | None]
PARTS: dict[str, Part] = {"watch": part_watch, "gain": part_gain, "why": part_why, "apply": part_apply}


def main() -> int:
    given = parse()
    checkouts = Checkouts(given.work.resolve(), given.sources and given.sources.resolve())
    checkouts.prepare_libraries()
    rows: list[Row] = []
    with fresh_home():
        for task in wanted(given):
            row: Row = {"name": task.name, "planted": task.plant is not None, **describe(task.script)}
            for part in given.part or ("watch", "gain"):
                row[part] = kept(checkouts, part, task, given)
            rows.append(row)
            print(line_of(row), flush=True)
            if given.table:
                given.table.write_text("\n".join(map(line_of, rows)) + "\n", encoding="utf-8")
    return finish("strangers", figures_of(rows), given.out, details={"rows": rows, "rounds": given.rounds})


def parse() -> argparse.Namespace:
    parser = parser_for(__doc__)
    parser.add_argument("--sources", type=Path, metavar="FOLDER", help="clones, as OWNER+NAME/ (default: git clone)")
    parser.add_argument("--work", type=Path, default=ROOT / ".cache" / "strangers", metavar="FOLDER")
    parser.add_argument("--part", action="append", choices=PARTS, help="what to do (default: watch and gain)")
    parser.add_argument("--only", action="append", metavar="NAME", help="rows of this name, or that begin so")
    parser.add_argument("--plants", action="store_true", help="planted rows only")
    parser.add_argument("--controls", action="store_true", help="unchanged scripts only")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of a gain (default: 3)")
    parser.add_argument("--budget", metavar="TIME", help="of `laptime why` (default: its own)")
    parser.add_argument("--again", action="store_true", help="do parts again that are kept")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write a line for each row there, too")
    return parser.parse_args()


def describe(script: Script) -> Row:
    """Return whose script it is, and what was changed of it."""
    return {
        "script": script.name, "repository": script.repository, "commit": COMMITS[script.repository],
        "path": f"{script.folder}/{script.file}", "arguments": script.arguments, "edits": len(script.edits),
    }  # fmt: skip


def wanted(given: argparse.Namespace) -> list[Task]:
    """Return the rows that were asked for: controls first."""
    controls = [] if given.plants else [Task(name, script) for name, script in SCRIPTS.items()]
    plants = [] if given.controls else [Task(name, SCRIPTS[plant.of], plant) for name, plant in PLANTS.items()]
    rows = [*controls, *plants]
    return [row for row in rows if not given.only or any(row.name.startswith(only) for only in given.only)]


def kept(checkouts: Checkouts, part: str, task: Task, given: argparse.Namespace) -> Row | None:
    """Return what a part found, now or in an earlier run of the same row."""
    file = checkouts.work / "rows" / f"{slug(task.name)}.{part}.json"
    described = json.loads(json.dumps(asdict(task)))
    if file.exists() and not given.again:
        before = json.loads(file.read_text(encoding="utf-8"))
        if before["of"] == described:
            return before["row"]  # type: ignore[no-any-return]
    try:
        row = PARTS[part](checkouts, task, given)
    except (CheckoutError, ValueError) as error:
        return {"failed": str(error)}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"of": described, "row": row}), encoding="utf-8")
    return row


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower())


def line_of(row: Row) -> str:
    """Return a row in a line: what was measured, and what laptime said."""
    watched, gain = row.get("watch") or {}, (row.get("gain") or {})
    first = (watched.get("findings") or [{}])[0]
    if "failed" in watched or watched.get("exit_code"):
        return f"{row['name']}: FAILED {watched.get('failed') or watched['tail'][-300:]!r}"
    words = [
        f"{row['name']}: bare {number(watched.get('bare_ms'))} ms, headline {number(watched.get('headline_ms'))}",
        f"({number(watched.get('headline_over_bare'))} of bare,",
        f"{number(watched.get('headline_over_counted'))} of counted,",
        f"duration {number(watched.get('duration_over_counted'))}),",
        f"iterations {watched.get('iterations')} of {watched.get('expected')};",
    ]
    if row["planted"]:
        right = "RIGHT" if watched.get("rule_right") else "WRONG"
        line = "line right" if watched.get("line_right") else f"line WRONG {watched.get('expected_lines')}"
        words += [f"gain {number(gain.get('gain'))} ({number(gain.get('low'))}-{number(gain.get('high'))}),",
                  f"said {number(watched.get('likely'))} at most {number(watched.get('most'))};",
                  f"{right}, {line}, wanted {'/'.join(watched.get('expected_rules', ()))};"]  # fmt: skip
    said = first.get("gain") or {}
    words.append(f"first: {first.get('rule')} {first.get('where')} x{number(said.get('likely'))} {first.get('says')}")
    return " ".join(words)


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def figures_of(rows: list[Row]) -> list[Figure]:
    """Compare all rows with the aims, as far as their parts were run."""
    watched = [row for row in rows if row.get("watch")]
    controls = [row["watch"] for row in watched if not row["planted"]]
    planted = [row for row in watched if row["planted"]]
    named = [row for row in planted if row["watch"].get("rule_right")]
    ran, exact = (sum(map(test, watched)) for test in (has_run, is_exact))
    figures = [share("scripts that ran", ran, len(watched), 1), share("iterations exact", exact, len(watched), 1)]
    if controls:
        quiet = sum(not worth_of(each) for each in controls)
        figures += [
            share("controls: headline near the truth", sum(map(is_near, controls)), len(controls), 38 / 40),
            share("controls: no finding worth 1.15", quiet, len(controls), 38 / 40),
        ]
    if planted:
        with_line = sum(row["watch"]["line_right"] for row in named)
        within = sum(map(is_within, named))
        near = sum(is_near(row["watch"]) for row in planted)
        figures += [
            share("plants: headline near the truth", near, len(planted), 38 / 40),
            share("plants: cause first", len(named), len(planted), 27 / 30),
            share("plants: cause first, with its line", with_line, len(planted), 27 / 30),
            share("plants: gain within the bound", within, len(planted), 27 / 30),
        ]
    whys = [row for row in rows if row.get("why")]
    if whys:
        figures.append(share("plants: why proves a gain", sum(map(is_proven, whys)), len(whys), 24 / 30))
    applied = [row for row in rows if row.get("apply")]
    changed = [row for row in applied if not row["planted"] and row["apply"].get("gain") and is_promising(row)]
    for kind, of in (("plants", [row for row in applied if row["planted"]]), ("controls with a change", changed)):
        if of:
            figures.append(share(f"{kind}: a diff gains what it said", sum(map(is_gained, of)), len(of), 24 / 30))
    return figures


def share(name: str, number_of: int, of: int, least: float) -> Figure:
    return Figure(name, number_of, f"of {of}", least=round(least * of, 1))


def is_near(watched: Row) -> bool:
    """Whether the headline is the counter's time in the same run, and that of the bare runs as far as they agree."""
    if watched.get("headline_over_bare") is None:
        return False
    noisy = watched["bare_spread"] > NOISY
    limit = NEAR_WHERE_NOISY if noisy else NEAR
    nearest = watched["headline_over_counted"] if noisy else watched["headline_over_bare"]
    return abs(nearest - 1) <= limit


def worth_of(watched: Row) -> bool:
    """Whether a finding of a control promises much."""
    return any((each.get("gain") or {}).get("likely", 0) >= WORTH for each in watched.get("findings", ()))


def has_run(row: Row) -> bool:
    return not row["watch"].get("exit_code", 1)


def is_exact(row: Row) -> bool:
    return bool(row["watch"].get("exact"))


def is_within(row: Row) -> bool:
    """Whether the remedy by hand gained at most what the finding says, in one of the rounds."""
    most, low = row["watch"].get("most"), (row.get("gain") or {}).get("low")
    return most is not None and low is not None and low <= most


def is_proven(row: Row) -> bool:
    """Whether an experiment measured a gain that is one."""
    factors = [each["measured"] for each in row["why"].get("remedies", ()) if each.get("measured")]
    return any(isinstance(each.get("low"), float) and each["low"] > 1 for each in factors)


def is_promising(row: Row) -> bool:
    """Whether the first finding would likely gain what is worth a change."""
    return ((row["apply"].get("first") or {}).get("gain") or {}).get("likely", 0) >= WORTH


def is_gained(row: Row) -> bool:
    gain, said = row["apply"].get("gain"), (row["apply"].get("first") or {}).get("gain") or {}
    return gain is not None and gain >= GAIN_NEAR * min(said.get("likely", 1.05), WORTH)


if __name__ == "__main__":
    sys.exit(main())
