"""A race through the front door of the library: rounds that turn about, a journal after each heat, kept references."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from absent_sensor import ABSENT
from laptime.model.ask import Ask
from laptime.model.errors import SensorError
from laptime.model.machine import Device, Framework, Machine, Processor
from laptime.model.quantities import Missing
from laptime.model.questions import find_question
from laptime.model.record import Progress, Record
from laptime.planner import make_plan
from laptime.questions.asking import Prepared
from laptime.questions.job import CheckpointFiles, Services, run_question
from laptime.questions.proving import ReferenceCache
from laptime.questions.race.run import Race
from laptime.questions.subject import find_subject

pytestmark = pytest.mark.usefixtures("forked_heats")

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
        self.notes: list[Progress] = []
        self.stop_after = 1_000

    def race(self, *lanes: str, what: str = "cifar-cnn", script: str = "1", **asked: object) -> Record:
        subject, workload = find_subject(what)
        plan = make_plan(Ask(what, lanes, **asked), MACHINE, subject, workload)
        planned = [replace(lane, environment={**lane.environment, "LAPTIME_FAKE": script}) for lane in plan.lanes]
        services = Services(
            record_id="r-1",
            started="2026-01-01T00:00:00+00:00",
            tool={"name": "laptime"},
            journal=self._keep,
            references=ReferenceCache(
                self.references.get, lambda reference: self.references.update({reference.key: reference})
            ),
            checkpoints=CheckpointFiles(Path, Path.unlink),
            show=lambda _record, progress: self.notes.append(progress),
            tell=lambda _moment: None,
            place_trace=Path,
        )
        prepared = Prepared(replace(plan, lanes=tuple(planned)), MACHINE, workload.published)
        return run_question(find_question("race"), prepared, services)

    def _keep(self, record: Record) -> None:
        self.journal.append(record)
        if len(self.journal) == self.stop_after:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def known():
    """Compute the float64 reference once for all races that only take it."""
    world = World()
    world.race("fake/cpu", heats=1)
    return world.references


@pytest.fixture
def world(known):
    world = World()
    world.references.update(known)
    return world


def orders(record):
    return [[result.heat.order for result in lane.heats] for lane in record.lanes]


def test_rounds_turn_about_and_each_heat_is_told_and_kept(world):
    """The heats of a round take turns, A B, B A, A B: whatever drifts meets both lanes alike.

    Each entry of the journal has one heat more than the one before, the last is the finished record. Each round
    is news, and names itself and, once a round has shown it, the end.
    """
    record = world.race("fake/cpu", "fake/cpu/best", heats=4, budget_s=9.0)
    assert orders(record) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert [[result.heat.round for result in lane.heats] for lane in record.lanes] == [[0, 1, 2, 3]] * 2
    assert [sum(len(lane.heats) for lane in each.lanes) for each in world.journal] == [*range(1, 9), 8]
    assert [each.status for each in world.journal] == ["running"] * 8 + ["finished"]
    assert world.journal[-1] == record
    news = [each for each in world.notes if each.is_news]
    assert [each.doing for each in news] == [f"round {number} of 4" for number in range(1, 5)]
    assert [each.left_s is None for each in news] == [True, False, False, False]
    assert [each.elapsed_s for each in world.notes] == sorted(each.elapsed_s for each in world.notes)


def test_progress_names_what_each_lane_does_and_draws_no_conclusion(world, monkeypatch):
    """A heat builds, is proven, takes its turns and is done; only the first heat of a lane is proven."""
    reduced, reduce = [], Race.reduce
    monkeypatch.setattr(Race, "reduce", lambda race, status: reduced.append(status) or reduce(race, status))
    world.race("fake/cpu", "fake/cpu/best", heats=2)
    assert len(reduced) <= len(world.journal) + 1, "what is shown is of the saved record: nothing is computed for it"
    assert len(world.notes) > 2 * len(reduced)
    rounds = [[each for each in world.notes if each.doing == f"round {number} of 2"] for number in (1, 2)]
    seen = [[each.lanes["fake/cpu/best"] for each in shown] for shown in rounds]
    first, second = (list(dict.fromkeys(each)) for each in seen)
    assert first[0] == second[0] == "waits"
    assert [each for each in first if each in {"builds", "is proven", "turn 1"}] == ["builds", "is proven", "turn 1"]
    assert [each for each in second if each in {"builds", "is proven", "turn 1"}] == ["builds", "turn 1"]
    assert first[-1] == second[-1] == "done"
    assert any(re.fullmatch(r"turn 2 of \d+", each) for each in first)
    assert any(each.notes and re.fullmatch(r"quiet: \d+ of \d+ turns", each.notes[0]) for each in rounds[0])


def test_a_budget_that_surely_has_no_room_for_an_interval_is_said_before_anything_is_measured(world):
    """Two lanes are timed for a second each in each of three rounds."""
    world.race("fake/cpu", "fake/cpu/best", budget_s=1.0)
    first, *others = [each.doing for each in world.notes]
    assert re.fullmatch(
        r"warning: --budget 1s is too short for a 95 % interval \(start-up \d s \+ 3 rounds of [23] s\)\. "
        r"This takes at least about [2-5] s\. Use --budget 1[2-9]s\.",
        first,
    )
    assert all(each.startswith("round ") for each in others)


def test_heats_that_take_longer_than_the_budget_are_said_before_anything_is_measured(world):
    """They were asked for, so the budget does not end them."""
    world.race("fake/cpu", "fake/cpu/best", heats=3, budget_s=1.0)
    first, *others = [each.doing for each in world.notes]
    assert re.fullmatch(r"warning: --heats 3 of 2 lanes takes at least about \d s, whatever --budget says\.", first)
    assert all(each.startswith("round ") for each in others)


def test_a_lane_is_proven_once_and_its_later_heats_repeat_its_first_losses(world):
    """Which is proof enough: they begin with the same weights, batches and random numbers."""
    record = world.race("fake/cpu", "fake/cpu/best", heats=3)
    for lane in record.lanes:
        assert [len(result.heat.proofs) for result in lane.heats] == [len(lane.heats[0].heat.proofs), 0, 0]
        assert len({result.heat.first_losses for result in lane.heats}) == 1
        assert lane.heats[0].heat.first_losses
        assert ["proof" in result.heat.process.phases_s for result in lane.heats] == [True, False, False]
        assert lane.parity.status == "same"


def test_an_interrupt_keeps_what_is_finished(world):
    """The record of an interrupted race is a record like any other, and is in the journal."""
    world.stop_after = 3
    record = world.race("fake/cpu", "fake/cpu/best", heats=9)
    assert record.status == "interrupted"
    assert world.journal[-1] == record
    assert orders(record) == [[0, 2], [1]]


def test_every_lane_is_held_against_the_first(world):
    """The ratio is of the lane's items per second to the first's."""
    record = world.race("fake/cpu", "fake/cpu/best", "fake/cuda/best", heats=1)
    assert [(each.lane, each.reference, pytest.approx(each.ratio)) for each in record.answer.comparisons] == [
        ("fake/cpu/best", "fake/cpu/as-written", 2.0),
        ("fake/cuda:0/best", "fake/cpu/as-written", 20.0),
    ]


@pytest.mark.long
def test_heats_run_one_after_another_where_that_is_asked_for(world):
    """Every other round in reverse order, and with windows that belong to no turn."""
    record = world.race("fake/cpu", "fake/cpu/best", heats=4, budget_s=9.0, alone=True)
    assert orders(record) == [[0, 3, 4, 7], [1, 2, 5, 6]]
    assert {window.turn for lane in record.lanes for result in lane.heats for window in result.heat.windows} == {None}


def test_lanes_that_do_not_fit_into_memory_together_race_in_groups(world, monkeypatch):
    """The first lane is in each of them, and no lane is without its pairs; one that fits next to none runs alone."""
    room = iter([None, "planted", None, "planted", "planted"])
    monkeypatch.setattr("laptime.questions.proving.why_no_room", lambda *_: next(room))
    lanes = ("fake/cpu", "fake/cpu/best", "fake/cuda")
    record = world.race(*lanes, heats=2, budget_s=9.0)
    first, *others = record.lanes
    assert [len(lane.heats) for lane in record.lanes] == [3, 2, 2]
    assert [each.pairs for each in record.answer.comparisons] == [2, 2]
    assert [each.ratio for each in record.answer.comparisons] == pytest.approx([2.0, 10.0])
    turns = {lane.name: [result.heat.windows[0].turn for result in lane.heats] for lane in record.lanes}
    assert turns == {"fake/cpu/as-written": [0, 0, 0], "fake/cpu/best": [0, None], "fake/cuda:0/as-written": [0, None]}
    assert {each.heat.round for lane in others for each in lane.heats} <= {each.heat.round for each in first.heats}


@pytest.mark.long
@pytest.mark.parametrize(("asked", "alpha"), [({"heats": 3}, 0.05), ({}, 0.002)])
def test_an_adaptive_stop_has_its_price(world, asked, alpha):
    """Stopping at the first look spends a small part of the error rate, a number of heats the whole of it."""
    record = world.race("fake/cpu", "fake/cpu/best", **asked)
    assert [len(lane.heats) for lane in record.lanes] == [3, 3]
    assert [alpha] == pytest.approx([each.alpha for each in record.answer.comparisons])


def test_a_lane_that_fails_leaves_the_race_and_the_others_stay(world, tmp_path):
    """It is not started again; the next lane becomes what the others are held against."""
    script = tmp_path / "fake.toml"
    script.write_text('["fake/cpu/as-written"]\nfail = { how = "raise", phase = "build", heat = 3 }\n')
    record = world.race("fake/cpu", "fake/cpu/best", "fake/cuda", heats=4, script=str(script))
    assert [lane.status for lane in record.lanes] == ["dnf", "ok", "ok"]
    assert orders(record) == [[0, 3], [1, 4, 6, 8], [2, 5, 7, 9]]
    assert [each.reference for each in record.answer.comparisons] == ["fake/cpu/best"]


def test_the_reference_is_computed_once_and_kept():
    """The second race of the same work finds it; another seed is another work."""
    world = World()
    first = world.race("fake/cpu", heats=1)
    assert "computing the float64 reference of the proof, once" in [each.doing for each in world.notes]
    world.notes.clear()
    assert world.race("fake/cpu/best", heats=1).reference == first.reference
    assert [each for each in world.notes if "reference" in each.doing] == []
    world.race("fake/cpu", heats=1, seed=1)
    assert len(world.references) == 2


def test_a_loader_alone_needs_no_reference():
    """It is not made where nobody is held against it."""
    world = World()
    record = world.race("fake/cpu/input=only", heats=1)
    assert (record.reference, world.references) == (None, {})
    assert record.lanes[0].parity.reason == "input=only trains nothing"


def test_the_record_says_what_laptime_itself_cost(world):
    """The parent's processor time, and the time of its journal."""
    overhead = world.race("fake/cpu", heats=1).overhead
    assert set(overhead) == {"parent_processor_s", "journal_s"}
    assert min(overhead.values()) >= 0


def test_an_instrument_that_is_not_here_is_refused_before_anything_is_made():
    """Neither data nor the float64 reference take their time first."""
    world = World()
    with pytest.raises(SensorError, match=f"--sensors {ABSENT}"):
        world.race("fake/cpu", sensors=(ABSENT,))
    assert (world.references, world.notes, world.journal) == ({}, [], [])
