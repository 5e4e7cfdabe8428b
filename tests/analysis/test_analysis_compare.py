"""Two lanes give a factor, its interval, and one of three verdicts."""

from __future__ import annotations

from dataclasses import replace
from math import exp, sqrt

import pytest
from measured import failed, heat_of, plan_of, planned, proof, reference, windows_of

from laptime.analysis.heats import judge_rounds, summarise_heat
from laptime.analysis.lanes import compare_lanes, summarise_lane
from laptime.analysis.parity import is_same_work
from laptime.model.process import ProcessRun
from laptime.model.protocol import FullRun, InferHeat, LapResult, Score
from laptime.model.quantities import Missing
from laptime.model.record import HeatResult, Parity
from laptime.questions.infer.reduce import find_infer_factors
from laptime.questions.train.reduce import find_factor

T_95_OF_3 = 4.302652729911275  # Student's t at 97.5 % with two degrees of freedom
MARGIN = 0.05


def lane_of(*heats, name="torch/cpu/as-written", batch=None):
    lane = planned(name, batch=batch)
    results = tuple(each if isinstance(each, HeatResult) else summarise_heat(each) for each in heats)
    return summarise_lane(plan_of(lane), lane, results, reference())


def heats_of(*steps_ms, **changes):
    return [heat_of(step_ms, number, **changes) for number, step_ms in enumerate(steps_ms)]


def compare(lane, against, alpha=0.05):
    return compare_lanes(lane, against, MARGIN, alpha)


def test_the_ratio_is_of_pairs_of_the_same_round():
    """What slows both heats of a round by half leaves the ratio as it is: 2, with no doubt at all."""
    found = compare(lane_of(*heats_of(50.0, 75.0, 100.0)), lane_of(*heats_of(100.0, 150.0, 200.0)))
    assert (found.ratio, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))
    assert (found.verdict, found.settled, found.pairs) == ("faster", True, 3)


def in_turns(*steps_ms, number=0, **changes):
    """Return a heat with a window for each turn; a flag by its place marks a disturbed one."""
    flags = changes.pop("flags", None)
    windows = windows_of(*steps_ms, flags=flags)
    windows = tuple(replace(window, turn=turn) for turn, window in enumerate(windows))
    return heat_of(1.0, number, windows=windows, **changes)


def of_one_race(ours, theirs):
    """Return both lanes, once their heats were held against each other."""
    judged = judge_rounds({"ours": ours, "theirs": theirs})
    return lane_of(*judged["ours"]), lane_of(*judged["theirs"])


def test_the_ratio_of_a_round_is_that_of_the_turns_of_both():
    """The machine gets slower from turn to turn, and one lane has more turns: these count for neither."""
    ours, theirs = in_turns(50.0, 50.4, 50.8, 51.2), in_turns(100.0, 100.8, 101.6, 102.4, 103.2, 104.0)
    mine, other = of_one_race([ours], [theirs])
    found = compare(mine, other)
    assert (found.ratio, found.pairs) == (pytest.approx(2.0), 1)
    assert other.step_ms.median / mine.step_ms.median == found.ratio


def test_a_pair_of_turns_of_which_one_was_disturbed_does_not_count():
    """The other turns of both lanes do."""
    theirs = in_turns(100.0, 900.0, 102.0, 103.0, 104.0, flags={1: "planted"})
    ours = in_turns(50.0, 80.0, 51.0, 51.5, 52.0)
    mine, other = of_one_race([ours], [theirs])
    assert compare(mine, other).ratio == pytest.approx(2.0)
    assert mine.heats[0].counted == other.heats[0].counted == (0, 2, 3, 4)


def test_a_loader_that_works_in_bursts_is_compared_by_its_mean():
    """How much of its waiting falls into one turn is chance."""
    ours = in_turns(10.0, 90.0, 20.0, 80.0, burst=4)
    theirs = in_turns(*[100.0] * 4)
    assert compare(lane_of(ours), lane_of(theirs)).ratio == pytest.approx(2.0)


def test_rounds_in_turns_count_alone_where_there_are_two():
    """A pair of heats one after another differs by what the machine did meanwhile, too."""
    ours = [heat_of(90.0, 0), *(in_turns(*[50.0] * 4, number=number) for number in (1, 2))]
    theirs = [heat_of(100.0, 0), *(in_turns(*[100.0] * 4, number=number) for number in (1, 2))]
    found = compare(lane_of(*ours), lane_of(*theirs))
    assert (found.pairs, found.ratio) == (2, pytest.approx(2.0))
    assert compare(lane_of(*ours[:2]), lane_of(*theirs[:2])).pairs == 2


def test_the_interval_is_a_t_interval_on_the_logarithms():
    """Ratios 1.8, 2 and 20/9 have a spread of ln(10/9) about 2."""
    found = compare(lane_of(*heats_of(100.0, 100.0, 100.0)), lane_of(*heats_of(180.0, 200.0, 2000 / 9)))
    reach = exp(T_95_OF_3 * 0.10536051565782628 / sqrt(3))
    assert (found.ratio, found.low, found.high) == pytest.approx((2.0, 2.0 / reach, 2.0 * reach), rel=1e-6)
    assert (found.verdict, found.settled) == ("faster", False)


@pytest.mark.parametrize(
    ("steps_ms", "verdict", "settled"),
    [
        ((50.0, 50.0, 50.0), "faster", True),
        ((200.0, 200.0, 200.0), "slower", True),
        ((99.0, 100.0, 101.0), "not distinguishable", True),
        ((80.0, 100.0, 125.0), "not distinguishable", False),
        ((98.0, 98.1, 97.9), "faster", True),
    ],
)
def test_a_verdict_has_three_values(steps_ms, verdict, settled):
    """An interval that reaches 1 settles no difference, but may be settled in itself."""
    found = compare(lane_of(*heats_of(*steps_ms)), lane_of(*heats_of(100.0, 100.0, 100.0)))
    assert (verdict, settled) == (found.verdict, found.settled)


def test_the_spread_between_turns_says_what_spread_of_rounds_to_expect():
    """Five rounds that vary as their turns let expect are known better than five pairs of heats that ran alone."""
    steps_ms = (96.0, 98.0, 100.0, 102.0, 104.0)
    turned = [
        in_turns(*[step_ms * part for part in (0.96, 1.02, 0.98, 1.04)], number=number)
        for number, step_ms in enumerate(steps_ms)
    ]
    theirs = [in_turns(*[200.0] * 4, number=number) for number in range(5)]
    found = compare(lane_of(*turned), lane_of(*theirs))
    alone = compare(lane_of(*heats_of(*steps_ms)), lane_of(*heats_of(*[200.0] * 5)))
    assert (found.in_turns, alone.in_turns, alone.prior_dof) == (True, False, 0.0)
    assert 0 < found.prior_dof <= 1
    assert found.high / found.low < alone.high / alone.low


def test_another_batch_is_compared_by_items():
    """Four times the items in twice the time is twice as fast."""
    lane = lane_of(*heats_of(200.0, 200.0, items_per_step=400), batch=400)
    assert compare(lane, lane_of(*heats_of(100.0, 100.0))).ratio == pytest.approx(2.0)


def test_only_rounds_that_both_finished_are_pairs():
    """A heat without its partner is left out of the ratio."""
    lane = lane_of(heat_of(50.0, 0), failed(1), heat_of(50.0, 2))
    found = compare(lane, lane_of(*heats_of(100.0, 900.0, 100.0)))
    assert (found.ratio, found.pairs) == (pytest.approx(2.0), 2)


def test_one_pair_has_a_ratio_and_no_interval():
    """Nothing is settled by it, and no verdict but the third can be given."""
    found = compare(lane_of(heat_of(50.0)), lane_of(heat_of(100.0)))
    missing = Missing("one heat alone gives no interval")
    assert (found.ratio, found.low, found.high) == (pytest.approx(2.0), missing, missing)
    assert (found.verdict, found.settled) == ("not distinguishable", False)


def test_lanes_without_a_common_round_cannot_be_compared():
    """There is nothing to say, and nothing is said."""
    assert compare(lane_of(heat_of(50.0, 0)), lane_of(heat_of(100.0, 1))) is None
    assert compare(lane_of(failed()), lane_of(heat_of(100.0))) is None


def test_a_lane_that_did_other_work_is_marked():
    """Whichever of the two it was."""
    same, other = lane_of(*heats_of(50.0, 50.0)), lane_of(*heats_of(9.0, 9.0, proofs=(proof(loss=1e-3),)))
    assert [compare(*pair).same_work for pair in ((same, same), (same, other), (other, same))] == [True, False, False]


@pytest.mark.parametrize(
    ("ours", "theirs", "told"),
    [
        (Parity("same"), Parity("same"), True),
        (Parity("same"), Parity("differs"), False),
        (Parity("unproven", reason="no proof"), Parity("differs"), False),
        (Parity("unproven", reason="it draws"), Parity("same"), Missing("it draws")),
        (Parity("same"), Parity("unproven"), Missing("no proof was taken")),
        (Parity("unproven", reason="a"), Parity("unproven", reason="a"), Missing("a")),
    ],
)
def test_the_same_work_has_one_meaning(ours, theirs, told):
    """Proven by both, or other work, or not known and why: in races, whole trainings and inference."""
    assert is_same_work(ours, theirs) == told
    lane = replace(lane_of(*heats_of(50.0, 50.0)), parity=ours)
    assert compare(lane, replace(lane, parity=theirs)).same_work == told
    runs = [FullRun(ProcessRun(name, "ok"), 0, 0, (LapResult(1, 1, 1.0, Score(1, 1.0, 1.0)),)) for name in ("a", "b")]
    assert find_factor(replace(lane, name="a"), replace(lane, name="b", parity=theirs), runs).same_work == told
    heats = [InferHeat(ProcessRun("a", "ok"), 0, 0, items_a_call=1, calls_ns=(1_000, 1_000))]
    (found,) = find_infer_factors(lane, replace(lane, parity=theirs), heats, heats)
    assert found.same_work == told


def test_a_stricter_look_has_a_wider_interval():
    """The price of looking early is kept with the figure."""
    lane, against = lane_of(*heats_of(99.0, 100.0, 101.0)), lane_of(*heats_of(100.0, 100.0, 100.0))
    loose, strict = compare(lane, against, 0.05), compare(lane, against, 0.01)
    assert strict.low < loose.low < loose.ratio < loose.high < strict.high
    assert (loose.alpha, strict.alpha) == (0.05, 0.01)


def numbered(*steps_ms, first=3, steps=10, number=0):
    """Return a heat in turns whose windows hold these steps."""
    heat = in_turns(*steps_ms, number=number)
    windows = tuple(replace(each, first_step=first + steps * turn) for turn, each in enumerate(heat.windows))
    return replace(heat, windows=windows)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (numbered(10.0, 10.0, 10.0), numbered(20.0, 20.0, 20.0), "same"),
        (numbered(10.0, 10.0, 10.0, first=800), numbered(20.0, 20.0, 20.0), "alike"),
        (numbered(10.0, 10.0, 12.0, 12.0, 14.0, 14.0, first=800), numbered(20.0, 20.0, 20.0), "other"),
        (in_turns(10.0, 10.0, 10.0), numbered(20.0, 20.0, 20.0), "not known"),
    ],
)
def test_a_factor_says_whether_it_is_of_the_same_steps(ours, theirs, expected):
    """Other steps are as good only where a step's time does not depend on its number."""
    assert compare(lane_of(ours), lane_of(theirs)).steps == expected
