"""What the constants of `stats.py` come from: how alike the spreads of races in turns are.

    python bench/prior.py           degrees of freedom of the spreads in bench/results (Smyth 2004, section 6.2)
    python bench/prior.py RECORDS   and of a folder of records, the variance of rounds over what their turns explain

Races with a spread of 15 % and more are left out: theirs is of another kind (one lane's steps were denormal numbers).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, variance
from typing import Any

from laptime.analysis.heats import noise_of_ratio, pairs_of_heats, step_ratio, took_turns
from laptime.store.files import read

RESULTS = Path(__file__).parent / "results"
LEAST_ROUNDS = 3
WIDEST = 0.15


def digamma(x: float) -> float:
    return math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) if x > 6 else digamma(x + 1) - 1 / x


def trigamma(x: float) -> float:
    if x <= 6:
        return trigamma(x + 1) + 1 / x**2
    return 1 / x + 1 / (2 * x**2) + 1 / (6 * x**3) - 1 / (30 * x**5)


def kept_ratios(tree: Any) -> Iterator[list[float]]:
    """Find the rounds' ratios of each race in turns, wherever they are in a file of results."""
    if isinstance(tree, dict):
        if tree.get("in_turns") and len(tree.get("ratios") or ()) >= LEAST_ROUNDS:
            yield tree["ratios"]
        for value in tree.values():
            yield from kept_ratios(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from kept_ratios(value)


def unbiased_log(value: float, dof: float) -> float:
    """Return the logarithm of a variance of these degrees of freedom, without its bias."""
    return math.log(value) - digamma(dof / 2) + math.log(dof / 2)


def prior_dof(spreads: list[tuple[float, int]]) -> float:
    """Return Smyth's degrees of freedom: how much less the variances' logarithms vary than chance alone explains."""
    excess = variance([unbiased_log(*spread) for spread in spreads]) - fmean(trigamma(dof / 2) for _, dof in spreads)
    low, high = 1e-3, 1e6
    if excess <= trigamma(high / 2):
        return math.inf
    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if trigamma(middle / 2) > excess else (low, middle)
    return low


def over_turns(folder: Path) -> Iterator[float]:
    """Return of each kept race the logarithm of its rounds' variance over the one that their turns explain."""
    for path in sorted(folder.glob("*.json")):
        lanes = read(path).lanes
        for lane in lanes[1:]:
            pairs = [pair for pair in pairs_of_heats(lane.heats, lanes[0].heats) if took_turns(*pair)]
            noises = [noise for pair in pairs if (noise := noise_of_ratio(*pair)) > 0]
            compared = [math.log(step_ratio(*pair)) for pair in pairs]
            if len(noises) >= LEAST_ROUNDS:
                turns = sum(len(each.heat.windows) - 1 for each, _ in pairs)
                yield unbiased_log(variance(compared), len(compared) - 1) - unbiased_log(fmean(noises), turns)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("records", nargs="?", type=Path, help="a folder of records")
    folder: Path | None = parser.parse_args().records
    files = sorted(RESULTS.glob("*.json"))
    ratios = [each for path in files for each in kept_ratios(json.loads(path.read_text(encoding="utf-8")))]
    spreads = [(variance([math.log(ratio) for ratio in each]), len(each) - 1) for each in ratios]
    usual = [spread for spread in spreads if spread[0] < WIDEST**2]
    middle = math.exp(fmean(unbiased_log(*each) for each in usual) / 2)
    print(f"{len(usual)} of {len(spreads)} races: spread {middle:.1%}, {prior_dof(usual):.1f} degrees of freedom")
    if folder is not None:
        logs = list(over_turns(folder))
        if len(logs) < 2:
            print(f"{len(logs)} records of races in turns: two are needed")
            return 1
        error = math.sqrt(variance(logs) / len(logs))
        print(
            f"{len(logs)} records: rounds over turns {math.exp(fmean(logs)):.2f}, times or over {math.exp(error):.2f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
