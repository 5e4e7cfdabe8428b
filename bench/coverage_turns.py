"""How often a race in turns is right, and how often it settles: by Student's t, by the moderated t, and by that of
rounds that are weighed by their noise, which a race uses.

All races of a stratum are computed at once; `check` compares some of them with laptime.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from coverage_rounds import STRATA, Array, Races, Stratum, simulate
from coverage_rules import ALIKE, EARLY, LEAST_IN_ROUNDS, MARGIN, MOST_FALSE_CALLS, ROUND_RACES, TRUE_RATIO, Row
from laptime.analysis.weights import CLEARLY, DISTURBED_OFF, LEAST_NOISE, RoundNoise, weigh_rounds
from laptime.model.stats import (
    BETWEEN_OVER_TURNS,
    CONTRADICTED,
    FIRST_LOOK,
    PRICE,
    PRIOR_DOF,
    ROUNDS_SHOW_SPREAD,
    UNCHECKED_ROUNDS,
    alpha_for_look,
    log_mean_interval,
    moderated_interval,
    t_quantile,
)

Kind = Literal["Student", "moderated", "weighed"]
KINDS: tuple[Kind, ...] = get_args(Kind)
USED: Kind = "weighed"
CHECKED = 20  # races of each stratum that are compared with laptime.model.stats
NARROW = math.log(1 + MARGIN)
NARROW_EARLY = math.log(1 + EARLY * MARGIN)
ALIKE_ENOUGH = math.log(1 + ALIKE * MARGIN)


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


def intervals(races: Races, rounds: int, alpha: float, kind: Kind) -> tuple[Array, Array]:
    """Return the middle of each race's interval after the first rounds, and half of it, as logarithms."""
    logs, noises = races.logs[:, :rounds], races.noises[:, :rounds]
    weights = weigh(races, rounds) if kind == "weighed" else np.ones(logs.shape)
    shares = weights / weights.sum(axis=1, keepdims=True)
    middle = (shares * logs).sum(axis=1)
    own = (shares**2 / (1 - shares) * (logs - middle[:, None]) ** 2).sum(axis=1)
    few = (shares**2).sum(axis=1) > 1 / ROUNDS_SHOW_SPREAD
    own = np.where(few, np.maximum(own, np.var(logs, axis=1, ddof=1) / rounds), own)
    dof = find_dof(shares)
    if kind == "Student" or rounds <= UNCHECKED_ROUNDS:
        return middle, _quantiles(1 - alpha / 2, dof) * np.sqrt(own)
    known = noises > 0
    usual = (noises * known).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    expected = BETWEEN_OVER_TURNS * (shares**2 * np.where(known, noises, usual[:, None])).sum(axis=1)
    agreement = np.maximum(0, 1 - np.abs(np.log2(own / expected)) / math.log2(CONTRADICTED))
    prior = np.round(4 * np.clip(dof + 1 - UNCHECKED_ROUNDS, 0, PRIOR_DOF) * agreement) / 4
    variance = (dof * own + prior * expected) / (dof + prior)
    reach: Array = _quantiles(1 - (1 - PRICE) * alpha / 2, dof + prior) * np.sqrt(variance)
    return middle, reach


def weigh(races: Races, rounds: int) -> Array:
    """Return how much each round counts, as `laptime.analysis.weights` does."""
    noises = np.concatenate([races.noises[:, :rounds, None], races.steps[:, :rounds]], axis=2)
    disturbed = races.disturbed[:, :rounds]
    quiet = (disturbed == 0)[..., None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of races whose turns say nothing
        among_all = np.nanmedian(np.where(noises > 0, noises, np.nan), axis=1, keepdims=True)
        usual = np.nanmedian(np.where((noises > 0) & quiet, noises, np.nan), axis=1, keepdims=True)
    usual = np.maximum(np.nan_to_num(np.where(np.isnan(usual), among_all, usual)), LEAST_NOISE)
    of_ratio = usual[:, :, 0]
    more = of_ratio * np.maximum(0, (noises / usual).min(axis=2) - CLEARLY) + disturbed * DISTURBED_OFF**2
    weights: Array = 1 / (BETWEEN_OVER_TURNS * of_ratio + more)
    return weights / weights.max(axis=1, keepdims=True)


def find_dof(shares: Array) -> Array:
    """Return the degrees of freedom of the mean's variance (Bell and McCaffrey), in quarters."""
    found: Array = np.full(len(shares), shares.shape[1] - 1.0)
    uneven = np.ptp(shares, axis=1) > 0
    some = shares[uneven]
    gains, both = some / np.sqrt(1 - some), (some**2).sum(axis=1)
    products = gains[:, :, None] * gains[:, None, :]
    products *= np.eye(some.shape[1]) - some[:, :, None] - some[:, None, :] + both[:, None, None]
    dof = np.trace(products, axis1=1, axis2=2) ** 2 / (products**2).sum(axis=(1, 2))
    found[uneven] = np.maximum(1.0, np.floor(4 * dof + 1e-6) / 4)
    return found


def _quantiles(p: float, dof: Array) -> Array:
    kinds, places = np.unique(dof, return_inverse=True)
    found: Array = np.array([t_quantile(p, each) for each in kinds.tolist()])[places]
    return found


def check(races: Races, rounds: int, alpha: float, kind: Kind) -> None:
    """Stop if the intervals of some races are not those of laptime."""
    middles, reaches = intervals(races, rounds, alpha, kind)
    for place in range(CHECKED):
        ratios, noises = np.exp(races.logs[place, :rounds]).tolist(), races.noises[place, :rounds].tolist()
        lanes, disturbed = races.steps[place, :rounds].tolist(), races.disturbed[place, :rounds].tolist()
        shown = [
            RoundNoise({"a": first, "b": second}, {"b over a": noise}, share)
            for noise, (first, second), share in zip(noises, lanes, disturbed, strict=True)
        ]
        weights = weigh_rounds(shown) if kind == "weighed" else ()
        real = log_mean_interval(ratios, alpha)
        if kind != "Student":
            real, _ = moderated_interval(ratios, noises, alpha, weights)
        # Its sums are in another order, and a sum that is on the edge of a quarter may fall on either side of it.
        pairs = ((math.log(real.estimate), middles[place]), (math.log(real.high / real.low) / 2, reaches[place]))
        if not all(math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9) for one, other in pairs):
            raise AssertionError(f"this simulation computes another interval than laptime: {pairs}, {real}")


def play(rule: TimeFor, races: Races, truth: float, kind: Kind) -> tuple[Array, Array, Array, Array]:
    """Look at all races as they grow: which held the truth, called a difference, settled, after which rounds.

    `truth` is the logarithm of the lanes' ratio.
    """
    held, called, settled, ends = (np.zeros(len(races.logs)) for _ in range(4))
    for rounds in range(FIRST_LOOK, rule.rounds + 1):
        final = rounds == rule.rounds
        alpha = alpha_for_look(rounds, planned=rule.planned, final=final)
        check(races, rounds, alpha, kind)
        off, reach = intervals(races, rounds, alpha, kind)
        differs, narrow = np.abs(off + truth) > reach, reach <= NARROW
        enough = np.where(differs, reach <= NARROW_EARLY, reach <= ALIKE_ENOUGH)
        stops = (ends == 0) & (final | enough)
        for kept, value in ((held, np.abs(off) <= reach), (called, differs), (settled, narrow)):
            kept[stops] = value[stops]
        ends[stops] = rounds
    return held, called, settled, ends


def measure_strata() -> Iterator[Row]:
    """Race lanes of a known ratio, and lanes without a difference, by each interval under every rule."""
    for seed, stratum in enumerate(STRATA, 200):
        random = np.random.default_rng(seed)
        apart, alike = (simulate(stratum, ROUND_RACES, random) for _ in range(2))
        for rule in ROUND_RULES:
            for kind in KINDS:
                yield judge(stratum, rule, apart, alike, kind)


def judge(stratum: Stratum, rule: TimeFor, apart: Races, alike: Races, kind: Kind) -> Row:
    """Count how often the truth is held, how many races settle, and how often no difference is called one."""
    held, _, settled, ends = play(rule, apart, math.log(TRUE_RATIO), kind)
    _, called, _, _ = play(rule, alike, 0.0, kind)
    shares = float(held.mean()), float(called.mean())
    errors = [math.sqrt(share * (1 - share) / ROUND_RACES) for share in shares]
    return Row(
        scenario=stratum.name,
        rule=rule.name,
        coverage=shares[0],
        coverage_error=errors[0],
        false_calls=shares[1],
        false_calls_error=errors[1],
        heats=float(ends.mean()),
        # The limits are of what a race uses; the others show what it is worth. At the 5 % that are allowed, half of all
        # simulations exceed it by chance, few by two standard errors.
        kept=kind != USED or (shares[0] >= LEAST_IN_ROUNDS and shares[1] <= MOST_FALSE_CALLS + 2 * errors[1]),
        interval=kind,
        settled=float(settled.mean()),
    )
