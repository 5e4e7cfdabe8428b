"""Check by simulation that the intervals and verdicts of a race are wrong no more often than they claim.

Run as `python bench/coverage.py [--out FILE.json]`. A simulated race is two lanes, their heats side by side
in rounds. A heat is a run of correlated steps (AR(1)) about its own level, a round shares the state of the
machine, and in two scenarios a heat in ten is disturbed. `laptime.model.stats` meets them as in a real race: by the
median step of each heat. A second table is of heats that take turns on a machine that drifts: its speed walks at random
by 5 % a second and jumps by 30 %, and processes of one lane differ. A third one is of rounds that differ in many ways
(`coverage_rounds.py`), by Student's t and by the moderated t that a race uses. Exits 1 when a limit is broken.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coverage_rules import ALIKE, LEAST_IN_ROUNDS, MARGIN, MOST_FALSE_CALLS, ROUND_RACES, TRUE_RATIO, Row, show
from coverage_turns import measure_strata
from laptime.model.stats import FIRST_LOOK, Interval, alpha_for_look, paired_ratio, verdict

RACES = 10_000
STEPS = 60
STEP_MS = 10.0
SPENT_AFTER_ROUNDS = 6.5
LEAST_COVERAGE = 0.93

Heats = NDArray[np.float64]
Pairs = tuple[list[list[float]], list[list[float]]]  # of both lanes: races, then heats


@dataclass(frozen=True, slots=True)
class Scenario:
    """How noisy a machine is; spreads are standard deviations of logarithms."""

    name: str
    heat_spread: tuple[float, float]  # between heats, of each lane
    round_spread: float = 0.0  # shared by the heats of a round
    step_spread: float = 0.05
    correlation: float = 0.6  # of neighbouring steps
    disturbed: tuple[float, float] = (0.0, 0.0)  # share of heats slowed by 30 %, of each lane


@dataclass(frozen=True, slots=True)
class Rule:
    """When a race is looked at and when it stops."""

    name: str
    planned: int
    adaptive: bool = True
    budget: bool = False  # of time, which typical heats use up after SPENT_AFTER_ROUNDS rounds


@dataclass(frozen=True, slots=True)
class Drift:
    """A machine whose speed walks at random, and jumps; spreads are standard deviations of logarithms."""

    name: str
    walk_a_second: float
    jump: tuple[float, float]  # its size, and how many there are in a second
    processes: float  # between two processes of one lane
    turn_spread: float = 0.03


DRIFTS = (
    Drift("quiet, processes alike", 0.0, (0.0, 0.0), 0.0, 0.01),
    Drift("walk 5 % a second", 0.05, (0.0, 0.0), 0.0),
    Drift("walk, jumps, processes 1 %", 0.05, (0.30, 0.1), 0.01),
    Drift("walk, jumps, processes 2 %", 0.05, (0.30, 0.1), 0.02),
    Drift("walk, jumps, processes 5 %", 0.05, (0.30, 0.1), 0.05),
)
TURNS, TURN_S = 4, 0.375
TURN_RULES = (Rule("duets, adaptive, 8", 8), Rule("duets, 8, budget", 8, budget=True))
SMALL_RATIO, QUIET_DRIFT, LEAST_POWER = 1.03, Drift("quiet", 0.0, (0.0, 0.0), 0.005, 0.01), 0.8

SCENARIOS = (
    Scenario("quiet (1 %), steps 2 %", (0.01, 0.01), step_spread=0.02),
    Scenario("usual (2 %), drift 5 %", (0.02, 0.02), round_spread=0.05),
    Scenario("unequal (1 % and 6 %)", (0.01, 0.06)),
    Scenario("noisy (4 %), drift 10 %", (0.04, 0.04), round_spread=0.10),
    Scenario("very noisy (6 %), steps 15 %", (0.06, 0.06), step_spread=0.15, correlation=0.8),
    Scenario("disturbed heats (1 in 10)", (0.02, 0.02), round_spread=0.05, disturbed=(0.1, 0.1)),
    Scenario("one lane disturbed (1 in 10)", (0.02, 0.02), round_spread=0.05, disturbed=(0.1, 0.0)),
)

RULES = (
    Rule("fixed 5", 5, adaptive=False),
    Rule("adaptive, at most 5", 5),
    Rule("adaptive, at most 10", 10),
    Rule("at most 10, or budget", 10, budget=True),
)


def heat_medians(scenario: Scenario, lane: int, machine: Heats, random: np.random.Generator) -> Heats:
    """Simulate every heat of a lane, step by step, and give the median step of each in milliseconds."""
    shape = machine.shape
    level = machine + random.normal(0, scenario.heat_spread[lane], shape)
    level += math.log(1.3) * (random.random(shape) < scenario.disturbed[lane])
    fresh = random.normal(0, scenario.step_spread, (STEPS, *shape))
    steps = np.empty_like(fresh)
    steps[0] = fresh[0]
    for step in range(1, STEPS):
        steps[step] = scenario.correlation * steps[step - 1]
        steps[step] += math.sqrt(1 - scenario.correlation**2) * fresh[step]
    medians: Heats = STEP_MS * np.exp(level + np.median(steps, axis=0))
    return medians


def race(rule: Rule, lane: list[float], reference: list[float]) -> tuple[Interval, int]:
    """Look at a race as it grows, as the rule says; give the interval at the stop and the heats it took."""
    budget_ms = SPENT_AFTER_ROUNDS * 2 * STEP_MS if rule.budget else math.inf
    spent_ms = 0.0
    for heats in range(1, rule.planned + 1):
        spent_ms += lane[heats - 1] + reference[heats - 1]
        final = heats == rule.planned or spent_ms * (heats + 1) / heats > budget_ms
        if not final and (heats < FIRST_LOOK or not rule.adaptive):
            continue
        alpha = alpha_for_look(heats, planned=rule.planned, final=final, adaptive=rule.adaptive)
        interval = paired_ratio(lane[:heats], reference[:heats], alpha)
        is_decided = verdict(interval) != "not distinguishable" or interval.half_width <= ALIKE * MARGIN
        if final or (interval.half_width <= MARGIN and is_decided):
            return interval, heats
    raise AssertionError("a race ends at its planned heats at the latest")


def simulate(scenario: Scenario, random: np.random.Generator) -> Pairs:
    """Simulate the heats of both lanes, one list a race, long enough for every rule."""
    shape = (RACES, max(rule.planned for rule in RULES))
    machine = random.normal(0, scenario.round_spread, shape)
    first, second = (heat_medians(scenario, lane, machine, random) for lane in (0, 1))
    return first.tolist(), second.tolist()


def measure(scenario: Scenario, random: np.random.Generator) -> list[Row]:
    """Race lanes of a known ratio for the coverage, and lanes without a difference for the false calls."""
    apart = simulate(scenario, random)
    alike = simulate(scenario, random)
    return [judge(scenario, rule, apart, alike) for rule in RULES]


def judge(scenario: Scenario, rule: Rule, apart: Pairs, alike: Pairs) -> Row:
    """Count under one rule how often the truth is held, and how often no difference is called one."""
    held = called = taken = 0
    for lane, reference in zip(*apart, strict=True):
        interval, heats = race(rule, [time / TRUE_RATIO for time in lane], reference)
        held += interval.low <= TRUE_RATIO <= interval.high
        taken += heats
    for lane, reference in zip(*alike, strict=True):
        interval, _ = race(rule, lane, reference)
        called += verdict(interval) != "not distinguishable"
    coverage, false_calls = held / RACES, called / RACES
    # At a fixed number of heats false calls are 5 % by design, so there the limit is that of the coverage.
    kept = coverage >= LEAST_COVERAGE and (false_calls <= MOST_FALSE_CALLS or not rule.adaptive)
    return Row(
        scenario=scenario.name,
        rule=rule.name,
        coverage=coverage,
        coverage_error=math.sqrt(coverage * (1 - coverage) / RACES),
        false_calls=false_calls,
        false_calls_error=math.sqrt(false_calls * (1 - false_calls) / RACES),
        heats=taken / RACES,
        kept=kept,
    )


def duets(drift: Drift, rounds: int, random: np.random.Generator) -> Pairs:
    """Simulate lanes of the same speed that take turns, and give of each round the ratio of its turns."""
    shape = (RACES, rounds, TURNS, 2)
    size, a_second = drift.jump
    steps = random.normal(0, drift.walk_a_second * math.sqrt(TURN_S), shape)
    steps += size * random.choice((-1, 1), shape) * (random.random(shape) < a_second * TURN_S)
    machine = np.cumsum(steps.reshape(RACES, rounds, -1), axis=2).reshape(shape)
    machine[:, :, 1::2] = machine[:, :, 1::2, ::-1]  # every other turn is played in reverse order: A B, B A, A B
    times = machine + random.normal(0, drift.turn_spread, shape)
    times += random.normal(0, drift.processes, (RACES, rounds, 1, 2)) if drift.processes else 0.0
    steps_ms = np.exp(times).mean(axis=2)
    ratios = steps_ms[..., 1] / steps_ms[..., 0]
    return np.ones((RACES, rounds)).tolist(), ratios.tolist()


def measure_duets(drift: Drift, random: np.random.Generator) -> list[Row]:
    found = duets(drift, 8, random)
    scenario = Scenario(drift.name, (0.0, 0.0))
    return [judge(scenario, rule, found, duets(drift, 8, random)) for rule in TURN_RULES]


def power(random: np.random.Generator) -> float:
    """Return how often a difference of 3 % is called one, in default races of a quiet pair."""
    lanes, references = duets(QUIET_DRIFT, 8, random)
    called = 0
    for lane, reference in zip(lanes, references, strict=True):
        interval, _ = race(TURN_RULES[0], [time / SMALL_RATIO for time in lane], reference)
        called += verdict(interval) == "faster"
    return called / RACES


def main() -> int:
    """Simulate all, print a line as soon as it is known, and say whether every limit is kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the figures as JSON, too")
    out: Path | None = parser.parse_args().out
    print(f"{RACES} races a line; margin {MARGIN:.0%}; coverage at least {LEAST_COVERAGE:.0%},")
    print(f"false calls at most {MOST_FALSE_CALLS:.0%} where the stop is adaptive; ± one standard error")
    print(f"{'spread between heats':30} {'stop':22} {'coverage':>16} {'A/A called':>17} {'heats':>6}")
    rows = []
    for seed, scenario in enumerate(SCENARIOS):
        for row in measure(scenario, np.random.default_rng(seed)):
            print(show(row), flush=True)
            rows.append(row)
    for seed, drift in enumerate(DRIFTS):
        for row in measure_duets(drift, np.random.default_rng(100 + seed)):
            print(show(row), flush=True)
            rows.append(row)
    print(f"rounds in turns, {ROUND_RACES} races a line; coverage at least {LEAST_IN_ROUNDS:.0%}")
    for row in measure_strata():
        print(show(row), flush=True)
        rows.append(row)
    called = power(np.random.default_rng(7))
    print(f"a difference of {SMALL_RATIO - 1:.0%}, quiet pair: called in {called:.1%}, at least {LEAST_POWER:.0%}")
    if out is not None:
        out.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")
    return 0 if all(row.kept for row in rows) and called >= LEAST_POWER else 1


if __name__ == "__main__":
    sys.exit(main())
