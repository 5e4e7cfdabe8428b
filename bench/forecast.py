"""Does a whole training take as long as a race predicts? Within 5 %, on all five workloads.

    python bench/forecast.py                                   one lap of each, validation and test (some 40 minutes)
    python bench/forecast.py --workloads cifar-mlp --rounds 2  one of them
    python bench/forecast.py --workloads cifar-mlp --laps 2 --steps 100 --budget 10 --heats 1    a short try

A race of `torch/cpu/best` with three heats predicts the training from windows of a few seconds. A round is two races
and the training really run: `laptime train` with fewer laps (and steps, if asked). Both report start-up, first
step, all other steps, validation and test. The figure is the predicted sum over the real one. What only laptime does,
proof and checkpoints, is in neither. Trainings run between races, and each is compared with the mean of the race
before it and the race after it: else a machine that changes its speed meanwhile would look like a wrong forecast.
The result also keeps what was learned.
"""

from __future__ import annotations

import argparse
import itertools
import sys
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
)
from laptime import api
from laptime.analysis.lanes import forecast_whole
from laptime.model.ask import Ask
from laptime.model.protocol import FullRun, Protocol
from laptime.model.quantities import Estimate, Missing
from laptime.model.record import Record, training_of
from laptime.model.stats import median, paired_ratio
from laptime.questions.train.options import FullAsk

LANE = "torch/cpu/best"
MOST_OFF = 0.05
ALPHA = 0.05
BUDGET_S = {"cifar-mlp": 40.0, "cifar-cnn": 40.0, "scenes-cnn": 60.0, "plates-cnn": 40.0, "pets-densenet": 120.0}
ROUNDS = {"cifar-mlp": 1, "cifar-cnn": 1, "plates-cnn": 2, "scenes-cnn": 1, "pets-densenet": 1}


def race(ask: Ask) -> Record:
    record = api.race(ask)
    lane = record.lanes[0]
    if lane.status != "ok" or lane.whole is None:
        raise WorkerError(f"{lane.name} did not finish, or has no forecast: {lane.reason or lane.notes}")
    return record


def train(ask: Ask) -> tuple[FullRun, Protocol]:
    """Run the training whole; its protocol comes back with as many items as were really looked at."""
    record = api.full(ask)
    run, asked = training_of(record).runs[0], training_of(record).protocol
    if run.process.status != "ok":
        raise WorkerError(f"{run.process.lane} did not finish: {run.process.dnf}")
    seen = run.laps[0].validation
    return run, Protocol(
        laps=asked.laps,
        steps_per_lap=run.laps[0].steps,
        validation_items=seen.score.items if seen else 0,
        evaluation_items=run.test.score.items if run.test else 0,
    )


def predict(record: Record, protocol: Protocol) -> dict[str, float]:
    """Return what the race's heats predict for this protocol, part by part."""
    lane = record.lanes[0]
    fresh_steps = record.data.train_items / (lane.items_per_step or 1) if record.data is not None else None
    whole, lap = lane.whole, lane.lap_s
    assert whole is not None
    assert lap is not None
    unknown = Missing("not needed here")
    mean_ms = Estimate(1e3 * lap.median / whole.steps_per_lap, unknown, unknown)
    found = forecast_whole(lane.heats, mean_ms, protocol, protocol.steps_per_lap, fresh_steps)
    assert found is not None
    return {
        "ready_s": found.ready_s,
        "train_s": found.train_s.median,
        "validation_s": found.validation_s,
        "test_s": found.test_s,
        "whole_s": found.whole_s.median,
    }


def predict_between(before: Record, after: Record, protocol: Protocol) -> dict[str, float]:
    """Return the mean of what two races predict, part by part, and how far they are apart."""
    one, other = predict(before, protocol), predict(after, protocol)
    both = {part: (one[part] + other[part]) / 2 for part in one}
    return both | {"after_over_before": other["whole_s"] / one["whole_s"]}


def add_up(run: FullRun) -> dict[str, float]:
    """Return the same parts as they really were."""
    first_s = (run.first_step_ms or 0.0) / 1e3
    return {
        "ready_s": run.ready_s + first_s,
        "train_s": run.train_s - first_s,
        "validation_s": run.validation_s,
        "test_s": run.test.seconds if run.test else 0.0,
        "whole_s": run.whole_s,
    }


def compare(name: str, given: argparse.Namespace) -> tuple[list[Figure], dict[str, Any]]:
    """Predict and run one workload in turns."""
    ask = Ask(name, (LANE,), heats=given.heats, budget_s=given.budget or BUDGET_S[name])
    whole = Ask(name, (LANE,), full=FullAsk(laps=given.laps, steps_per_lap=given.steps))
    races, trained = [race(ask)], []
    for _ in range(given.rounds or ROUNDS[name]):
        trained.append(train(whole))
        races.append(race(ask))
    pairs = zip(itertools.pairwise(races), trained, strict=True)
    told = [predict_between(before, after, protocol) for (before, after), (_, protocol) in pairs]
    real = [add_up(run) for run, _ in trained]
    ratio = paired_ratio([each["whole_s"] for each in real], [each["whole_s"] for each in told], ALPHA)
    figures = [
        figure_of(f"{name}: predicted training", ratio, "of the real", least=1 - MOST_OFF, most=1 + MOST_OFF),
        Figure(f"{name}: real training, median", median([each["whole_s"] for each in real]), "s"),
        Figure(
            f"{name}: others' work, the most in a race",
            most_of(others_work(each.lanes[0].heats) for each in races),
            "cores",
        ),
        Figure(f"{name}: test accuracy after {given.laps} lap{'s' * (given.laps != 1)}", _accuracy(trained[0][0])),
    ]
    kept = msgspec.to_builtins([(run.laps, run.test) for run, _ in trained])
    protocols = msgspec.to_builtins([protocol for _, protocol in trained])
    return figures, {"predicted": told, "real": real, "protocols": protocols, "learned": kept}


def _accuracy(run: FullRun) -> float | None:
    last = run.test or run.laps[-1].validation
    accuracy = last.score.accuracy if last else None
    return accuracy if isinstance(accuracy, float) else None


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--workloads", nargs="+", default=list(ROUNDS), choices=list(ROUNDS), metavar="NAME")
    parser.add_argument("--rounds", type=int, help=f"instead of {ROUNDS}")
    parser.add_argument("--laps", type=int, default=1)
    parser.add_argument("--steps", type=int, help="a lap, instead of the published")
    parser.add_argument("--heats", type=int, default=3)
    parser.add_argument("--budget", type=float, metavar="SECONDS", help=f"of a race, instead of {BUDGET_S}")
    given = parser.parse_args()
    details: dict[str, Any] = {"lane": LANE, "heats": given.heats, "laps": given.laps, "steps": given.steps}
    with fresh_home():
        figures = compare_each(given, compare, details)
    return finish("forecast", figures, given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
