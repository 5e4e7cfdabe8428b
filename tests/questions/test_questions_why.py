"""An inquiry through the front door of the library: a hidden card is named first, rounds pair with the lane itself."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from card_machines import card, framework, machine

from laptime.engine.run.turns import Prestarter
from laptime.model.ask import Ask
from laptime.model.machine import Device, Framework
from laptime.model.questions import find_question
from laptime.planner import make_plan
from laptime.planner.lanes import parse_lane
from laptime.planner.plan import plan_lane
from laptime.planner.refusals import SubjectFacts
from laptime.questions.job import CheckpointFiles, Job, Services, run_question
from laptime.questions.proving import ReferenceCache
from laptime.questions.subject import find_subject
from laptime.questions.why.experiments import AskedTraining
from laptime.questions.why.page import PART
from laptime.questions.why.run import AskedLane, Inquiry, WhySearch, list_possible
from laptime.show.pages.page import View

pytestmark = pytest.mark.usefixtures("forked_heats")

FAKE = Framework(
    "fake", "1", {"fake": "1"}, (Device("cpu", "cpu", "fake processor", usable=True, features=("malloc",)),)
)
SLOW_LOADER = '["fake/*"]\nloader_ms = 30.0\ncompute_ms = 10.0\nspread = 0.01\n'


@pytest.fixture
def inquire(tmp_path, monkeypatch):
    """Return an inquiry about a fake lane on a machine that is a literal, and a world for it; its children are real."""

    def make(here, script=SLOW_LOADER, **asked):
        place = tmp_path / "fake.toml"
        place.write_text(script)
        monkeypatch.setenv("LAPTIME_FAKE", str(place))
        subject, workload = find_subject("cifar-cnn")
        plan = make_plan(Ask("cifar-cnn", ("fake/cpu",), **asked), here, subject, workload)
        planned = partial(plan_lane, machine=here, subject=SubjectFacts(workload))
        asked = AskedLane(parse_lane("fake/cpu"), plan.lanes[0], planned)
        possible = list_possible(asked, AskedTraining(plan.lanes[0], here, workload))
        services = Services(
            record_id="r-1",
            started="2026-01-01T00:00:00+00:00",
            tool={"name": "laptime"},
            journal=lambda record: None,
            references=ReferenceCache(lambda key: None, lambda reference: None),
            checkpoints=CheckpointFiles(Path, Path.unlink),
            show=lambda record, note: None,
            tell=lambda _moment: None,
            place_trace=Path,
        )
        return Inquiry(plan, here, workload.published, asked, possible), services

    return make


@pytest.fixture
def ask_why(inquire):
    return lambda here, script=SLOW_LOADER, **asked: run_question(find_question("why"), *inquire(here, script, **asked))


class OutOfTime(WhySearch):
    """An inquiry that runs one round, in which the loader's turn comes too late."""

    def run(self):
        for name in ("loader", "compute"):
            self._add(self._inquiry.named(name))
        self._rounds.make_ready()
        with Prestarter(2, 20.0) as prestarter:
            self._rounds.run_apart(
                self._lanes_of(("loader", "compute")),
                prestarter,
                may_run=lambda lane, _after: "input=only" not in lane.name,
            )


def test_a_lane_for_which_there_was_no_time_is_told_without_a_figure(inquire):
    """It was admitted, and its turn came too late; the others have theirs."""
    inquiry, services = inquire(machine(frameworks=(FAKE,)), budget_s=180.0)
    job = Job("why", inquiry, services)
    search = OutOfTime(job, inquiry)
    record = job.answer(search)
    heats = {lane.name: len(lane.heats) for lane in record.lanes}
    assert heats == {"fake/cpu/as-written": 1, "fake/cpu/input=only": 0, "fake/cpu/input=cached": 1}
    said = PART.render(record, View(100, details=True))
    assert "no heat was run" not in said
    assert {each.stage: each.binds for each in record.answer.why.ceilings}["loader"] is False


class Unfinished(OutOfTime):
    """The same, and an experiment has begun of which no heat was finished."""

    def run(self):
        super().run()
        self._add(self._inquiry.named("keep"))


def test_an_experiment_without_a_finished_heat_was_not_tried(inquire):
    """It has not failed either: the budget had no room for it, and the sentence does not count it."""
    inquiry, services = inquire(machine(frameworks=(FAKE,)), budget_s=180.0)
    job = Job("why", inquiry, services)
    record = job.answer(Unfinished(job, inquiry))
    assert "keep" in record.answer.why.missing
    assert record.answer.why.says.endswith("1 of 4 experiments were tried: there was no time for the others.")
    kept = next(each for each in record.answer.why.remedies if each.says == "keep freed memory in the process")
    assert (kept.measured, kept.lane, kept.reason) == (None, None, "the budget had no room for it")
    assert "failed" not in PART.render(record, View(100, details=True))


@pytest.mark.long
def test_a_card_that_is_hidden_is_told_first_and_experiments_are_paired_with_the_lane(ask_why):
    """Whatever bounds the processor: who meant the card wants to know first that it is not used.

    In every round in which an experiment ran the lane itself ran too; after the first, they take turns. Steps are
    broken down once: it costs time, and the first heat is enough.
    """
    here = machine(card(), frameworks=(FAKE, framework("torch")), variables={"CUDA_VISIBLE_DEVICES": ""})
    record = ask_why(here, budget_s=180.0)
    assert record.answer.why.first[0] == "not on the device"
    verdict = next(each for each in record.answer.why.causes if each.cause == "not on the device")
    assert verdict.standing == "likely"
    assert "CUDA_VISIBLE_DEVICES" in verdict.says
    assert "NVIDIA H100" in record.answer.why.says
    assert next(each for each in record.answer.why.causes if each.cause == "input pipeline").standing == "proven"
    base, *others = record.lanes
    rounds = {result.heat.round for result in base.heats}
    assert all(result.heat.round in rounds for lane in others for result in lane.heats)
    decoded = next(lane for lane in others if lane.name == "fake/cpu/input=cached")
    assert len(decoded.heats) >= 3
    turns = [{window.turn for window in result.heat.windows} for result in base.heats]
    assert turns[0] == {None}
    assert all({0, 1, 2} <= each for each in turns[1:])
    assert [result.heat.signs is not None for result in record.lanes[0].heats] == [True] + [False] * (
        len(record.lanes[0].heats) - 1
    )
    assert all(result.heat.signs is None for lane in record.lanes[1:] for result in lane.heats)


@pytest.mark.long
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
    assert record.answer.why.missing
    assert {each.stage for each in record.answer.why.ceilings if each.binds} == {"loader"}


class FirstRound(WhySearch):
    """An inquiry that runs the first round, in which a heat takes 100 s, and notes what the next one may take."""

    def run(self):
        self._rounds.make_ready()
        with Prestarter(2, 20.0) as prestarter:
            self._run_first(self._lanes_of(()), prestarter)
        self.heat_s, self.measure_s = self._heat_s[self._base.name], self._rounds.pace.measure_s

    def _learn_costs(self, lanes):
        self._heat_s.update({lane.name: 100.0 for lane in lanes})


def test_a_lane_that_failed_has_nothing_to_pair_with(inquire):
    """A script that ended after too few steps, next to its only experiment, ended `why` with a traceback."""

    class Lonely(FirstRound):
        def run(self):
            super().run()
            self.affordable = self._affordable(())

        def _learn_costs(self, lanes):
            self._heat_s[self._base.name] = 1.0

    fails = SLOW_LOADER + 'fail = { how = "raise", phase = "build", heat = 0 }\n'
    inquiry, services = inquire(machine(frameworks=(FAKE,)), fails, budget_s=12.5)
    job = Job("why", inquiry, services)
    search = Lonely(job, inquiry)
    job.answer(search)
    assert search.affordable == []


@pytest.mark.parametrize(("reach", "further"), [(0, 0), (10, 0), (1_000_000, 3)])
def test_heats_that_go_on_to_a_late_step_are_known_to_take_longer(inquire, monkeypatch, reach, further):
    """The first round stops long before that step, so its heats do not show what the next ones take."""
    monkeypatch.setattr("laptime.questions.why.run.find_reach", lambda _lane: reach)
    inquiry, services = inquire(machine(frameworks=(FAKE,)), budget_s=12.5)
    job = Job("why", inquiry, services)
    search = FirstRound(job, inquiry)
    job.answer(search)
    looked_far_s = max(1.0 - search.measure_s, 0.0)
    assert search.heat_s == pytest.approx(100.0 - looked_far_s + further * search.measure_s)


NOISY = """["fake/*"]
loader_ms = 1.0
compute_ms = 100.0
spread = 0.5
gains = { "malloc=keep" = { compute = 1.2 } }
"""


@pytest.mark.long
def test_where_nothing_is_proven_the_experiments_that_seem_to_gain_are_repeated(ask_why):
    """Steps vary by half: three heats of an experiment prove no gain, so those that point to one get five."""
    record = ask_why(machine(frameworks=(FAKE,)), NOISY, budget_s=240.0)
    heats = {lane.name: len(lane.heats) for lane in record.lanes[1:] if "input=" not in lane.name}
    repeated = {name for name, count in heats.items() if count > 3}
    assert 1 <= len(repeated) <= 4
    assert min(heats.values()) >= 2
    gains = {each.lane: each.ratio for each in record.answer.comparisons}
    assert all(gains[name] > 1 for name in repeated)


class BrokenOff(OutOfTime):
    """Ctrl-C comes after the first experiments."""

    def run(self):
        super().run()
        raise KeyboardInterrupt


def test_one_that_was_interrupted_needs_no_larger_budget(inquire):
    inquiry, services = inquire(machine(frameworks=(FAKE,)), budget_s=180.0)
    job = Job("why", inquiry, services)
    record = job.answer(BrokenOff(job, inquiry))
    assert (record.status, record.answer.why.missing) == ("interrupted", ())
    assert record.answer.why.says.endswith(" experiments were tried: it was interrupted.")
    assert "budget had no room" not in PART.render(record, View(100, details=True))
