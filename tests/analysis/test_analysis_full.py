"""Whole trainings read: factors with the first lap apart, when an accuracy was reached, whether learning parts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from measured import changed

from laptime.model.machine import Device
from laptime.model.plan import PlannedLane
from laptime.model.process import Dnf, ProcessRun, Settings
from laptime.model.protocol import Evaluation, FullRun, LapResult, Reached, Score
from laptime.model.quantities import Missing
from laptime.model.record import Parity
from laptime.model.sample import ProofRun, Reference
from laptime.questions.train.reduce import (
    compare_learning,
    final_score,
    find_factor,
    find_mixed,
    find_reached,
    later_laps,
    summarise_full_lane,
)

CPU = Device("cpu", "cpu", "a processor", usable=True)
SAME = Parity("same")


def lap(number, train_s, accuracy=0.5, *, items=1_000, fresh=None, validation=None):
    seen = None if validation is None else Evaluation(Score(100, 1.0, validation), 0.5)
    is_fresh = number == 1 if fresh is None else fresh
    return LapResult(number, 10, train_s, Score(items, 1.0, accuracy), fresh=is_fresh, validation=seen)


def run(lane, *times_s, seed=0, test=None, items=1_000, **changes):
    laps = tuple(lap(place + 1, train_s, items=items) for place, train_s in enumerate(times_s))
    tested = None if test is None else Evaluation(Score(10_000, 1.0, test), 1.0)
    phases_s = {"start": 0.5, "import": 1.0, "build": 0.25, "proof": 9.0}
    made = FullRun(ProcessRun(lane, "ok", phases_s=phases_s), seed, 0, laps, tested)
    return changed(made, **changes)


def lane_of(name, runs):
    planned = PlannedLane(name, "fake", CPU, Settings())
    return replace(summarise_full_lane(planned, runs, None, 100), parity=SAME)


def factor_of(runs):
    return find_factor(lane_of("b", runs), lane_of("a", runs), runs)


def test_the_first_lap_stands_apart():
    """Twice as fast from the second lap on, and four times in the first."""
    found = factor_of([run("a", 8.0, 4.0, 4.0), run("b", 2.0, 2.0, 2.0)])
    assert (found.later_laps, found.first_lap) == (pytest.approx(2.0), pytest.approx(4.0))
    assert isinstance(found.low, Missing)
    assert found.same_work


def test_a_lap_that_a_resumed_process_began_with_stands_apart_too():
    """It holds a first step again."""
    one = run("a", 8.0, 4.0, 4.0)
    broken = replace(one, laps=(one.laps[0], replace(one.laps[1], fresh=True, train_s=9.0), one.laps[2]))
    assert [each.number for each in later_laps(broken)] == [3]
    assert factor_of([broken, run("b", 2.0, 2.0, 2.0)]).later_laps == pytest.approx(2.0)


def test_one_lap_alone_gives_a_first_lap_and_no_more():
    """There is no later one to speak of."""
    found = factor_of([run("a", 8.0), run("b", 2.0)])
    assert found.first_lap == pytest.approx(4.0)
    assert found.later_laps == Missing("a second lap was not trained by both")


def test_a_factor_is_of_items_a_second():
    """A lane whose laps see more items in the same time is faster."""
    found = factor_of([run("a", 4.0, 4.0), run("b", 4.0, 4.0, items=2_000)])
    assert found.later_laps == pytest.approx(2.0)


def test_several_seeds_give_an_interval():
    """Pairs of the same seed, as rounds are in a race."""
    runs = [run("a", 8.0, each, seed=seed) for seed, each in enumerate((4.0, 4.2, 4.1))]
    runs += [run("b", 8.0, each / 2, seed=seed) for seed, each in enumerate((4.0, 4.2, 4.2))]
    found = factor_of(runs)
    assert found.low < found.later_laps < found.high
    assert found.later_laps == pytest.approx(1.984, abs=1e-3)


def test_lanes_that_trained_nothing_have_no_factor():
    """Nothing to compare."""
    assert factor_of([run("a", 8.0), run("b", status="dnf", dnf=Dnf("build", "no"))]) is None


def test_a_lane_has_the_figures_that_all_records_have():
    """Of its later laps; the proof is no start-up."""
    found = summarise_full_lane(PlannedLane("a", "fake", CPU, Settings()), [run("a", 8.0, 4.0, 6.0)], None, 100)
    assert (found.lap_s.median, found.step_ms.median) == (pytest.approx(5.0), pytest.approx(500.0))
    assert found.items_per_s.median == pytest.approx(200.0)
    assert (found.startup_s, found.status, found.parity.status) == (1.75, "ok", "unproven")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, None),
        (0.5, Reached(0.5, 0.5, 1, 2.0)),
        (0.6, Reached(0.6, 0.7, 2, 5.0)),
        (0.8, Reached(0.8, 0.7)),
    ],
)
def test_an_accuracy_is_reached_in_the_first_lap_that_has_it(wanted, expected):
    """By validation where there is one; never, with the best there was."""
    laps = [lap(1, 2.0, 0.9, validation=0.5), lap(2, 3.0, 0.9, validation=0.7), lap(3, 3.0, 0.9, validation=0.6)]
    assert find_reached(laps, wanted) == expected


def test_without_validation_the_training_says_when():
    """As it was in the lap's own mean."""
    assert find_reached([lap(1, 2.0, 0.5), lap(2, 3.0, 0.7)], 0.7) == Reached(0.7, 0.7, 2, 5.0)


def test_an_accuracy_that_is_not_there_cannot_be_reached():
    """A regression has none; and no lap, no accuracy."""
    nothing = Missing("no classes")
    assert find_reached([lap(1, 2.0, nothing)], 0.5) == Reached(0.5, nothing)
    assert find_reached([], 0.5) == Reached(0.5, Missing("no lap was trained"))


def test_a_test_comes_before_a_validation():
    """The last validation speaks where no test was held, once the training is whole."""
    validated = replace(run("a"), laps=(lap(1, 1.0, validation=0.4),))
    assert final_score(replace(validated, test=Evaluation(Score(9, 1.0, 0.8), 1.0))).accuracy == 0.8
    assert final_score(validated).accuracy == 0.4
    assert final_score(changed(validated, status="interrupted")) is None


@pytest.mark.parametrize(("other", "parts"), [(0.6, False), (0.613, False), (0.6145, True), (0.58, True)])
def test_one_seed_is_held_against_the_chance_of_the_test_set(other, parts):
    """Two standard errors of the difference: 0.0138 for 0.6 of 10,000."""
    found = compare_learning("b", "a", [run("a", 1.0, test=0.6), run("b", 1.0, test=other)])
    assert (found is not None) == parts
    if found is not None:
        assert found.evidence["allowed"] == pytest.approx(0.0138, abs=2e-4)
        assert "learning differs" in found.says
        assert "--seeds 3" in found.advice


def test_several_seeds_are_held_against_their_own_spread():
    """The same distance, explained by one spread and not by the other."""
    wide = [
        run(name, 1.0, seed=seed, test=mean + (seed - 1) * 0.02)
        for name, mean in (("a", 0.6), ("b", 0.63))
        for seed in range(3)
    ]
    narrow = [
        run(name, 1.0, seed=seed, test=mean + (seed - 1) * 0.002)
        for name, mean in (("a", 0.6), ("b", 0.63))
        for seed in range(3)
    ]
    assert compare_learning("b", "a", wide) is None
    assert "3 seeds do not explain it" in compare_learning("b", "a", narrow).says


def test_what_has_no_accuracy_is_not_compared():
    """Nothing is said of lanes that ended without one."""
    assert compare_learning("b", "a", [run("a", 1.0), run("b", 1.0)]) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "mixed"),
    [
        ({"sources": {"a.py": "1", "b.py": "1"}}, {"sources": {"a.py": "1", "c.py": "2"}}, ()),
        ({"sources": {"a.py": "1"}}, {"sources": {"a.py": "2"}}, ("a.py",)),
        ({"changed": ("gone.py",)}, {}, ("gone.py",)),
    ],
)
def test_no_work_is_called_the_same_across_sources_that_changed(ours, theirs, mixed):
    """Neither between two lanes nor within one training, though each proof was passed; a difference stays one."""
    proof = ProofRun("fp32", (2.0, 1.0), 10.0, -1e-8, (0.5, 0.25), 0.125)
    runs = [run("a", 1.0, proofs=(proof,), **ours), run("b", 1.0, proofs=(proof,), **theirs)]
    assert find_mixed(runs) == mixed
    reference = Reference("", proof, proof, 2, 100)
    lanes = [summarise_full_lane(PlannedLane(name, "fake", CPU, Settings()), runs, reference, 100) for name in "ab"]
    expected = ("unproven", f"{mixed[0]} changed between these trainings") if mixed else ("same", None)
    assert [(lane.parity.status, lane.parity.reason) for lane in lanes] == [expected] * 2
    other = replace(reference, exact=replace(proof, losses=(2.5, 1.0)))
    judged = summarise_full_lane(PlannedLane("a", "fake", CPU, Settings()), runs, other, 100)
    assert judged.parity.status == "differs"
