"""Is the lap that a race states the lap that one would wait for? Within 3 %, on three workloads.

    python bench/lap.py                                                 all three (some 25 minutes)
    python bench/lap.py --workloads cifar-mlp --rounds 2                one of them
    python bench/lap.py --workloads cifar-mlp --rounds 1 --budget 10 --heats 1 --steps 100    a short try

A round is a race of `torch/cpu/best` with five heats, which states a lap from windows of a few seconds, and one whole
lap really run in a process of its own with the same settings: a first step, then every step of the lap between two
fences. Rounds run in the order A B, B A. The figure is the stated lap over the real one. The stated lap comes from
medians and a real one holds every disturbance, so the result also has what other processes took meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from functools import partial
from typing import Any

import msgspec

from common import (
    Figure,
    WorkerError,
    compare_each,
    figure_of,
    finish,
    fresh_home,
    most_of,
    others_work,
    parser_for,
    side_by_side,
)
from laptime import api
from laptime.engine.run.instruments import Instruments
from laptime.model.ask import Ask
from laptime.model.plan import HeatOrder
from laptime.model.quantities import Missing
from laptime.model.stats import median, paired_ratio

LANE = "torch/cpu/best"
IN_MEMORY = {"scenes-cnn": "+input=cached"}  # a bare lap has no loader next to it
MOST_OFF = 0.03
ALPHA = 0.05
ROUNDS = {"cifar-mlp": 4, "cifar-cnn": 4, "scenes-cnn": 2}
BUDGET_S = {"cifar-mlp": 60.0, "cifar-cnn": 60.0, "scenes-cnn": 100.0}
Lap = dict[str, Any]


def state_lap(ask: Ask) -> Lap:
    """Let a race say how long a lap takes."""
    lane = api.race(ask).lanes[0]
    if lane.status != "ok" or lane.lap_s is None:
        raise WorkerError(f"{lane.name} did not finish: {lane.reason}")
    return {
        "lap_s": lane.lap_s.median,
        "low_s": _or_none(lane.lap_s.low),
        "high_s": _or_none(lane.lap_s.high),
        "heats": [{"steady": heat.steady, "step_ms": heat.step_ms} for heat in lane.heats],
        "other_cores": others_work(lane.heats),
    }


def _or_none(value: float | Missing) -> float | None:
    return None if isinstance(value, Missing) else value


def run_lap(order: HeatOrder, steps: int) -> Lap:
    """Run a whole lap in a fresh process with the lane's environment, and read what others took meanwhile."""
    instruments = Instruments(os.cpu_count() or 1)
    with subprocess.Popen(
        [sys.executable, __file__, "--worker", str(steps)],
        env={**os.environ, **order.lane.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(msgspec.json.encode(order).decode())
        child.stdin.close()
        child.stdout.readline()
        instruments.open(child.pid, child.was_stopped)
        told = child.stdout.readline()
        noise = instruments.close_window()
        child.stdout.read()
    if child.returncode or not told:
        raise WorkerError(f"a whole lap ended with exit code {child.returncode}")
    return {**json.loads(told), "other_cores": _or_none(noise.other_cores)}


def work(steps: int) -> int:
    """Be the child: the lap with nothing of ours in it but the training itself."""
    from laptime.engine.backends import open_backend

    order = msgspec.json.decode(sys.stdin.read(), type=HeatOrder)
    backend = open_backend(order.lane.framework)
    runner = backend.build(order).start()
    runner.run(1)
    runner.fence()
    print("the lap begins", flush=True)
    start_ns = backend.clock()
    runner.run(steps)
    runner.fence()
    took_s = (backend.clock() - start_ns) / 1e9
    print(json.dumps({"lap_s": took_s, "loss": runner.loss()}), flush=True)
    return 0


def compare(name: str, given: argparse.Namespace) -> tuple[list[Figure], dict[str, Any]]:
    """State and run laps of one workload in turns."""
    lane = LANE + IN_MEMORY.get(name, "")
    ask = Ask(name, (lane,), heats=given.heats, budget_s=given.budget or BUDGET_S[name])
    plan = api.plan(ask)
    order = HeatOrder(plan.subject, plan.lanes[0], ask.seed, plan.proof, plan.pace)
    whole = plan.subject.steps_per_lap or 1
    steps = min(given.steps or whole, whole)
    rounds = given.rounds or ROUNDS[name]
    stated, real = side_by_side(rounds, partial(state_lap, ask), partial(run_lap, order, steps))
    stated_s = [lap["lap_s"] for lap in stated]
    real_s = [lap["lap_s"] * whole / steps for lap in real]
    ratio = paired_ratio(real_s, stated_s, ALPHA)  # the first argument is what is divided by
    figures = [
        figure_of(f"{name}: stated lap", ratio, "of the real", least=1 - MOST_OFF, most=1 + MOST_OFF),
        Figure(f"{name}: stated lap, median", median(stated_s), "s"),
        Figure(f"{name}: real lap, median", median(real_s), "s"),
        Figure(f"{name}: others' work, the most in a real lap", _cores(real), "cores"),
        Figure(f"{name}: others' work, the most in a race", _cores(stated), "cores"),
    ]
    return figures, {"steps_run": steps, "steps_per_lap": whole, "stated": stated, "real": real}


def _cores(laps: list[Lap]) -> float | None:
    return most_of(lap["other_cores"] for lap in laps)


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--workloads", nargs="+", default=list(ROUNDS), choices=list(ROUNDS), metavar="NAME")
    parser.add_argument("--rounds", type=int, help=f"instead of {ROUNDS}")
    parser.add_argument("--heats", type=int, default=5)
    parser.add_argument("--budget", type=float, metavar="SECONDS", help=f"of a race, instead of {BUDGET_S}")
    parser.add_argument("--steps", type=int, help="run only N steps of the lap, for a short try")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        return work(given.worker)
    details: dict[str, Any] = {"lane": LANE, "heats": given.heats}
    with fresh_home():
        figures = compare_each(given, compare, details)
    return finish("lap", figures, given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
