"""Causes in a script's own lines: the rules of `laptime watch`, each with the experiment that takes its line out."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from cases import MACHINE, case_of, lane_of, signs_of, trial
from measured import with_heat
from watched_cases import TEN, watched

from laptime.analysis.lanes import ratios_with_gaps, share_of_steps
from laptime.model.quantities import Factor
from laptime.model.record import CodeChange, Finding, PredictedGain
from laptime.model.script import SeenLine
from laptime.model.symptoms import DenormalCensus, TimedPlace
from laptime.questions.why.answer import explain, remedies
from laptime.questions.why.causes import judge_causes, predict, rank_experiments
from laptime.questions.why.facts import part_share
from laptime.questions.why.nouns import WHAT_IT_DOES, Experiment
from laptime.questions.why.own_code import (
    A_LINE_SELDOM,
    A_LINE_TWICE,
    AT_NO_LINE,
    LINE_WORDS,
    NO_LINE,
    OF_LINES,
    find_watched,
    is_between,
    with_lines,
    without_it,
)

MS = 1_000_000
SLEEPS = Finding("script line", "40 % of an iteration is waiting for what computes nothing (train.py:3).",
                 {"share": 0.4}, "Leave it out, or do it in a thread.", "likely", where="train.py:3",
                 gain=PredictedGain(1.6, 1.8))  # fmt: skip
OPTIMIZER = Finding("script optimizer", "The optimizer takes 30 % of an iteration.", {"share": 0.3}, "fused=True",
                    "likely", where="train.py:2", gain=PredictedGain(1.2, 1.4))  # fmt: skip
SOURCE = b"for step in range(9):\n    opt.step()\n    time.sleep(1)\n"
ROWS = tuple(
    Experiment(
        name,
        "own code",
        "leave out the line that takes most",
        (f"{word}{AT_NO_LINE}",),
        changes=WHAT_IT_DOES,
        is_code=False,
    )
    for name, word in LINE_WORDS.items()
)


def script(*trials, found=(SLEEPS, OPTIMIZER), **told):
    lane = lane_of(10.0, signs=signs_of(steps=100, places=(), wall_ns=1000 * MS, **told))
    return case_of(lane, *trials, watched=tuple(found))


def left_out(ratio=None, **others):
    experiment, *_ = with_lines(ROWS, (SLEEPS,), {"train.py": SOURCE}.get)
    words = {name: getattr(experiment, name) for name in ("cause", "says", "settings", "changes", "code", "did")}
    return trial(OF_LINES[0], ratio, **words, **others)


def own_code_of(case):
    return next(each for each in judge_causes(case) if each.cause == "own code")


def test_a_line_that_can_be_left_out_gets_an_experiment():
    first, *others = with_lines(ROWS, (OPTIMIZER, SLEEPS), {"train.py": SOURCE}.get)
    assert (first.settings, first.says, first.absent) == (("without=train.py:3",), "leave out train.py:3", None)
    assert (first.code, first.is_code) == (SLEEPS.advice, True)
    assert {experiment.absent for experiment in others} == {NO_LINE}
    twice = with_lines(ROWS, (SLEEPS, replace(SLEEPS, rule="script outside the step")), {"train.py": SOURCE}.get)
    assert [each.absent for each in twice] == [None, NO_LINE, NO_LINE, NO_LINE]
    assert all(each.absent == NO_LINE for each in with_lines(ROWS, (SLEEPS,), {}.get))
    assert all(each.absent == NO_LINE for each in with_lines(ROWS, (replace(SLEEPS, where=None),), {}.get))


READ = Finding("script loop", "60 % of an iteration is a loop in Python (train.py:2).", {"share": 0.6},
               "Compute all at once.", "likely", where="train.py:2", gain=PredictedGain(2.0, 2.5))  # fmt: skip
READS = b"for step in range(9):\n    rows = [embed(row) for row in data]\n    model(rows)\n"


def test_a_line_whose_result_is_read_is_run_twice():
    """What it takes a second time, it takes. What other causes judge needs no such proof."""
    found = {each.name: each for each in with_lines(ROWS, (READ,), {"train.py": READS}.get)}
    twice = found[A_LINE_TWICE]
    assert (twice.settings, twice.says, twice.absent) == (("twice=train.py:2",), "do without train.py:2", None)
    assert found[OF_LINES[0]].absent == NO_LINE
    waits = replace(READ, rule="script waits for data")
    assert all(each.absent == NO_LINE for each in with_lines(ROWS, (waits,), {"train.py": READS}.get))
    words = {name: getattr(twice, name) for name in ("cause", "says", "settings", "changes", "code", "did")}
    case = script(trial(A_LINE_TWICE, 2.1, **words), found=(READ,))
    proven = own_code_of(case)
    assert (proven.standing, proven.gain) == ("proven", 2.1)
    assert "without train.py:2, by what a second time of it takes, it is 2.10x" in proven.says


VALIDATES = Finding(
    "script between iterations", "60 % of the time is validation, between iterations (train.py:2).", {"share": 0.6},
    "Do it less often.", "likely", where="train.py:2", gain=PredictedGain(2.2, 2.5),
    change=CodeChange("some_turns", "train.py", 7, "", "", "train.py"),
)  # fmt: skip
EPOCHS = b"""def evaluate():
    for x in held_out:
        model(x)
for epoch in range(9):
    for x in data:
        opt.step()
    score = evaluate()
    print(score)
    evaluate()
"""


def test_what_lies_between_iterations_is_done_in_fewer_turns():
    """At the line that the change of code is of; left out where nothing reads what it makes, or no change is known."""
    found = {each.name: each for each in with_lines(ROWS, (VALIDATES,), {"train.py": EPOCHS}.get)}
    seldom = found[A_LINE_SELDOM]
    assert (seldom.settings, seldom.says) == (("seldom=train.py:7",), "do train.py:7 in every tenth turn only")
    assert {each.absent for name, each in found.items() if name != A_LINE_SELDOM} == {NO_LINE}
    words = {name: getattr(seldom, name) for name in ("cause", "says", "settings", "changes", "code", "did")}
    case = script(trial(A_LINE_SELDOM, 2.1, **words), found=(VALIDATES,))
    proven = own_code_of(case)
    assert (proven.standing, proven.gain) == ("proven", 2.1)
    assert "with train.py:7 in every tenth turn only, and with the time between iterations, it is 2.10x" in proven.says
    unread = replace(VALIDATES, change=replace(VALIDATES.change, line=9))
    left_out = with_lines(ROWS, (unread,), {"train.py": EPOCHS}.get)[0]
    assert (left_out.settings, left_out.absent) == (("without=train.py:9",), None)
    assert is_between(seldom, (VALIDATES,))
    assert is_between(left_out, (unread,))
    assert not is_between(left_out, (VALIDATES,))
    unnamed = with_lines(ROWS, (replace(VALIDATES, change=None),), {"train.py": EPOCHS}.get)
    assert (unnamed[0].settings, unnamed[0].says) == (("without=train.py:2",), "leave out train.py:2-3")


def test_a_factor_with_what_is_between_iterations_counts_rounds_that_have_it():
    """10 ms and 30 between them, over 8 and 2; a heat that came to nothing between its iterations says nothing."""

    def lane(step_ms: float, between_ms: float | None):
        plain = lane_of(step_ms)
        return replace(plain, heats=tuple(with_heat(heat, between_ms=between_ms) for heat in plain.heats))

    assert ratios_with_gaps(lane(10.0, 30.0), lane(8.0, 2.0)) == pytest.approx(
        [4.0] * len(lane_of(10.0).heats), rel=0.01
    )
    assert ratios_with_gaps(lane(10.0, 0.0), lane(8.0, 2.0)) == []
    assert ratios_with_gaps(lane(10.0, 30.0), lane(8.0, None)) == []
    assert share_of_steps(lane(10.0, 30.0)) == pytest.approx(0.25, rel=0.01)
    assert share_of_steps(lane(10.0, None)) == 1.0


def test_the_rate_of_a_training_has_what_lies_between_its_iterations_in_it():
    """Its gain is one of the whole: 10 ms of steps, and 30 ms of validation for each of them."""
    case = script(found=(VALIDATES,))
    heats = tuple(with_heat(heat, between_ms=30.0) for heat in case.lane.heats)
    whole = explain(replace(case, lane=replace(case.lane, heats=heats))).says
    steps = explain(case).says
    rates = [float(re.search(r"([\d,]+) items/s of a possible", says)[1].replace(",", "")) for says in (steps, whole)]
    assert rates[0] == pytest.approx(4 * rates[1], rel=0.01)


def test_the_factor_without_a_line_is_counted_from_that_with_it_twice():
    """At 10 ms, a line of 6 takes 16 twice, and 4 remain. Its ends change places; what takes nothing gains nothing."""
    found = without_it(Factor(10 / 16, 10 / 16.5, 10 / 15))
    assert (found.ratio, found.low, found.high) == pytest.approx((2.5, 2.0, 10 / 3.5))
    assert without_it(Factor(1.0, NO_LINE, NO_LINE)) == Factor(1.0, NO_LINE, NO_LINE)
    assert without_it(Factor(0.4, 0.3, 0.5)).ratio == pytest.approx(50)


def test_what_watch_finds_is_likely_and_what_the_experiment_moves_is_proven():
    likely = own_code_of(script(left_out(reason="later")))
    assert (likely.standing, likely.gain, likely.evidence["where"]) == ("likely", 1.6, ["train.py:3"])
    proven = own_code_of(script(left_out(1.5)))
    assert (proven.standing, proven.gain) == ("proven", 1.5)
    assert "without train.py:3 it is 1.50x (1.47 to 1.53) as fast" in proven.says
    assert own_code_of(script(left_out(1.0))).standing == "ruled out"
    assert own_code_of(script(found=())).standing == "ruled out"
    says = explain(script(left_out(1.5))).says
    assert "40 % of an iteration is waiting for what computes nothing (train.py:3) (proven)." in says


def test_what_an_experiment_proved_is_named_before_what_gains_more_by_its_times():
    case = script(left_out(reason="later"), trial("fused", 1.3))
    assert own_code_of(case).says.startswith("The optimizer takes 30 % of an iteration; ")
    assert "the optimizer takes 30 % of an iteration (proven)" in explain(case).says


def test_float64_gains_what_watch_says_of_it():
    """So it is named before a loader of a few per cent."""
    double = replace(OPTIMIZER, rule="script in float64", gain=PredictedGain(1.8, 2.0))
    told = signs_of(steps=100, places=(), wall_ns=1000 * MS, wait_ns=60 * MS, compute_ns=900 * MS)
    census = DenormalCensus(types=("float64",), unseen="no float32")
    for found, first, gain in (((double,), "float64", 1.8), ((), "input pipeline", None)):
        lane = lane_of(10.0, signs=told)
        lane = replace(lane, heats=tuple(with_heat(heat, census=census) for heat in lane.heats))
        case = case_of(lane, watched=found)
        judged = next(each for each in judge_causes(case) if each.cause == "float64")
        assert judged.standing == "likely"
        assert judged.gain == gain or gain is None
        assert explain(case).first[0] == first


def test_experiments_of_a_script_are_those_of_what_was_found():
    """Without a finding, a fused optimizer and larger batches are a matter of `laptime tune`."""
    names = [*rank_experiments(script(left_out(reason="later"), trial("fused", reason="later")))]
    assert names.index(OF_LINES[0]) < names.index("fused")
    plain = [*rank_experiments(script(found=()))]
    assert not {*OF_LINES, "fused", "batch 2x", "batch 4x"} & set(plain)
    small = replace(OPTIMIZER, rule="script small batches")
    assert "batch 4x" in rank_experiments(script(found=(small,)))
    assert predict(script(left_out(reason="later")), left_out().experiment) == 1.6


def test_a_line_to_leave_out_is_recommended_where_nothing_else_gains_more():
    case = script(left_out(1.5))
    assert [row.recommended for row in remedies(case, case.trials, ())] == [True]
    better = script(left_out(1.5), trial("keep", 2.0, changes="nothing"))
    assert {row.says: row.recommended for row in remedies(better, better.trials, ())} == {
        "keep": True, "leave out train.py:3": False,
    }  # fmt: skip


def test_what_takes_time_at_a_line_is_said_once():
    saves = replace(
        SLEEPS, rule="script saves in its steps", says="Checkpoints take 30 % of an iteration (train.py:3)."
    )
    case = script(left_out(1.5), found=(saves,))
    told = signs_of(steps=100, wall_ns=1000 * MS, places=(TimedPlace("train.py:3", "checkpoints", 100, 300 * MS),))
    assert explain(replace(case, lane=lane_of(10.0, signs=told))).says.count("train.py:3") == 1


def test_the_heat_whose_steps_were_looked_at_is_judged_as_watch_does_and_gives_the_bar():
    """Its bar had no part for what is outside of the step."""
    answer = watched(0, TEN, data_wait_s=0.001, forward_backward_s=0.004, outside_s=0.005)
    lines = (SeenLine("train.py:3", "outside", 0.9, calls=("time.sleep",)),)
    process = replace(answer.processes[0], lines=lines)
    told = signs_of(steps=100, places=(), wall_ns=1000 * MS, wait_ns=100 * MS, compute_ns=400 * MS)
    lane = lane_of(10.0, signs=told)
    lane = replace(lane, heats=tuple(with_heat(each, script=process) for each in lane.heats))
    found = find_watched(lane, MACHINE)
    assert [each.where for each in found][:1] == ["train.py:3"]
    assert all(each.gain is not None for each in found)
    case = case_of(lane, watched=found)
    assert part_share(case, "outside") == pytest.approx(0.5)
    assert part_share(case, "compute") == pytest.approx(0.4)
    assert find_watched(lane_of(10.0), MACHINE) == ()


def test_a_lane_that_is_no_script_has_no_code_of_its_own():
    case = case_of(lane_of(10.0, signs=signs_of(steps=100)))
    assert "own code" not in {each.cause for each in judge_causes(case)}
    assert case.watched is None


def test_what_no_experiment_takes_out_has_its_advice():
    """A loss that is read in each step, and then printed, stays: the page says what to write in its place."""
    reads = replace(SLEEPS, rule="script reads in each step", where="train.py:7", advice="Read it every few steps.")
    why = explain(script(left_out(1.5), found=(SLEEPS, reads)))
    row = next(each for each in why.remedies if each.says == "change train.py:7")
    assert (row.predicted, row.measured, row.code) == (1.6, None, "Read it every few steps.")
    assert "no experiment" in row.reason
    assert not [each for each in why.remedies if each.says == "change train.py:3"]


def test_a_name_keeps_its_capital_within_a_sentence():
    anomalies = replace(SLEEPS, says="PyTorch looks for anomalies.", where="train.py:1")
    assert "PyTorch looks for anomalies (likely)" in explain(script(found=(anomalies,))).says


def test_a_place_that_no_lane_can_name_has_no_experiment():
    """A script says where its lines are: a lane of "my train.py:3" was refused in the middle of the question."""
    for where in ("my train.py:3", "a+b.py:3", "train.py:x", "train.py:0", "train.py", ":3", ""):
        found = with_lines(ROWS, (replace(SLEEPS, where=where),), lambda _file: SOURCE)
        assert all(each.absent == NO_LINE for each in found), where
