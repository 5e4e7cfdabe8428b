"""Simulate gates in a pull request: how often they fail for nothing, and how often they catch what became slower.

Run as `python bench/gate.py [--out FILE.json]`. A gate is `laptime race BASE.py:f HEAD.py:f --heats 20 --budget 5m
--fail-above 2%`. Each simulated race is a record whose heats have made-up times, and laptime's own comparison judges
it. How much the ratio differs from round to round is drawn from real races: the ratios of rounds that
bench/results/*duet*.json holds, each race's around its own mean. They are scaled to a spread, and both lanes share what
a round's machine did. Exits 1 where a limit is broken, for spreads of 1 to 3.5 %; for larger ones the figures are for
information.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import ROOT, Figure, finish, parser_for
from laptime.model.ask import Ask
from laptime.model.machine import Device, Machine, Processor
from laptime.model.plan import Subject
from laptime.model.process import ProcessRun, Settings
from laptime.model.quantities import Estimate, Missing
from laptime.model.record import SCHEMA, HeatResult, LaneResult, OtherTraining, Parity, RaceAnswer, Record
from laptime.model.rows import OF_TRAINING
from laptime.model.sample import Heat
from laptime.questions.compare.reduce import compare_trainings

GATES = 200
ROUNDS = 20
THRESHOLD = 0.02
SLOWER = 1.05
SPREADS = (0.01, 0.02, 0.035)
NOISIER = (0.05, 0.07)
MOST_FALSE_PERCENT, LEAST_CAUGHT_PERCENT = 2.0, 90.0
STEP_MS = 10.0
MACHINE_SPREAD = 0.05  # of a round, shared by both lanes
LEAST_ROUNDS, WIDEST = 5, 0.10  # of a real race whose rounds are drawn from
NOWHERE = Missing("simulated")
PLACE = "torch/cpu/as-written"
BASE, HEAD = "base/train.py:training", "head/train.py:training"


def main() -> int:
    given = parse(sys.argv[1:])
    noise = read_noise(given.races)
    print(f"noise from {len(noise)} rounds of real races", flush=True)
    figures = [each for spread in (*SPREADS, *NOISIER) for each in judge(spread, noise, given)]
    details = {
        "rounds": given.rounds, "threshold": given.threshold, "slower": SLOWER, "gates": given.gates,
        "seed": given.seed, "rounds of real races": len(noise),
    }  # fmt: skip
    return finish("gate", figures, given.out, details=details)


def parse(words: list[str]) -> argparse.Namespace:
    parser = parser_for(__doc__)
    parser.add_argument("--gates", type=int, default=GATES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--threshold", type=float, default=THRESHOLD)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--races", type=Path, default=ROOT / "bench" / "results")
    return parser.parse_args(words)


def judge(spread: float, noise: list[float], given: argparse.Namespace) -> list[Figure]:
    """Return the share of gates that fail without a difference, and with a true one."""
    rng = random.Random(f"{given.seed} {spread}")
    limits: list[dict[str, float]] = [{}, {}]
    if spread in SPREADS:
        limits = [{"most": MOST_FALSE_PERCENT}, {"least": LEAST_CAUGHT_PERCENT}]
    named = f"spread {100 * spread:g} % from round to round"
    return [
        Figure(f"{named}: {what}", failed_percent(slower, spread, noise, rng, given), "%", **limit)
        for what, slower, limit in zip(
            ("false alarms", f"a slowdown of {100 * (SLOWER - 1):.0f} % caught"), (1.0, SLOWER), limits, strict=True
        )
    ]


def failed_percent(
    slower: float, spread: float, noise: list[float], rng: random.Random, given: argparse.Namespace
) -> float:
    """Return how many in a hundred gates fail, where the second training takes `slower` times as long."""
    failed = 0
    for _ in range(given.gates):
        ratios = [slower * math.exp(spread * rng.choice(noise)) for _ in range(given.rounds)]
        rounds = [STEP_MS * math.exp(rng.gauss(0, MACHINE_SPREAD)) for _ in ratios]
        heads = [step_ms * ratio for step_ms, ratio in zip(rounds, ratios, strict=True)]
        failed += bool(compare_trainings(race_of(rounds, heads), given.threshold).failing)
    return 100 * failed / given.gates


def read_noise(folder: Path) -> list[float]:
    """Return how far rounds of real races in turns were from their race's mean, scaled to a spread of 1."""
    away: list[float] = []
    for place in sorted(folder.glob("*duet*.json")):
        for ratios in ratios_in(json.loads(place.read_text(encoding="utf-8"))):
            logs = [math.log(ratio) for ratio in ratios]
            if len(logs) >= LEAST_ROUNDS and (spread := statistics.stdev(logs)) <= WIDEST:
                away += [(log - statistics.fmean(logs)) / spread for log in logs]
    scale = statistics.pstdev(away)
    return [each / scale for each in away]


def ratios_in(value: Any) -> Iterator[list[float]]:
    """Return the ratios of the rounds of every comparison of lanes that took turns."""
    if isinstance(value, dict):
        if value.get("in_turns") and "reference" in value:
            yield value["ratios"]
        value = list(value.values())
    for each in value if isinstance(value, list) else []:
        yield from ratios_in(each)


def race_of(base_ms: list[float], head_ms: list[float]) -> Record:
    """Return the record of a race of two trainings with these steps, round by round."""
    base, head = (
        Subject(name, name, None, None, None, None, "items", file=f"/{name}", function="training")
        for name in (BASE, HEAD)
    )
    processor = Processor("simulated", "", 2, 2, NOWHERE)
    return Record(
        SCHEMA, {}, "r-2026-11-23-0000", "2026-11-23T00:00:00+00:00", "race", "finished", Ask(BASE, others=(HEAD,)),
        Machine(processor, 1, NOWHERE, "", "", None), base, None,
        (lane_of(BASE, base_ms), lane_of(HEAD, head_ms)), RaceAnswer(), others=(OtherTraining(HEAD, head, None, None),),
    )  # fmt: skip


def lane_of(training: str, steps_ms: list[float]) -> LaneResult:
    name = f"{PLACE}{OF_TRAINING}{training}"
    heats = tuple(
        HeatResult(Heat(ProcessRun(name, "ok"), number, number), "flat", 0, step_ms)
        for number, step_ms in enumerate(steps_ms)
    )
    middle = statistics.median(steps_ms)
    step, pace = (Estimate(each, NOWHERE, NOWHERE) for each in (middle, 1e5 / middle))
    return LaneResult(
        name, {}, Device("cpu", "cpu", "", usable=True), Settings(), "ok", None, step, None, pace, 1.0, 1.0, NOWHERE,
        NOWHERE, NOWHERE, Parity("same"), 100, heats, training=training,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
