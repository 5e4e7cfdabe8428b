"""Student's t against printed tables, closed forms, and its own density integrated by Simpson's rule."""

from __future__ import annotations

from math import acos, cos, exp, lgamma, log1p, nan, pi, sqrt, tan
from statistics import NormalDist

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from laptime.model.stats import t_quantile

upper = st.floats(0.5001, 1 - 1e-9)
degrees = st.floats(1, 200)


@pytest.mark.parametrize(
    ("expected", "p", "dof"),
    [
        (12.7062047, 0.975, 1),
        (4.30265273, 0.975, 2),
        (2.77644511, 0.975, 4),
        (2.26215716, 0.975, 9),
        (2.04227246, 0.975, 30),
        (9.92484320, 0.995, 2),
        (63.6567412, 0.995, 1),
        (1.98397152, 0.975, 100),
        (0.81649658, 0.75, 2),
    ],
)
def test_printed_tables(expected, p, dof):
    """The values of any printed table."""
    assert pytest.approx(expected, rel=1e-7) == t_quantile(p, dof)


@given(upper)
def test_closed_form_for_one_degree(p):
    """One degree of freedom is the Cauchy distribution."""
    assert pytest.approx(1 / tan(pi * (1 - p)), rel=1e-9) == t_quantile(p, 1)


@given(upper)
def test_closed_form_for_two_degrees(p):
    """Two degrees of freedom have an algebraic quantile."""
    assert pytest.approx((2 * p - 1) / sqrt(2 * p * (1 - p)), rel=1e-9) == t_quantile(p, 2)


@given(st.floats(0.6, 1 - 1e-6))
def test_closed_form_for_four_degrees(p):
    """Four degrees of freedom, as for five heats, have a trigonometric quantile (Shaw 2006)."""
    root = sqrt(4 * p * (1 - p))
    expected = 2 * sqrt(cos(acos(root) / 3) / root - 1)
    assert pytest.approx(expected, rel=1e-6) == t_quantile(p, 4)


@settings(deadline=None, max_examples=50)
@given(st.floats(0.51, 0.999), degrees)
def test_the_density_up_to_the_quantile_integrates_to_p(p, dof):
    """An integral of the density, which shares no code with the quantile, gives the probability back."""
    assert pytest.approx(p, abs=1e-8) == 0.5 + integral_of_density(t_quantile(p, dof), dof)


@pytest.mark.parametrize("dof", [1e5, 1e6, 1e6 + 1, 1e9])
@given(p=upper)
def test_many_degrees_are_nearly_normal(dof, p):
    """With many degrees the quantile is the normal one and a little, on both sides of a change of method."""
    normal = NormalDist().inv_cdf(p)
    assert pytest.approx(normal + (normal**3 + normal) / (4 * dof), rel=1e-7) == t_quantile(p, dof)


@given(st.floats(1e-9, 0.4999), degrees)
def test_the_lower_half_mirrors_the_upper(p, dof):
    """The distribution is symmetric; 1 - p is exact only for some p."""
    mirrored = 1 - p
    assume(1 - mirrored == p)
    assert -t_quantile(mirrored, dof) == t_quantile(p, dof)


@pytest.mark.parametrize("dof", [1, 2.5, 1e7])
def test_the_middle_is_zero(dof):
    """Half the probability is below zero, exactly."""
    assert t_quantile(0.5, dof) == 0


@given(upper, upper, degrees)
def test_a_higher_probability_has_a_higher_quantile(one, other, dof):
    """The quantile rises with p."""
    low, high = sorted((one, other))
    assume(high - low > 1e-6 * (1 - low))
    assert t_quantile(low, dof) < t_quantile(high, dof)


@given(st.floats(0.6, 1 - 1e-9), degrees)
def test_more_heats_need_a_smaller_quantile(p, dof):
    """Each further degree of freedom narrows the interval."""
    assert t_quantile(p, dof + 1) < t_quantile(p, dof)


def test_a_tiny_tail_is_found_without_cancelling():
    """A tail of 1e-200 is far below what 1 - p can say."""
    assert pytest.approx(-1e200 / pi, rel=1e-6) == t_quantile(1e-200, 1)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, 1.5, nan])
def test_no_probability_is_refused(p):
    """The ends have no finite quantile."""
    with pytest.raises(ValueError, match="probability"):
        t_quantile(p, 3)


@pytest.mark.parametrize("dof", [0, 0.5, -1, nan, float("inf")])
def test_too_few_degrees_are_refused(dof):
    """One heat has no degree of freedom; asking for its quantile is a mistake."""
    with pytest.raises(ValueError, match="degree of freedom"):
        t_quantile(0.975, dof)


def integral_of_density(t, dof, pieces=2000):
    """Integrate the density from 0 to t by Simpson's rule, over the angle whose tangent grows with t."""
    constant = exp(lgamma((dof + 1) / 2) - lgamma(dof / 2)) / sqrt(dof * pi)
    width = t / pieces

    def density(x):
        return constant * exp(-(dof + 1) / 2 * log1p(x * x / dof))

    weights = [1, *([4, 2] * (pieces // 2 - 1)), 4, 1]
    return width / 3 * sum(weight * density(place * width) for place, weight in enumerate(weights))
