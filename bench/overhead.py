"""What a step costs more inside a heat than in a bare loop of ten lines: at most 1 % at 10 and 0.2 ms, 3 % at 1 ms.

    python bench/overhead.py                            all sizes, 5 processes of 20 pairs each (some 4 minutes)
    python bench/overhead.py --processes 2 --pairs 4    a short try
    python bench/overhead.py --size fifth_ms --clock thread    one size, on a busy machine

In one process the same training is run in turns by the loop that times every heat, which reports every window to its
parent over a pipe while the parent reads its sensors, as in a race; and by a plain loop, timed as a whole. A pair is a
block of each with equal steps. Both take the same weights and batches: two copies of one training differ by up to
14 % here, by where each happens to lie in memory. What is held against the limit is the step as a heat states it (from
fence to fence of its windows); the result also has the block as a whole, with all that happens between the windows. A
process may lay out its memory well or badly and keep that for its life, so the estimate is over processes, each by
the median of its pairs. Blocks are short, for on a shared machine neighbours of a quarter second are more alike than
those of a second. `--clock thread` counts only the time in which the training's one thread had a core.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import Figure, WorkerError, figure_of, finish, parser_for, side_by_side
from laptime.engine import wire
from laptime.engine.run.instruments import Instruments
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.sample import Window
from laptime.model.stats import median, paired_ratio
from laptime.model.workload import ProofPlan

STEPS_FILE = Path(__file__).resolve().parent / "steps.py"
LIMITS = {"ten_ms": 1.01, "one_ms": 1.03, "fifth_ms": 1.01}
CLOCKS = {"wall": time.perf_counter_ns, "thread": time.thread_time_ns}
BLOCK_S, WINDOW_S = 0.25, 0.05
PACE = Pace(1, 1, adaptive=False, measure_s=BLOCK_S, window_s=WINDOW_S)
ALPHA = 0.05


class Recorder:
    """The real line to the parent; it keeps a copy of the windows for the sum at the end."""

    def __init__(self, line: Any) -> None:
        self._line, self.listen = line, line.listen
        self.windows: list[Window] = []

    def say(self, message: wire.FromChild) -> None:
        self._line.say(message)
        if isinstance(message, wire.Closed):
            self.windows.append(message.window)


class Blocks:
    """One training, and how a block of it is timed in either way; all in nanoseconds a step."""

    def __init__(self, training: Any, line: Recorder, clock: Callable[[], int]) -> None:
        self.runner, self.line, self.steps, self.clock = training.start(), line, 0, clock
        # The very tensors that the runner steps on: a copy of them would lie elsewhere and be faster or slower.
        recipe, stepper = training._recipe, self.runner.looked_into  # noqa: SLF001
        self.model, self.loss_of, self.optimizer = stepper.network, recipe.training.loss, stepper.optimizer
        self.batches = itertools.cycle(recipe.training.data)

    def heat(self) -> tuple[float, float]:
        """Time a block by the heat's loop: the step of its windows, and of the block with all between them."""
        from laptime.engine.heat.loop import measure

        self.line.windows = []
        self.line.say(wire.Phase("timing", self.clock()))
        measure(self.clock, self.runner, PACE, self.line)
        windows = self.line.windows
        self.steps = sum(window.steps for window in windows)
        inside_ns = sum(window.end_ns - window.start_ns for window in windows)
        return inside_ns / self.steps, (windows[-1].end_ns - windows[0].start_ns) / self.steps

    def bare(self) -> tuple[float, float]:
        """Time as many steps as the heat's block had, as a script takes them."""
        model, loss_of, optimizer = self.model, self.loss_of, self.optimizer
        start_ns = self.clock()
        for inputs, targets in itertools.islice(self.batches, self.steps):
            optimizer.zero_grad()
            loss = loss_of(model(inputs), targets)
            loss.backward()
            optimizer.step()
        step_ns = (self.clock() - start_ns) / self.steps
        return step_ns, step_ns


def work(given: argparse.Namespace) -> int:
    """Be the child: take turns, then print the blocks of the heat's loop and those of the plain one."""
    import torch

    from laptime.engine.backends.torch.backend import TorchTraining
    from laptime.engine.heat.__main__ import Lifeline

    size, read_fd, write_fd = given.worker[0], *map(int, given.worker[1:])
    torch.set_num_threads(1)
    line = Recorder(Lifeline(read_fd, write_fd))
    blocks = Blocks(TorchTraining(order_for(size)), line, CLOCKS[given.clock])
    blocks.heat()
    blocks.bare()
    print(json.dumps(side_by_side(given.pairs, blocks.heat, blocks.bare)), flush=True)
    return 0


def order_for(size: str) -> HeatOrder:
    subject = Subject(size, size, None, None, None, None, "items", file=str(STEPS_FILE), function=size)
    device = Device("cpu", "cpu", "processor", usable=True)
    lane = PlannedLane("torch/cpu/as-written", "torch", device, Settings(threads=1))
    return HeatOrder(subject, lane, 0, ProofPlan(), PACE)


def run_worker(size: str, pairs: int, script: str = __file__, *words: str) -> Any:
    """Start a child as a race does, and be the parent that it speaks to."""
    to_child, write_fd = os.pipe()
    read_fd, from_child = os.pipe()
    asked = [*words, "--pairs", str(pairs), "--worker", size, str(to_child), str(from_child)]
    with subprocess.Popen(
        [sys.executable, script, *asked],
        env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        pass_fds=(to_child, from_child),
        start_new_session=True,
    ) as child:
        os.close(to_child)
        os.close(from_child)
        assert child.stdout is not None
        listen(child.pid, read_fd, write_fd)
        told = child.stdout.readline()  # to its end would be to wait for the guardian, which waits for us
    os.close(write_fd)
    if child.returncode or not told:
        raise WorkerError(f"the worker for {size} ended with exit code {child.returncode}")
    return json.loads(told)


def listen(pid: int, read_fd: int, write_fd: int) -> None:
    """Do what a race's parent does: sleep on the pipe, and read the sensors when a window closes."""
    instruments = Instruments(os.cpu_count() or 1)
    with os.fdopen(read_fd, "rb") as lines:
        for line in lines:
            match wire.read_from_child(line):
                case wire.Phase():
                    instruments.open(pid, lambda: False)
                case wire.Closed(window=window):
                    instruments.judge(instruments.close_window(), window.end_ns - window.start_ns)
                case wire.Ready():
                    os.write(write_fd, wire.write(wire.Enough()))
                case _:
                    pass


def measure_size(size: str, given: argparse.Namespace) -> tuple[list[Figure], list[Any]]:
    told = [run_worker(size, given.pairs, __file__, "--clock", given.clock) for _ in range(given.processes)]
    # For each process the median over its pairs: heat over bare, by the windows and by the whole block.
    by_windows, by_blocks = (
        [median([heat[way] / bare[way] for heat, bare in zip(*process, strict=True)]) for process in told]
        for way in (0, 1)
    )
    nothing = [1.0] * len(told)
    bare_ms = median([bare[0] for _, bares in told for bare in bares]) / 1e6
    figures = [
        figure_of(f"{size}: step in a heat", paired_ratio(nothing, by_windows, ALPHA), "of bare", most=LIMITS[size]),
        figure_of(f"{size}: whole block", paired_ratio(nothing, by_blocks, ALPHA), "of bare"),
        Figure(f"{size}: bare step", bare_ms, "ms"),
    ]
    return figures, told


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--pairs", type=int, default=20, help="pairs of blocks in each process")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--size", dest="sizes", action="append", choices=LIMITS, help="only this size")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        return work(given)
    figures: list[Figure] = []
    details: dict[str, Any] = {
        "block_s": BLOCK_S,
        "window_s": WINDOW_S,
        "pairs_a_process": given.pairs,
        "clock": given.clock,
    }
    for size in given.sizes or LIMITS:
        found, told = measure_size(size, given)
        figures += found
        details[f"{size}: (window ns, block ns) a step: heats, then bare, for each process"] = told
    return finish("overhead", figures, given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
