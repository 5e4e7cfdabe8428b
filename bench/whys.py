"""What laptime finds of the five published trainings on this machine: the table in docs/published.md, by one command.

    python bench/whys.py                                    all five, as written (some thirty minutes)
    python bench/whys.py --workloads cifar-mlp              this one again; the others stay as they were
    python bench/whys.py --page                             measure nothing, write the page's table again

Each is `laptime why WORKLOAD` on the lane that it takes by default: the card if there is one, else the processor, as
its authors wrote it. Writes bench/results/DATE-whys.json after each workload. Exits 1 where a lane failed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from typing import Any

import msgspec

from common import ROOT, Figure, finish, fresh_home, result, write_json
from laptime import api
from laptime.model.ask import Ask
from laptime.model.quantities import Missing
from laptime.model.record import Progress, Record
from laptime.questions.why.nouns import Remedy, Why, why_of
from page import paragraph, put, table

WORKLOADS = ("scenes-cnn", "cifar-cnn", "cifar-mlp", "pets-densenet", "plates-cnn")
BUDGET_S = {"cifar-mlp": 120.0, "cifar-cnn": 150.0, "plates-cnn": 240.0, "scenes-cnn": 300.0, "pets-densenet": 900.0}
RESULTS = ROOT / "bench" / "results"
RESULT = RESULTS / f"{dt.datetime.now(dt.UTC):%Y-%m-%d}-whys.json"
BEGIN, END = "<!-- whys: written by bench/whys.py -->", "<!-- end of whys -->"
HEAD = ("training", "what limits it", "where a step goes", "best remedy: predicted, measured", "not settled")


def ask_why(name: str) -> Record:
    print(name, file=sys.stderr, flush=True)
    return api.why(Ask(name, budget_s=BUDGET_S[name]), show=show_news)


def show_news(_record: Record | None, progress: Progress) -> None:
    if progress.is_news:
        print(f"  {progress.doing}", file=sys.stderr)


def shorten(record: Record) -> dict[str, Any]:
    """Keep the answer whole, and of each lane what it rests on; leave out the samples of single steps."""
    lanes = json.loads(api.encode(record))["lanes"]
    return {
        "started": record.started,
        "elapsed_s": record.elapsed_s,
        "budget_s": record.ask.budget_s,
        "machine": record.machine.processor.name,
        "cores": record.machine.processor.cores_usable,
        "device": record.lanes[0].device.label,
        "versions": record.lanes[0].framework,
        "row": row_of(record.workload.name, why_of(record)),
        "why": msgspec.to_builtins(why_of(record)),
        "lanes": [{key: lane[key] for key in ("name", "status", "reason", "step_ms", "items_per_s")} for lane in lanes],
    }


def row_of(name: str, why: Why) -> list[str]:
    parts = ", ".join(f"{part.of} {100 * part.share:.0f} %" for part in why.parts if part.share >= 0.005)
    best = next((remedy for remedy in why.remedies if remedy.recommended), None)
    return [name, why.says, parts, remedy_words(best), ", ".join(why.missing) or (why.distrust or "-")]


def remedy_words(best: Remedy | None) -> str:
    if best is None or best.measured is None:
        return "none of those that were tried"
    predicted = "not predicted" if isinstance(best.predicted, Missing) else f"{best.predicted:.3g}x"
    low, high = best.measured.low, best.measured.high
    known = not isinstance(low, Missing) and not isinstance(high, Missing)
    ends = f" ({low:.3g}-{high:.3g})" if known else " (one pair)"
    return f"{best.says}: {predicted}, {best.measured.ratio:.3g}x{ends}; changes {best.changes}"


def page_of(told: dict[str, Any], kept_as: str) -> str:
    done = [told["details"][name] for name in WORKLOADS if name in told["details"]]
    where = dict.fromkeys(
        f"{each['machine']}, {each['cores']} cores, {', '.join(map(' '.join, each['versions'].items()))}; "
        f"{each['started'][:10]}"
        for each in done
    )
    where_found = f"By `{told['command']}`; all figures are in `bench/results/{kept_as}`."
    said = [*(paragraph(f"{each}.") for each in where), paragraph(where_found)]
    return "\n".join([*said, *table(HEAD, (each["row"] for each in done))]) + "\n"


def figures_of(details: dict[str, Any]) -> list[Figure]:
    firsts = [detail["lanes"][0] for detail in details.values()]
    over = [detail["elapsed_s"] / detail["budget_s"] for detail in details.values()]
    return [
        Figure("trainings looked at", len(details), least=len(WORKLOADS)),
        Figure("lanes asked about that did not finish", sum(lane["status"] != "ok" for lane in firsts), most=0),
        Figure("longest answer over its budget", max(over), "times"),
    ]


def newest_details() -> dict[str, Any]:
    """Return what was found last: trainings that are not looked at now keep their rows, and their dates."""
    kept = sorted(RESULTS.glob("*-whys.json"))
    return dict(json.loads(kept[-1].read_text())["details"]) if kept else {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=WORKLOADS)
    parser.add_argument("--page", action="store_true", help="write the page's table from the newest result")
    given = parser.parse_args()
    if given.page:
        newest = max(RESULTS.glob("*-whys.json"))
        told = json.loads(newest.read_text())
        for name, each in told["details"].items():
            each["row"] = row_of(name, msgspec.convert(each["why"], Why))
        put(page_of(told, newest.name), BEGIN, END)
        return 0
    details = newest_details()
    with fresh_home():
        for name in given.workloads:
            details[name] = shorten(ask_why(name))
            told = result("whys", figures_of(details), details=details, versions={}, command="python bench/whys.py")
            write_json(RESULT, told)
            put(page_of(told, RESULT.name), BEGIN, END)
    return finish("whys", figures_of(details), None)


if __name__ == "__main__":
    sys.exit(main())
