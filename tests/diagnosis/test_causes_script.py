"""Causes in the lines of a script: what its agent timed within the steps, next to the training."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cases import case_of, lane_of, signs_of, trial
from measured import with_heat

from laptime.model.symptoms import DATA_LINE, MADE_DOUBLE, NO_INPUT, DenormalCensus, TimedPlace
from laptime.questions.why.answer import explain
from laptime.questions.why.causes import judge_causes, order_experiments
from laptime.questions.why.facts import part_share

MS = 1_000_000
PLACES = (
    TimedPlace("train.py:19", "evaluation", 20, 400 * MS),
    TimedPlace("train.py:31", "waiting for the disk", 4000, 200 * MS),
    TimedPlace("train.py:40", "waiting for the disk", 10, 2 * MS),
    TimedPlace(None, "checkpoints", 1, 10 * MS),
)


def script(**changes):
    """Return 100 steps of 10 ms, of which 3.9 ms compute."""
    told = signs_of(steps=100, places=PLACES, wall_ns=1000 * MS, compute_ns=390 * MS)
    return case_of(lane_of(10.0, signs=told), **changes)


def verdicts_of(case):
    return {each.cause: each for each in judge_causes(case)}


def test_what_was_timed_is_a_cause_with_its_line_and_its_gain():
    found = verdicts_of(script())
    evaluation, disk, saves = (found[name] for name in ("evaluation", "waiting for the disk", "checkpoints"))
    assert (evaluation.standing, evaluation.gain) == ("likely", pytest.approx(1 / 0.6))
    assert evaluation.says == "evaluation takes 40 % of the steps: train.py:19 (every 5 steps)"
    assert (disk.standing, disk.gain) == ("likely", pytest.approx(1 / (1 - 0.202)))
    assert "train.py:31 (40 times a step), train.py:40 (every 10 steps)" in disk.says
    assert disk.evidence["where"] == ["train.py:31"]
    assert (saves.standing, saves.says) == (
        "ruled out", "checkpoints take 1 % of the steps: a line of a library (every 100 steps)"
    )  # fmt: skip


def test_the_verdict_names_the_line_and_the_bar_has_no_computing_that_is_none():
    """Evaluation was "compute 99 %", or "unattributed 100 %"."""
    case = script()
    says = explain(case).says
    assert "evaluation at train.py:19 takes 40 % of its steps (likely)." in says
    assert "Then: waiting for the disk at train.py:31 takes 20 % of its steps (likely, 1.25x)." in says
    shares = {part: part_share(case, part) for part in ("compute", "outside", "unattributed")}
    assert shares == {"compute": pytest.approx(0.388), "outside": pytest.approx(0.612), "unattributed": 0}


def test_weights_of_float64_are_a_cause_where_no_denormal_number_was_counted():
    told = signs_of(steps=100, places=(), wall_ns=1000 * MS, notes={MADE_DOUBLE: "train.py:7"})
    lane = lane_of(10.0, signs=told)
    census = DenormalCensus(types=("float64",), unseen="no float32")
    heats = tuple(with_heat(heat, census=census) for heat in lane.heats)
    case = case_of(replace(lane, heats=heats))
    found = verdicts_of(case)
    assert "it computes in float64, since train.py:7 (likely)" in explain(case).says
    assert (found["float64"].standing, found["float64"].says) == (
        "likely", "its weights are float64, since train.py:7"
    )  # fmt: skip
    assert found["processor oddities"].says.startswith("denormals were not counted")


def test_without_a_data_loader_nothing_is_said_of_it():
    told = signs_of(steps=100, places=(), wall_ns=1000 * MS, notes={NO_INPUT: "it has no DataLoader"})
    judged = verdicts_of(case_of(lane_of(10.0, signs=told)))["input pipeline"]
    assert (judged.standing, judged.says) == ("not testable here", "it has no DataLoader")


def test_batches_that_cannot_be_replayed_have_a_wait_a_line_and_the_gain_of_workers():
    """As those of Keras's `fit`: the steps wait for 6 of their 10 ms, and two workers remove that."""
    notes = {NO_INPUT: "it has no DataLoader", DATA_LINE: "train.py:9"}
    told = signs_of(steps=100, places=(), wall_ns=1000 * MS, wait_ns=600 * MS, compute_ns=390 * MS, notes=notes)
    lane = lane_of(10.0, signs=told)
    seen = verdicts_of(case_of(lane))["input pipeline"]
    assert (seen.standing, seen.gain) == ("likely", pytest.approx(2.5, rel=1e-3))
    assert seen.says.startswith("the loader takes 60 % of a step")
    assert seen.says.endswith("most of it in train.py:9")
    raced = verdicts_of(case_of(lane, trial("workers", 1.9)))["input pipeline"]
    assert raced.standing == "proven"


def test_an_experiment_is_named_once():
    """Two rows have this name: one for cards, one for processors."""
    case = case_of(lane_of(10.0, signs=signs_of(steps=100, compute_ns=900 * MS)), trial("matmul", reason="later"))
    assert order_experiments(case).count("matmul") == 1


def test_the_line_that_takes_most_of_the_loaders_time_is_named():
    """Only where the loader takes much of a step."""
    for wait_ms, says in ((800, "the loader bounds this training, most of all train.py:9"), (20, None)):
        told = signs_of(steps=100, wait_ns=wait_ms * MS, compute_ns=150 * MS, notes={DATA_LINE: "train.py:9"})
        case = case_of(lane_of(10.0, signs=told))
        verdict = verdicts_of(case)["input pipeline"]
        assert verdict.evidence.get("where") == (says and "train.py:9")
        assert ("most of it in train.py:9" in verdict.says) == (says is not None)
        if says is not None:
            assert says in explain(case).says
