"""On a GPU: all five workloads on every CUDA device against the processor, with the proofs, within a few minutes.

    python bench/truth.py --out FOLDER                   every CUDA device as written, best and fastest; 8 minutes
    python bench/truth.py --out FOLDER --minutes 9 --heats 1     one heat a lane, however long it takes; no intervals
    python bench/truth.py --out FOLDER --what plates-cnn         these workloads alone
    python bench/truth.py --out FOLDER --lanes torch/cpu torch/cpu/best --minutes 1      a try without a GPU

One race a workload, the light ones first; what they leave of their time goes to the heavy ones, and when all the time
is used the race that is under way ends with the heats that it has. With --heats a race may take longer than its part:
on an H100 the five took 502 s together. FOLDER gets truth.json, one file with all
records, and truth.md, the table; both are written after each workload. Every lane's proof has to be "same". A lane or
a race that fails is a row that says why. Exits 1 where something failed, 5 where there is no CUDA device.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from types import FrameType
from typing import Any

from common import Figure, finish, fresh_home, print_table, result, write_json
from laptime import api
from laptime.api import showing
from laptime.model.ask import Ask
from laptime.model.errors import LaptimeError
from laptime.model.machine import Framework
from laptime.model.quantities import Missing
from laptime.model.record import LaneResult, Progress, Record
from laptime.trainings.workloads import find_workload
from truth_page import HEAD, render, rows_of

# Parts of the time; the heavy ones also get what the light ones leave.
SHARES = {"cifar-mlp": 2, "cifar-cnn": 3, "plates-cnn": 3, "scenes-cnn": 5, "pets-densenet": 7}
PRESETS = ("", "/best", "/fastest")
PROCESSOR = "torch/cpu"
KEPT_BACK_S = 10.0
LEAST_BUDGET_S = 5.0
EXIT_NO_DEVICE, EXIT_INTERRUPTED = 5, 130


@dataclass(slots=True)
class TimeLeft:
    """The time until the end, and a bell: then the race under way has to stop, as by Ctrl-C."""

    end_s: float
    rung: bool = False

    def seconds(self) -> float:
        return self.end_s - time.monotonic()

    def set_bell(self) -> None:
        signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, max(self.seconds(), 0.01))

    def _ring(self, _number: int, _frame: FrameType | None) -> None:
        self.rung = True
        raise KeyboardInterrupt


@dataclass(slots=True)
class Outcome:
    """What became of one workload."""

    workload: str
    record: Record | None = None
    problem: str | None = None
    took_s: float = 0.0

    @property
    def rows(self) -> list[list[str]]:
        return list(rows_of(self.workload, self.record, self.problem))

    @property
    def good(self) -> bool:
        """Whether every lane finished and did the same work."""
        return self.problem is None and self.record is not None and all(map(is_good, self.record.lanes))


def run_workload(name: str, lanes: tuple[str, ...], budget_s: float, time_left: TimeLeft, heats: int | None) -> Outcome:
    """Race one workload; what goes wrong is kept, not raised."""
    began_s = time.monotonic()
    outcome = Outcome(name)
    if time_left.seconds() < LEAST_BUDGET_S:
        outcome.problem = "no time was left for it"
    else:
        try:
            ask = Ask(
                name,
                tuple(with_input(lane, name) for lane in lanes),
                budget_s=budget_s,
                heats=heats,
                patience_s=max(30.0, time_left.seconds()),
            )
            outcome.record = api.race(ask, warn=lambda error: print(error, file=sys.stderr), show=show_note)
        except KeyboardInterrupt:
            outcome.problem = "the time was used up"
        except LaptimeError as error:
            outcome.problem = str(error).replace("\n", "; ")
        except Exception as error:  # noqa: BLE001  one workload's failure must not cost the others
            outcome.problem = f"{type(error).__name__}: {error}"
    outcome.record = outcome.record or last_journalled(name)
    outcome.took_s = time.monotonic() - began_s
    return outcome


def last_journalled(name: str) -> Record | None:
    """Return what a race that ended badly had on disk by then."""
    kept = [row.id for row in api.records() if row.workload == name and row.unreadable is None]
    return api.load(kept[0]) if kept else None


def show_note(_record: Record | None, progress: Progress) -> None:
    if progress.is_news:
        print(f"  {progress.doing}", file=sys.stderr, flush=True)


def is_good(lane: LaneResult) -> bool:
    return lane.status == "ok" and lane.step_ms is not None and lane.parity.status == "same"


def write_all(
    folder: Path, outcomes: list[Outcome], devices: list[dict[str, Any]], versions: dict[str, str], wanted: int
) -> None:
    """Write what is known so far, whole."""
    details = {
        "devices": devices,
        "workloads": [
            {
                "name": outcome.workload,
                "problem": outcome.problem,
                "took_s": outcome.took_s,
                "record": json.loads(api.encode(outcome.record)) if outcome.record else None,
            }
            for outcome in outcomes
        ],
    }
    told = result("truth", list(figures_of(outcomes, wanted)), details=details, versions=versions)
    write_json(folder / "truth.json", told)
    page = render(told, [row for outcome in outcomes for row in outcome.rows])
    (folder / "truth.md").write_text(page, encoding="utf-8")


def figures_of(outcomes: list[Outcome], wanted: int) -> Iterator[Figure]:
    lanes = [lane for outcome in outcomes if outcome.record for lane in outcome.record.lanes]
    yield Figure("workloads raced", sum(outcome.record is not None for outcome in outcomes), least=wanted)
    yield Figure("lanes that did not finish", sum(lane.status != "ok" or not lane.step_ms for lane in lanes), most=0)
    yield Figure("proofs that are not 'same'", sum(lane.parity.status != "same" for lane in lanes), most=0)
    for outcome in outcomes:
        for found in outcome.record.answer.comparisons if outcome.record else ():
            low, high = (None if isinstance(end, Missing) else end for end in (found.low, found.high))
            yield Figure(f"{outcome.workload}: {found.lane} against {found.reference}", found.ratio, "times", low, high)


def with_input(lane: str, workload: str) -> str:
    """Where Pillow is missing, let the workloads that read image files take decoded images made in memory."""
    if not find_workload(workload).reads_files or util.find_spec("PIL") is not None:
        return lane
    return f"{lane}{'+' if lane.count('/') > 1 else '/'}input=cached"


def choose_lanes(torch: Framework | None) -> tuple[str, ...]:
    """Return the processor as written, and each usable CUDA device in three ways; nothing where there is none."""
    names = [device.name for device in torch.devices if device.kind == "cuda" and device.usable] if torch else []
    return (PROCESSOR, *(f"torch/{name}{preset}" for name in names for preset in PRESETS)) if names else ()


def run_all(lanes: tuple[str, ...], devices: list[dict[str, Any]], versions: dict[str, str], given: Any) -> int:
    time_left = TimeLeft(given.began_s + 60 * given.minutes - min(KEPT_BACK_S, 6 * given.minutes))
    time_left.set_bell()
    outcomes: list[Outcome] = []
    shares = {name: share for name, share in SHARES.items() if name in (given.what or SHARES)}
    for place, name in enumerate(shares):
        share_s = time_left.seconds() * shares[name] / sum(list(shares.values())[place:])
        budget_s = max(share_s, LEAST_BUDGET_S)
        print(f"{name}: {budget_s:.0f} s", file=sys.stderr, flush=True)
        outcomes.append(run_workload(name, lanes, budget_s, time_left, given.heats))
        write_all(given.out, outcomes, devices, versions, len(shares))
        if not time_left.rung and is_interrupted(outcomes[-1]):
            break
    signal.setitimer(signal.ITIMER_REAL, 0)
    print_table(HEAD, [row for outcome in outcomes for row in outcome.rows])
    finish("truth", list(figures_of(outcomes, len(shares))), None)
    if not time_left.rung and is_interrupted(outcomes[-1]):
        return EXIT_INTERRUPTED
    return 0 if all(outcome.good for outcome in outcomes) else 1


def is_interrupted(outcome: Outcome) -> bool:
    return outcome.record is not None and outcome.record.status == "interrupted"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--heats", type=int, metavar="N", help="exactly N heats a lane")
    parser.add_argument("--what", nargs="+", choices=SHARES, metavar="WORKLOAD", help="these instead of all five")
    parser.add_argument("--lanes", nargs="+", metavar="LANE", help="these instead of every CUDA device")
    given = parser.parse_args(namespace=argparse.Namespace(began_s=time.monotonic()))
    with fresh_home():
        seen = api.devices(["torch"])
        lanes = tuple(given.lanes or choose_lanes(seen.framework("torch")))
        rows = showing.device_rows(seen)
        if not lanes:
            why = next((row["reason"] for row in rows if row.get("kind") in {"cuda", "framework"}), "torch is absent")
            print(f"no CUDA device can be used here: {why}", file=sys.stderr)
            return EXIT_NO_DEVICE
        torch = seen.framework("torch")
        return run_all(lanes, json.loads(showing.to_json(rows)), torch.versions if torch else {}, given)


if __name__ == "__main__":
    sys.exit(main())
