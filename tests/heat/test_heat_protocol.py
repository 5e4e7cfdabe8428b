"""The one loop for whole trainings, driven on the fake back end's virtual clock: every figure is exact."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laptime.engine import wire
from laptime.engine.backends.fake import FakeBackend, FakeLearner, FakeTraining, Script
from laptime.engine.heat.protocol import run_protocol
from laptime.model.errors import LaneError
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.protocol import FullOrder, Protocol, Score
from laptime.model.quantities import Missing
from laptime.model.workload import ProofPlan

CPU = Device("cpu", "cpu", "fake processor", usable=True)
LANE = PlannedLane("fake/cpu/as-written", "fake", CPU, Settings())
SUBJECT = Subject("cifar-cnn", "", 1_337_002, 100, 500, 10, "images")
HEAT = HeatOrder(SUBJECT, LANE, 0, ProofPlan(steps=4), Pace(1, 1, adaptive=False, measure_s=2.0, window_s=0.2), 0)
PROTOCOL = Protocol(3, 20, validation_items=1_000, evaluation_items=10_000, predictions=4)


class Notebook:
    """A line to a parent that always says to go on; it may hang up after some laps."""

    def __init__(self, laps: int = 1_000) -> None:
        self.said: list[wire.FromChild] = []
        self._laps = laps

    def say(self, message: wire.FromChild) -> None:
        self.said.append(message)

    def listen(self) -> wire.FromParent:
        self._laps -= 1
        if not self._laps:
            raise EOFError
        return wire.GoOn()

    def all(self, kind):
        return [message for message in self.said if isinstance(message, kind)]

    @property
    def laps(self):
        return [message.lap for message in self.all(wire.LapDone)]


@pytest.fixture
def order(tmp_path):
    return FullOrder(HEAT, PROTOCOL, str(tmp_path / "lane.npz"))


def curve(line):
    """Return what a curve is made of: everything but the times of the machine."""
    return [(lap.number, lap.steps, lap.score, lap.validation) for lap in line.laps]


def test_a_training_goes_through_its_phases_in_order(order):
    """Proof once, then each lap with its validation and its checkpoint, then the test and the census."""
    line = Notebook()
    run_protocol(FakeBackend(), order, line)
    said = [message.name for message in line.all(wire.Phase)]
    laps = [f"{part} {number}" for number in (1, 2, 3) for part in ("lap", "validation", "checkpoint")]
    assert said == ["build", "proof", "set up", *laps, "test", "census", "end"]
    assert len(line.all(wire.Proved)) == 1


def test_a_lap_holds_its_steps_and_nothing_else(order):
    """20 steps of 100 ms; the first has 300 ms; validation, of a tenth of the test items, takes 100 ms on top."""
    line = Notebook()
    run_protocol(FakeBackend(), order, line)
    assert [lap.train_s for lap in line.laps] == pytest.approx([2.2, 2.0, 2.0])
    assert [lap.fresh for lap in line.laps] == [True, False, False]
    assert [lap.validation.seconds for lap in line.laps] == pytest.approx([0.1] * 3)
    assert line.all(wire.FirstStep) == [wire.FirstStep(300_000_000)]
    assert {20} == {lap.steps for lap in line.laps}


def test_the_curve_is_the_one_that_can_be_foretold(order):
    """What is wrong halves every 500 steps: a lap's mean is that of its middle, validation that of its end."""
    line = Notebook()
    run_protocol(FakeBackend(), order, line)
    for place, lap in enumerate(line.laps):
        middle, end = 0.5 ** ((20 * place + 10) / 500), 0.5 ** ((20 * place + 20) / 500)
        assert lap.score == Score(2_000, 2.3 * middle, 1 - 0.9 * middle)
        assert lap.validation.score == Score(1_000, 2.3 * end, 1 - 0.9 * end)
    (tested,) = line.all(wire.Tested)
    assert tested.test.score.items == 10_000
    assert (len(tested.predictions.predicted), tested.predictions.truth) == (4, ((0,), (1,), (2,), (3,)))


def test_progress_is_told_by_counting_steps_and_twice_a_second_at_most(order):
    """After the first step, then four, then five of 100 ms at a time; the last step of a lap needs no word."""
    line = Notebook()
    run_protocol(FakeBackend(), order, line)
    steps = [(each.lap, each.step) for each in line.all(wire.Stepped)]
    assert steps == [(1, 1), (1, 3), (1, 8), (1, 13), (1, 18), *((lap, step) for lap in (2, 3) for step in (5, 10, 15))]


def test_quick_steps_are_told_no_oftener(order, monkeypatch):
    """10,000 steps of 0.1 ms are one second: two or three words, and a few while the stride grows."""
    monkeypatch.setattr("laptime.engine.backends.fake_script.STEP_MS", {"cpu": 0.1})
    line = Notebook()
    run_protocol(FakeBackend(), replace(order, protocol=replace(PROTOCOL, laps=1, steps_per_lap=10_000)), line)
    assert len(line.all(wire.Stepped)) <= 9


class Room(FakeBackend):
    """A fake room with a learner of your own."""

    def __init__(self, learner) -> None:
        super().__init__()
        self._learner = learner

    def build(self, order):
        training, learner = FakeTraining(Script(step_ms=100.0), order, self.clock), self._learner
        training.learn = lambda: learner(Script(step_ms=100.0), order, self.clock, 100)
        return training


def test_no_step_waits_for_its_own_figures(order):
    """Between two words of progress there are steps, and neither a fence nor a look at the account."""
    asked = []

    class Diary(FakeLearner):
        def step(self):
            asked.append("s")
            super().step()

        def fence(self):
            asked.append("|")

        def score(self):
            asked.append("?")
            return super().score()

    run_protocol(Room(Diary), replace(order, protocol=Protocol(2, 12)), Notebook())
    assert "".join(asked) == "|s|?ss|?sssss|?ssss|?" + "|sssss|?sssss|?ss|?"


def test_a_training_taken_up_again_gives_the_same_curve(order):
    """Ended after the second lap; the rest is what an unbroken one would have had."""
    whole, begun, rest = Notebook(), Notebook(laps=2), Notebook()
    run_protocol(FakeBackend(), replace(order, checkpoint=order.checkpoint + ".other.npz"), whole)
    with pytest.raises(EOFError):
        run_protocol(FakeBackend(), order, begun)
    run_protocol(FakeBackend(), replace(order, prove=False), rest)
    assert curve(begun) + curve(rest) == curve(whole)
    (resumed,) = rest.all(wire.Resumed)
    assert [(lap.number, lap.score, lap.validation) for lap in resumed.laps] == [
        (lap.number, lap.score, lap.validation) for lap in begun.laps
    ]
    assert rest.laps[0].fresh
    assert rest.all(wire.Proved) == []


def test_one_that_ended_before_its_test_is_only_tested(order):
    """No lap is trained twice."""
    with pytest.raises(EOFError):
        run_protocol(FakeBackend(), order, Notebook(laps=3))
    line = Notebook()
    run_protocol(FakeBackend(), order, line)
    assert (line.laps, len(line.all(wire.Tested))) == ([], 1)


def test_a_new_training_says_that_nothing_is_done(order):
    """The parent may know of laps whose checkpoint was deleted."""
    line = Notebook()
    run_protocol(FakeBackend(), order, line)
    assert line.all(wire.Resumed) == [wire.Resumed(())]


def test_a_loss_that_is_no_number_ends_the_lane_and_keeps_the_lap_before(order, monkeypatch):
    """The lap is reported without its loss; the checkpoint is that of the lap before."""

    class Lost(FakeLearner):
        def score(self):
            return replace(super().score(), loss=Missing("the loss became nan")) if self._lap == 2 else super().score()

    line = Notebook()
    with pytest.raises(LaneError, match="the loss became nan in lap 2: this lane does not learn"):
        run_protocol(Room(Lost), order, line)
    assert [lap.score.loss for lap in line.laps][1] == Missing("the loss became nan")
    assert line.laps[1].validation is None
    rest = Notebook()
    run_protocol(FakeBackend(), order, rest)
    assert [lap.number for lap in rest.laps] == [2, 3]


def test_a_checkpoint_that_cannot_be_written_ends_no_training(order, tmp_path):
    """The lap says why; the training goes on."""
    (tmp_path / "file").write_text("")
    line = Notebook()
    run_protocol(FakeBackend(), replace(order, checkpoint=str(tmp_path / "file" / "lane.npz")), line)
    assert len(line.laps) == 3
    assert {each.checkpoint_s.missing.split(":")[0] for each in line.laps} == {"it could not be written"}


def test_a_lap_without_a_length_is_refused(order, monkeypatch):
    """Where neither the data nor the user says how many steps make one."""
    monkeypatch.setattr(FakeTraining, "__init__", _without_length(FakeTraining.__init__))
    with pytest.raises(LaneError, match="nobody said how many steps make a lap"):
        run_protocol(FakeBackend(), replace(order, protocol=replace(PROTOCOL, steps_per_lap=None)), Notebook())


def _without_length(build):
    def made(self, *given):
        build(self, *given)
        self.steps_per_lap = None

    return made


def test_the_datas_own_length_makes_a_lap(order):
    """Where the protocol does not say."""
    line = Notebook()
    run_protocol(FakeBackend(), replace(order, protocol=Protocol(1, None)), line)
    assert [lap.steps for lap in line.laps] == [500]
    assert line.laps[0].validation is None
    assert line.all(wire.Tested) == []
