"""Ratings of lanes by what they take: by the second, by the joule, for the money."""

from __future__ import annotations

from dataclasses import replace

import pytest
from measured import CPU, changed, heat_of, plan_of, planned, windows_of
from timelines import channel, timeline

from laptime.analysis.heats import summarise_heat
from laptime.analysis.lanes import summarise_lane
from laptime.model.ask import Ask, TypePrice
from laptime.model.quantities import Missing
from laptime.questions.tune.options import AIMS, LanePrices, TuneAsk
from laptime.questions.tune.search import (
    USUAL_SPREAD,
    WORTH_SETTING,
    Gain,
    Objective,
    Rating,
    Search,
    choose,
    find_gain,
    rate_lanes,
    weigh,
)

PACKAGE = channel("package-0", "energy_j", "J", "counter")
TOO_SHORT = Missing("2 readings, and energy needs 3")


def lane_of(name, step_ms, watts):
    """Return a lane of three heats of five seconds each, at this power in each of them."""
    heats = tuple(
        changed(
            heat_of(step_ms, number, lane=name, windows=windows_of(*[step_ms] * 5)),
            timeline=timeline({PACKAGE: lambda t, power=power: power * t} if power else {}),
        )
        for number, power in enumerate(watts)
    )
    lane = planned(name)
    return summarise_lane(plan_of(lane), lane, tuple(map(summarise_heat, heats)), "no reference")


def objective(aim, **asked):
    return Objective(Ask(tune=TuneAsk(aim=aim), **asked))


def test_joules_are_watts_by_the_time():
    """It is 1.25 times as fast, and takes twice the power: less is done per joule. The money is that of the time."""
    slow, fast = lane_of("slow", 100.0, [20, 20, 20]), lane_of("fast", 80.0, [40, 42, 38])
    by_time = objective("time").compare(fast, slow)
    assert by_time.factor.ratio == pytest.approx(1.25)
    by_energy = objective("energy").compare(fast, slow)
    assert by_energy.pairs == 3
    assert by_energy.factor.ratio == pytest.approx(1.25 / 2, rel=0.01)
    assert by_energy.factor.low < by_energy.factor.ratio * 0.95, "what the power varies by is in the interval"
    assert objective("money", rate_per_hour=3.0).compare(fast, slow).factor == by_time.factor
    electric = objective("money", rate_per_hour=0.0, price_per_kwh=0.3).compare(fast, slow)
    assert electric.factor.ratio == pytest.approx(by_energy.factor.ratio), "where only the electricity costs"


def test_a_round_without_power_is_left_out_and_none_with_it_is_a_reason():
    slow = lane_of("slow", 100.0, [20, 20, 20])
    some = objective("energy").compare(lane_of("some", 100.0, [10, 0, 10]), slow)
    assert isinstance(some, Gain)
    assert (some.pairs, some.factor.ratio) == (2, pytest.approx(2.0, rel=0.01))
    assert isinstance(objective("energy").compare(lane_of("none", 100.0, [0, 0, 0]), slow), Missing)
    assert find_gain(replace(slow, heats=()), slow, lambda _lane: 1.0, 0.05) is None


def test_a_round_that_hardly_counts_hardly_moves_a_gain():
    """A neighbour took power and a core in the last one."""
    slow, fast = lane_of("slow", 100.0, [20, 20, 20]), lane_of("fast", 80.0, [40, 40, 400])
    weighed = [replace(lane, heats=(*lane.heats[:2], replace(lane.heats[2], weight=1e-6))) for lane in (fast, slow)]
    assert objective("energy").compare(*weighed).factor.ratio == pytest.approx(1.25 / 2, rel=0.01)
    assert objective("energy").compare(fast, slow).factor.ratio < 0.35


def test_a_lane_of_which_nobody_knows_what_it_takes_has_no_rating():
    ratings = {name: Rating(log, 0.1, 3) for name, log in (("base", 0.0), ("best", 0.7), ("short", 0.9))}
    weighed = weigh(ratings, {"base": 30.0, "best": 15.0, "short": TOO_SHORT}, "base")
    assert {name: each.factor for name, each in weighed.items()} == {
        "base": pytest.approx(1.0),
        "best": pytest.approx(2.0 * ratings["best"].factor),
    }
    assert weigh(ratings, {"base": TOO_SHORT, "best": 15.0}, "base") == {}


def in_turns(name, *steps_ms):
    windows = tuple(replace(each, turn=turn) for turn, each in enumerate(windows_of(*steps_ms)))
    lane = planned(name)
    return summarise_lane(
        plan_of(lane), lane, (summarise_heat(heat_of(steps_ms[0], lane=name, windows=windows)),), "no reference"
    )


def test_a_pair_of_heats_is_known_as_well_as_its_turns_agree():
    """One pair shows nothing of how heats differ: at least as much is assumed, and what its turns differ by besides."""
    base = in_turns("base", *[40.0] * 8)
    quiet, noisy = in_turns("quiet", *[20.0] * 8), in_turns("noisy", *[18.0, 22.0] * 4)
    sure, unsure = (rate_lanes([base, each], "base")[each.name] for each in (quiet, noisy))
    assert sure.error == pytest.approx(USUAL_SPREAD)
    assert unsure.error == pytest.approx((USUAL_SPREAD**2 + 0.107**2 / 8) ** 0.5, rel=0.01)
    assert (sure.factor, unsure.factor) == (pytest.approx(2.0), pytest.approx(2.0, rel=0.02))


def test_sets_are_as_good_when_each_of_their_settings_adds_a_percent():
    keep, both, lucky = ("keep",), ("keep", "fused"), ("keep", "fused", "pinned")
    rated = {(): Rating(0.0, 0.0, 5), keep: Rating(0.40, 0.01, 5), lucky: Rating(0.60, 0.02, 1)}
    assert Search.as_good_as(lucky, rated) == [lucky]
    again = rated | {lucky: Rating(0.42, 0.01, 8), both: Rating(0.35, 0.01, 5)}
    assert Search.as_good_as(lucky, again) == [keep, lucky], "by its fresh heats it adds nothing"


def test_each_setting_of_a_winner_is_worth_a_percent():
    """A set of more settings wins when it is surely faster by a percent for each, not when its heats were luckier."""
    keep, both, three = ("keep",), ("keep", "fused"), ("keep", "fused", "pinned")
    rated = {(): Rating(0.0, 0.0, 5), keep: Rating(0.40, 0.01, 5), both: Rating(0.405, 0.01, 5)}
    assert choose(rated) == keep
    assert choose(rated | {both: Rating(0.40 + 1.5 * WORTH_SETTING, 0.01, 5)}) == both
    assert choose(rated | {three: Rating(0.44, 0.06, 1)}) == keep, "one lucky heat wins nothing"
    assert choose({(): Rating(0.0, 0.0, 5), keep: Rating(WORTH_SETTING, 0.001, 5)}) == ()


def test_a_price_is_that_of_the_device_else_of_its_kind_else_of_the_machine():
    card = replace(CPU, name="cuda:0", kind="cuda")
    devices = (card, replace(card, name="cuda:1"), CPU)
    ask = Ask(prices=(TypePrice("cuda", 2.0), TypePrice("cuda:1", 3.0)))
    assert [ask.prices_of(each).per_hour for each in devices] == [2.0, 3.0, None]
    assert [Ask(rate_per_hour=0.5).prices_of(each).per_hour for each in devices] == [0.5, 0.5, 0.5]
    prices = LanePrices(per_hour=3.6, per_kwh=0.36)
    assert AIMS["money"].per_s(100.0, prices) == pytest.approx(0.001 + 0.00001)
    assert AIMS["money"].per_s(TOO_SHORT, prices) == TOO_SHORT
