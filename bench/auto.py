"""How near `laptime.auto` comes to the best of a grid of workers and batches ahead, and what its search costs.

    python bench/auto.py                        ten trainings (bench/auto_trainings.py); 12 minutes on quiet cores
    python bench/auto.py --only bursts texts    those whose name has one of the words
    python bench/auto.py --lap 10               with shorter laps

For each training every setting of the grid (no worker; one to twice the cores, with 2, 4 and 8 batches ahead) is
measured, and those that may be the best again in rounds, in turns. Then `laptime.auto` trains a lap, beginning without
a worker, of `--lap` seconds at the grid's best rate. What it chose then takes turns with the best of the grid: their
ratio is what is judged. The cost is how much longer that lap took than with the best of the grid, as a share of
`--laps` such laps.
"""

from __future__ import annotations

import dataclasses
import gc
import itertools
import os
import sys
import time
import warnings
from typing import Any

import torch
from torch.utils.data import DataLoader

import laptime
from auto_trainings import CASES, Case, Items
from common import Figure, figure_of, finish, parser_for, print_table, result, row_of, write_json
from laptime.machine.sensors.cgroup import usable_cores
from laptime.model.stats import median, paired_ratio

AHEAD = (2, 4, 8)
SECONDS = 0.5  # that a setting of the grid is measured in a round
NEAR, LEFT_MOST = 1.25, 5  # how much slower than the best one a setting is that is measured again, and how many are
DUEL_SECONDS, DUEL_ROUNDS = 1.0, 5
WITHIN, LEAST_TRAININGS = 1.05, 0.9
MOST_COST = 0.01
ALPHA = 0.05
Setting = tuple[int, int | None]


class Training:
    """One of the trainings: its dataset and its step, and loaders with any setting."""

    def __init__(self, case: Case) -> None:
        torch.manual_seed(0)
        self.case, self.dataset, self.step = case, Items(case.make()), case.step()

    def loader(self, setting: Setting) -> DataLoader[Any]:
        words: dict[str, Any] = {"num_workers": setting[0], "prefetch_factor": setting[1]}
        return DataLoader(self.dataset, self.case.batch, collate_fn=self.case.collate, **words)

    def batch_s(self, setting: Setting, seconds: float) -> float:
        """Return the seconds that an iteration takes with a setting, once its workers have begun."""
        batches = enumerate(self.loader(setting))
        workers = max(1, setting[0])
        left_out, begun, last = 1 + 3 * workers * (setting[1] or 1) // 2, 0.0, 0
        for number, batch in batches:
            self.step(batch)
            if number == left_out:
                begun = time.perf_counter()
            last = number - left_out
            took = time.perf_counter() - begun
            if last > 0 and last % workers == 0 and took >= seconds:
                break
        return took / last


def measure_grid(training: Training, rounds: int) -> dict[Setting, list[float]]:
    """Measure each setting in the first round, and the nearest ones in the others, in an order that turns round."""
    most = 2 * usable_cores()
    grid: list[Setting] = [(0, None), *itertools.product(range(1, most + 1), AHEAD)]
    took: dict[Setting, list[float]] = {setting: [] for setting in grid}
    for number in range(rounds):
        for setting in grid[:: -1 if number % 2 else 1]:
            took[setting].append(training.batch_s(setting, SECONDS))
        ordered = sorted(grid, key=lambda setting: median(took[setting]))
        grid = [each for each in ordered if median(took[each]) <= NEAR * median(took[ordered[0]])][:LEFT_MOST]
    return took


def train_a_lap(training: Training, batches: int) -> tuple[float, Any]:
    """Train a lap with `laptime.auto`, which begins without a worker. Return its seconds and what was chosen."""
    training.dataset.count = batches * training.case.batch
    loader = laptime.auto(training.loader((0, None)))
    begun = time.perf_counter()
    for batch in loader:
        training.step(batch)
    took = time.perf_counter() - begun
    training.dataset.count = 1 << 20
    return took, loader.chosen


def judge(case: Case, given: Any) -> tuple[list[Figure], dict[str, Any]]:
    """Measure a training: the grid, a lap of `laptime.auto`, and both bests in turns."""
    training = Training(case)
    grid = measure_grid(training, given.rounds)
    best = min((each for each in grid if len(grid[each]) == given.rounds), key=lambda each: median(grid[each]))
    before_s = training.batch_s(best, DUEL_SECONDS)
    batches = max(50, round(given.lap / before_s))
    lap_s, chosen = train_a_lap(training, batches)
    found = (chosen.workers, chosen.prefetch_factor)
    took: dict[Setting, list[float]] = {best: [], found: []}
    for number in range(DUEL_ROUNDS):
        for setting in list(took)[:: -1 if number % 2 else 1]:
            took[setting].append(training.batch_s(setting, DUEL_SECONDS))
    best_s = median([before_s, *took[best]])
    cost = (lap_s - batches * best_s) / (given.laps * batches * best_s)
    figures = [
        figure_of(
            f"{case.name}: chosen against the grid's best",
            paired_ratio(took[best], took[found], ALPHA),
            "times as long",
        ),
        Figure(f"{case.name}: cost of the search", cost, f"of {given.laps} laps"),
    ]
    told = {
        "grid, s a batch": [[*setting, values] for setting, values in grid.items()],
        "best": best, "chosen": found, "says": str(chosen), "turns, s a batch": [[*each, took[each]] for each in took],
        "batches": batches, "lap_s": lap_s, "cost_s": lap_s - batches * best_s,
        "tried": [dataclasses.asdict(each) for each in chosen.tried],
        "without a worker": median(grid[0, None]) / best_s,
    }  # fmt: skip
    gc.collect()
    return figures, told


def sum_up(found: list[Figure], laps: int) -> list[Figure]:
    """Return the figures of all trainings together."""
    ratios, costs = found[::2], [each.value for each in found[1::2] if each.value is not None]
    near = sum(each.value is not None and each.value <= WITHIN for each in ratios) / len(ratios)
    return [
        Figure(f"share of the trainings within {WITHIN - 1:.0%} of the best", near, least=LEAST_TRAININGS),
        Figure("cost of the search, the middle one", median(costs), f"of {laps} laps", most=MOST_COST),
        Figure("cost of the search, the most", max(costs), f"of {laps} laps"),
    ]


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--only", nargs="*", default=[""], metavar="WORD")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of the grid")
    parser.add_argument("--lap", type=float, default=20, metavar="S", help="seconds of a lap at the best setting")
    parser.add_argument("--laps", type=int, default=10, metavar="N", help="of a whole training")
    parser.add_argument("--threads", type=int, default=usable_cores(), metavar="N", help="that a step computes with")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*will create")  # more workers than cores are meant
    torch.set_num_threads(given.threads)
    figures: list[Figure] = []
    details: dict[str, Any] = {"lap": given.lap, "laps": given.laps, "threads": given.threads}
    for case in CASES:
        if not any(word in case.name for word in given.only):
            continue
        loads = [os.getloadavg()[0]]
        found, details[case.name] = judge(case, given)
        details[case.name]["load_1m"] = [*loads, os.getloadavg()[0]]
        figures += found
        print(f"{case.name}: best {details[case.name]['best']}, {details[case.name]['says']}", flush=True)
        print_table([""] * 4, [row_of(each) for each in found])
        if given.out is not None:  # what is measured outlasts an interruption
            so_far = [*figures, *sum_up(figures, given.laps)]
            write_json(given.out, result("auto", so_far, details=details, versions={}))
    return finish("auto", [*figures, *sum_up(figures, given.laps)], given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
