"""What a training's own code does: it computes in float64, reads values in each step, pauses, becomes slow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cases import case_of, lane_of, signs_of, steps_windows, trial
from measured import with_heat

from laptime.model.quantities import Missing
from laptime.model.symptoms import DenormalCensus, Site
from laptime.questions.why.answer import explain
from laptime.questions.why.causes import order_experiments, sum_up
from laptime.questions.why.compute_causes import double_numbers
from laptime.questions.why.nouns import Verdict
from laptime.questions.why.step_causes import MANY_READS, host_waits, outside_step, too_little_work

STAGES = {"loader": 1.0, "compute": 99.0}
AT = (Site("train.py:12", ".item()", 40.0),)


def wide(kind="float64"):
    """Return a lane whose weights have this type."""
    lane = lane_of(100.0)
    census = DenormalCensus({"weights": 0.0}, (kind,))
    return replace(lane, heats=tuple(with_heat(heat, census=census) for heat in lane.heats))


@pytest.mark.parametrize(
    ("kind", "ratio", "standing"),
    [("float64", 2.0, "proven"), ("float64", None, "likely"), ("float32", None, "ruled out")],
)
def test_float64_is_a_cause_with_an_experiment_of_its_own(kind, ratio, standing):
    verdict = double_numbers(case_of(wide(kind), trial("single", ratio, reason="no room"), stages=STAGES))
    assert (verdict.standing, verdict.evidence["types"]) == (standing, [kind])


def test_float32_is_tried_first_where_weights_are_float64():
    assert order_experiments(case_of(wide(), stages=STAGES))[0] == "single"
    assert "single" not in order_experiments(case_of(wide("float32"), stages=STAGES))


def test_a_layout_of_images_is_not_tried_without_convolutions():
    assert "layout" in order_experiments(case_of(lane_of(100.0), stages=STAGES))
    assert "layout" not in order_experiments(case_of(lane_of(100.0), stages=STAGES, convolves=False))


def test_values_read_in_each_step_are_named_in_place_of_too_little_work():
    """A larger batch shares them, and proves nothing about the size of a step."""
    lane = lane_of(100.0, signs=signs_of(reads=40.0, sites=AT))
    case = case_of(lane, trial("batch 2x", 1.6), stages=STAGES)
    reads, little = host_waits(case), too_little_work(case)
    assert (reads.standing, little.standing) == ("likely", "likely")
    assert reads.says.startswith("its own code reads 40 values in each step, at train.py:12 (.item())")
    assert sum_up(case, (reads, little))[0].startswith(
        "torch/cpu: its own code reads, prints or adds up values in every step (likely)"
    )


def test_a_few_values_read_on_a_processor_wait_for_nothing():
    lane = lane_of(100.0, signs=signs_of(reads=MANY_READS - 1.0, sites=AT))
    case = case_of(lane, trial("batch 2x", 1.6), stages=STAGES)
    assert host_waits(case).standing == "not testable here"
    assert too_little_work(case).standing == "proven"


def test_pauses_that_were_timed_come_before_a_smaller_proven_gain():
    """Nothing takes them out, and nothing has to show what they cost."""
    heat = [10.0] * 19 + [200.0]
    lane = lane_of(20.0, windows=steps_windows(heat * 3, heat * 3))
    pauses = outside_step(case_of(lane))
    assert pauses.standing == "likely"
    proven = Verdict("processor limited", "proven", "", gain=1.2)
    assert sum_up(case_of(lane), (proven, pauses))[1] == ("outside the step", "processor limited")
    few = replace(pauses, evidence={**pauses.evidence, "seen": 3})
    assert sum_up(case_of(lane), (proven, few))[1] == ("processor limited", "outside the step")


def slowing():
    """Return a lane whose steps take five times as long from its 16th on, in each heat."""
    heat = [10.0] * 10 + [50.0] * 20
    windows = tuple(replace(each, first_step=6) for each in steps_windows(heat))
    return lane_of(10.0, windows=windows)


def test_steps_that_become_slow_are_said_before_any_cause():
    says, first = sum_up(case_of(slowing()), (Verdict("poor kernels", "likely", ""),))
    assert says.startswith("torch/cpu: from step 16 on a step takes 5 times as long in 3 of 3 heats")
    assert first == ("poor kernels",)


def test_denormal_numbers_are_judged_by_the_steps_where_they_are():
    """What it gains in all follows from the share of these steps."""
    lane = slowing()
    census = DenormalCensus({"gradients of its weights": 0.1}, ("float32",), step=36)
    lane = replace(lane, heats=tuple(with_heat(heat, census=census) for heat in lane.heats))
    flushed = replace(trial("flush", 5.0), since=16)
    answer = explain(case_of(lane, flushed, stages=STAGES))
    assert answer.first[0] == "processor oddities"
    oddity = next(each for each in answer.causes if each.cause == "processor oddities")
    assert (oddity.standing, oddity.evidence["oddity"]) == ("proven", "denormal numbers")
    assert "is 5.00x (4.90 to 5.10) as fast from step 16 on" in oddity.says
    assert not isinstance(oddity.gain, Missing)
    assert 1 < oddity.gain < 5
    assert answer.remedies[0].says.endswith("(from step 16 on)")
