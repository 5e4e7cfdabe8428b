"""The parent of a whole training: it notes each lap, waits no longer than it should, and leaves no process behind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from heat_orders import order_for

from laptime.model.protocol import FullOrder, Protocol
from laptime.run.following import OWN_CLOCK, Limits
from laptime.run.marathon import Marathon, TrainingNotes, make_run
from laptime.run.sampler import Sampler
from laptime.sensors.fake import FakeSensor

PROTOCOL = Protocol(3, 20, validation_items=100, evaluation_items=1_000, predictions=3)


@pytest.fixture
def marathon(tmp_path):
    """Run one training; give its notes, why it did not finish, and what was told on the way."""

    def run(script="", patience_s=60.0, watchdog_s=1.0, notes=None, sampler=None):
        order = FullOrder(order_for(tmp_path, script), PROTOCOL, str(tmp_path / "lane.npz"))
        told, notes = [], notes or TrainingNotes()
        limits = Limits(patience_s, watchdog_s)
        dnf = Marathon(limits, told.append, lambda: told.append("kept"), sampler).run(order, notes)
        return order, notes, dnf, told

    return run


def test_a_training_that_finishes_brings_everything_back(marathon, house):
    """Laps, test, predictions, proof, first step, versions and phases."""
    order, notes, dnf, told = marathon()
    made = make_run(order, notes, None, "ok", dnf)
    assert (made.lane, made.seed, made.status, made.dnf, made.processes) == ("fake/cpu/as-written", 0, "ok", None, 1)
    assert [lap.train_s for lap in made.laps] == pytest.approx([2.2, 2.0, 2.0])
    assert (made.test.score.items, len(made.predictions.truth)) == (1_000, 3)
    assert (made.first_step_ms, made.parameters, made.items_per_step) == (300.0, 1_337_002, 100)
    assert list(made.phases_s) == ["start", "import", "build", "proof", "set up"]
    assert made.versions == {"fake": "1"}
    assert made.peak_memory_bytes > 1_000_000
    assert told.count("kept") == 4, "three laps and the test"
    assert [moment.lap.number for moment in told if moment != "kept" and moment.lap] == [1, 2, 3]
    assert house.is_empty_within(2)


@pytest.mark.parametrize(
    ("how", "phase", "told", "laps"),
    [
        ("raise", "set up", "set up", 0),
        ("kill", "lap 2", "lap 2", 1),
        ("exit", "evaluation 2", "validation 2", 1),
        ("raise", "checkpoint 3", "checkpoint 3", 2),
    ],
)
def test_a_failure_says_where_and_keeps_the_laps_before_it(marathon, how, phase, told, laps):
    """Phase and reason, and as many laps as were whole."""
    _, notes, dnf, _ = marathon(f'fail = {{ how = "{how}", phase = "{phase}" }}')
    reasons = {"raise": "RuntimeError: planted failure", "kill": "killed by SIGKILL", "exit": "ended by itself"}
    assert (dnf.phase, len(notes.laps)) == (told, laps)
    assert reasons[how] in dnf.reason


def test_a_silence_within_a_lap_is_ended_by_the_watchdog(marathon, house):
    """A lap's words come twice a second; validation and the like are given more patience."""
    _, notes, dnf, _ = marathon('first_ms = 10\nstep_ms = 1.0\nfail = { how = "hang", phase = "lap 2" }')
    assert (dnf.phase, dnf.reason, len(notes.laps)) == ("lap 2", "hung: no word for 1 s", 1)
    assert house.is_empty_within(0)


def test_a_silence_elsewhere_is_ended_when_patience_is(marathon):
    """Patience is for what nobody can foretell."""
    _, _, dnf, _ = marathon('fail = { how = "hang", phase = "checkpoint 1" }', patience_s=1.5, watchdog_s=0.1)
    assert (dnf.phase, dnf.reason) == ("checkpoint 1", "hung: no word for 1.5 s")


def test_what_an_earlier_process_found_out_is_kept(marathon):
    """Start-up, first step and proof are those of the first process; the checkpoint is the truth about laps."""
    order, notes, dnf, _ = marathon('fail = { how = "kill", phase = "lap 3" }')
    before = make_run(order, notes, None, "dnf", dnf)
    _, rest, dnf, told = marathon(notes=TrainingNotes(laps=list(before.laps)))
    made = make_run(order, rest, before, "ok", dnf)
    assert (made.processes, made.phases_s, made.first_step_ms) == (2, before.phases_s, before.first_step_ms)
    assert [lap.number for lap in made.laps] == [1, 2, 3]
    assert made.laps[:2] == before.laps
    assert [lap.fresh for lap in made.laps] == [True, False, True]
    assert "goes on after lap 2" in [moment.doing for moment in told if moment != "kept"]


def test_other_versions_than_before_are_told(marathon):
    """A curve that two versions made is said to be one."""
    order, notes, _, _ = marathon()
    before = replace(make_run(order, notes, None, "dnf"), versions={"fake": "0"})
    assert make_run(order, notes, before, "ok").notes == ("it went on with other versions: fake 0 before, 1 now",)


def test_a_watched_training_has_readings_and_marks_of_each_process(marathon):
    """Its parts are joined; a fake's clock is its own, and says so in each."""
    sampler = Sampler([FakeSensor()], 100.0)
    order, notes, dnf, _ = marathon('fail = { how = "kill", phase = "lap 3" }', sampler=sampler)
    before = make_run(order, notes, None, "dnf", dnf)
    _, rest, dnf, _ = marathon(notes=TrainingNotes(laps=list(before.laps)), sampler=sampler)
    first, second = make_run(order, rest, before, "ok", dnf).watched
    assert [mark.name for mark in first.marks][-1] == "lap 3"
    assert [mark.name for mark in second.marks][-1] == "end"
    assert second.timeline.clock == OWN_CLOCK
    assert all(each.timeline.find("fake-0", "energy_mj") is not None for each in (first, second))
    assert [lap.number for lap in rest.laps] == [1, 2, 3]


def test_a_training_that_nobody_watches_has_no_readings(marathon):
    order, notes, dnf, _ = marathon()
    assert make_run(order, notes, None, "ok", dnf).watched == ()
