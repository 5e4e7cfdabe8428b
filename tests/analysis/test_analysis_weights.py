"""A round counts less where its turns or the instruments clearly say that it is worse, and never for its ratio."""

from __future__ import annotations

from math import exp, log
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import plan_of, planned, reference
from test_analysis_rounds import in_turns

from laptime.analysis.diagnosis.findings import find_unreliable
from laptime.analysis.heats import judge_rounds
from laptime.analysis.lanes import compare_lanes, scales, summarise_lane
from laptime.analysis.weights import CLEARLY, RoundNoise, weigh_rounds, with_weights

QUIET = 1e-4
WOBBLE = (1.0, 1.02, 0.99, 1.01, 0.98)
NEIGHBOUR = dict.fromkeys(range(5), "other processes took 0.97 cores")
noises = st.floats(1e-5, 1e-2)


def noise_of(times=1.0, disturbed=0.0, *, of=("a", "b")):
    """Return a round whose ratio and some of whose lanes are `times` as noisy as usual."""
    steps = {name: QUIET * (times if name in of else 1.0) for name in ("a", "b")}
    return RoundNoise(steps, {"b over a": QUIET * times}, disturbed)


def race_of(ratios, disturbed=(), *, slow=1.5):
    """Return both lanes of a race: the first is slower by each round's ratio, and a neighbour disturbs some rounds."""
    heats = {"a": [], "b": []}
    for number, ratio in enumerate(ratios):
        times, flags = (slow, NEIGHBOUR) if number in disturbed else (1.0, None)
        # Turns of both lanes wobble, and not together.
        heats["a"].append(in_turns([100.0 * ratio * times * each for each in WOBBLE], number, flags))
        heats["b"].append(in_turns([100.0 * times * each for each in reversed(WOBBLE)], number, flags))
    judged = with_weights(judge_rounds(heats))
    factors, plan = scales(judged), plan_of(*map(planned, judged))
    return [summarise_lane(plan, lane, judged[lane.name], reference(), scale=factors[lane.name]) for lane in plan.lanes]


def test_rounds_that_are_alike_count_alike():
    """Four times the usual noise is seen by chance."""
    assert weigh_rounds([noise_of(times) for times in (0.1, 0.5, 1.0, 1.0, 2.0, CLEARLY)]) == (1.0,) * 6
    assert weigh_rounds([noise_of(disturbed=1.0)] * 5) == (1.0,) * 5
    assert weigh_rounds([]) == ()


def test_a_round_counts_less_where_all_its_lanes_are_noisier():
    """As much as the inverse of the variance that it is expected to have."""
    *usual, noisy = weigh_rounds([*[noise_of()] * 5, noise_of(100.0)])
    assert (usual, noisy) == ([1.0] * 5, pytest.approx(2.454 / (2.454 + 96), rel=1e-3))


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_lane_that_alone_is_noisier_is_so_by_itself(name):
    """Its slow steps make its ratio noisy and lower: to count them less would make it look faster."""
    assert weigh_rounds([*[noise_of()] * 5, noise_of(100.0, of=(name,))]) == (1.0,) * 6


def test_a_disturbed_round_counts_as_far_as_its_turns_were():
    """Its turns may be alike while a neighbour slows one lane more than the other."""
    *usual, half, whole = weigh_rounds([*[noise_of()] * 6, noise_of(disturbed=0.5), noise_of(disturbed=1.0)])
    assert usual == [1.0] * 6
    assert 0.001 < whole < half < 0.005


@given(st.lists(st.tuples(noises, noises, noises, st.sampled_from([0.0, 0.2, 1.0])), min_size=1, max_size=12))
def test_a_weight_is_above_nothing_and_at_most_one(rounds):
    """And the best round counts as one."""
    weights = weigh_rounds([RoundNoise({"a": a, "b": b}, {"b over a": ratio}, share) for a, b, ratio, share in rounds])
    assert max(weights) == 1.0
    assert min(weights) > 0


def test_two_disturbed_rounds_of_eight_hardly_move_a_factor():
    """A neighbour slowed one lane more, and their ratio is off by a quarter. The factor stays a quotient."""
    ratios = [1.48, 1.5, 1.52, 1.49, 1.51, 1.5, 1.9, 1.9]
    first, second = race_of(ratios, disturbed=(6, 7))
    found = compare_lanes(second, first, 0.05, 0.05)
    assert found.ratio == pytest.approx(1.5, rel=5e-3)
    assert found.settled
    assert first.step_ms.median / second.step_ms.median == pytest.approx(found.ratio, rel=1e-12)
    assert [heat.hardly_counts for heat in first.heats] == [number in (6, 7) for number in range(8)]
    assert first.lap_s.median == pytest.approx(first.step_ms.median * 500 / 1e3)
    before = exp(fmean(map(log, ratios)))
    assert before > 1.58


def test_a_race_of_which_nothing_was_disturbed_is_as_before():
    """No round has a weight, so that its record is the one of an earlier version."""
    first, second = race_of([1.48, 1.5, 1.52, 1.49, 1.51])
    assert {heat.weight for lane in (first, second) for heat in lane.heats} == {None}
    assert compare_lanes(second, first, 0.05, 0.05).ratio == pytest.approx(1.5, rel=1e-4)


def test_a_lane_that_missed_rounds_keeps_the_quotient():
    """Its step is brought to the first lane's, by the weighed factor of the rounds that both ran."""
    heats = {"a": [], "b": []}
    for number, ratio in enumerate([1.4, 1.5, 1.6, 1.45, 1.9, 1.55]):
        times, flags = (1.5, NEIGHBOUR) if number == 4 else (1.0, None)
        heats["a"].append(in_turns([100.0 * ratio * times * each for each in WOBBLE], number, flags))
        if number:
            heats["b"].append(in_turns([100.0 * times * each for each in reversed(WOBBLE)], number, flags))
    judged = with_weights(judge_rounds(heats))
    factors, plan = scales(judged), plan_of(*map(planned, judged))
    first, second = (
        summarise_lane(plan, lane, judged[lane.name], reference(), scale=factors[lane.name]) for lane in plan.lanes
    )
    found = compare_lanes(second, first, 0.05, 0.05)
    assert first.step_ms.median / second.step_ms.median == pytest.approx(found.ratio, rel=1e-12)


@pytest.mark.parametrize(("disturbed", "is_reliable"), [((6, 7), True), ((4, 5, 6, 7), True), ((3, 4, 5, 6, 7), False)])
def test_a_race_with_enough_quiet_rounds_is_reliable(disturbed, is_reliable):
    """Half of them, and at least four: the others hardly count."""
    assert (find_unreliable(race_of([1.5] * 8, disturbed)) == ()) == is_reliable
    assert find_unreliable(race_of([1.5] * 6, (3, 4, 5))) != ()
