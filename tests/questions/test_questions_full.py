"""Whole trainings through the front door of the library: in order, journalled after each lap, proven once a lane."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_questions_race import MACHINE

from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.protocol import Consent, Moment, Protocol
from laptime.model.questions import find_question
from laptime.model.record import Record
from laptime.planner import make_plan
from laptime.questions.job import CheckpointFiles, Services, run_question
from laptime.questions.proving import ReferenceCache
from laptime.questions.subject import find_subject
from laptime.questions.train.options import FullAsk
from laptime.questions.train.run import Before, PreparedTraining, check_alike, check_unfinished, make_protocol
from laptime.store.references import count_laps
from laptime.trainings.workloads import CATALOGUE, find_workload
from long_cases import cases

pytestmark = pytest.mark.usefixtures("forked_heats")

PROTOCOL = Protocol(2, 20, validation_items=100, evaluation_items=1_000)


class World:
    """What whole trainings need of the world, kept in memory; their children are real."""

    def __init__(self, folder) -> None:
        self._folder = folder
        self.journal: list[Record] = []
        self.moments: list[Moment] = []
        self.dropped = []
        self.stop_after = 1_000

    def train(self, *lanes: str, protocol=PROTOCOL, before=None, again=False, script="1", **asked: object) -> Record:
        subject, workload = find_subject("cifar-cnn")
        plan = make_plan(Ask("cifar-cnn", lanes, full=FullAsk(), **asked), MACHINE, subject, workload)
        planned = [replace(lane, environment={**lane.environment, "LAPTIME_FAKE": script}) for lane in plan.lanes]
        services = Services(
            record_id="r-1",
            started="2026-01-01T00:00:00+00:00",
            tool={"name": "laptime"},
            journal=self._keep,
            references=ReferenceCache(lambda _key: None, lambda _reference: None),
            checkpoints=CheckpointFiles(self._place, self.dropped.append),
            show=lambda _record, _note: None,
            tell=self.moments.append,
            place_trace=Path,
        )
        rest = None if before is None else Before(before, Consent(again=again), count_laps)
        planned = replace(plan, lanes=tuple(planned))
        prepared = PreparedTraining(planned, MACHINE, workload.published, protocol, rest)
        return run_question(find_question("full"), prepared, services)

    def _place(self, lane, seed):
        return self._folder / f"{lane.replace('/', '-')}-{seed}.npz"

    def _keep(self, record: Record) -> None:
        self.journal.append(record)
        if len(self.journal) == self.stop_after:
            raise KeyboardInterrupt


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def laps_of(record):
    return [len(run.laps) for run in record.answer.runs]


def test_the_journal_is_written_after_every_lap(world):
    """Before anything runs, after each lap, after the test and at each lane's end."""
    record = world.train("fake/cpu", "fake/cpu/best")
    assert [sum(laps_of(each)) for each in world.journal] == [0, 1, 2, 2, 2, 3, 4, 4, 4, 4]
    assert [each.status for each in world.journal] == ["running"] * 9 + ["finished"]
    assert world.journal[-1] == record
    assert [place.name for place in world.dropped] == ["fake-cpu-as-written-0.npz", "fake-cpu-best-0.npz"]


@pytest.mark.parametrize("after", cases(1, 8, long=[3, 5, 9]))
def test_an_interrupt_at_any_write_can_be_resumed(world, after):
    """Wherever it comes, the whole laps are kept, and the rest is what an unbroken training has."""
    world.stop_after = after
    broken = world.train("fake/cpu", "fake/cpu/best")
    assert broken.status == "interrupted"
    world.stop_after = 1_000
    whole = world.train("fake/cpu", "fake/cpu/best", before=broken)
    assert (whole.status, laps_of(whole)) == ("finished", [2, 2])
    assert [lap.score for run in whole.answer.runs for lap in run.laps] == [
        lap.score for lap in whole.answer.runs[0].laps
    ] * 2
    assert whole.elapsed_s > broken.elapsed_s


def test_progress_tells_where_a_training_is(world):
    """Step, steps, milliseconds, loss, accuracy and what is left of the lap; the end of each lap is news."""
    world.train("fake/cpu", protocol=replace(PROTOCOL, laps=1, evaluation_items=0))
    news = [moment for moment in world.moments if moment.is_news]
    assert [moment.doing for moment in news] == ["computing the float64 reference of the proof, once", "begins", "lap"]
    stepped = [moment for moment in world.moments if moment.step]
    first = stepped[0]
    assert (first.step, first.steps, first.number, first.laps) == (1, 20, 1, 1)
    assert first.step_ms == pytest.approx(300.0)
    assert first.left_s == pytest.approx(5.7)
    assert 0 < first.accuracy < 1


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_published_protocol_is_the_default(name):
    """Laps, steps, validation and test as the authors had them."""
    workload = find_workload(name)
    found = make_protocol(FullAsk(), workload)
    assert (found.laps, found.steps_per_lap) == (workload.laps, workload.steps_per_lap)
    expected = {
        "scenes-cnn": (320, 0, 0),
        "cifar-cnn": (1_000, 10_000, 20),
        "cifar-mlp": (0, 10_000, 0),
        "pets-densenet": (0, 2_023, 0),
        "plates-cnn": (76_000, 0, 0),
    }
    assert (found.validation_items, found.evaluation_items, found.predictions) == expected[name]


def test_what_is_asked_goes_before_what_is_published():
    """Laps, steps, seeds and the accuracy to reach."""
    found = make_protocol(FullAsk(3, 5, 2, 0.7), find_workload("cifar-cnn"))
    assert (found.laps, found.steps_per_lap, found.seeds, found.until_accuracy) == (3, 5, 2, 0.7)


def test_a_training_of_ones_own_has_laps_and_nothing_else():
    """As many steps as its data say; no validation, no test."""
    assert make_protocol(FullAsk(laps=3), None) == Protocol(3, None)
    with pytest.raises(UsageError, match="does not say how many laps it takes"):
        make_protocol(FullAsk(), None)


def test_what_is_over_is_not_taken_up(world):
    """A finished one is refused; one with a lane that failed is not."""
    record = world.train("fake/cpu")
    with pytest.raises(UsageError, match="is finished: nothing is left to train"):
        check_unfinished(record)
    run = record.answer.runs[0]
    failed = replace(record.answer, runs=(replace(run, process=replace(run.process, status="dnf")),))
    check_unfinished(replace(record, answer=failed))
    check_unfinished(replace(record, status="interrupted"))


def test_a_lane_that_would_run_otherwise_is_refused(world):
    """Other settings or another device would be another training."""
    record = world.train("fake/cpu")
    subject, workload = find_subject("cifar-cnn")
    check_alike(make_plan(Ask("cifar-cnn", ("fake/cpu",)), MACHINE, subject, workload), record)
    other = make_plan(Ask("cifar-cnn", ("fake/cpu/best",)), MACHINE, subject, workload)
    with pytest.raises(UsageError, match="cannot go on here"):
        check_alike(other, record)
