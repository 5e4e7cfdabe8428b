"""The spread of a few rounds, steadied by what the turns within these rounds say: a moderated t (Smyth 2004).

The spread between four or eight rounds is badly known, and Student's t pays for it with a wide interval. The turns
within the rounds say what spread to expect. This expectation counts as a few further rounds: fewer than there are
rounds that check it, and none where these contradict it. So a race on a day on which processes differ more than their
turns show gets Student's interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, log, log2

from laptime.stats.interval import Interval, interval_of_logs, log_mean_interval

# The variance between rounds over that which their turns explain. Of 66 rounds on two AMD EPYC cores, PyTorch 2.13.0,
# 2026-11-23 (decision 23), ratios differed by 4.7 % where their turns alone make 3.0 %: processes differ, too.
BETWEEN_OVER_TURNS = (4.7 / 3.0) ** 2
# Degrees of freedom of the prior: how alike the spreads of races are. Smyth's estimate from 51 races in turns that are
# kept in bench/results (2026-11-23 to 26; bench/prior.py) is 6.6.
PRIOR_DOF = 6.0
# A few rounds do not check the prior: with four, Student's t is used.
UNCHECKED_ROUNDS = 4
# Where the variance of the rounds is the expected one times or over this factor, the prior counts nothing.
CONTRADICTED = 2.0
# A prior that is wrong, but not found to be, makes intervals too narrow. This share of the error rate pays for that.
PRICE = 0.07


@dataclass(frozen=True, slots=True)
class Spread:
    """A variance, and its degrees of freedom."""

    variance: float
    dof: float


def moderate(own: Spread, prior: Spread) -> Spread:
    """Return the mean of both variances, weighted by their degrees of freedom, which add up."""
    dof = own.dof + prior.dof
    return Spread((own.dof * own.variance + prior.dof * prior.variance) / dof, dof)


def trust(variance: float, rounds: int, expected: float) -> float:
    """Return how many degrees of freedom a prior has that expects a variance, next to the variance of the rounds.

    It is at most one for each round beyond the fourth, and less the more the two variances differ. In quarters, so that
    few quantiles are ever computed: one takes a millisecond.
    """
    if variance <= 0 or expected <= 0:
        return 0.0
    agreement = 1 - abs(log2(variance / expected)) / log2(CONTRADICTED)
    return round(4 * min(PRIOR_DOF, max(0, rounds - UNCHECKED_ROUNDS)) * max(0.0, agreement)) / 4


def moderated_interval(values: Sequence[float], noises: Sequence[float], alpha: float) -> tuple[Interval, float]:
    """Estimate a ratio from one value a round, and from the noise that each round's turns show.

    A noise is the variance of the logarithm of a round's value, and 0 where it is not known. Also return the degrees of
    freedom that the prior counted as: 0 where the interval is that of Student's t.
    """
    plain = log_mean_interval(values, alpha)
    known = [noise for noise in noises if noise > 0]
    if not known or len(values) <= UNCHECKED_ROUNDS:
        return plain, 0.0
    logs = [log(value) for value in values]
    mean = fsum(logs) / len(logs)
    own = Spread(fsum((each - mean) ** 2 for each in logs) / (len(logs) - 1), len(logs) - 1)
    expected = BETWEEN_OVER_TURNS * fsum(known) / len(known)
    prior = Spread(expected, trust(own.variance, len(logs), expected))
    spread = moderate(own, prior)
    # The price is due also where the prior turns out to count nothing: whether it does is chance.
    return interval_of_logs(mean, spread.variance / len(logs), spread.dof, (1 - PRICE) * alpha), prior.dof
