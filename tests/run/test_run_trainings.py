"""The parent of a whole training: it notes each lap, waits no longer than it should, and leaves no process behind."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from heat_orders import order_for

from fake_sensor import FakeSensor
from laptime.engine.run.answers import TrainingRunner
from laptime.engine.run.instruments import Sampler
from laptime.engine.run.runner import OWN_CLOCK, Limits
from laptime.model.errors import UsageError
from laptime.model.protocol import FullOrder, Protocol

PROTOCOL = Protocol(3, 20, validation_items=100, evaluation_items=1_000, predictions=3)


@pytest.fixture
def train(tmp_path):
    """Run one training; give its runner, why it did not finish, and what was told on the way."""

    def run(script="", patience_s=60.0, watchdog_s=1.0, *, check=lambda _: None, refused=None, **more):
        order = FullOrder(order_for(tmp_path, script), PROTOCOL, str(tmp_path / "lane.npz"))
        told = []
        runner = TrainingRunner(
            order,
            Limits(patience_s, watchdog_s),
            tell=told.append,
            keep=lambda: told.append("kept"),
            check=check,
            **more,
        )
        if refused is not None:
            refused.append(runner)
        return runner, runner.run(), told

    return run


@pytest.fixture
def taken_up(tmp_path):
    """Return a runner that takes a training up and has heard of other sources or versions, with no process run."""

    def make(before, built, changed=()):
        order = FullOrder(order_for(tmp_path, ""), PROTOCOL, str(tmp_path / "lane.npz"))
        runner = TrainingRunner(
            order, Limits(), tell=print, keep=list, check=lambda _: None, before=before, changed=changed
        )
        runner.built = built
        return runner

    return make


def test_a_training_that_finishes_brings_everything_back(train, house):
    """Laps, test, predictions, proof, first step, versions and phases."""
    runner, dnf, told = train()
    made = runner.training_run("ok", dnf)
    process = made.process
    assert (process.lane, made.seed, process.status, process.dnf, made.processes) == (
        "fake/cpu/as-written",
        0,
        "ok",
        None,
        1,
    )
    assert [lap.train_s for lap in made.laps] == pytest.approx([2.2, 2.0, 2.0])
    assert (made.test.score.items, len(made.predictions.truth)) == (1_000, 3)
    assert (made.first_step_ms, process.parameters, process.items_per_step) == (300.0, 1_337_002, 100)
    assert list(process.phases_s) == ["start", "import", "build", "proof", "set up"]
    assert process.versions == {"fake": "1"}
    assert process.peak_memory_bytes > 1_000_000
    assert told.count("kept") == 4, "three laps and the test"
    assert [moment.lap.number for moment in told if moment != "kept" and moment.lap] == [1, 2, 3]
    assert house.is_empty_within(10)


@pytest.mark.parametrize(
    ("how", "phase", "told", "laps"),
    [
        ("raise", "set up", "set up", 0),
        ("kill", "lap 2", "lap 2", 1),
        ("exit", "evaluation 2", "validation 2", 1),
        ("raise", "checkpoint 3", "checkpoint 3", 2),
    ],
)
def test_a_failure_says_where_and_keeps_the_laps_before_it(train, how, phase, told, laps):
    """Phase and reason, and as many laps as were whole."""
    runner, dnf, _ = train(f'fail = {{ how = "{how}", phase = "{phase}" }}')
    reasons = {"raise": "RuntimeError: planted failure", "kill": "killed by SIGKILL", "exit": "ended on its own"}
    assert (dnf.phase, len(runner.laps)) == (told, laps)
    assert reasons[how] in dnf.reason


def test_a_silence_within_a_lap_is_ended_by_the_watchdog(train, house):
    """A lap's words come twice a second; validation and the like are given more patience."""
    runner, dnf, _ = train('first_ms = 10\nstep_ms = 1.0\nfail = { how = "hang", phase = "lap 2" }')
    assert (dnf.phase, dnf.reason, len(runner.laps)) == ("lap 2", "no message for 1 s; stopped", 1)
    assert house.is_empty_within(0)


@pytest.mark.long
def test_a_silence_elsewhere_is_ended_when_patience_is(train):
    """Patience is for what nobody can predict."""
    _, dnf, _ = train('fail = { how = "hang", phase = "checkpoint 1" }', patience_s=1.5, watchdog_s=0.1)
    assert (dnf.phase, dnf.reason) == ("checkpoint 1", "no message for 1.5 s; stopped")


def test_what_an_earlier_process_found_out_is_kept(train):
    """Start-up, first step and proof are those of the first process; the checkpoint is the truth about laps."""
    runner, dnf, _ = train('fail = { how = "kill", phase = "lap 3" }')
    before = runner.training_run("dnf", dnf)
    rest, dnf, told = train(before=before)
    made = rest.training_run("ok", dnf)
    assert (made.processes, made.process.phases_s) == (2, before.process.phases_s)
    assert made.first_step_ms == before.first_step_ms
    assert [lap.number for lap in made.laps] == [1, 2, 3]
    assert made.laps[:2] == before.laps
    assert [lap.fresh for lap in made.laps] == [True, False, True]
    assert "goes on after lap 2" in [moment.doing for moment in told if moment != "kept"]


def test_sources_that_are_refused_are_not_trained(train, house):
    """They are looked at when the training is built; no lap is run, and no process is left."""

    def refuse(sources):
        raise UsageError(f"other sources: {sources}", "-")

    refused = []
    with pytest.raises(UsageError, match=r"other sources: \{\}"):
        train(check=refuse, refused=refused)
    assert [(runner.phase, runner.laps) for runner in refused] == [("build", [])]
    assert house.is_empty_within(10)


def test_changed_sources_are_noted_for_good(train, taken_up):
    """What differs, what was found gone before, and what an earlier process had otherwise."""
    runner, _, _ = train()
    began = replace(runner.training_run("dnf"), sources={"a.py": "1", "b.py": "2"})
    built = msgspec.structs.replace(runner.built, sources={"a.py": "9", "b.py": "2"})
    went_on = taken_up(began, built, ("gone.py",)).training_run("dnf")
    assert went_on.changed == ("a.py", "gone.py")
    assert went_on.sources == {"a.py": "9", "b.py": "2"}
    assert went_on.process.notes == ("after lap 3 it went on with changed sources: a.py, gone.py",)
    again = taken_up(went_on, built).training_run("ok")
    assert (again.changed, again.process.notes) == (went_on.changed, went_on.process.notes)
    older = replace(began, sources={})
    assert taken_up(older, built).training_run("ok").process.notes == (
        "whether its sources changed before it went on is not known: their digests were not kept",
    )


def test_other_versions_than_before_are_told(train, taken_up):
    """A curve that two versions made is said to be one."""
    runner, _, _ = train()
    made = runner.training_run("dnf")
    before = replace(made, process=replace(made.process, versions={"fake": "0"}))
    notes = taken_up(before, runner.built).training_run("ok").process.notes
    assert notes == ("it went on with other versions: fake 0 before, 1 now",)


def test_a_watched_training_has_readings_and_marks_of_each_process(train):
    """Its parts are joined; a fake's clock is its own, as each of them notes."""
    sampler = Sampler([FakeSensor()], 100.0)
    runner, dnf, _ = train('fail = { how = "kill", phase = "lap 3" }', sampler=sampler)
    before = runner.training_run("dnf", dnf)
    rest, dnf, _ = train(sampler=sampler, before=before)
    first, second = rest.training_run("ok", dnf).watched
    assert [mark.name for mark in first.marks][-1] == "lap 3"
    assert [mark.name for mark in second.marks][-1] == "end"
    assert second.timeline.clock == OWN_CLOCK
    assert all(each.timeline.find("fake-0", "energy_mj") is not None for each in (first, second))
    assert [lap.number for lap in rest.laps] == [1, 2, 3]


def test_a_training_that_nobody_watches_has_no_readings(train):
    runner, dnf, _ = train()
    assert runner.training_run("ok", dnf).watched == ()
