"""Every lane of this processor on the five workloads, with the proof: the table in docs/published.md, by one command.

    python bench/lanes.py                                   all five (some forty minutes)
    python bench/lanes.py --workloads cifar-cnn             this one again; the others stay as they were
    python bench/lanes.py --workloads cifar-cnn --missing   its lanes that have no row yet, next to the first lane
    python bench/lanes.py --page                            measure nothing, write the page's table again

PyTorch's own loop and Keras on each engine that is installed, as written and at its best, PyTorch also at its fastest:
one race a workload, so that its heats are interleaved, with three heats a lane, and one of the heavy networks, whose
factors then have no interval.
Writes bench/results/DATE-lanes.json after each workload. Exits 1 where a lane failed or its proof is not "same".
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from pathlib import Path
from typing import Any

from common import ROOT, Figure, finish, fresh_home, result, write_json
from laptime import api
from laptime.model.ask import Ask
from laptime.model.record import LaneResult, Progress, Record
from page import paragraph, put, table
from truth_page import estimate_words, factor_words, proof_words

WORKLOADS = ("cifar-mlp", "cifar-cnn", "plates-cnn", "scenes-cnn", "pets-densenet")
PRESETS = {"torch": ("", "/best", "/fastest")}
KERAS_PRESETS = ("", "/best")
# What start-up, proof and some three seconds of steps take, for each heat of nine lanes.
BUDGET_S = {"cifar-mlp": 260.0, "cifar-cnn": 300.0, "plates-cnn": 420.0, "scenes-cnn": 1500.0, "pets-densenet": 1700.0}
HEATS = {"scenes-cnn": 1, "pets-densenet": 1}
HEATS_ELSE = 3
RESULTS = ROOT / "bench" / "results"
BEGIN, END = "<!-- lanes: written by bench/lanes.py -->", "<!-- end of lanes -->"
HEAD = ("workload", "lane", "a step", "a lap", "against the first", "proof: worst loss, weights")


def lanes_here() -> tuple[str, ...]:
    """Return every framework that is installed and runs built-in trainings, in its presets."""
    names = [framework.name for framework in api.devices().frameworks if framework.name not in {"jax", "python"}]
    return tuple(f"{name}/cpu{preset}" for name in names for preset in PRESETS.get(name, KERAS_PRESETS))


def race(name: str, lanes: tuple[str, ...], heats: int | None, budget_s: float) -> Record:
    print(f"{name}: {len(lanes)} lanes", file=sys.stderr, flush=True)
    return api.race(Ask(name, lanes, heats=heats or HEATS.get(name, HEATS_ELSE), budget_s=budget_s), show=show_note)


def show_note(_record: Record | None, progress: Progress) -> None:
    if progress.is_news:
        print(f"  {progress.doing}", file=sys.stderr, flush=True)


def shorten(record: Record) -> dict[str, Any]:
    """Keep what the table says and what it rests on: estimates, proofs, versions, each heat's medians."""
    against = {comparison.lane: comparison for comparison in record.answer.comparisons}
    return {
        "started": record.started,
        "elapsed_s": record.elapsed_s,
        "machine": record.machine.processor.name,
        "cores": record.machine.processor.cores_usable,
        "versions": {key: value for lane in record.lanes for key, value in lane.framework.items()},
        "rows": [row_of_lane(record, lane, factor_words(against.get(lane.name))) for lane in record.lanes],
        "lanes": [kept_of(lane) for lane in json.loads(api.encode(record))["lanes"] if lane["heats"]],
    }


def kept_of(lane: dict[str, Any]) -> dict[str, Any]:
    """Leave out the samples of single steps."""
    left_out = {"heats", "device"}
    heats = [
        {"steady": result["steady"], "phases_s": heat["process"]["phases_s"], "windows": len(heat["windows"])}
        for result in lane["heats"]
        for heat in [result["heat"]]
    ]
    return {**{key: value for key, value in lane.items() if key not in left_out}, "heats": heats}


def missing_of(details: dict[str, Any], name: str) -> tuple[str, ...]:
    """Return the first lane of a workload, and those that an earlier race did not come to."""
    there = {lane["name"] for lane in details[name]["lanes"]} if name in details else set()
    lanes = lanes_here()
    named = {row[1]: lane for row, lane in zip(details[name]["rows"], lanes, strict=True)} if there else {}
    left = tuple(lane for row, lane in named.items() if row not in there)
    return (lanes[0], *left) if there else lanes


def joined(before: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Put lanes that were raced later, next to the first, into the table before; each factor is of its race."""
    for key in ("machine", "cores"):
        if before.get(key, 2) != later[key]:
            raise SystemExit(f"the race before ran on {before.get(key)}, this one on {later[key]}: race all its lanes")
    first = later["lanes"][0]["name"]
    rows = {row[1]: row for row in later["rows"] if row[1] != first}
    return {
        **before,
        "versions": {**before["versions"], **later["versions"]},
        "rows": [rows.get(row[1], row) for row in before["rows"]],
        "lanes": [*before["lanes"], *(lane for lane in later["lanes"] if lane["name"] != first)],
        "later": {**later, "lanes": later["lanes"][:1]},
    }


def row_of_lane(record: Record, lane: LaneResult, factor: str) -> list[str]:
    if not lane.heats:
        return [record.workload.name, lane.name, "not raced yet", "", "", ""]
    if lane.step_ms is None or lane.status != "ok":
        failed = f"failed: {lane.reason or 'no heat was finished'}"
        return [record.workload.name, lane.name, failed, "", "", proof_words(lane)]
    words = (estimate_words(lane.step_ms, "ms"), estimate_words(lane.lap_s, "s"), factor, proof_words(lane))
    return [record.workload.name, lane.name, *words]


def table_of(told: dict[str, Any], kept_as: str) -> str:
    """Say where and when the rows were measured, machine by machine, then give them all."""
    done = [told["details"][name] for name in WORKLOADS if name in told["details"]]
    machines = dict.fromkeys(each["machine"] for each in done)
    said = [
        *(paragraph(_where_words([each for each in done if each["machine"] == machine])) for machine in machines),
        paragraph(f"By `{told['command']}`, intervals of 95 %; all figures are in `bench/results/{kept_as}`."),
    ]
    return "\n".join([*said, *table(HEAD, (row for each in done for row in each["rows"]))]) + "\n"


def _where_words(done: list[dict[str, Any]]) -> str:
    """Name the machine, the versions and the dates of those workloads that were raced on it."""
    names = ", ".join(each["rows"][0][0] for each in done)
    versions = {key: value for each in done for key, value in each["versions"].items()}
    dates = ", ".join(sorted({each["started"][:10] for each in done}))
    cores = done[0].get("cores", 2)
    where = f"{names}: {done[0]['machine']}, {cores} cores; {', '.join(map(' '.join, versions.items()))}; {dates}."
    return " ".join([where, *(_later_words(each) for each in done if "later" in each)])


def _later_words(told: dict[str, Any]) -> str:
    """Say which lanes had a race of their own, and what the first lane took in it."""
    rows = told["later"]["rows"]
    lanes, day = ", ".join(row[1] for row in rows[1:]), told["later"]["started"][:10]
    return (
        f"Of {rows[0][0]} {lanes} had a race of their own on {day}: their factors are against the first lane in that "
        f"race, where its step took {rows[0][2]}."
    )


def newest_details() -> dict[str, Any]:
    """Return what was measured last of each workload: those that are not raced now keep their rows, and their dates."""
    kept = sorted(RESULTS.glob("*-lanes.json"))
    return dict(json.loads(kept[-1].read_text())["details"]) if kept else {}


def figures_of(details: dict[str, Any]) -> list[Figure]:
    lanes = [lane for detail in details.values() for lane in detail["lanes"]]
    return [
        Figure("workloads raced", len(details), least=len(WORKLOADS)),
        Figure("lanes raced", len(lanes)),
        Figure("lanes that did not finish", sum(lane["status"] != "ok" for lane in lanes), most=0),
        Figure("proofs that are not 'same'", sum(lane["parity"]["status"] != "same" for lane in lanes), most=0),
    ]


RESULT = RESULTS / f"{dt.datetime.now(dt.UTC):%Y-%m-%d}-lanes.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=WORKLOADS)
    parser.add_argument("--missing", action="store_true", help="the first lane and those that have no row yet")
    parser.add_argument("--heats", type=int, help="a lane; usually three, of the heavy networks one")
    parser.add_argument(
        "--budget", type=float, metavar="S", help="seconds for a workload, on a processor that needs more"
    )
    parser.add_argument("--page", type=Path, metavar="FILE.json", help="write the page's table from this result")
    given = parser.parse_args()
    if given.page is not None:
        put(table_of(json.loads(given.page.read_text()), given.page.name), BEGIN, END)
        return 0
    details = newest_details()
    with fresh_home():
        for name in given.workloads:
            lanes = missing_of(details, name) if given.missing else lanes_here()
            told = shorten(race(name, lanes, given.heats, given.budget or BUDGET_S[name]))
            details[name] = joined(details[name], told) if given.missing and name in details else told
            told = result("lanes", figures_of(details), details=details, versions={}, command="python bench/lanes.py")
            write_json(RESULT, told)
            put(table_of(told, RESULT.name), BEGIN, END)
    return finish("lanes", figures_of(details), None)


if __name__ == "__main__":
    sys.exit(main())
