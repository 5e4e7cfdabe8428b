"""How near the estimates of memory come to what heats of the five networks hold, as `laptime sweep` uses them.

    python bench/memory.py [--out FILE.json] [--what plates-cnn]
    python bench/memory.py --peaks FILE.json   measures nothing: judges the peaks of an earlier result again

Each network is swept on PyTorch, on the processor, at half, once, twice and four times the published batch
(pets-densenet at an eighth, a quarter and a half: more does not fit everywhere). The memory of a heat is the most that
its process held. From the heat at each batch, that at each larger one is estimated by the shapes of the layers, and
from the second (the published batch, of pets-densenet a quarter) also that at the first. All have to be within 15 %.
What a step holds by its shapes alone, without the framework, has to be less than the memory of the heat. For
information: estimates from each batch for each smaller one, which no sweep needs, and those on the line through the two
smallest batches, as for a training of your own.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import laptime
from common import Figure, WorkerError, compare_each, finish, fresh_home, most_of, parser_for
from laptime.analysis.heats import estimate_memory
from laptime.model.process import Settings
from laptime.model.quantities import Missing
from laptime.trainings.workloads import CATALOGUE
from laptime.trainings.workloads.shapes import count_heat_memory, count_step_memory

LANE = "torch/cpu"
SHARES = {"pets-densenet": (0.125, 0.25, 0.5)}
USUAL = (0.5, 1, 2, 4)
WITHIN = 0.15
BUDGET = "1s"  # one round of all batches is run in any case


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--what", dest="workloads", choices=CATALOGUE, action="append", help="only these networks")
    parser.add_argument("--peaks", type=Path, metavar="FILE.json", help="an earlier result")
    given = parser.parse_args()
    given.workloads = given.workloads or list(CATALOGUE)
    details: dict[str, Any] = {}
    with fresh_home() as _place:
        figures = compare_each(given, check_network, details)
    return finish("memory", figures, given.out, details=details)


def check_network(name: str, given: argparse.Namespace) -> tuple[list[Figure], dict[str, Any]]:
    peaks = measure_peaks(name) if given.peaks is None else read_peaks(name, given.peaks)
    workload, batches = CATALOGUE[name], sorted(peaks)
    shapes = {peak: count_heat_memory(workload, Settings(batch=peak), "cpu") for peak in peaks}
    alone = {peak: count_step_memory(workload, peak, "cpu") for peak in peaks}
    errors = {one: {other: off(peaks, [one], other, shapes) for other in batches} for one in batches}
    needed = [errors[one][other] for one in batches for other in batches if other > one or one == batches[1]]
    others = [errors[one][other] for one in batches for other in batches if other < one]
    lines = {other: off(peaks, batches[:2], other, None) for other in batches[2:]}
    figures = [
        Figure(f"{name}: highest estimate over the peak, less 1", most_of(needed), "", most=WITHIN),
        Figure(f"{name}: lowest estimate over the peak, less 1", least_of(needed), "", least=-WITHIN),
        Figure(f"{name}: shapes alone over the peak", max(alone[peak] / peaks[peak] for peak in peaks), "", most=1),
        Figure(f"{name}: highest estimate of a smaller batch over the peak, less 1", most_of(others)),
        Figure(f"{name}: lowest estimate of a smaller batch over the peak, less 1", least_of(others)),
        *(Figure(f"{name}: line at batch {batch} over the peak, less 1", error) for batch, error in lines.items()),
    ]
    return figures, {"peak_bytes": peaks, "shapes_bytes": shapes, "step_alone_bytes": alone, "off": errors}


def read_peaks(name: str, place: Path) -> dict[int, int]:
    kept = json.loads(place.read_text())["details"][name]["peak_bytes"]
    return {int(batch): peak for batch, peak in kept.items()}


def measure_peaks(name: str) -> dict[int, int]:
    """Return the most that a heat held, at each batch."""
    batches = [int(share * CATALOGUE[name].batch) for share in SHARES.get(name, USUAL)]
    cells = laptime.sweep(name, LANE, batch=batches, budget=BUDGET, sensors="none", progress=False).cells
    peaks = {int(cell.at[0]): cell.memory_bytes for cell in cells}
    found = {batch: peak for batch, peak in peaks.items() if isinstance(peak, int)}
    if len(found) < len(batches):
        raise WorkerError(f"of the batches {batches} only {list(found)} have a result")
    return found


def off(peaks: dict[int, int], known: list[int], batch: int, shapes: dict[int, int] | None) -> float | None:
    """Return an estimate from the peaks at some batches over the measured peak, less 1."""
    held = Missing("not used") if shapes is None else shapes.__getitem__
    estimate = estimate_memory(batch, {each: peaks[each] for each in known}, held)
    return None if isinstance(estimate, Missing) else estimate / peaks[batch] - 1


def least_of(values: list[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


if __name__ == "__main__":
    sys.exit(main())
