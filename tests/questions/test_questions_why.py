"""An inquiry through the front door of the library: a hidden card is told first, rounds pair with the lane itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from patients import card, framework, machine

from laptime.model.ask import Ask
from laptime.model.machine import Device, Framework
from laptime.planner import make_plan
from laptime.planner.experiments import Base, list_experiments
from laptime.planner.lanes import parse_lane
from laptime.planner.presets import Given
from laptime.questions import why
from laptime.questions.asking import Prepared
from laptime.questions.outside import Outside
from laptime.questions.subject import find_subject
from laptime.questions.why import Inquiry, Search, run_why
from laptime.report.why import render
from laptime.run.ahead import Ahead

FAKE = Framework(
    "fake", "1", {"fake": "1"}, (Device("cpu", "cpu", "fake processor", usable=True, features=("malloc",)),)
)
SLOW_LOADER = '["fake/*"]\nloader_ms = 30.0\ncompute_ms = 10.0\nspread = 0.01\n'


@pytest.fixture
def inquire(tmp_path, monkeypatch):
    """Give an inquiry about a fake lane on a machine that is a literal, and a world for it; its children are real."""

    def make(here, script=SLOW_LOADER, **asked):
        place = tmp_path / "fake.toml"
        place.write_text(script)
        monkeypatch.setenv("LAPTIME_FAKE", str(place))
        subject, workload = find_subject("cifar-cnn")
        plan = make_plan(Ask("cifar-cnn", ("fake/cpu",), **asked), here, subject, workload)
        base = Base(parse_lane("fake/cpu"), plan.lanes[0], here, subject, Given(workload))
        outside = Outside(
            record_id="r-1",
            started="2026-01-01T00:00:00+00:00",
            tool={"name": "laptime"},
            journal=lambda record: None,
            recall=lambda key: None,
            keep=lambda reference: None,
            show=lambda record, note: None,
            place_trace=Path,
        )
        return Inquiry(Prepared(plan, here, workload.published), base, list_experiments(base)), outside

    return make


@pytest.fixture
def ask_why(inquire):
    return lambda here, script=SLOW_LOADER, **asked: run_why(*inquire(here, script, **asked))


def test_a_lane_for_which_there_was_no_time_is_told_without_a_figure(inquire):
    """It was admitted, and its turn came too late; the others have theirs."""
    inquiry, outside = inquire(machine(frameworks=(FAKE,)), budget_s=180.0)
    plan = inquiry.prepared.plan
    search = Search(plan, inquiry.prepared.machine, outside, {plan.lanes[0].name: []}, plan.pace, inquiry=inquiry)
    for name in ("loader", "compute"):
        search.add(inquiry.named(name))
    search.make_ready(search.report)
    with Ahead(2, 20.0) as ahead:
        search.run_round(
            search.lanes_of(("loader", "compute")),
            ahead,
            search.report,
            may_run=lambda lane, after: "input=only" not in lane.name,
        )
    record = why._make_record(search, "finished")
    heats = {lane.name: len(lane.heats) for lane in record.lanes}
    assert heats == {"fake/cpu/as-written": 1, "fake/cpu/input=only": 0, "fake/cpu/input=cached": 1}
    said = render(record, 100)
    assert "no heat was run" not in said
    assert {each.stage: each.binds for each in record.why.ceilings}["loader"] is False


def test_a_card_that_is_hidden_is_told_before_all_else(ask_why):
    """Whatever bounds the processor: who meant the card wants to know first that it is not used."""
    here = machine(card(), frameworks=(FAKE, framework("torch")), variables={"CUDA_VISIBLE_DEVICES": ""})
    record = ask_why(here, budget_s=180.0)
    assert record.why.first[0] == "not on the device"
    verdict = next(each for each in record.why.causes if each.cause == "not on the device")
    assert verdict.standing == "likely"
    assert "CUDA_VISIBLE_DEVICES" in verdict.says
    assert "NVIDIA H100" in record.why.says
    assert next(each for each in record.why.causes if each.cause == "input pipeline").standing == "proven"


def test_each_experiment_is_paired_with_the_lane_round_by_round(ask_why):
    """In every round in which an experiment ran the lane itself ran too, and the order turned about."""
    record = ask_why(machine(frameworks=(FAKE,)), budget_s=180.0)
    base, *others = record.lanes
    rounds = {heat.round for heat in base.heats}
    assert all(heat.round in rounds for lane in others for heat in lane.heats)
    decoded = next(lane for lane in others if lane.name == "fake/cpu/input=cached")
    assert len(decoded.heats) >= 3
    firsts = [min((heat.order, lane.name) for lane in record.lanes for heat in lane.heats if heat.round == number)[1]
              for number in sorted(rounds)]  # fmt: skip
    assert firsts[::2] == ["fake/cpu/as-written"] * len(firsts[::2])
    assert firsts[1] != "fake/cpu/as-written"


def test_steps_are_taken_apart_once(ask_why):
    """It costs time, and the first heat tells all."""
    record = ask_why(machine(frameworks=(FAKE,)), budget_s=180.0)
    assert [heat.signs is not None for heat in record.lanes[0].heats] == [True] + [False] * (
        len(record.lanes[0].heats) - 1
    )
    assert all(heat.signs is None for lane in record.lanes[1:] for heat in lane.heats)


def test_an_experiment_that_turns_out_dear_takes_no_time_from_the_others(ask_why):
    """Its first heat shows what it takes; it is left out of the rounds for which there is no time."""
    dear = SLOW_LOADER + '["fake/cpu/input=cached"]\nbuild_ms = 200000.0\n'
    record = ask_why(machine(frameworks=(FAKE,)), dear, budget_s=180.0)
    heats = {lane.name: len(lane.heats) for lane in record.lanes}
    assert heats["fake/cpu/input=cached"] == 1
    assert heats["fake/cpu/input=only"] >= 3
    assert heats["fake/cpu/as-written"] > heats["fake/cpu/input=cached"]


def test_without_room_for_a_single_experiment_the_ceilings_stand_alone(ask_why):
    record = ask_why(machine(frameworks=(FAKE,)), budget_s=1.0)
    assert [len(lane.heats) for lane in record.lanes] == [1, 1, 1]
    assert record.why.missing
    assert {each.stage for each in record.why.ceilings if each.binds} == {"loader"}
