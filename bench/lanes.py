"""Every lane of this processor on the five workloads, with the proof: the table in docs/published.md, by one command.

    python bench/lanes.py                                   all five (some forty minutes)
    python bench/lanes.py --workloads cifar-cnn             this one again; the others stay as they were
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
from laptime.model.record import LaneResult, Record
from page import put, table
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
    """Give every framework that is installed and runs built-in trainings, in its presets."""
    names = [each.name for each in api.devices().frameworks if each.name not in {"jax", "python"}]
    return tuple(f"{name}/cpu{preset}" for name in names for preset in PRESETS.get(name, KERAS_PRESETS))


def race(name: str, lanes: tuple[str, ...], heats: int | None) -> Record:
    budget_s = BUDGET_S[name]
    print(f"{name}: {len(lanes)} lanes", file=sys.stderr, flush=True)
    return api.race(Ask(name, lanes, heats=heats or HEATS.get(name, HEATS_ELSE), budget_s=budget_s), show=show_note)


def show_note(_record: Record, note: str) -> None:
    print(f"  {note}", file=sys.stderr, flush=True)


def shorten(record: Record) -> dict[str, Any]:
    """Keep what the table says and what it stands on: estimates, proofs, versions, each heat's medians."""
    against = {each.lane: each for each in record.comparisons}
    return {
        "started": record.started,
        "elapsed_s": record.elapsed_s,
        "machine": record.machine.processor.name,
        "cores": record.machine.processor.cores_usable,
        "versions": {key: value for lane in record.lanes for key, value in lane.framework.items()},
        "rows": [row_of_lane(record, lane, factor_words(against.get(lane.name))) for lane in record.lanes],
        "lanes": [kept_of(lane) for lane in json.loads(api.encode(record))["lanes"]],
    }


def kept_of(lane: dict[str, Any]) -> dict[str, Any]:
    """Leave out the samples of single steps."""
    left_out = {"heats", "device"}
    heats = [
        {"class": heat["class"], "phases_s": heat["phases_s"], "windows": len(heat["windows"])}
        for heat in lane["heats"]
    ]
    return {**{key: value for key, value in lane.items() if key not in left_out}, "heats": heats}


def row_of_lane(record: Record, lane: LaneResult, factor: str) -> list[str]:
    if lane.step_ms is None or lane.status != "ok":
        return [record.workload.name, lane.name, f"failed: {lane.reason or 'no heat was finished'}", "", "", ""]
    words = (estimate_words(lane.step_ms, "ms"), estimate_words(lane.lap_s, "s"), factor, proof_words(lane))
    return [record.workload.name, lane.name, *words]


def table_of(told: dict[str, Any], kept_as: str) -> str:
    """Say where and when the rows were measured, machine by machine, then give them all."""
    done = [told["details"][name] for name in WORKLOADS if name in told["details"]]
    machines = dict.fromkeys(each["machine"] for each in done)
    said = [
        *(_where_words([each for each in done if each["machine"] == machine]) for machine in machines),
        f"By `{told['command']}`, intervals of 95 %, [all figures](../bench/results/{kept_as}).",
        "",
    ]
    return "\n".join([*said, *table(HEAD, (row for each in done for row in each["rows"]))]) + "\n"


def _where_words(done: list[dict[str, Any]]) -> str:
    """Name the machine, the versions and the dates of those workloads that were raced on it."""
    names = ", ".join(each["rows"][0][0] for each in done)
    versions = {key: value for each in done for key, value in each["versions"].items()}
    dates = ", ".join(sorted({each["started"][:10] for each in done}))
    cores = done[0].get("cores", 2)
    return f"{names}: {done[0]['machine']}, {cores} cores; {', '.join(map(' '.join, versions.items()))}; {dates}."


def newest_details() -> dict[str, Any]:
    """Give what was measured last of each workload: those that are not raced now keep their rows, and their dates."""
    kept = sorted(RESULTS.glob("*-lanes.json"))
    return dict(json.loads(kept[-1].read_text())["details"]) if kept else {}


def figures_of(details: dict[str, Any]) -> list[Figure]:
    lanes = [lane for each in details.values() for lane in each["lanes"]]
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
    parser.add_argument("--heats", type=int, help="a lane; usually three, of the heavy networks one")
    parser.add_argument("--page", type=Path, metavar="FILE.json", help="write the page's table from this result")
    given = parser.parse_args()
    if given.page is not None:
        put(table_of(json.loads(given.page.read_text()), given.page.name), BEGIN, END)
        return 0
    details = newest_details()
    with fresh_home():
        lanes = lanes_here()
        for name in given.workloads:
            details[name] = shorten(race(name, lanes, given.heats))
            told = result("lanes", figures_of(details), details=details, versions={}, command="python bench/lanes.py")
            write_json(RESULT, told)
            put(table_of(told, RESULT.name), BEGIN, END)
    return finish("lanes", figures_of(details), None)


if __name__ == "__main__":
    sys.exit(main())
