"""Numbers in, numbers out: this room imports no other, so the statistics behind every verdict can be tested alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, groupby, pairwise, takewhile
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


def weighted_interval(values: Sequence[float], weights: Sequence[float], alpha: float) -> Interval:
    """Estimate as `log_mean_interval` does, where rounds do not count alike."""
    if len(values) == 1 or len({*weights}) == 1:
        return log_mean_interval(values, alpha)
    mean, spread = _weighted_mean([log(value) for value in _positive(values)], weights)
    return interval_of_logs(mean, spread.variance, spread.dof, alpha)


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


def _standard_error(logs: Sequence[float], mean: float) -> float:
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
    mean_a, error_a = _mean_and_squared_error(one)
    mean_b, error_b = _mean_and_squared_error(other)
    distance = abs(mean_a - mean_b)
    error = error_a + error_b
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
    mean_a, error_a = _mean_and_squared_error(logs_a)
    mean_b, error_b = _mean_and_squared_error(logs_b)
    middle = exp(mean_a - mean_b)
    error = error_a + error_b
    if error == 0:
        return Interval(middle, middle, middle)
    reach = _allowed((error_a, len(one)), (error_b, len(other)), alpha) * sqrt(error)
    return Interval(middle, min(middle, exp(mean_a - mean_b - reach)), max(middle, exp(mean_a - mean_b + reach)))


def _allowed(one: tuple[float, int], other: tuple[float, int], alpha: float) -> float:
    """Return how large t may be by chance, by the squared error of each mean and the size of each sample.

    By shares of the error, not by its squares: the squares of very small errors underflow to 0.
    """
    error_a, count_a = one
    error_b, count_b = other
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


def trust(variance: float, rounds: float, expected: float) -> float:
    """Return how many degrees of freedom a prior has that expects a variance, next to the variance of the rounds.

    It is at most one for each round beyond the fourth, and less the more the two variances differ. In quarters, so that
    few quantiles are ever computed: one takes a millisecond.
    """
    if variance <= 0 or expected <= 0:
        return 0.0
    agreement = 1 - abs(log2(variance / expected)) / log2(CONTRADICTED)
    return round(4 * min(PRIOR_DOF, max(0, rounds - UNCHECKED_ROUNDS)) * max(0.0, agreement)) / 4


def moderated_interval(
    values: Sequence[float], noises: Sequence[float], alpha: float, weights: Sequence[float] = ()
) -> tuple[Interval, float]:
    """Estimate a ratio from one value a round, and from the noise that each round's turns show.

    A noise is the variance of the logarithm of a round's value, and 0 where it is not known. Without weights, rounds
    count alike. Also return the degrees of freedom that the prior counted as: 0 where the interval is Student's t.
    """
    counts = weights or [1.0] * len(values)
    known = [noise for noise in noises if noise > 0]
    if not known or len(values) <= UNCHECKED_ROUNDS:
        return weighted_interval(values, counts, alpha), 0.0
    mean, own = _weighted_mean([log(value) for value in _positive(values)], counts)
    usual = fsum(known) / len(known)
    shares = [count / fsum(counts) for count in counts]
    expected = BETWEEN_OVER_TURNS * fsum(
        share**2 * (noise or usual) for share, noise in zip(shares, noises, strict=True)
    )
    prior = Spread(expected, trust(own.variance, own.dof + 1, expected))
    spread = moderate(own, prior)
    # The price is due also where the prior turns out to count nothing: whether it does is chance.
    return interval_of_logs(mean, spread.variance, spread.dof, (1 - PRICE) * alpha), prior.dof


# Rounds that do not count alike (analysis/weights.py says which count less).
#
# The interval needs no true weights: the variance of the mean is estimated from the rounds themselves (HC2), with the
# degrees of freedom of Bell and McCaffrey (2002) for rounds that are alike. Equal weights give Student's t, and a round
# that counts nothing might as well not have been run.

# Where no more than one or two count, an interval is at least as wide as if all did: one quiet round shows no spread.
ROUNDS_SHOW_SPREAD = 2.5


def effective_rounds(weights: Sequence[float]) -> float:
    """Return how many rounds that count alike would say as much."""
    return fsum(weights) ** 2 / fsum(weight**2 for weight in weights)


def _weighted_mean(logs: Sequence[float], weights: Sequence[float]) -> tuple[float, Spread]:
    """Return the mean, and its own variance with its degrees of freedom."""
    shares = [weight / fsum(weights) for weight in weights]
    mean = fsum(share * value for share, value in zip(shares, logs, strict=True))
    gains = [share / sqrt(1 - share) for share in shares]
    variance = fsum((gain * (value - mean)) ** 2 for gain, value in zip(gains, logs, strict=True))
    if effective_rounds(weights) < ROUNDS_SHOW_SPREAD:
        variance = max(variance, _standard_error(logs, fsum(logs) / len(logs)) ** 2)
    both = fsum(share**2 for share in shares)
    rows = [
        [
            gain * other * ((place == at) - share - its + both)
            for at, (other, its) in enumerate(zip(gains, shares, strict=True))
        ]
        for place, (gain, share) in enumerate(zip(gains, shares, strict=True))
    ]
    trace = fsum(row[place] for place, row in enumerate(rows))
    dof = trace**2 / fsum(cell**2 for row in rows for cell in row)
    # In quarters, down: few quantiles are then ever computed, and rounding leaves whole numbers whole.
    return mean, Spread(variance, max(1.0, floor(4 * dof + 1e-6) / 4))


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
    low = ordered[below]
    high = ordered[min(below + 1, len(ordered) - 1)]
    share = position - below
    return min(max(low * (1 - share) + high * share, low), high)


# Where a heat's steady state begins: found, not assumed (Barrett et al. 2017, "Warmup blows hot and cold").
#
# The series of window times is cut where its level changes. Levels that are too close to matter are joined again. One
# or two odd windows inside a level are ignored (a shared machine has them). What remains is classified.

SteadyKind = Literal["flat", "warm-up", "slowing", "unsteady"]

_FEWEST_STEADY = 3
_MOST_ODD = 2
_SAME_LEVEL = log(1.02)
_WIDEST_SPREAD = 0.15
# Chance moves the level of a few windows by up to this many times noise / sqrt(windows).
_CHANCE = 3.0
# Cutting is quadratic in the length: 400 windows take some 10 ms, 2000 would take 25 times as long.
_MOST_WINDOWS = 400


@dataclass(frozen=True, slots=True)
class Steady:
    """How a heat behaved, and the index of its first steady window."""

    kind: SteadyKind
    start: int


@dataclass(frozen=True, slots=True)
class _Level:
    """The windows [first, end) and the median logarithm of their times."""

    first: int
    end: int
    height: float

    @property
    def windows(self) -> int:
        return self.end - self.first

    @property
    def lasts(self) -> bool:
        return self.windows >= _FEWEST_STEADY


def find_steady(values: Sequence[float]) -> Steady:
    """Return from which window on a heat's window times are steady, and whether it had warmed up or slowed down."""
    if not all(isfinite(value) and value > 0 for value in values):
        raise ValueError("window times must be positive and finite")
    if len(values) < _FEWEST_STEADY:
        return Steady("unsteady", 0)
    # Divide a long series into blocks of neighbours, few enough for a fast cut. Blocks have 3, 5, ... windows, the last
    # one more: the median of two would let half of an odd window through.
    count = len(values)
    width = 1
    while count // width > _MOST_WINDOWS:
        width += 2
    edges = [*range(0, count - width + 1, width), count]
    logs = [log(median(values[first:end])) for first, end in pairwise(edges)]
    # Cut the series, then join what is one level, the closest pair first: so a slope is not joined step by step.
    noise = noise_of(logs)
    levels = [_level(logs, first, end) for first, end in cut(logs, noise)]
    while pairs := [pair for pair in _near(levels) if _distance(levels, pair) < _same(levels, pair, noise)]:
        left, right = min(pairs, key=lambda pair: _distance(levels, pair))
        levels[left : right + 1] = [_level(logs, levels[left].first, levels[right].end)]
    found = _name(levels)
    start = edges[found.start]
    steady = values[start:]
    if mad(steady) * MAD_TO_SD > _WIDEST_SPREAD * median(steady):
        return Steady("unsteady", start)
    return Steady(found.kind, start)


def _level(logs: list[float], first: int, end: int) -> _Level:
    return _Level(first, end, median(logs[first:end]))


def _near(levels: list[_Level]) -> Iterator[tuple[int, int]]:
    """Pair each level with the next, and with those after one or two odd windows, if the odd windows are fewer."""
    for left, level in enumerate(levels):
        for right in range(left + 1, len(levels)):
            between = levels[right].first - level.end
            if between > _MOST_ODD:
                break
            if level.windows + levels[right].windows > 2 * between:
                yield left, right


def _distance(levels: list[_Level], pair: tuple[int, int]) -> float:
    return abs(levels[pair[0]].height - levels[pair[1]].height)


def _same(levels: list[_Level], pair: tuple[int, int], noise: float) -> float:
    """Return the distance within which two levels are one: 2 %, the noise, or the effect of chance on few windows."""
    fewest = min(levels[place].windows for place in pair)
    return max(_SAME_LEVEL, noise, _CHANCE * noise / sqrt(fewest))


def _name(levels: list[_Level]) -> Steady:
    """Classify the behaviour by how the last lasting level compares with those before it."""
    odd_end = sum(level.windows for level in takewhile(lambda level: not level.lasts, reversed(levels)))
    lasting = [index for index, level in enumerate(levels) if level.lasts]
    if not lasting:
        return Steady("unsteady", 0)
    last = levels[lasting[-1]]
    if odd_end > _MOST_ODD:
        return Steady("unsteady", last.first)
    # List the levels that the last one is compared with: a cold start counts however short, an odd window never.
    # Between lasting levels, a run of short ones that is too long to be odd counts once, by its median.
    earlier: list[float] = []
    for place, (lasts, group) in enumerate(groupby(levels[: lasting[-1]], key=lambda level: level.lasts)):
        run = list(group)
        if lasts or place == 0:
            earlier += [level.height for level in run]
        elif sum(level.windows for level in run) > _MOST_ODD:
            earlier.append(median([level.height for level in run]))
    if any(last.height - height > _SAME_LEVEL for height in earlier):
        return Steady("slowing", last.first)
    if any(height - last.height > _SAME_LEVEL for height in earlier):
        return Steady("warm-up", last.first)
    return Steady("flat", 0)


# Where the level of a series changes: the best of all partitions, with a charge for every cut.

# Even an exactly repeating clock is given this much noise; otherwise every flicker would be a level.
_LEAST_NOISE = 0.003
# The Bayesian information criterion charges 2, for the place of a cut and for its new level. Here windows are
# correlated, and their noise is known from few of them. At 5, simulated heats of 4 to 150 windows without a
# change stay whole in 89 to 100 % of cases (80 to 100 % at a correlation of 0.5) for noise of up to 6 %, and
# with 1 % noise a first window that is 10 % slow is found in 87 % of heats of 6 windows and 93 % of 8.
_CHARGE = 5.0
# (lag, fewest windows): at a long lag a change affects more differences than a short series can spare.
_LAGS = ((1, 2), (2, 8), (3, 18))
# Factors that correct the median absolute deviation of 5 to 9 normal values for the sample size (Croux and
# Rousseeuw 1992).
_SMALL_SAMPLE = {5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}


def noise_of(logs: Sequence[float]) -> float:
    """Estimate the standard deviation around the level from differences of nearby windows, which share a level.

    Between direct neighbours, correlated noise looks smaller than it is, so longer series are compared at several lags.
    """
    return max([_LEAST_NOISE, *(_noise_at(lag, logs) for lag, fewest in _LAGS if len(logs) >= fewest)])


def cut(logs: Sequence[float], noise: float) -> list[tuple[int, int]]:
    """Cut a series into the segments [first, end) with the least squared error plus a charge for every cut.

    Dynamic programming over all positions of the last cut (Jackson et al. 2005): exact, quadratic in the length.
    """
    charge = _CHARGE * noise**2 * log(len(logs))
    centre = median(logs)  # near zero, sums keep their digits
    sums = list(accumulate((value - centre for value in logs), initial=0.0))
    # Squared errors are the squares, the same for every partition, less (sum of a segment)^2 / its length.
    least = [0.0]
    origin = [0]
    for end, total in enumerate(sums[1:], start=1):
        costs = [
            cost - (rise := total - before) * rise / length
            for cost, before, length in zip(least, sums, range(end, 0, -1), strict=False)
        ]
        best = min(costs)
        least.append(best + charge)
        origin.append(costs.index(best))
    # Follow the best last cuts back from the end.
    segments: list[tuple[int, int]] = []
    end = len(origin) - 1
    while end > 0:
        segments.append((origin[end], end))
        end = origin[end]
    return segments[::-1]


def _noise_at(lag: int, logs: Sequence[float]) -> float:
    """Estimate noise from differences; around their median if there are enough, so that a slope is not noise."""
    steps = [after - before for before, after in zip(logs, logs[lag:], strict=False)]
    if len(steps) < min(_SMALL_SAMPLE):
        return median([abs(step) for step in steps]) * MAD_TO_SD / sqrt(2)
    count = len(steps)
    return mad(steps) * _SMALL_SAMPLE.get(count, count / (count - 0.8)) * MAD_TO_SD / sqrt(2)


# How strict each look at a growing race must be, so that stopping early keeps the error rate.
#
# A race is examined after every round of heats and stops when its intervals are narrow enough. Each look is a chance to
# be wrong, so each spends a share of the error rate. By the union bound the shares may not add up to more than the
# whole, whatever the rule for stopping. The rate holds for each ratio separately, as long as what ends a race early (a
# time budget) does not depend on the ratio.

FIRST_LOOK = 3

# Each look before the last gets the same small share. A race on a quiet machine (a spread of 0.5 % from round to round)
# stops at 4 rounds, one of 1.5 % at 5; a noisy race, which needs all its rounds, keeps most for the last look:
# its interval of 7 rounds is 5 % wider than without looks. Checked by bench/coverage.py.
_EARLY_SHARE = 0.04
_MOST_SPENT_EARLY = 0.24


def alpha_for_look(heats: int, *, planned: int, final: bool, total: float = 0.05, adaptive: bool = True) -> float:
    """Return the error rate for the intervals of a look after `heats` heats per lane, of at most `planned`.

    The last look (at the planned heats, or `final` because the budget is used up) gets what earlier ones left. Without
    an adaptive stop there are no earlier looks, and the only one gets everything.
    """
    # Reject a look that is not in the plan
    if not 0 < total < 1:
        raise ValueError(f"an error rate between 0 and 1 is needed, not {total}")
    if not 1 <= heats <= planned:
        raise ValueError(f"a look after {heats} heats does not fit a plan of at most {planned}")
    if not adaptive:
        return total
    last = final or heats == planned
    if not last and heats < FIRST_LOOK:
        raise ValueError(f"the first look is after {FIRST_LOOK} heats, not after {heats}")
    # Divide what the looks before the last may spend: equally, and not too much in all
    looks = planned - FIRST_LOOK
    shares = [min(_EARLY_SHARE, _MOST_SPENT_EARLY / looks)] * looks if looks > 0 else []
    early = heats - FIRST_LOOK
    return total * (1 - sum(shares[: max(early, 0)])) if last else total * shares[early]
