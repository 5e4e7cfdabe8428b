"""A race through the front door of the library: rounds that turn about, a journal after each heat, kept references."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from laptime.model.ask import Ask
from laptime.model.machine import Device, Framework, Machine, Processor
from laptime.model.missing import Missing
from laptime.model.record import Record
from laptime.planner import make_plan
from laptime.questions.outside import Outside
from laptime.questions.race import run_race
from laptime.questions.subject import find_subject

FEATURES = ("bf16", "tf32", "fp16", "compile", "graph", "channels_last", "fused", "malloc")
DEVICES = (
    Device("cpu", "cpu", "fake processor", usable=True, features=FEATURES),
    Device("cuda:0", "cuda", "fake accelerator", usable=True, features=FEATURES),
)
MACHINE = Machine(
    Processor("a processor", "x86_64", 2, 2, Missing("none")),
    1 << 34,
    Missing("none"),
    "Linux 6.1",
    "3.11.7",
    None,
    (Framework("fake", "1", {"fake": "1"}, DEVICES),),
)


class World:
    """What a race needs of the world, kept in memory; its children are real."""

    def __init__(self) -> None:
        self.journal: list[Record] = []
        self.references = {}
        self.notes: list[str] = []
        self.stop_after = 1_000

    def race(self, *lanes: str, what: str = "cifar-cnn", script: str = "1", **asked: object) -> Record:
        subject, workload = find_subject(what)
        plan = make_plan(Ask(what, lanes, **asked), MACHINE, subject, workload)
        planned = [replace(lane, environment={**lane.environment, "LAPTIME_FAKE": script}) for lane in plan.lanes]
        outside = Outside(
            record_id="r-1",
            started="2026-01-01T00:00:00+00:00",
            tool={"name": "laptime"},
            journal=self._keep,
            recall=self.references.get,
            keep=lambda reference: self.references.update({reference.key: reference}),
            show=lambda record, note: self.notes.append(note),
            place_trace=Path,
        )
        return run_race(replace(plan, lanes=tuple(planned)), MACHINE, workload.published, outside)

    def _keep(self, record: Record) -> None:
        self.journal.append(record)
        if len(self.journal) == self.stop_after:
            raise KeyboardInterrupt


@pytest.fixture
def world():
    return World()


def orders(record):
    return [[heat.order for heat in lane.heats] for lane in record.lanes]


def test_rounds_turn_about(world):
    """A B, B A, A B: whatever drifts meets both lanes alike."""
    record = world.race("fake/cpu", "fake/cpu/best", heats=4)
    assert orders(record) == [[0, 3, 4, 7], [1, 2, 5, 6]]
    assert [[heat.round for heat in lane.heats] for lane in record.lanes] == [[0, 1, 2, 3]] * 2


def test_three_lanes_turn_about_too(world):
    """A B C, C B A, A B C."""
    record = world.race("fake/cpu", "fake/cpu/best", "fake/cuda", heats=3)
    assert orders(record) == [[0, 5, 6], [1, 4, 7], [2, 3, 8]]


def test_the_journal_is_written_after_every_heat(world):
    """Each entry has one heat more than the one before, the last is the finished record."""
    record = world.race("fake/cpu", "fake/cpu/best", heats=2)
    assert [sum(len(lane.heats) for lane in each.lanes) for each in world.journal] == [1, 2, 3, 4, 4]
    assert [each.status for each in world.journal] == ["running"] * 4 + ["finished"]
    assert world.journal[-1] == record


def test_an_interrupt_keeps_what_is_finished(world):
    """The record of an interrupted race is a record like any other, and stands in the journal."""
    world.stop_after = 3
    record = world.race("fake/cpu", "fake/cpu/best", heats=9)
    assert record.status == "interrupted"
    assert world.journal[-1] == record
    assert orders(record) == [[0], [1, 2]]


def test_every_lane_is_held_against_the_first(world):
    """The ratio is of the lane's items per second to the first's."""
    record = world.race("fake/cpu", "fake/cpu/best", "fake/cuda/best", heats=2)
    assert [(each.lane, each.reference, pytest.approx(each.ratio)) for each in record.comparisons] == [
        ("fake/cpu/best", "fake/cpu/as-written", 2.0),
        ("fake/cuda:0/best", "fake/cpu/as-written", 20.0),
    ]


@pytest.mark.parametrize(("asked", "alpha"), [({"heats": 3}, 0.05), ({}, 0.01)])
def test_an_adaptive_stop_has_its_price(world, asked, alpha):
    """Stopping at the first look spends a fifth of the error rate, a number of heats the whole of it."""
    record = world.race("fake/cpu", "fake/cpu/best", **asked)
    assert [len(lane.heats) for lane in record.lanes] == [3, 3]
    assert [alpha] == pytest.approx([each.alpha for each in record.comparisons])


def test_a_lane_that_fails_leaves_the_race_and_the_others_stay(world, tmp_path):
    """It is not started again; the next lane becomes what the others are held against."""
    script = tmp_path / "fake.toml"
    script.write_text('["fake/cpu/as-written"]\nfail = { how = "raise", phase = "build", heat = 5 }\n')
    record = world.race("fake/cpu", "fake/cpu/best", "fake/cuda", heats=4, script=str(script))
    assert [lane.status for lane in record.lanes] == ["dnf", "ok", "ok"]
    assert orders(record) == [[0, 5], [1, 4, 6, 9], [2, 3, 7, 8]]
    assert [each.reference for each in record.comparisons] == ["fake/cpu/best"]


def test_the_reference_is_computed_once_and_kept(world):
    """The second race of the same work finds it; another seed is another work."""
    first = world.race("fake/cpu", heats=1)
    assert "computing the float64 reference of the proof, once" in world.notes
    world.notes.clear()
    assert world.race("fake/cpu/best", heats=1).reference == first.reference
    assert [note for note in world.notes if "reference" in note] == []
    world.race("fake/cpu", heats=1, seed=1)
    assert len(world.references) == 2


def test_a_loader_alone_needs_no_reference(world):
    """It is not made where nobody is held against it."""
    record = world.race("fake/cpu/input=only", heats=1)
    assert (record.reference, world.references) == (None, {})
    assert record.lanes[0].parity.reason == "input=only trains nothing"


def test_progress_names_the_heat_the_lane_and_the_end(world):
    """It is shown once a heat, while the child builds."""
    world.race("fake/cpu", "fake/cpu/best", heats=2, budget_s=7.0)
    assert [note.split(";")[0] for note in world.notes[1:]] == [
        "heat 1 of at most 4: fake/cpu/as-written",
        "heat 2 of at most 4: fake/cpu/best",
        "heat 3 of at most 4: fake/cpu/best",
        "heat 4 of at most 4: fake/cpu/as-written",
    ]
    assert "ends within about " in world.notes[1]


def test_the_record_says_what_laptime_itself_cost(world):
    """The parent's processor time, and the time of its journal."""
    overhead = world.race("fake/cpu", heats=1).overhead
    assert set(overhead) == {"parent_processor_s", "journal_s"}
    assert min(overhead.values()) >= 0
