"""How fast a candidate learns: from curves of losses to KEEP, DISCARD or UNDECIDED."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from laptime.model.process import Dnf, ProcessRun
from laptime.questions.verdict.curves import END_MARGIN, judge_learning, losses_of, pair_runs, reached_s, smoothed
from laptime.questions.verdict.nouns import ERRORS, Learning, LearningPoint, LearningRun, learning_fields

LEGS = 24
SPEEDS = (1.0, 1.03, 0.98, 1.01, 0.99)  # of the seeds, so that each differs a little


def run(lane, seed, speed=1.0, *, floor=0.5, start=1.5, seconds=12.0, order=None):
    """A loss that falls from its start towards its floor, the faster the higher its speed."""
    times = [seconds * leg / LEGS for leg in range(LEGS + 1)]
    points = tuple(
        LearningPoint(10 * leg, time, floor + (start - floor) / (1 + speed * time)) for leg, time in enumerate(times)
    )
    return LearningRun(ProcessRun(lane, "ok"), seed, 2 * seed + (lane != "base") if order is None else order, points)


def learned(make, seeds=SPEEDS):
    """Both sides from each seed; `make` returns the candidate's run of a seed and its chance speed."""
    runs, pairs = [], []
    for seed, speed in enumerate(seeds):
        base, candidate = run("base", seed, speed), make(seed, speed)
        runs += [base, candidate]
        pairs.append(pair_runs(base, candidate))
    return Learning(8, items=100, is_held_out=True, runs=tuple(runs), pairs=tuple(filter(None, pairs)))


def judged(make, seeds=SPEEDS, gain=0.02):
    return judge_learning(learned(make, seeds), gain, ERRORS)


def test_twice_as_fast_is_kept_with_the_loss_and_both_times():
    found = judged(lambda seed, speed: run("new", seed, 2 * speed * (1 + 0.01 * (seed % 2))))
    assert (found.word, found.cause, found.needs) == ("KEEP", "learns faster", "")
    assert math.isclose(found.factor.ratio, 2.01, rel_tol=0.02)
    assert found.says.startswith("it learns as well, 2.0")
    assert "x as fast (" in found.says
    assert "same work" not in found.says


def test_half_as_fast_is_slower():
    found = judged(lambda seed, speed: run("new", seed, 0.5 * speed * (1 + 0.01 * (seed % 2))))
    assert (found.word, found.cause) == ("DISCARD", "learns slower")
    assert found.factor.high < 1


def test_one_that_is_fast_at_first_and_ends_higher_learns_worse():
    """It came to a floor of its own, which the base is below at the end."""
    found = judged(lambda seed, speed: run("new", seed, 30 * speed, floor=0.75))
    assert (found.word, found.cause) == ("DISCARD", "learns worse")
    assert "its loss ends at 0.752, the base's at 0.58" in found.says


def test_the_same_curves_are_no_gain_whatever_the_machine_does():
    found = judged(lambda seed, speed: run("new", seed, speed, seconds=12.0 * (1 + 0.004 * (-1) ** seed)))
    assert (found.word, found.cause) == ("DISCARD", "no gain")


def test_seeds_that_disagree_decide_nothing_and_say_how_many_would():
    found = judged(lambda seed, speed: run("new", seed, speed * (1.6 if seed % 2 else 0.9)))
    assert (found.word, found.cause) == ("UNDECIDED", "wide")
    assert "--seeds" in found.needs


def test_a_loss_of_a_tenth_is_never_seen():
    """Only weights of a candidate are judged: whatever it reports of its own loss is no part of a run."""
    fields = {field for field in LearningRun.__dataclass_fields__ if "loss" in field}
    assert fields == set()


def test_weights_that_were_trained_before_are_not_kept():
    found = judged(lambda seed, speed: run("new", seed, speed, start=0.9, floor=0.3))
    assert (found.word, found.cause) == ("DISCARD", "trained before")
    assert "its loss is 0.9 before its first step, the base's 1.5" in found.says


def test_a_loss_that_rises_does_not_learn():
    found = judged(lambda seed, speed: run("new", seed, 2 * speed, floor=3.0))
    assert (found.word, found.cause) == ("DISCARD", "learns worse")
    assert "from seed 0 its loss goes from 1.5 to 2.9" in found.says


@pytest.mark.parametrize(("side", "word"), [("base", "UNDECIDED"), ("new", "DISCARD")])
def test_a_loss_that_is_not_finite(side, word):
    learning = learned(lambda seed, speed: run("new", seed, 2 * speed))
    lost = next(each for each in learning.runs if each.process.lane == side)
    points = (*lost.points[:4], replace(lost.points[4], loss=None))
    runs = tuple(replace(each, points=points) if each is lost else each for each in learning.runs)
    found = judge_learning(replace(learning, runs=runs), 0.02, ERRORS)
    assert (found.word, found.cause) == (word, "learns worse")
    assert pair_runs(replace(lost, points=points), learning.runs[1]) is None


@pytest.mark.parametrize(("side", "word"), [("base", "UNDECIDED"), ("new", "DISCARD")])
def test_a_run_that_failed_decides_at_once(side, word):
    learning = learned(lambda seed, speed: run("new", seed, 2 * speed))
    failed = ProcessRun(side, "dnf", dnf=Dnf("legs", "out of memory"))
    runs = tuple(replace(each, process=failed) if each.process.lane == side else each for each in learning.runs)
    found = judge_learning(replace(learning, runs=runs), 0.02, ERRORS)
    assert (found.word, found.cause) == (word, "failed")
    assert "out of memory" in found.says


def test_weights_of_another_network_and_no_loss_are_undecided():
    learning = learned(lambda seed, speed: run("new", seed, 2 * speed))
    runs = (learning.runs[0], replace(learning.runs[1], misfit="its 0.weight is (2, 3), the base's (4, 3)"))
    found = judge_learning(replace(learning, runs=runs, pairs=()), 0.02, ERRORS)
    assert (found.word, found.cause) == ("UNDECIDED", "other network")
    found = judge_learning(Learning(8, why_no_loss="a step shows no weights"), 0.02, ERRORS)
    assert (found.word, found.cause) == ("UNDECIDED", "no loss")
    assert found.needs


def test_a_training_that_sets_its_own_seed_is_undecided():
    """Its seeds are one, so that their spread is that of the machine alone."""
    found = judged(lambda seed, speed: run("new", seed, 2.0))
    assert (found.word, found.cause) == ("UNDECIDED", "one seed")
    assert "the candidate learns the same from each" in found.says
    found = judged(lambda seed, speed: run("new", seed, 2 * speed), seeds=(1.0, 1.0, 1.0, 1.0))
    assert "the base learns the same from each" in found.says


def test_a_base_that_does_not_learn_decides_nothing():
    pairs = tuple(
        pair_runs(run("base", seed, start=0.5 + tiny), run("new", seed, start=0.5 + 2 * tiny))
        for seed, tiny in enumerate((1e-3, -1e-3, 1e-3, -1e-3))
    )
    flat = Learning(8, pairs=pairs)
    found = judge_learning(flat, 0.02, ERRORS)
    assert found.word == "UNDECIDED"


def test_replaced_clocks_and_hidden_time_are_cheats():
    learning = learned(lambda seed, speed: run("new", seed, 2 * speed))
    changed = tuple(
        replace(each, changed=("time.perf_counter",)) if each.process.lane == "new" else each for each in learning.runs
    )
    found = judge_learning(replace(learning, runs=changed), 0.02, ERRORS)
    assert (found.word, found.cause, found.cheat) == ("DISCARD", "cheat", "changed clock")
    for beyond_s, cheat in ((0.011, None), (0.4, "hidden time")):
        seen = tuple(
            seen_by_its_parent(each, beyond_s if each.process.lane == "new" else 0.01) for each in learning.runs
        )
        assert judge_learning(replace(learning, runs=seen), 0.02, ERRORS).cheat == cheat


def seen_by_its_parent(side, beyond_s):
    """Legs of half a second, of which laptime's own clock saw more."""
    return replace(side, points=tuple(replace(point, seen_s=0.5 + beyond_s) for point in side.points))


def test_two_seeds_are_too_few():
    assert judged(lambda seed, speed: run("new", seed, 2 * speed), seeds=(1.0, 1.02)).cause == "early"


def test_a_pair_favours_neither_side():
    """Exchanged, its times are exchanged, also where one trained for a leg longer."""
    longer = replace(run("new", 0, 1.2), points=run("new", 0, 1.2).points[:-1])
    for other in (run("new", 0, 1.3), run("new", 0, 0.7), longer):
        there, back = pair_runs(run("base", 0), other), pair_runs(other, run("base", 0))
        assert (there.base_s, there.candidate_s) == (back.candidate_s, back.base_s)
        assert there.ends == back.ends[::-1]


def test_a_leg_longer_is_no_gain():
    base, longer = run("base", 0), run("new", 0, seconds=12.5)
    points = tuple(LearningPoint(10 * leg, leg / 2, 0.5 + 1 / (1 + leg / 2)) for leg in range(LEGS + 2))
    pair = pair_runs(base, replace(longer, points=points))
    assert math.isclose(pair.base_s, pair.candidate_s, rel_tol=0.01)


def test_the_loss_that_both_reach_is_a_margin_above_the_worse_end():
    pair = pair_runs(run("base", 0), run("new", 0, 4.0))
    base_end = 0.5 + 1 / 13
    assert math.isclose(pair.loss, base_end + END_MARGIN * (1.5 - base_end), rel_tol=0.01)
    assert pair.candidate_s < pair.base_s < 12


def test_a_smoothed_curve_never_rises_and_keeps_its_mean():
    curve = [(0.0, 3.0), (1.0, 1.0), (2.0, 2.0), (3.0, 1.5), (4.0, 0.5)]
    assert smoothed(curve) == [(0.0, 3.0), (2.0, 1.5), (4.0, 0.5)]
    assert reached_s(smoothed(curve), 1.0) == 3.0
    assert reached_s(smoothed(curve), 4.0) is None


def test_a_leg_that_others_disturbed_counts_as_the_middle_one():
    quiet = [LearningPoint(10 * leg, float(leg), 1.0) for leg in range(7)]
    late = [*quiet[:4], *(replace(point, train_s=point.train_s + 30, flag="others" * (at == 4) or None)
                         for at, point in enumerate(quiet[4:], start=4))]  # fmt: skip
    assert [time for time, _ in losses_of(late)] == [float(leg) for leg in range(7)]
    unflagged = [replace(point, flag=None) for point in late]
    assert losses_of(unflagged)[-1][0] == 36.0


def test_fields_of_learning_have_names_of_their_own():
    learning = learned(lambda seed, speed: run("new", seed, 2 * speed))
    found = learning_fields(learning, judge_learning(learning, 0.02, ERRORS).factor)
    assert (found.seeds, found.loss_on, found.items) == (5, "held-out", 100)
    assert found.candidate_s < found.base_s
    assert found.candidate_end_loss < found.base_end_loss < found.loss
    assert learning_fields(replace(learning, pairs=()), None) is None
