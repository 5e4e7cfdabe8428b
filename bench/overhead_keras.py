"""What a step costs more inside a heat than in a plain `model.fit`: at most 2 % at 10 ms, on each of Keras's engines.

    python bench/overhead_keras.py                                    3 engines, 3 processes of 12 pairs each
    python bench/overhead_keras.py --engines keras-jax --processes 1 --pairs 3     a short try

In one process one model of cifar-cnn with batches of 4 (about 10 ms a step) is trained in turns by the
loop that times every heat, which drives `fit` from window to window and reports each to its parent, and by `model.fit`
as a script calls it. A call of `fit` has a beginning and an end of its own, which no window holds: the plain step is
what a call of three times as many steps takes longer than a short one. Both shuffle and show Keras's progress bar.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from functools import partial
from typing import Any

from common import Figure, figure_of, finish, parser_for, side_by_side
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.stats import median, paired_ratio
from laptime.model.workload import ProofPlan
from laptime.trainings.workloads import find_workload
from overhead import ALPHA, Recorder, run_worker

ENGINES = ("keras-tf", "keras-jax", "keras-torch")
LIMIT = 1.02
BATCH, STEPS = 4, 40
PACE = Pace(1, 1, adaptive=False, measure_s=1.2, window_s=0.4, windows_min=3)


class Blocks:
    """One model, and how a block of steps on it is timed in either way; all in nanoseconds a step."""

    def __init__(self, framework: str, line: Recorder) -> None:
        from laptime.engine.backends import open_backend

        backend = open_backend(framework)
        training: Any = backend.build(order_for(framework, backend))
        self.engine, self.line = training._engine, line  # noqa: SLF001  the parts that a runner is made of
        self.one_thread = training._one_thread  # noqa: SLF001
        self.model, self.feed = self.one_thread(training._work.make)  # noqa: SLF001

    def heat(self) -> float:
        """Time a block by the heat's loop, in a call of `fit` that ends with it."""
        from laptime.engine.backends.keras.backend import KerasRunner
        from laptime.engine.heat.loop import measure

        self.line.windows = []
        fit_run = self.feed.fit_run(self.model, self.one_thread)
        runner: Any = KerasRunner(
            self.model, fit_run, self.feed, self.engine, one_thread=self.one_thread, evaluator=None
        )
        runner.run(2)
        measure(time.perf_counter_ns, runner, PACE, self.line)
        fit_run.finish()
        windows = self.line.windows
        return sum(window.end_ns - window.start_ns for window in windows) / sum(window.steps for window in windows)

    def plain(self) -> float:
        short_ns, long_ns = (self.one_thread(partial(self._fit, steps)) for steps in (STEPS, 3 * STEPS))
        return (long_ns - short_ns) / (2 * STEPS)

    def _fit(self, steps: int) -> int:
        data = self.feed.data(0)
        images, labels = data["x"][: steps * BATCH], data["y"][: steps * BATCH]
        start_ns = time.perf_counter_ns()
        self.model.fit(images, labels, batch_size=BATCH, epochs=1)
        self.engine.await_model(self.model)
        return time.perf_counter_ns() - start_ns


def order_for(framework: str, backend: Any) -> HeatOrder:
    workload = find_workload("cifar-cnn")
    cpu = next(device for device in backend.devices() if device.name == "cpu")
    lane = PlannedLane(f"{framework}/cpu/as-written", framework, cpu, Settings(batch=BATCH))
    subject = Subject(workload.name, "", workload.parameters, BATCH, workload.steps_per_lap, 1, "images")
    return HeatOrder(subject, lane, 0, ProofPlan(), PACE)


def work(given: argparse.Namespace) -> int:
    """Be the child: take turns, then print the steps of the heat's loop and those of the plain calls."""
    from laptime.engine.heat.__main__ import Lifeline

    said = os.dup(1)  # Keras's progress bar goes where a heat's goes: to nobody
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    framework, read_fd, write_fd = given.worker[0], *map(int, given.worker[1:])
    blocks = Blocks(framework, Recorder(Lifeline(read_fd, write_fd)))
    blocks.heat()
    blocks.plain()
    told = json.dumps(side_by_side(given.pairs, blocks.heat, blocks.plain))
    os.write(said, told.encode() + b"\n")
    return 0


def measure_engine(framework: str, given: argparse.Namespace) -> tuple[list[Figure], list[Any]]:
    told = [run_worker(framework, given.pairs, __file__) for _ in range(given.processes)]
    ratios = [median([heat / plain for heat, plain in zip(*process, strict=True)]) for process in told]
    plain_ms = median([step_ns for _, plains in told for step_ns in plains]) / 1e6
    found = paired_ratio([1.0] * len(told), ratios, ALPHA)
    return [
        figure_of(f"{framework}: step in a heat", found, "of plain fit", most=LIMIT),
        Figure(f"{framework}: plain step", plain_ms, "ms"),
    ], told


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--pairs", type=int, default=12, help="pairs of blocks in each process")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        return work(given)
    figures: list[Figure] = []
    details: dict[str, Any] = {"pairs_a_process": given.pairs, "steps": STEPS, "batch": BATCH}
    for framework in given.engines:
        found, told = measure_engine(framework, given)
        figures += found
        details[f"{framework}: ns a step, in the heat, then plain, for each process"] = told
    return finish("overhead_keras", figures, given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
