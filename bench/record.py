"""A record of 1,000,000 steps is read, estimated again and rendered within 2 s and 500 MB.

    python bench/record.py                                     2 lanes x 5 heats x 100,000 steps, 5 readers
    python bench/record.py --steps 10000 --readers 1           a short try

The record is made up (400 windows a heat, which is where finding the steady state is slowest), written as a race
writes it, and read by fresh processes. Each finds every heat's steady state, every lane's estimates and the
comparison again from the samples, checks that they are those of the record, and renders the table that `laptime show`
prints. The time is from opening the file to the rendered text; the memory is the most that the whole process held.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from common import Figure, finish, fresh_home, parser_for, run_json
from laptime.analysis.heats import summarise_heat
from laptime.analysis.lanes import compare_lanes, summarise_lane
from laptime.api import showing
from laptime.engine.heat.__main__ import peak_memory_bytes
from laptime.machine.look import look_at_machine
from laptime.model.ask import Ask
from laptime.model.frameworks import installed_version
from laptime.model.machine import Device
from laptime.model.plan import Pace, Plan, PlannedLane, Subject
from laptime.model.process import ProcessRun, Settings
from laptime.model.quantities import Missing
from laptime.model.record import SCHEMA, LaneResult, RaceAnswer, Record
from laptime.model.sample import Heat, Noise, ProofRun, Reference, Window
from laptime.model.stats import median
from laptime.model.workload import ProofPlan
from laptime.store import files

MOST_S, MOST_MB = 2.0, 500.0
LANES = {"torch/cpu/as-written": 1.30, "torch/cpu/best": 1.00}  # milliseconds a step
HEATS, WINDOWS = 5, 400
WIDTH = 100
LAPTIME = str(Path(sys.executable).parent / "laptime")
ALPHA = 0.05
RUN = ProofRun("fp32", (2.3, 2.2, 2.1), 10.0, 1e-4, (0.1, 0.2), 0.5)


def make_record(steps_a_heat: int) -> Record:
    """Make up a finished race with estimates as a race makes them."""
    random = np.random.default_rng(0)
    subject = Subject("made-up", "a made-up training", 1_000_000, 32, 1000, 10, "items", optimizer="SGD")
    device = Device("cpu", "cpu", "processor", usable=True)
    planned = [PlannedLane(name, "torch", device, Settings()) for name in LANES]
    plan = Plan(Ask("made-up", tuple(LANES)), subject, tuple(planned), ProofPlan(), Pace(5, 5, True, 60.0, 1.0))
    reference = Reference("made-up", RUN, RUN, depth=4, weights=1_000_000)
    lanes = []
    for lane, step_ms in zip(planned, LANES.values(), strict=True):
        heats = (make_heat(lane.name, order, step_ms, steps_a_heat, random) for order in range(HEATS))
        lanes.append(summarise_lane(plan, lane, tuple(map(summarise_heat, heats)), reference))
    compared = tuple(filter(None, [compare(lanes)]))
    return Record(
        schema=SCHEMA,
        tool={"name": "laptime", "version": installed_version()},
        id="r-2026-01-01-0000",
        started="2026-01-01T00:00:00+00:00",
        question="race",
        status="finished",
        ask=plan.ask,
        machine=look_at_machine(),
        workload=subject,
        published=None,
        lanes=tuple(lanes),
        answer=RaceAnswer(compared),
        reference=reference,
    )


def compare(lanes: list[LaneResult]) -> Any:
    return compare_lanes(lanes[1], lanes[0], 0.05, ALPHA)


def make_heat(lane: str, order: int, step_ms: float, steps: int, random: np.random.Generator) -> Heat:
    """Make up a heat with a slow beginning: steps about their level, windows with their noise."""
    level = step_ms * 1e6 * np.exp(random.normal(0, 0.01))
    slow = np.where(np.arange(WINDOWS) < WINDOWS // 20, 1.2, 1.0) * level
    windows, now_ns = [], 0
    for each in slow:
        step_ns = tuple((each * np.exp(random.normal(0, 0.03, steps // WINDOWS))).astype(int).tolist())
        noise = Noise(float(random.random() / 10), 0.5, 0.0)
        windows.append(Window(now_ns, now_ns + sum(step_ns), len(step_ns), step_ns, noise))
        now_ns = windows[-1].end_ns + 1_000_000
    process = ProcessRun(
        lane,
        "ok",
        versions={"torch": "0"},
        parameters=1_000_000,
        items_per_step=32,
        phases_s={"start": 0.1, "import": 1.0, "build": 0.2, "proof": 0.5, "first step": 0.1, "timing": 100.0},
        peak_memory_bytes=500_000_000,
        device_memory_bytes=Missing("the processor's memory is the process's own"),
    )
    return Heat(
        process,
        order=order,
        round=order,
        steps_per_lap=1000,
        first_step_ns=20_000_000,
        proofs=(RUN,),
        windows=tuple(windows),
        losses=tuple(random.random(WINDOWS).tolist()),
    )


def estimate_again(lane: LaneResult, record: Record) -> LaneResult:
    planned = PlannedLane(lane.name, "torch", lane.device, lane.settings)
    plan = Plan(record.ask, record.workload, (planned,), ProofPlan(), Pace(5, 5, True, 60.0, 1.0))
    heats = tuple(summarise_heat(result.heat) for result in lane.heats)
    return summarise_lane(plan, planned, heats, record.reference)


def read(path: Path) -> dict[str, Any]:
    """Be the reader: time each part, and say whether the estimates came out the same."""
    moments = [time.perf_counter()]
    record = files.load(str(path))
    moments.append(time.perf_counter())
    lanes = [estimate_again(lane, record) for lane in record.lanes]
    comparison = compare(lanes)
    moments.append(time.perf_counter())
    text = showing.as_text(record, showing.View(WIDTH))
    moments.append(time.perf_counter())
    same = tuple(lanes) == record.lanes and (comparison,) == record.answer.comparisons
    parts = dict(zip(("read_s", "estimate_s", "render_s"), np.diff(moments).tolist(), strict=True))
    peak = peak_memory_bytes()
    peak_mb = None if isinstance(peak, Missing) else peak / 1e6
    return {**parts, "all_s": sum(parts.values()), "peak_mb": peak_mb, "same": same, "text": text}


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="of each of the ten heats")
    parser.add_argument("--readers", type=int, default=5)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        print(json.dumps(read(given.worker)))
        return 0
    with fresh_home():
        record = make_record(given.steps)
        began = time.perf_counter()
        path = files.save(record)
        write_s = time.perf_counter() - began
        size_mb = path.stat().st_size / 1e6
        began = time.perf_counter()
        subprocess.run([LAPTIME, "show", record.id], check=True, stdout=subprocess.DEVNULL)
        show_s = time.perf_counter() - began
        told = [run_json([sys.executable, __file__, "--worker", str(path)]) for _ in range(given.readers)]
    steps = sum(window.steps for lane in record.lanes for result in lane.heats for window in result.heat.windows)
    print(told[0]["text"])
    parts = [Figure(f"{part[:-2]}, median", median([each[part] for each in told]), "s")
             for part in ("read_s", "estimate_s", "render_s")]  # fmt: skip
    figures = [
        Figure("read, estimate and render, median", median([each["all_s"] for each in told]), "s", most=MOST_S),
        Figure("most memory of the process", max(each["peak_mb"] for each in told), "MB", most=MOST_MB),
        Figure("readers whose estimates differ", sum(not each["same"] for each in told), most=0),
        *parts,
        Figure("`laptime show`, the whole command", show_s, "s"),
        Figure("write", write_s, "s"),
        Figure("size of the file", size_mb, "MB"),
        Figure("steps", steps),
    ]
    return finish("record", figures, given.out, details={"readers": told})


if __name__ == "__main__":
    sys.exit(main())
