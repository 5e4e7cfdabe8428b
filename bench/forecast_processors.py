"""How right is a step on a processor that is predicted from the same step on another one?

    python bench/forecast_processors.py [--out FILE.json]

Steps of our own trainings on PyTorch are in bench/forecasts/processors.csv, with what large products reached there
(`laptime devices --measure`). Two machines were not measured so; each is taken as the known processor that it looks
like, as `laptime forecast` takes those that it only knows by name. Each machine is predicted from each other one, with
the power of the number of cores that fits all other pairs of machines best.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np

from common import Figure, finish, parser_for
from laptime.machine.hardware import find_device, known_devices
from laptime.model.quantities import Missing
from laptime.questions.forecast import reduce
from laptime.questions.forecast.reduce import CORES, IN_EIGHTY, ProcessorRate, rate_of, spread_between

STEPS = Path(__file__).parent / "forecasts" / "processors.csv"
LOOKS_LIKE = {"Xeon at 2.5 GHz with AVX-512, 2 cores": "xeon-8175m", "Xeon with AMX, 16 cores": "xeon-8488c"}
POWERS = np.arange(0.3, 1.005, 0.01)
MOST_OFF, HOLDS = 0.15, (0.75, 0.95)


@dataclass(frozen=True)
class Pair:
    """One step, measured on two machines: how many times as long it took there, and the rates of both."""

    network: str
    lane: str
    there: str
    here: str
    measured: float
    rate_there: ProcessorRate
    rate_here: ProcessorRate

    def predicted(self, power: float) -> float:
        more_cores = self.rate_there.cores / self.rate_here.cores
        return reduce.times_as_slow(self.rate_there, self.rate_here) * more_cores ** (CORES - power)


def main() -> int:
    given = parser_for(__doc__).parse_args()
    pairs = read_pairs()
    left_out = {pair: power_of([one for one in pairs if not {one.there, one.here} & {pair.there}]) for pair in pairs}
    off = {pair: math.log(pair.predicted(left_out[pair]) / pair.measured) for pair in pairs}
    holds = [abs(off[pair]) <= IN_EIGHTY * spread_between(pair.rate_there, pair.rate_here) for pair in pairs]
    more = [pair for pair in pairs if pair.rate_there.cores != pair.rate_here.cores]
    for there in sorted({pair.there for pair in pairs}):
        mine = [off[pair] for pair in pairs if pair.there == there]
        print(f"{there:40} {len(mine):3} steps, off {mean_off(mine):.3f}, median {np.median(mine):+.2f}")
    figures = [
        Figure("pairs of steps", float(len(pairs)), ""),
        Figure("machines", float(len({pair.there for pair in pairs})), ""),
        Figure("power of the number of cores that fits best", power_of(pairs), ""),
        Figure("off, of machines that were left out", mean_off(off.values()), "", most=MOST_OFF),
        Figure("off, with other numbers of cores", mean_off(off[each] for each in more), ""),
        Figure("measured steps within the 80 % range", sum(holds) / len(holds), "", least=HOLDS[0], most=HOLDS[1]),
        Figure("spread, with as many cores", spread_of([off[pair] for pair in pairs if pair not in more]), ""),
    ]
    details = {
        "pairs": [
            {"network": pair.network, "lane": pair.lane, "there": pair.there, "here": pair.here,
             "measured": pair.measured, "predicted": pair.predicted(left_out[pair])}
            for pair in pairs
        ]
    }  # fmt: skip
    return finish("forecast_processors", figures, given.out, details=details)


def read_pairs() -> list[Pair]:
    with STEPS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [
        Pair(there["network"], there["lane"], there["machine"], here["machine"],
             float(there["step_ms"]) / float(here["step_ms"]), rate_in(there), rate_in(here))
        for there, here in permutations(rows, 2)
        if (there["network"], there["lane"]) == (here["network"], here["lane"])
    ]  # fmt: skip


def rate_in(row: dict[str, str]) -> ProcessorRate:
    cores = int(row["cores"])
    if row["gflops"]:
        return ProcessorRate(1e9 * float(row["gflops"]), cores)
    found = rate_of(find_device(LOOKS_LIKE[row["machine"]], known_devices()), "fp32", cores)
    assert not isinstance(found, Missing), row
    return found


def power_of(pairs: list[Pair]) -> float:
    """Return the power of the number of cores with which pairs are off least, on average."""
    errors = [mean_off(math.log(pair.predicted(power) / pair.measured) for pair in pairs) for power in POWERS]
    return float(POWERS[int(np.argmin(errors))])


def mean_off(off: Iterable[float]) -> float:
    return float(np.mean([abs(math.exp(each) - 1) for each in off]))


def spread_of(off: list[float]) -> float:
    return float(np.quantile(np.abs(off), 0.8) / IN_EIGHTY)


if __name__ == "__main__":
    sys.exit(main())
