"""How often a race that goes on is right, where who looks at its interval decides whether it does (decision 63).

Run as `python bench/coverage_more.py [--out FILE.json]`. Races are those of `coverage_rounds.py`, and end by the rule
of a race. Then its user goes on, for as many rounds again, while the race is not settled or its interval holds 1;
or, at worst, for as long as the interval holds the truth. Counted is how often the interval stated last holds it.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from coverage_rounds import ROUNDS, STRATA, Array, Races, simulate
from coverage_rules import ROUND_RACES
from coverage_turns import ALIKE_ENOUGH, NARROW, NARROW_EARLY, reaches
from laptime.model.record import error_share
from laptime.model.stats import FIRST_LOOK, alpha_for_look

TOTAL = 0.05
SHAPES = ((8, 8), (5, 5, 5), (4, 4, 4, 4))  # rounds of each part
RATIOS = (1.0, 1.03, 1.3)
NAMES = ("spread 1 %", "spread 3 %", "spread 5 %", "spread 10 %", "5 %, turns say 0.55 of it", "4 %, heavy tails")
SPENDS: dict[str, Callable[[int], float]] = {
    "half of the part before": error_share,
    "all of it, each time": lambda _part: 1.0,
    "half of what is left, from the first on": lambda part: 0.5**part,
}


@dataclass(frozen=True, slots=True)
class Stated:
    """What is stated of races by their parts: `spent` is the part of the error rate that all their looks may have."""

    stratum: str
    parts: str
    ratio: float
    spends: str
    goes_on: str
    spent: float
    coverage: float
    went_on: float
    half_width: float  # the median at the end


@dataclass(slots=True)
class State:
    """Of many races, what is stated so far: half of the interval, its distance from the truth, and who is done."""

    reach: Array
    off: Array
    is_over: Array
    parts: Array


def end_part(races: Races, rounds_of_it: range, share: float, truth: float, state: State) -> None:
    """Run one part of all races that go on, to its end by the rule of a race."""
    running, planned = state.is_over == 0, len(rounds_of_it)
    for done in range(min(FIRST_LOOK, planned), planned + 1):
        rounds, final = rounds_of_it.start + done, done == planned
        alpha = alpha_for_look(done, planned=planned, final=final, total=TOTAL * share)
        reach, off = reaches(races, rounds, alpha, is_moderated=True), races.logs[:, :rounds].mean(axis=1)
        enough = np.where(np.abs(off + truth) > reach, reach <= NARROW_EARLY, reach <= ALIKE_ENOUGH)
        ends = running & (final | enough)
        state.reach[ends], state.off[ends] = reach[ends], off[ends]
        state.parts[ends] += 1
        running &= ~ends


def play(races: Races, shape: tuple[int, ...], truth: float, share: Callable[[int], float], goes_on: str) -> State:
    """Go on with all races while the rule of their user asks for it.

    A part that ended early is taken as long as it was planned where it goes on: that makes no look more.
    """
    many = len(races.logs)
    state = State(*(np.zeros(many) for _ in range(4)))
    for part, planned in enumerate(shape, 1):
        first = sum(shape[: part - 1])
        end_part(races, range(first, first + planned), share(part), truth, state)
        if goes_on == "while it holds the truth":
            state.is_over[np.abs(state.off) > state.reach] = 1
        else:
            is_open = (state.reach > NARROW) | (np.abs(state.off + truth) <= state.reach)
            state.is_over[~is_open] = 1
    return state


def measure(races_each: int) -> Iterator[Stated]:
    """Play all strata, parts and rules."""
    for seed, stratum in enumerate([each for each in STRATA if each.name in NAMES], 500):
        races = simulate(stratum, races_each, np.random.default_rng(seed))
        for shape in SHAPES:
            assert sum(shape) <= ROUNDS
            for name, share in SPENDS.items():
                cases = [(ratio, "while it is open") for ratio in RATIOS] + [(1.0, "while it holds the truth")]
                for ratio, goes_on in cases:
                    state = play(races, shape, math.log(ratio), share, goes_on)
                    yield Stated(
                        stratum.name,
                        "+".join(map(str, shape)),
                        ratio,
                        name,
                        goes_on,
                        TOTAL * sum(map(share, range(1, len(shape) + 1))),
                        float((np.abs(state.off) <= state.reach).mean()),
                        float((state.parts > 1).mean()),
                        float(np.median(state.reach)),
                    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--races", type=int, default=ROUND_RACES)
    given = parser.parse_args()
    found = [*measure(given.races)]
    for each in found:
        print(
            f"{each.stratum:26} {each.parts:8} {each.ratio:<5} {each.spends:40} {each.goes_on:25} "
            f"spent {each.spent:6.2%}  held {each.coverage:6.2%}  went on {each.went_on:4.0%}  ±{each.half_width:.2%}"
        )
    if given.out is not None:
        given.out.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n", encoding="utf-8")
    raise SystemExit(any(each.coverage < 1 - each.spent for each in found if each.spends == next(iter(SPENDS))))


if __name__ == "__main__":
    main()
