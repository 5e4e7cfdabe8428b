"""A result prints as its page, and has what it found as plain numbers."""

from __future__ import annotations

import base64
import dataclasses
import json
from dataclasses import replace

import full_records
import infer_records
import pytest
import records
import why_records
from records import BEST, FIRST

import laptime
from laptime.api import showing
from laptime.library.results import Result
from laptime.model.errors import LaptimeError, UsageError
from laptime.questions.why.call import WhyResult

AS_WRITTEN, AT_BEST = "torch/cpu/as-written", "torch/cpu/best"


def test_a_race_of_two_lanes_has_a_ratio():
    result = Result(records.two_lanes())
    ratio = result.ratio
    assert (ratio.lane, ratio.reference, ratio.value, ratio.low, ratio.high) == (AT_BEST, AS_WRITTEN, 1.49, 1.38, 1.61)
    assert (float(ratio), ratio.verdict, ratio.same_work) == (1.49, "faster", True)
    assert {AT_BEST: ratio} == result.ratios
    assert (result.id, result.status, result.record.question) == ("r-2026-11-20-a1b2", "finished", "race")


def test_lanes_have_figures():
    lanes = Result(records.two_lanes()).lanes
    first, best = lanes
    assert (len(lanes), first.name, best.name) == (2, AS_WRITTEN, AT_BEST)
    assert (best.status, best.reason, best.step_ms, best.same_work) == ("ok", None, 62.0, True)
    assert best.lap_s == pytest.approx(31.0)
    assert best.items_per_s == pytest.approx(100 / 0.062)
    assert best.whole_s == pytest.approx(best.record.whole.whole_s.median)
    assert best.ratio.value == 1.49
    assert first.ratio == laptime.Missing("it is not compared with another lane")
    assert best.accuracy == laptime.Missing("not measured")


@pytest.mark.parametrize("name", [AT_BEST, "cpu/best", "torch/cpu/best"])
def test_a_lane_is_found_as_it_is_written(name):
    assert Result(records.two_lanes()).lanes[name].name == AT_BEST


def test_a_lane_may_be_written_without_what_is_usual():
    lanes = Result(records.reduced()).lanes
    assert [lanes[name].name for name in ("cpu", "cuda", "gpu/fastest", -1)] == [
        AS_WRITTEN, "torch/cuda:0/as-written", "torch/cuda:0/fastest", "torch/cuda:0/fastest"
    ]  # fmt: skip
    assert [each.name for each in lanes[:2]] == [AS_WRITTEN, "torch/cpu/fastest"]
    with pytest.raises(UsageError, match="'torch' may be 4 lanes"):
        lanes["torch"]
    with pytest.raises(UsageError, match="'cpu/best' is no lane of this result") as caught:
        lanes["cpu/best"]
    assert "torch/cuda:0/fastest" in caught.value.hint


def test_a_ratio_of_more_than_two_lanes_is_refused():
    result = Result(records.reduced())
    with pytest.raises(LaptimeError) as caught:
        _ = result.ratio
    assert str(caught.value) == (
        "this result has 4 lanes, and .ratio compares two\nUse .ratios, or .lanes['...'].ratio."
    )
    assert [each.value for each in result.ratios.values()] == [2.503, 334.3, 1115.8]
    alone = Result(records.record((FIRST,)))
    with pytest.raises(LaptimeError, match="has 1 lane, and"):
        _ = alone.ratio


def test_lanes_that_failed_say_why():
    killed = records.without_figures("torch/cuda:0/best", "dnf", "killed by the system")
    result = Result(records.record((FIRST, killed)))
    with pytest.raises(LaptimeError, match=r"could not be compared: torch/cuda:0/best: killed by the system"):
        _ = result.ratio
    failed = result.lanes["cuda/best"]
    assert (failed.status, failed.step_ms) == ("dnf", laptime.Missing("killed by the system"))


@pytest.mark.parametrize("make", [*records.SHOWN.values(), *full_records.SHOWN.values(), *infer_records.SHOWN.values()])
def test_every_record_has_lanes_a_page_and_a_dict(make):
    """A result's repr had 33,185 characters, none of them of the page."""
    record = make()
    result = Result(record)
    assert [each.name for each in result.lanes] == [each.name for each in record.lanes]
    assert result.page(width=80) == showing.as_text(record, showing.View(80))
    assert result.page(width=80, details=True) == showing.as_text(record, showing.View(80, details=True))
    assert repr(result) == str(result) == result.page()
    assert len(max(map(repr, result.lanes), key=len)) < 1_500
    assert result.to_dict() == json.loads(showing.as_json(record))


def test_a_result_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Result(records.two_lanes()).record = None


def test_a_page_of_a_result_that_was_not_saved_says_so():
    record = records.two_lanes()
    assert Result(record, is_saved=False).page(width=90) == showing.as_text(record, showing.View(90, kept=False))


def test_a_page_cannot_steer_a_terminal():
    record = records.two_lanes()
    hostile = replace(record, workload=replace(record.workload, name="\x1b]0;title\x07"))
    assert "\x1b" not in repr(Result(hostile))


def test_whole_trainings_have_their_laps_and_accuracy():
    result = Result(full_records.whole())
    assert (result.ratio.value, result.ratio.low) == (1.637, full_records.ONE)
    best = result.lanes["cpu/best"]
    (training,) = best.trainings
    assert best.whole_s == training.whole_s
    assert best.accuracy == pytest.approx(0.6471)
    seeds = Result(full_records.seeds())
    assert (seeds.ratio.value, seeds.ratio.verdict, len(seeds.lanes[0].trainings)) == (2.013, "faster", 2)
    first_laps_only = full_records.full(
        full_records.whole().answer.runs,
        (replace(full_records.FACTOR, later_laps=laptime.Missing("a second lap was not trained by both")),),
    )
    assert Result(first_laps_only).ratio.value == 1.584


def test_answers_have_latencies():
    result = Result(infer_records.two_lanes())
    assert (result.ratio.value, result.ratio.verdict) == (1.9, "faster")
    assert result.lanes[1].inference.p50_ms.median == 45.4


def test_why_has_a_verdict_and_remedies():
    record = why_records.failed_remedy()
    result = WhyResult(record)
    assert result.verdict.startswith("plates-cnn on torch/cuda:0: the loader bounds this training")
    assert [each.recommended for each in result.remedies] == [True, False, False]
    assert set(result.remedies) == set(record.answer.why.remedies)
    nothing_yet = WhyResult(replace(record, status="interrupted", answer=replace(record.answer, why=None)))
    with pytest.raises(LaptimeError, match="no verdict: the search is interrupted"):
        _ = nothing_yet.verdict


def test_a_page_that_cannot_be_made_does_not_break_a_repr():
    """A record may be damaged."""
    damaged = replace(records.two_lanes(), question="race", lanes=(replace(BEST, step_ms="fast"),))
    assert repr(Result(damaged)).startswith("<Result: this record cannot be shown")


def test_a_result_is_a_report_in_a_notebook_and_on_disk(tmp_path):
    result = Result(records.two_lanes())
    assert "is 1.49x as fast as" in result.to_html()
    shown = result._repr_html_()
    assert shown.startswith("<p><span")
    assert "1.38-1.61 at 95 %" in shown
    assert "<script" not in shown
    picture = base64.b64decode(shown.split("base64,")[1].split('"')[0]).decode()
    assert "How sure is 1.49x?" in picture
    assert result.report(tmp_path / "card.svg", card=True, dark=True).read_text().startswith("<svg ")
    assert result.report(tmp_path / "race.md").read_text().startswith("## cifar-cnn on ")
    assert {each.suffix for each in result.report(tmp_path / "charts", format="svg").iterdir()} == {".svg"}
    with pytest.raises(UsageError, match="'pdf' is no format of a report"):
        result.report(format="pdf")
