"""Estimates, always with an interval. Heats are the replicates; the scale is logarithmic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import erfc, exp, floor, fsum, hypot, inf, isfinite, lgamma, log, log2, sqrt
from typing import Literal

PairVerdict = Literal["faster", "slower", "not distinguishable"]

_LARGEST_POWER = 709.0


@dataclass(frozen=True, slots=True)
class Interval:
    """A positive estimate and how far the true value may be from it."""

    estimate: float
    low: float
    high: float

    def __post_init__(self) -> None:
        """Reject an interval that does not contain its own estimate."""
        if not 0 <= self.low <= self.estimate <= self.high:
            raise ValueError(f"an interval needs 0 <= low <= estimate <= high, not {self}")

    @property
    def half_width(self) -> float:
        """The relative half width on the logarithmic scale (0.05 is 5 %), to compare with a margin."""
        return sqrt(self.high / self.low) - 1 if self.low > 0 else inf


def log_mean_interval(values: Sequence[float], alpha: float) -> Interval:
    """Estimate a lane's typical value from one value per heat, by the geometric mean.

    One heat does not show the spread between heats, so its interval is everything above zero.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"an error rate between 0 and 1 is needed, not {alpha}")
    logs = [log(value) for value in _positive(values)]
    mean = fsum(logs) / len(logs)
    if len(logs) == 1:
        return Interval(float(values[0]), 0.0, inf)
    return interval_of_logs(mean, _standard_error(logs, mean) ** 2, len(logs) - 1, alpha)


def interval_of_logs(mean: float, variance: float, dof: float, alpha: float) -> Interval:
    """Return the interval of Student's t around a mean of logarithms that has this variance, back on the scale."""
    reach = -t_quantile(alpha / 2, dof) * sqrt(variance)
    middle = _power(mean)
    # The exponential may be off in its last digit. That must not put the estimate outside a tiny interval.
    return Interval(middle, min(middle, _power(mean - reach)), max(middle, _power(mean + reach)))


def mean_interval(values: Sequence[float], alpha: float) -> tuple[float, float, float]:
    """Return the mean of figures that may be negative, such as differences, and its interval: mean, low, high.

    One figure does not show a spread, so its interval is all there is.
    """
    if not values or not all(map(isfinite, values)):
        raise ValueError("a mean needs finite figures, at least one")
    mean = fsum(values) / len(values)
    if len(values) == 1:
        return mean, -inf, inf
    reach = -t_quantile(alpha / 2, len(values) - 1) * _standard_error(list(values), mean)
    return mean, mean - reach, mean + reach


def paired_ratio(lane: Sequence[float], reference: Sequence[float], alpha: float) -> Interval:
    """Estimate how many times faster a lane is than its reference, from times of heats of the same rounds.

    Both heats of a pair meet the same state of the machine, so a drift between rounds cancels in their ratio.
    """
    if len(lane) != len(reference):
        raise ValueError(f"heats come in pairs, not {len(lane)} of one lane and {len(reference)} of the other")
    pairs = zip(_positive(lane), _positive(reference), strict=True)
    return log_mean_interval([theirs / ours for ours, theirs in pairs], alpha)


def verdict(interval: Interval) -> PairVerdict:
    """Return what the interval of a ratio allows to conclude; an interval that includes 1 settles nothing."""
    if interval.low > 1:
        return "faster"
    if interval.high < 1:
        return "slower"
    return "not distinguishable"


def _positive(values: Sequence[float]) -> Sequence[float]:
    """Reject values that no clock can have measured, or that have no logarithm."""
    if len(values) == 0:
        raise ValueError("no heats: an estimate needs at least one")
    if not all(isfinite(value) and value > 0 for value in values):
        raise ValueError("only positive, finite values have a mean on the logarithmic scale")
    return values


def _standard_error(logs: list[float], mean: float) -> float:
    """Return the standard error of the mean, from the spread between the heats."""
    squares = fsum((value - mean) ** 2 for value in logs)
    return sqrt(squares / (len(logs) - 1) / len(logs))


def _power(exponent: float) -> float:
    """Return the exponential; beyond the largest float the bound is infinite, not an error."""
    return exp(exponent) if exponent < _LARGEST_POWER else inf


# Quantiles of Student's t, so that an interval over a few heats does not need scipy.

_LARGE_DOF = 1e6
_TINY = 1e-300
# No probability that a float can hold is closer to one half than exp(-45); exp(709) is the largest power.
_LOG_RANGE = (-45.0, 709.0)


@lru_cache(maxsize=1024)
def t_quantile(p: float, dof: float) -> float:
    """Return the value that Student's t with `dof` degrees of freedom stays below with probability `p`."""
    if not 0 < p < 1:
        raise ValueError(f"a probability between 0 and 1 is needed, not {p}")
    if not (isfinite(dof) and dof >= 1):
        raise ValueError(f"at least one degree of freedom is needed, and finitely many, not {dof}")
    if p < 0.5:
        return -_upper_quantile(p, dof)
    return _upper_quantile(1 - p, dof)


def _upper_quantile(tail: float, dof: float) -> float:
    """Solve for t >= 0 with `tail` above it, by the centre or by the tail, whichever avoids cancellation."""
    if tail == 0.5:
        return 0.0
    if dof > _LARGE_DOF:
        z = _solve_rising(lambda x: -erfc(x / sqrt(2)) / 2, -tail)
        # First term of the Cornish-Fisher expansion; the next is of the order of z**4 / dof**2.
        return z + (z**3 + z) / (4 * dof)
    if tail < 0.25:
        return _solve_rising(lambda t: -_upper_tail(t, dof), -tail)
    return _solve_rising(lambda t: _centre(t, dof), 0.5 - tail)


def _solve_rising(function: Callable[[float], float], target: float) -> float:
    """Find where a rising function meets `target`, by bisection on the log scale, which always converges."""
    low, high = _LOG_RANGE
    while high - low > 1e-12 * max(1.0, abs(low)):
        middle = (low + high) / 2
        if function(exp(middle)) < target:
            low = middle
        else:
            high = middle
    return exp((low + high) / 2)


def _upper_tail(t: float, dof: float) -> float:
    """Return P(T > t) for t > 0."""
    log_inside, log_outside = _log_shares(t, dof)
    return _incomplete_beta(dof / 2, 0.5, log_outside, log_inside) / 2


def _centre(t: float, dof: float) -> float:
    """Return P(0 < T < t) for t > 0; when t is small, the tail cannot be distinguished from one half."""
    log_inside, log_outside = _log_shares(t, dof)
    return _incomplete_beta(0.5, dof / 2, log_inside, log_outside) / 2


def _log_shares(t: float, dof: float) -> tuple[float, float]:
    """Return the logarithms of t^2 / (dof + t^2) and dof / (dof + t^2) without squaring a huge t."""
    scaled = t / sqrt(dof)
    length = hypot(1.0, scaled)
    return 2 * log(scaled / length), -2 * log(length)


def _incomplete_beta(a: float, b: float, log_x: float, log_rest: float) -> float:
    """Return the regularised I_x(a, b), from log x and log(1 - x), on the side where its fraction converges fast."""
    log_front = a * log_x + b * log_rest + lgamma(a + b) - lgamma(a) - lgamma(b)
    x = exp(log_x)
    if x < (a + 1) / (a + b + 2):
        return exp(log_front) * _beta_fraction(a, b, x) / a
    return 1 - exp(log_front) * _beta_fraction(b, a, exp(log_rest)) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Sum the continued fraction of the incomplete beta function (DLMF 8.17.22) by Lentz's method."""
    ratio = 1.0
    inverse = 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    value = inverse
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            inverse = 1 / _away_from_zero(1 + term * inverse)
            ratio = _away_from_zero(1 + term / ratio)
            value *= inverse * ratio
        if abs(inverse * ratio - 1) < 1e-14:
            break
    return value


def _away_from_zero(value: float) -> float:
    """Replace a vanishing denominator, as Lentz's method requires."""
    return value if abs(value) > _TINY else _TINY


# Whether two small samples have different means, and by what factor, without the assumption of equal variances.


@dataclass(frozen=True, slots=True)
class Welch:
    """Welch's t of two samples, and how large it may be by chance."""

    t: float
    allowed: float

    @property
    def differs(self) -> bool:
        return self.t > self.allowed


def welch(one: Sequence[float], other: Sequence[float], alpha: float) -> Welch:
    """Compare the means of two samples of at least two values each, at the error rate `alpha`."""
    if min(len(one), len(other)) < 2:
        raise ValueError("a sample of one value has no spread to hold a difference against")
    (mean_a, error_a), (mean_b, error_b) = _mean_and_squared_error(one), _mean_and_squared_error(other)
    distance, error = abs(mean_a - mean_b), error_a + error_b
    if error == 0:
        return Welch(inf if distance > 0 else 0.0, 0.0)
    return Welch(distance / sqrt(error), _allowed((error_a, len(one)), (error_b, len(other)), alpha))


def unpaired_ratio(one: Sequence[float], other: Sequence[float], alpha: float) -> Interval:
    """Estimate the ratio of two samples of positive values that do not come in pairs, by their geometric means.

    A sample of one value shows no spread, so the interval is then everything above zero.
    """
    logs_a, logs_b = ([log(value) for value in values] for values in (one, other))
    if min(len(one), len(other)) < 2:
        return Interval(exp(fsum(logs_a) / len(one) - fsum(logs_b) / len(other)), 0.0, inf)
    (mean_a, error_a), (mean_b, error_b) = _mean_and_squared_error(logs_a), _mean_and_squared_error(logs_b)
    middle, error = exp(mean_a - mean_b), error_a + error_b
    if error == 0:
        return Interval(middle, middle, middle)
    reach = _allowed((error_a, len(one)), (error_b, len(other)), alpha) * sqrt(error)
    return Interval(middle, min(middle, exp(mean_a - mean_b - reach)), max(middle, exp(mean_a - mean_b + reach)))


def _allowed(one: tuple[float, int], other: tuple[float, int], alpha: float) -> float:
    """Return how large t may be by chance, by the squared error of each mean and the size of each sample.

    By shares of the error, not by its squares: the squares of very small errors underflow to 0.
    """
    (error_a, count_a), (error_b, count_b) = one, other
    error = error_a + error_b
    dof = 1 / ((error_a / error) ** 2 / (count_a - 1) + (error_b / error) ** 2 / (count_b - 1))
    return -t_quantile(alpha / 2, max(dof, 1.0))


def _mean_and_squared_error(values: Sequence[float]) -> tuple[float, float]:
    mean = fsum(values) / len(values)
    return mean, fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)


# The spread of a few rounds, steadied by what the turns within these rounds say: a moderated t (Smyth 2004).
#
# The spread between four or eight rounds is badly known, and Student's t pays for it with a wide interval. The turns
# within the rounds say what spread to expect. This expectation counts as a few further rounds: fewer than there are
# rounds that check it, and none where these contradict it. So a race on a day on which processes differ more than their
# turns show gets Student's interval.

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


# Order statistics of one sample, so that a few disturbed steps cannot change a result.

# The median absolute deviation of normal noise, times this, is its standard deviation.
MAD_TO_SD = 1.4826


def median(values: Sequence[float]) -> float:
    """Return the middle value; up to half of the sample may be wrong without moving it far."""
    return _quantile_of_sorted(_sorted(values), 0.5)


def quantile(values: Sequence[float], q: float) -> float:
    """Return the value below which a share `q` of the sample is, interpolated linearly between neighbours."""
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile between 0 and 1 is needed, not {q}")
    return _quantile_of_sorted(_sorted(values), q)


def mad(values: Sequence[float]) -> float:
    """Return the median absolute deviation: a spread that outliers cannot inflate."""
    ordered = _sorted(values)
    centre = _quantile_of_sorted(ordered, 0.5)
    # The distances fall, then rise: Python's sort merges two such runs in linear time.
    return _quantile_of_sorted(sorted(abs(value - centre) for value in ordered), 0.5)


def _sorted(values: Sequence[float]) -> list[float]:
    """Sort a copy; reject a sample that has no order or no middle."""
    if len(values) == 0:
        raise ValueError("an empty sample has no median, quantile or spread")
    if not all(map(isfinite, values)):
        raise ValueError("a sample with NaN or infinite values has no order; remove them and say why")
    return sorted(values)


def _quantile_of_sorted(ordered: list[float], q: float) -> float:
    """Interpolate a quantile between two neighbours; rounding never puts it outside them."""
    position = q * (len(ordered) - 1)
    below = floor(position)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    share = position - below
    return min(max(low * (1 - share) + high * share, low), high)
