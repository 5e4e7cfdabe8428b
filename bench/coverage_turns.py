"""How often a race in turns is right, and how often it settles, by Student's t and by the moderated t."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from coverage_rounds import STRATA, Races, Stratum, simulate
from coverage_rules import ALIKE, LEAST_IN_ROUNDS, MARGIN, MOST_FALSE_CALLS, ROUND_RACES, TRUE_RATIO, Row
from laptime.sensors.cgroup import usable_cores
from laptime.stats import (
    FIRST_LOOK,
    Interval,
    alpha_for_look,
    log_mean_interval,
    moderated_interval,
    t_quantile,
    verdict,
)
from laptime.stats.moderated import CONTRADICTED, PRIOR_DOF


@dataclass(frozen=True, slots=True)
class TimeFor:
    """A race of at most `planned` rounds whose budget, if any, ends it after `rounds`."""

    name: str
    planned: int
    rounds: int


ROUND_RULES = (
    TimeFor("at most 8", 8, 8),
    TimeFor("8, time for 5", 8, 5),
    TimeFor("at most 16", 16, 16),
    TimeFor("16, time for 11", 16, 11),
)


def race_rounds(rule: TimeFor, ratios: list[float], noises: list[float] | None, *, first: int) -> tuple[Interval, int]:
    """Look at a race in turns as it grows, from `first` on; return the interval at its stop, and the rounds it took.

    Without noises, its interval is Student's.
    """
    for rounds in range(first, rule.rounds + 1):
        final = rounds == rule.rounds
        alpha = alpha_for_look(rounds, planned=rule.planned, final=final)
        seen = ratios[:rounds]
        interval = (
            log_mean_interval(seen, alpha) if noises is None else moderated_interval(seen, noises[:rounds], alpha)[0]
        )
        is_decided = verdict(interval) != "not distinguishable" or interval.half_width <= ALIKE * MARGIN
        if final or (interval.half_width <= MARGIN and is_decided):
            return interval, rounds
    raise AssertionError("a race ends at its last round at the latest")


def measure_strata() -> Iterator[Row]:
    """Return the lines of every stratum, in order, as soon as they are known."""
    with ProcessPoolExecutor(usable_cores()) as pool:
        for rows in pool.map(measure_rounds, STRATA, range(200, 200 + len(STRATA))):
            yield from rows


def first_looks(rule: TimeFor, races: Races) -> list[int]:
    """Return the first look at which each race may stop by either interval: earlier ones are surely too wide.

    This only saves time. A moderated variance is at least the rounds' own over CONTRADICTED.
    """
    first = np.full(len(races.logs), rule.rounds)
    for rounds in range(rule.rounds - 1, FIRST_LOOK - 1, -1):
        alpha = alpha_for_look(rounds, planned=rule.planned, final=False)
        least = np.var(races.logs[:, :rounds], axis=1, ddof=1) / CONTRADICTED / rounds
        reach = -t_quantile(alpha / 2, rounds - 1 + PRIOR_DOF) * np.sqrt(least)
        first[np.exp(reach) - 1 <= MARGIN] = rounds
    looks: list[int] = first.tolist()
    return looks


def measure_rounds(stratum: Stratum, seed: int) -> list[Row]:
    """Race lanes of a known ratio, and lanes without a difference, by both intervals under every rule."""
    random = np.random.default_rng(seed)
    apart, alike = (simulate(stratum, ROUND_RACES, random) for _ in range(2))
    return [
        judge_rounds(stratum, rule, apart, alike, is_moderated=is_moderated)
        for rule in ROUND_RULES
        for is_moderated in (False, True)
    ]


def judge_rounds(stratum: Stratum, rule: TimeFor, apart: Races, alike: Races, *, is_moderated: bool) -> Row:
    """Count how often the truth is held, how many races settle, and how often no difference is called one."""

    def play(races: Races, factor: float) -> list[tuple[Interval, int]]:
        ratios, noises = (factor * np.exp(races.logs)).tolist(), races.noises.tolist()
        return [
            race_rounds(rule, each, noise if is_moderated else None, first=first)
            for each, noise, first in zip(ratios, noises, first_looks(rule, races), strict=True)
        ]

    ends = play(apart, TRUE_RATIO)
    coverage = sum(interval.low <= TRUE_RATIO <= interval.high for interval, _ in ends) / ROUND_RACES
    called = sum(verdict(interval) != "not distinguishable" for interval, _ in play(alike, 1.0)) / ROUND_RACES
    errors = [math.sqrt(share * (1 - share) / ROUND_RACES) for share in (coverage, called)]
    return Row(
        scenario=stratum.name,
        rule=rule.name,
        coverage=coverage,
        coverage_error=errors[0],
        false_calls=called,
        false_calls_error=errors[1],
        heats=sum(rounds for _, rounds in ends) / ROUND_RACES,
        # At the 5 % that are allowed, half of all simulations exceed it by chance, few by two standard errors.
        kept=coverage >= LEAST_IN_ROUNDS and called <= MOST_FALSE_CALLS + 2 * errors[1],
        interval="moderated" if is_moderated else "Student",
        settled=sum(interval.half_width <= MARGIN for interval, _ in ends) / ROUND_RACES,
    )
