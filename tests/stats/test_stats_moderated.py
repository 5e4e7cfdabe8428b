"""The moderated t: between Student's and the normal interval, and nothing where the rounds contradict the turns."""

from __future__ import annotations

import random
from math import exp, inf, log, sqrt
from statistics import NormalDist, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laptime.model.stats import (
    BETWEEN_OVER_TURNS,
    PRICE,
    Spread,
    effective_rounds,
    interval_of_logs,
    log_mean_interval,
    moderate,
    moderated_interval,
    t_quantile,
    trust,
    weighted_interval,
)

values = st.lists(st.floats(0.5, 2.0), min_size=2, max_size=12)
variances = st.floats(1e-8, 1.0)
alphas = st.floats(1e-3, 0.3)
UNUSED = 0.0


def ends(interval):
    return interval.low, interval.estimate, interval.high


def noise_that_expects(ratios, times=1.0):
    """Return a noise of turns such that rounds are expected to vary as these do, or `times` as much."""
    return times * variance([log(each) for each in ratios]) / BETWEEN_OVER_TURNS


@given(variances, st.integers(1, 15), variances)
def test_without_degrees_of_freedom_a_prior_changes_nothing(own, dof, expected):
    """As they go to 0, the interval goes to Student's."""
    spread = moderate(Spread(own, dof), Spread(expected, UNUSED))
    assert (pytest.approx(own), dof) == (spread.variance, spread.dof)
    assert pytest.approx(own, rel=1e-3) == moderate(Spread(own, dof), Spread(own * 10, 1e-5 * dof)).variance


@given(variances, st.integers(1, 15), variances, alphas)
def test_a_prior_that_is_sure_gives_the_normal_interval_of_its_own_spread(own, dof, expected, alpha):
    """With endless degrees of freedom, the rounds' own spread no longer counts."""
    spread = moderate(Spread(own, dof), Spread(expected, 1e15))
    found = interval_of_logs(0.0, spread.variance, spread.dof, alpha)
    assert pytest.approx(NormalDist().inv_cdf(1 - alpha / 2) * sqrt(expected), rel=1e-4) == log(found.high)


@given(variances, st.integers(1, 15), variances, st.floats(0, 20))
def test_a_moderated_variance_is_between_the_two(own, dof, expected, prior_dof):
    """And its degrees of freedom are those of both."""
    spread = moderate(Spread(own, dof), Spread(expected, prior_dof))
    assert min(own, expected) * (1 - 1e-9) <= spread.variance <= max(own, expected) * (1 + 1e-9)
    assert dof + prior_dof == spread.dof


@pytest.mark.parametrize(
    ("expected", "rounds", "times"),
    [(0.0, 4, 1.0), (1.0, 5, 1.0), (4.0, 8, 1.0), (6.0, 16, 1.0), (0.0, 8, 2.0), (0.0, 8, 0.5), (0.0, 16, 11.0)],
)
def test_a_prior_counts_no_more_than_the_rounds_that_check_it(expected, rounds, times):
    """Nor does it count where the rounds vary twice as much as it says, or half as much."""
    assert pytest.approx(expected, abs=1e-12) == trust(0.01 * times, rounds, 0.01)


@given(variances, st.integers(3, 16), st.floats(0.1, 10))
def test_more_and_less_than_expected_count_alike(own, rounds, times):
    """It is the factor between the two variances that shows whether the turns tell the spread of the rounds."""
    assert pytest.approx(trust(own * times, rounds, own), abs=1e-9) == trust(own, rounds, own * times)


def test_a_worked_example():
    """Eight rounds that vary as expected: the same spread, but seven and four degrees of freedom."""
    ratios = [exp(place) for place in (-0.07, -0.05, -0.03, -0.01, 0.01, 0.03, 0.05, 0.07)]
    found, prior_dof = moderated_interval(ratios, [noise_that_expects(ratios)] * 8, 0.05)
    reach = t_quantile(1 - (1 - PRICE) * 0.05 / 2, 11) * sqrt(0.0024 / 8)
    assert pytest.approx((exp(-reach), 1.0, exp(reach), 4.0)) == (*ends(found), prior_dof)
    assert found.half_width < 0.95 * log_mean_interval(ratios, 0.05).half_width


@given(values, alphas)
def test_without_known_noise_it_is_students_interval(ratios, alpha):
    """So it is for rounds whose heats ran one after another, or had too few turns."""
    assert (log_mean_interval(ratios, alpha), 0.0) == moderated_interval(ratios, [0.0] * len(ratios), alpha)
    assert (log_mean_interval(ratios, alpha), 0.0) == moderated_interval(ratios, [], alpha)


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=4), variances, alphas)
def test_four_rounds_do_not_check_a_prior(ratios, noise, alpha):
    """Then it is Student's interval, too; and one round settles nothing."""
    found, _ = moderated_interval(ratios, [noise] * len(ratios), alpha)
    assert log_mean_interval(ratios, alpha) == found
    assert (found.high == inf) == (len(ratios) == 1)


@given(values, variances, alphas)
def test_a_contradicted_prior_costs_no_more_than_its_price(ratios, noise, alpha):
    """At a smaller error rate the interval is somewhat wider than Student's, and never as wide as the prior says."""
    found, prior_dof = moderated_interval(ratios, [noise] * len(ratios), alpha)
    if prior_dof == 0 and len(ratios) > 4:
        assert ends(log_mean_interval(ratios, (1 - PRICE) * alpha)) == pytest.approx(ends(found))


@given(values, variances, alphas, st.floats(0.01, 100))
def test_a_factor_on_all_values_is_one_on_the_interval(ratios, noise, alpha, factor):
    """Noise is of logarithms, so it does not change."""
    noises = [noise] * len(ratios)
    one, other = (moderated_interval(each, noises, alpha)[0] for each in (ratios, [factor * ratio for ratio in ratios]))
    assert pytest.approx([factor * end for end in ends(one)], rel=1e-6) == list(ends(other))


@given(st.lists(st.floats(0.7, 1.4), min_size=4, max_size=12), variances, st.floats(0.1, 3.0))
def test_spreads_that_all_grow_by_a_factor_widen_the_interval_by_it(ratios, noise, times):
    """On the scale of logarithms there is no spread of our own in it."""
    powers = [each**times for each in ratios]
    one, own = moderated_interval(ratios, [noise] * len(ratios), 0.05)
    other, theirs = moderated_interval(powers, [noise * times**2] * len(ratios), 0.05)
    assert pytest.approx(own, abs=1e-6) == theirs
    assert pytest.approx(times * log(one.high / one.low), rel=1e-6, abs=1e-9) == log(other.high / other.low)


@pytest.mark.parametrize("says", [1.0, 0.3, 3.0])
def test_the_truth_is_inside_as_often_as_claimed(says):
    """Whether the turns tell the spread of the rounds, or three times too little or too much of it."""
    generator = random.Random(5)
    held = 0
    for _ in range(1_000):
        rounds = generator.randint(5, 10)
        ratios = [exp(generator.gauss(0.2, 0.05)) for _ in range(rounds)]
        noises = [(says * 0.05) ** 2 / BETWEEN_OVER_TURNS * generator.gammavariate(1.5, 1 / 1.5) for _ in ratios]
        interval, _ = moderated_interval(ratios, noises, 0.05)
        held += interval.low <= exp(0.2) <= interval.high
    assert held >= 930


@given(values, variances, alphas, st.floats(0.01, 1.0))
def test_rounds_that_count_alike_give_the_interval_without_weights(ratios, noise, alpha, weight):
    """However much each counts."""
    noises = [noise] * len(ratios)
    found = moderated_interval(ratios, noises, alpha, [weight] * len(ratios))
    same = moderated_interval(ratios, noises, alpha)
    assert (pytest.approx(ends(same[0])), same[1]) == (ends(found[0]), found[1])
    assert log_mean_interval(ratios, alpha) == weighted_interval(ratios, [weight] * len(ratios), alpha)


@given(st.lists(st.floats(0.5, 2.0), min_size=3, max_size=12), st.floats(0.5, 2.0), alphas)
def test_a_round_that_counts_nothing_might_as_well_not_have_been_run(ratios, other, alpha):
    """Neither the estimate nor the interval is that of one round more."""
    found = weighted_interval([*ratios, other], [1.0] * len(ratios) + [1e-12], alpha)
    assert ends(found) == pytest.approx(ends(log_mean_interval(ratios, alpha)), rel=1e-4)


@given(st.lists(st.tuples(st.floats(0.5, 2.0), st.floats(0.01, 1.0)), min_size=2, max_size=12), st.floats(0.1, 10))
def test_only_the_proportions_of_weights_matter(weighed, times):
    """They say how much a round counts next to the others."""
    ratios, weights = zip(*weighed, strict=True)
    found, same = (weighted_interval(ratios, [each * by for each in weights], 0.05) for by in (1.0, times))
    assert ends(found) == pytest.approx(ends(same), rel=1e-6)
    assert 1 <= effective_rounds(weights) <= len(weights) + 1e-9


def test_a_worked_example_of_unequal_rounds():
    """Weights 2, 1, 1: shares of a half and two quarters, and the squared distances over what each share leaves."""
    found = weighted_interval([exp(0.02), exp(-0.01), exp(-0.03)], [1.0, 0.5, 0.5], 0.05)
    variance_of_mean = 0.5**2 / 0.5 * 0.02**2 + 0.25**2 / 0.75 * (0.01**2 + 0.03**2)
    dof = 1.5  # 1.60 by the formula of Bell and McCaffrey, in quarters
    assert log(found.estimate) == pytest.approx(0.0, abs=1e-12)
    assert log(found.high) == pytest.approx(t_quantile(0.975, dof) * sqrt(variance_of_mean), rel=1e-6)


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=12), st.floats(1e-9, 0.01))
def test_one_round_that_counts_shows_no_spread(ratios, weight):
    """The interval is wider than if all counted alike: it has their spread, and one degree of freedom."""
    found = weighted_interval(ratios, [1.0] + [weight] * (len(ratios) - 1), 0.05)
    alike = log_mean_interval(ratios, 0.05)
    assert log(found.high / found.low) >= log(alike.high / alike.low) * (1 - 1e-6)


@pytest.mark.parametrize("times", [1.0, 4.0, 25.0])
def test_the_truth_is_inside_as_often_as_claimed_whatever_the_weights_say(times):
    """Two of eight rounds count a tenth: they may vary `times` as much as the others, as expected or far more."""
    generator = random.Random(6)
    held = 0
    weights = [1.0] * 6 + [0.1] * 2
    for _ in range(1_000):
        spreads = [0.03] * 6 + [0.03 * sqrt(times)] * 2
        ratios = [exp(generator.gauss(0.2, spread)) for spread in spreads]
        noises = [spread**2 / BETWEEN_OVER_TURNS for spread in spreads]
        interval, _ = moderated_interval(ratios, noises, 0.05, weights)
        held += interval.low <= exp(0.2) <= interval.high
    assert held >= 935
