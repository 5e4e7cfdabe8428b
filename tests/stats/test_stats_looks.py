"""Looks: no plan spends more than it has, and no rule for stopping can make chance look like a difference."""

from __future__ import annotations

import random
from math import exp, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laptime.model.record import error_share
from laptime.model.stats import FIRST_LOOK, alpha_for_look, paired_ratio, verdict

plans = st.integers(FIRST_LOOK, 60)
totals = st.floats(0.001, 0.5)


@pytest.mark.parametrize(("expected", "heats"), [(0.002, 3), (0.002, 4), (0.046, 5)])
def test_the_usual_plan_of_five_heats(expected, heats):
    """Most is kept for the fifth heat, so that the interval that is usually shown stays tight."""
    assert pytest.approx(expected) == alpha_for_look(heats, planned=5, final=False)


@given(plans, totals)
def test_all_looks_together_spend_the_whole_and_no_more(planned, total):
    """The union bound: the error rates of all looks sum to the one that is claimed."""
    spent = [alpha_for_look(heats, planned=planned, final=False, total=total) for heats in looks(planned)]
    assert pytest.approx(total) == sum(spent)
    assert min(spent) > 0


@given(plans, totals, st.data())
def test_a_budget_that_ends_early_gets_what_was_left(planned, total, data):
    """A race cut short by its budget spends what it had kept, not more."""
    end = data.draw(st.integers(FIRST_LOOK, planned))
    early = [alpha_for_look(heats, planned=planned, final=False, total=total) for heats in looks(end - 1)]
    assert pytest.approx(total) == sum(early) + alpha_for_look(end, planned=planned, final=True, total=total)


@given(plans)
def test_the_end_keeps_most(planned):
    """However many looks are planned, the last interval stays useful."""
    assert alpha_for_look(planned, planned=planned, final=True) >= 0.76 * 0.05 - 1e-12


@given(st.integers(1, 60), st.booleans(), totals)
def test_a_fixed_number_of_heats_is_looked_at_once(heats, final, total):
    """Without an adaptive stop nothing is spent before."""
    assert total == alpha_for_look(heats, planned=heats, final=final, total=total, adaptive=False)


@pytest.mark.parametrize("planned", [1, 2, 3])
def test_a_plan_without_early_looks_spends_nothing_early(planned):
    """Up to three heats the only look is the last."""
    assert alpha_for_look(planned, planned=planned, final=False) == 0.05


@pytest.mark.parametrize("heats", [1, 2])
def test_a_budget_used_before_the_first_look_leaves_everything(heats):
    """A race that ends before its first look has not been looked at."""
    assert alpha_for_look(heats, planned=10, final=True) == 0.05


@pytest.mark.parametrize("heats", [1, 2])
def test_a_look_before_the_first_is_refused(heats):
    """Nothing was kept for a look at two heats."""
    with pytest.raises(ValueError, match="first look is after 3"):
        alpha_for_look(heats, planned=5, final=False)


@pytest.mark.parametrize(("heats", "planned"), [(0, 5), (6, 5), (1, 0)])
def test_a_look_outside_the_plan_is_refused(heats, planned):
    """A heat more than planned would be a look more than was paid for."""
    with pytest.raises(ValueError, match="does not fit a plan"):
        alpha_for_look(heats, planned=planned, final=True)


@pytest.mark.parametrize("total", [0.0, 1.0, 5.0, nan])
def test_no_error_rate_is_refused(total):
    """5 instead of 0.05 is a slip."""
    with pytest.raises(ValueError, match="error rate"):
        alpha_for_look(3, planned=5, final=False, total=total)


def test_stopping_as_soon_as_a_difference_shows_keeps_the_error_rate():
    """The greediest stop: equal lanes, and the race ends when one of ten looks calls them different."""
    assert greedy_false_calls(lambda heats: alpha_for_look(heats, planned=12, final=False)) <= 0.05


def test_looking_without_paying_breaks_the_error_rate():
    """The same stop with 0.05 at every look is fooled far more often: the simulation can see the damage."""
    assert greedy_false_calls(lambda _: 0.05) > 0.10


def test_going_on_until_a_difference_shows_keeps_what_the_parts_may_spend():
    """Equal lanes in three parts of four rounds, and who looks goes on until a look calls them different."""

    def alpha_of_part(heats):
        part, done = 1 + (heats - 1) // 4, 1 + (heats - 1) % 4
        return alpha_for_look(max(done, FIRST_LOOK), planned=4, final=False, total=0.05 * error_share(part))

    assert greedy_false_calls(alpha_of_part) <= 0.05 * sum(map(error_share, (1, 2, 3)))


def greedy_false_calls(alpha_for):
    """Race equal lanes 1500 times, stopping at the first difference, and give the share that found one."""
    generator = random.Random(12)
    called = 0
    for _ in range(1500):
        lane, reference = ([exp(generator.gauss(0, 0.03)) for _ in range(12)] for _ in range(2))
        called += any(
            verdict(paired_ratio(lane[:heats], reference[:heats], alpha_for(heats))) != "not distinguishable"
            for heats in looks(12)
        )
    return called / 1500


def looks(planned):
    """List the numbers of heats at which a race of N heats is looked at."""
    return range(FIRST_LOOK, planned + 1)
