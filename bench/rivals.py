"""laptime's fastest lane on a processor against Keras on TensorFlow as the authors wrote it, on the same machine.

    python bench/rivals.py                                            three workloads, 5 rounds (some 12 minutes)
    python bench/rivals.py --keras PYTHON                             an interpreter that has Keras and TensorFlow
    python bench/rivals.py --workloads cifar-mlp --rounds 1 --seconds 1 --budget 5    a short try

A round is one fresh process of Keras (`bench/keras_plain.py`) and one race of a heat for each of three lanes, in the
order A B, B A; the lanes of a race turn round with it. Held against its limit is how many times faster
`torch/cpu/fastest` is. The result also has how near each lane is to what the machine can do at most (`laptime devices
--measure` with PyTorch alone, measured again in every round, the best of all), by the operations and the bytes of one
step as `laptime.trainings.workloads.shapes` counts them for the lane's precision.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import peaks
from common import (
    ROOT,
    Figure,
    WorkerError,
    compare_each,
    figure_of,
    finish,
    fresh_home,
    most_of,
    others_work,
    parser_for,
    run_json,
    side_by_side,
)
from laptime import api
from laptime.model.ask import Ask
from laptime.model.hardware import COPY_EXERCISE
from laptime.model.stats import median, paired_ratio
from laptime.trainings.workloads import find_workload
from laptime.trainings.workloads.shapes import count_step

LEAST_FACTOR = {"cifar-mlp": 1.4, "cifar-cnn": 1.7, "scenes-cnn": 2.2}
FASTEST = "torch/cpu/fastest"
IN_MEMORY = {"scenes-cnn": "input=cached"}  # the rival has its arrays in memory, too
LANES = (FASTEST, "torch/cpu", "torch/cpu/best")
KERAS = ROOT / ".venv-bench" / "bin" / "python"
KERAS_SCRIPT = Path(__file__).resolve().parent / "keras_plain.py"
ALPHA = 0.05
Told = dict[str, Any]


class Lanes:
    """Races of one heat a lane; each race takes the lanes in the other order."""

    def __init__(self, name: str, budget_s: float) -> None:
        self._name, self._budget_s, self._lanes = name, budget_s, LANES

    def __call__(self) -> Told:
        raced = tuple(map(self._with_input, self._lanes))
        record = api.race(Ask(self._name, raced, heats=1, budget_s=self._budget_s))
        names = dict(zip((lane.name for lane in record.lanes), self._lanes, strict=True))
        self._lanes = self._lanes[::-1]
        failed = [f"{lane.name}: {lane.reason}" for lane in record.lanes if lane.step_ms is None]
        if failed:
            raise WorkerError("; ".join(failed))
        return {
            names[lane.name]: {
                "step_ms": lane.step_ms.median if lane.step_ms else None,
                "precision": lane.settings.precision,
                "proof": lane.parity.status,
                "steady": lane.heats[0].steady,
                "other_cores": others_work(lane.heats),
            }
            for lane in record.lanes
        }

    def _with_input(self, lane: str) -> str:
        added = IN_MEMORY.get(self._name)
        return lane if added is None else f"{lane}{'+' if lane.count('/') > 1 else '/'}{added}"


def run_keras(interpreter: Path, name: str, seconds: float) -> Told:
    told: Told = run_json([str(interpreter), str(KERAS_SCRIPT), name, "--seconds", str(seconds)])
    return told


def best_rates() -> dict[str, float]:
    """Return what PyTorch reaches on the processor just now, in operations and bytes a second."""
    return {limit: peak.best_per_s for limit, peak in peaks.measure_processor(["torch"]).peaks.items()}


def compare(name: str, given: argparse.Namespace) -> tuple[list[Figure], Told]:
    """Run both in turns; give the factor, and how near each lane is to the machine's peaks."""
    workload = find_workload(name)
    seen_peaks = [best_rates()]
    lanes = Lanes(name, given.budget)

    def race() -> Told:
        seen_peaks.append(best_rates())
        return lanes()

    keras, ours = side_by_side(given.rounds, partial(run_keras, given.keras, name, given.seconds), race)
    keras_ms = [told["step_ms"] for told in keras]
    unequal = sum(told["parameters"] != workload.parameters for told in keras)
    figures = [
        *_factors(name, ours, keras_ms),
        Figure(f"{name}: Keras as written, median", median(keras_ms), "ms a step"),
        Figure(f"{name}: rounds where parameters differ", unequal, most=0),
    ]
    work = {precision: asdict(count_step(workload, workload.batch, precision)) for precision in ("fp32", "bf16")}
    return figures, {"keras": keras, "laptime": ours, "peaks": seen_peaks, "a step": work}


def _factors(name: str, ours: list[Told], keras_ms: list[float]) -> Iterator[Figure]:
    for lane in sorted(ours[0], key=lambda each: each != FASTEST):
        steps_ms = [told[lane]["step_ms"] for told in ours]
        limit = {"least": LEAST_FACTOR[name]} if lane == FASTEST else {}
        factor = paired_ratio(steps_ms, keras_ms, ALPHA)
        yield figure_of(f"{name}: {lane} faster than Keras", factor, "times", **limit)
        yield Figure(f"{name}: {lane}, median", median(steps_ms), "ms a step")
    not_same = sum(each["proof"] != "same" for told in ours for each in told.values())
    others = most_of(each["other_cores"] for told in ours for each in told.values())
    yield Figure(f"{name}: others' work, the most in a heat", others, "cores")
    yield Figure(f"{name}: proofs that are not 'same'", not_same, most=0)


def _shares(name: str, told: Told, best_peaks: dict[str, float]) -> Iterator[Figure]:
    ours = told["laptime"]
    for lane in sorted(ours[0], key=lambda each: each != FASTEST):
        seconds = median([our[lane]["step_ms"] for our in ours]) / 1e3
        precision = ours[0][lane]["precision"]
        work = told["a step"][precision]
        of_product = work["flops"] / seconds / best_peaks[precision]
        of_copy = work["bytes"] / seconds / best_peaks[COPY_EXERCISE]
        yield Figure(f"{name}: {lane}, of the {precision} product", 100 * of_product, "%")
        yield Figure(f"{name}: {lane}, of the copy rate", 100 * of_copy, "%")


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--keras", type=Path, default=KERAS, metavar="PYTHON")
    parser.add_argument("--workloads", nargs="+", default=list(LEAST_FACTOR), choices=list(LEAST_FACTOR))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of Keras's timed fit")
    parser.add_argument("--budget", type=float, default=20.0, metavar="SECONDS", help="of each race")
    given = parser.parse_args()
    if not given.keras.exists():
        parser.error(f"there is no {given.keras}; `make bench` makes it, or name one that has Keras with --keras")
    details: Told = {"lanes": LANES}
    with fresh_home():
        figures = compare_each(given, compare, details)
    measured = [details[name] for name in given.workloads if name in details]
    seen = [each for told in measured for each in told["peaks"]]
    best_peaks = {key: max(each.get(key, 0.0) for each in seen) for key in (seen[0] if seen else ())}
    for name in given.workloads:
        if name in details:
            figures += _shares(name, details[name], best_peaks)
    figures += [Figure(f"peak: {limit}", rate / 1e9, "G/s") for limit, rate in best_peaks.items()]
    versions = measured[0]["keras"][0]["versions"] if measured else {}
    return finish("rivals", figures, given.out, details=details, versions=versions)


if __name__ == "__main__":
    sys.exit(main())
