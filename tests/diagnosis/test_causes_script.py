"""Causes in the lines of a script: what its agent timed within the steps, next to the training."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cases import case_of, lane_of, signs_of, trial
from measured import with_heat

from laptime.analysis.diagnosis.lane_readings import first_symptoms
from laptime.model.quantities import Missing
from laptime.model.record import CodeChange
from laptime.model.sample import Energy, Usage
from laptime.model.symptoms import DATA_LINE, MADE_DOUBLE, NO_INPUT, DenormalCensus, TimedPlace
from laptime.questions.why.answer import explain
from laptime.questions.why.causes import judge_causes, predict, rank_experiments
from laptime.questions.why.facts import part_share

MS = 1_000_000
OF_SCRIPTS = {"decoded", "workers", "one", "best", "threads", "one thread", "keep", "flush"}
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
    assert (seen.standing, seen.gain) == ("likely", pytest.approx(2.5, rel=0.02))
    assert seen.says.startswith("the loader takes 60 % of a step")
    assert seen.says.endswith("most of it in train.py:9")
    raced = verdicts_of(case_of(lane, trial("workers", 1.9)))["input pipeline"]
    assert raced.standing == "proven"


def test_an_experiment_is_named_once():
    """Two rows have this name: one for cards, one for processors."""
    case = case_of(lane_of(10.0, signs=signs_of(steps=100, compute_ns=900 * MS)), trial("matmul", reason="later"))
    assert rank_experiments(case)["matmul"] == pytest.approx(0.45, rel=0.01), "not what a card would gain"


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


def timed(wait_ms, compute_ms, threads=4, busy=None, **notes):
    """Return a script of 100 steps of 100 ms whose parts were timed."""
    told = signs_of(steps=100, places=(), wall_ns=9900 * MS, wait_ns=round(wait_ms * 99 * MS),
                    compute_ns=round(compute_ms * 99 * MS), threads=threads, shapes=1, notes=notes)  # fmt: skip
    lane = lane_of(100.0, signs=told)
    if busy is not None:
        untold = Missing("not read")
        energy = Energy("the processor", *[untold] * 5)
        lane = replace(lane, usage=Usage(100 * busy / 4, *[untold] * 5, "host", untold, untold, untold, energy))
    return case_of(lane)


def of_scripts(case):
    """Return the experiments that a script may have, in their order; `tune` tries the others."""
    return [name for name in rank_experiments(case) if name in OF_SCRIPTS]


def test_sentence_and_bar_come_from_one_split():
    """The loader "bounds this training" where the bar below gave it 12 % and computing 87 %."""
    case = timed(12, 87)
    answer = explain(case)
    assert {part.of: round(part.share, 2) for part in answer.parts} == {
        "loader": 0.12, "compute": 0.87, "unattributed": 0.01
    }  # fmt: skip
    assert "the loader takes 12 % of a step, and computing 87 % (likely)." in answer.says
    assert "bounds" not in answer.says
    assert "the loader bounds this training (likely)." in explain(timed(80, 19)).says


def test_parts_that_follow_each_other_never_overfill_a_step():
    case = timed(30, 90)
    assert part_share(case, "loader") == pytest.approx(0.25)
    assert part_share(case, "compute") == pytest.approx(0.75)


def test_the_stages_of_a_lane_that_ran_later_do_not_change_the_bar():
    """A replayed batch computes faster than one that was just made: the loader had the rest."""
    told = timed(12, 80)
    raced = replace(told, ceilings_lanes={"compute": lane_of(50.0)})
    assert {part.of: part.share for part in explain(told).parts} == {
        part.of: part.share for part in explain(raced).parts
    }


@pytest.mark.parametrize(
    ("case", "first", "never"),
    [
        (timed(3, 95, threads=1), "threads", {"decoded", "workers"}),
        (timed(80, 19), "decoded", {"threads", "best"}),
        (timed(97, 1, threads=1), "decoded", {"threads", "flush", "best"}),
        (timed(0, 99), "best", {"threads", "decoded", "workers", "one"}),
    ],
)
def test_the_first_experiment_is_that_of_the_cause_that_is_suspected_most(case, first, never):
    """By expected gain times its chance, and none whose part is too small to gain 1.05."""
    names = of_scripts(case)
    assert names[0] == first
    assert not never & {*names}


def test_kept_items_come_after_workers_where_items_are_drawn_again():
    case = timed(60, 38)
    told = replace(first_symptoms(case.lane), redrawn=True)
    heats = tuple(with_heat(result, signs=told) for result in case.lane.heats)
    names = of_scripts(replace(case, lane=replace(case.lane, heats=heats)))
    assert names[:2] == ["workers", "decoded"]


def test_one_thread_is_a_cause_with_a_gain_and_an_experiment_of_its_own():
    case = timed(3, 95, threads=1)
    verdict = verdicts_of(case)["processor limited"]
    assert (verdict.standing, verdict.says) == ("likely", "it takes 1 thread")
    assert verdict.gain == pytest.approx(1 / (1 - 0.5 * 0.95 * 0.75), rel=0.01)
    assert "one thread works while other cores are idle (likely)." in explain(case).says


def test_numbers_that_cost_nothing_on_this_processor_are_no_cause():
    told = signs_of(steps=100, places=(), wall_ns=9900 * MS, wait_ns=0, compute_ns=9000 * MS, denormals=0.3)
    case = case_of(lane_of(100.0, signs=told))
    assert "flush" in rank_experiments(case)
    fast = replace(case, slow_with_denormals=False)
    assert "flush" not in rank_experiments(fast)
    assert verdicts_of(fast)["processor oddities"].standing != "likely"


def test_an_experiment_that_speaks_against_a_sign_is_not_named_as_likely():
    """One thread was "likely", and two threads had been 0.25x in two heats."""
    case = timed(3, 95, threads=1)
    against = replace(case, trials={"threads": trial("threads", 0.25, 0.9)})
    assert verdicts_of(against)["processor limited"].standing in {"not tested", "ruled out"}
    open_ = replace(case, trials={"threads": trial("threads", 0.98, 0.5)})
    assert verdicts_of(open_)["processor limited"].standing == "not tested"


def test_the_line_that_sets_threads_is_named():
    diff = "-torch.set_num_threads(1)\n+torch.set_num_threads(4)\n"
    change = CodeChange("threads=4", "train.py", 2, "0" * 64, diff, "train.py")
    tried = trial("threads", reason="the budget had no room for it")
    tried = replace(tried, experiment=replace(tried.experiment, change=change))
    case = replace(timed(3, 95, threads=1), trials={"threads": tried})
    assert "one thread works while other cores are idle, since train.py:2 (likely)." in explain(case).says


@pytest.mark.parametrize(("busy", "gain"), [(0.6, 2.5), (3.2, 1.25)])
def test_workers_gain_what_free_cores_allow(busy, gain):
    """A loader that waits for a disk needs none; where all cores are nearly busy, little is left to gain."""
    case = timed(60, 40, busy=busy)
    workers = trial("workers", settings=("workers=4",)).experiment
    assert predict(case, workers) == pytest.approx(gain, rel=0.03)
