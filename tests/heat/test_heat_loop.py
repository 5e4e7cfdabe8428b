"""The one loop that times everybody, driven on the fake back end's virtual clock."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from laptime.engine import wire
from laptime.engine.backends.fake import FakeBackend, FakeClock, FakeRunner, FakeTraining, Script
from laptime.engine.heat.loop import PartFacts, measure, precisions_to_prove, run_heat, size_windows, time_steps
from laptime.model.errors import LaneError
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.quantities import Missing
from laptime.model.sample import ProofRun
from laptime.model.workload import ProofPlan

CPU = Device("cpu", "cpu", "fake processor", usable=True)
PACE = Pace(3, 5, adaptive=True, measure_s=2.0, window_s=0.2)
IN_TURNS = replace(PACE, window_s=0.5, takes_turns=True)


def order_for(**settings) -> HeatOrder:
    lane = PlannedLane("fake/cpu/as-written", "fake", CPU, Settings(**settings))
    subject = Subject("cifar-cnn", "", 1_337_002, 100, 500, 10, "images")
    return HeatOrder(subject, lane, 0, ProofPlan(steps=4), PACE, 0)


class Notebook:
    """A line to nobody: writes down what was said, and answers as it was told to."""

    def __init__(self, *answers: wire.FromParent) -> None:
        self.said: list[wire.FromChild] = []
        self._answers = list(answers)

    def say(self, message: wire.FromChild) -> None:
        self.said.append(message)

    def listen(self) -> wire.FromParent:
        return self._answers.pop(0) if self._answers else wire.Enough()

    @property
    def windows(self) -> list[wire.Closed]:
        return [message for message in self.said if isinstance(message, wire.Closed)]


class Diary(FakeRunner):
    """A fake runner that also writes down what is asked of it, and may take its own time for each step."""

    def __init__(self, clock: FakeClock, step_ms: float, opening_ms: tuple[float, ...] = ()) -> None:
        super().__init__(Script(step_ms=step_ms, first_ms=step_ms), order_for(), clock)
        self.asked = ""
        self._pass_ms, self._step_ms, self._opening_ms = clock.pass_ms, step_ms, list(opening_ms)

    def step(self) -> None:
        self.asked += "s"
        self._pass_ms(self._opening_ms.pop(0) if self._opening_ms else self._step_ms)

    def fence(self) -> None:
        self.asked += "|"

    def mark(self) -> object:
        self.asked += "."
        return super().mark()


def test_who_times_the_same_steps_as_others_takes_few_to_size_its_windows():
    """Others catch up with them. A training that was 7,000 times as fast took 131,000, and the other one never came."""
    clock = FakeClock()
    runner = Diary(clock, step_ms=0.0002)
    size_windows(clock, runner, replace(IN_TURNS, shares_steps=True), lap=1_000)
    assert runner.asked.count("s") <= 32
    size_windows(clock, runner, IN_TURNS, lap=1_000)
    assert runner.asked.count("s") > 10_000


def test_test_items_are_looked_at_after_the_windows_where_that_was_asked():
    """What it took is said before the end, and off the clock of every window."""
    line = Notebook()
    run_heat(FakeBackend(), replace(order_for(), test_items=1_000), line)
    said = [message.name if isinstance(message, wire.Phase) else type(message).__name__ for message in line.said]
    assert said[-4:] == ["Ready", "look ahead", "Examined", "end"]


def test_a_look_that_fails_costs_no_timing(tmp_path, monkeypatch):
    """The windows stand; a note says why there is no forecast."""
    script = tmp_path / "fake.toml"
    script.write_text('["*"]\nfail = { how = "raise", phase = "look ahead" }\n')
    monkeypatch.setenv("LAPTIME_FAKE", str(script))
    line = Notebook()
    run_heat(FakeBackend(), replace(order_for(), test_items=1_000), line)
    assert len(line.windows) == 10
    [noted] = [message for message in line.said if isinstance(message, wire.Noted)]
    assert "no forecast of the whole training" in noted.notes[0]
    assert "planted failure" in noted.notes[0]


def test_the_table_of_the_fake_sensor_is_no_lanes(tmp_path, monkeypatch):
    """A script may hold both."""
    script = tmp_path / "fake.toml"
    script.write_text('[sensor]\nperiod_s = 0.5\n["*"]\nfirst_ms = 50.0\n')
    monkeypatch.setenv("LAPTIME_FAKE", str(script))
    line = Notebook()
    run_heat(FakeBackend(), order_for(), line)
    assert len(line.windows) == 10


def test_a_heat_goes_through_its_phases_in_order():
    """Build, proof, first step, timing, end: each is said as it begins, and what came of it as it ends."""
    line = Notebook()
    run_heat(FakeBackend(), order_for(), line)
    said = [message.name if isinstance(message, wire.Phase) else type(message).__name__ for message in line.said]
    assert said == [
        *("build", "Built", "proof", "Proved", "first step", "FirstStep", "timing", "Paced"),
        "Early",
        *["Closed"] * 10,
        *("Ready", "end"),
    ]


def test_a_heat_is_timed_on_the_back_ends_own_clock():
    """On the virtual clock every figure is exact: 200 ms of building, 4 steps of proof, a first step of 300 ms."""
    line = Notebook()
    held = run_heat(FakeBackend(), order_for(), line)
    at_ms = {message.name: message.at_ns / 1e6 for message in line.said if isinstance(message, wire.Phase)}
    assert at_ms["proof"] - at_ms["build"] == pytest.approx(200.0)
    assert at_ms["first step"] - at_ms["proof"] == pytest.approx(400.0)
    assert at_ms["timing"] - at_ms["first step"] == pytest.approx(300.0)
    assert at_ms["end"] - at_ms["timing"] == pytest.approx(100.0 + 2000.0)
    assert wire.FirstStep(300_000_000) in line.said
    assert held == Missing("a fake device holds no memory")


def test_a_window_is_exactly_its_steps():
    """Ten windows of two steps of 100 ms, with nothing of the first step in them."""
    line = Notebook()
    run_heat(FakeBackend(), order_for(), line)
    assert [
        (each.window.steps, each.window.step_ns, each.window.end_ns - each.window.start_ns) for each in line.windows
    ] == [(2, (100_000_000, 100_000_000), 200_000_000)] * 10


def test_the_device_is_fenced_at_the_ends_of_windows_and_nowhere_between():
    """A fence inside a window would take the pipelining away that a real training has."""
    clock = FakeClock()
    runner = Diary(clock, 100.0)
    measure(clock, runner, replace(PACE, measure_s=1.0), Notebook())
    assert runner.asked == "|.s.|" + "|.s.s.|" * 5


def test_what_a_loader_had_ready_is_run_down_before_a_window_opens():
    """Batches fetched while nobody timed are no gift; three steps more tell how they come.

    One window follows upon the other, with no pause between.
    """
    clock = FakeClock()
    runner = Diary(clock, 100.0)
    runner.ready_batches = 3
    measure(clock, runner, replace(PACE, measure_s=1.0), Notebook())
    assert runner.asked == ".s.|" * 3 + "|.s.|" * 3 + "|.s.s.|" * 5


def test_steps_that_are_very_slow_do_not_run_down_all_that_was_ready():
    """Their loader makes more meanwhile: after half a minute the rest stays, and a note says how much."""
    clock, line = FakeClock(), Notebook()
    runner = Diary(clock, 20_000.0)
    runner.ready_batches = 11
    measure(clock, runner, PACE, line)
    assert runner.asked == ".s.|" * 2 + "|.s.|" * 3 + "|.s.|" * 3
    [noted] = [message for message in line.said if isinstance(message, wire.Noted)]
    assert noted.notes == ("up to 9 batches that its loader had ready were not used up before the windows opened",)


def test_the_first_window_corrects_the_estimate_that_stood_on_one_step():
    """A slow second step would otherwise make every window too short."""
    clock, line = FakeClock(), Notebook()
    measure(clock, Diary(clock, 10.0, opening_ms=(1000.0,)), PACE, line)
    assert [each.window.steps for each in line.windows][:3] == [1, 20, 20]


def test_a_first_window_that_was_halted_does_not_shorten_all_others():
    """Five seconds in one of its steps would leave windows of one step each; the second window knows better."""
    clock, line = FakeClock(), Notebook()
    measure(clock, Diary(clock, 10.0, opening_ms=(*[10.0] * 20, 5000.0)), PACE, line)
    assert [each.window.steps for each in line.windows][:4] == [20, 1, 20]


def test_steps_that_take_next_to_nothing_but_now_and_then_make_no_endless_window():
    """Of a loader that works at the end of a lap alone one step takes a ten-thousandth of the mean."""
    clock, line = FakeClock(), Notebook()
    laps = ([0.01] * 15 + [100.0]) * 100
    measure(clock, Diary(clock, 0.01, opening_ms=tuple(laps)), PACE, line)
    lasted_ms = [(each.window.end_ns - each.window.start_ns) / 1e6 for each in line.windows]
    assert max(lasted_ms) < 2 * 1e3 * PACE.window_s


def test_windows_hold_whole_bursts_of_a_loader():
    """Six workers that began together end together: five steps in six take next to nothing, and no window is one."""
    clock, line = FakeClock(), Notebook()
    runner = Diary(clock, 1.0, opening_ms=tuple(([900.0] + [1.0] * 5) * 100))
    runner.ready_batches = 12
    gait = measure(clock, runner, PACE, line)
    [paced] = [message for message in line.said if isinstance(message, wire.Paced)]
    assert (paced.window_ns, paced.burst, paced.needs.least) == (1_810_000_000, 12, 12)
    assert gait.burst == 12
    assert {(each.window.steps, each.window.end_ns - each.window.start_ns) for each in line.windows} == {
        (12, 1_810_000_000)
    }
    [noted] = [message for message in line.said if isinstance(message, wire.Noted)]
    assert noted.notes == (
        "its loader gives up to 12 batches at once, then none: no window is shorter, and its step is their mean",
    )


def test_a_step_that_was_disturbed_is_no_burst():
    """It is late once, and what is late because of a loader is late again."""
    clock, line = FakeClock(), Notebook()
    runner = Diary(clock, 100.0, opening_ms=(*[100.0] * 4, 100.0, 900.0))
    runner.ready_batches = 4
    assert measure(clock, runner, PACE, line).burst is None
    assert {each.window.steps for each in line.windows[1:]} == {4}


def test_many_bursts_in_a_window_are_none_to_wait_for():
    """A window that is long enough on its own holds a hundred: one more or less is nothing."""
    clock, line = FakeClock(), Notebook()
    runner = Diary(clock, 0.01, opening_ms=tuple(([1.0] + [0.01] * 5) * 2_000))
    runner.ready_batches = 6
    assert measure(clock, runner, PACE, line).burst is None
    assert not [message for message in line.said if isinstance(message, wire.Noted)]


def test_windows_are_whole_laps_where_these_are_short():
    """Each holds as many lap ends as the others; a lap that is long is none to wait for."""
    for lap, steps in ((16, 32), (7, 21), (60, 20)):
        clock, line = FakeClock(), Notebook()
        measure(clock, Diary(clock, 10.0), PACE, line, PartFacts(lap))
        assert {each.window.steps for each in line.windows} == {steps}
    clock, line = FakeClock(), Notebook()
    ends = ([10.0] * 15 + [150.0]) * 100
    measure(clock, Diary(clock, 10.0, opening_ms=tuple(ends)), PACE, line, PartFacts(16))
    assert {(each.window.steps, each.window.end_ns - each.window.start_ns) for each in line.windows} == {
        (16, 300_000_000)
    }


def test_of_thousands_of_steps_the_first_are_timed_singly():
    """A loader alone may give fifty thousand in a window: their times would be a record of megabytes."""
    clock, line = FakeClock(), Notebook()
    measure(clock, Diary(clock, 0.01), PACE, line)
    assert {(each.window.steps, len(each.window.step_ns)) for each in line.windows} == {(20_000, 4_096)}
    assert {each.window.end_ns - each.window.start_ns for each in line.windows} == {200_000_000}


def test_no_window_is_much_shorter_than_planned():
    """In one of less than 0.1 s it could not be told what other processes took."""
    clock, line = FakeClock(), Notebook()
    measure(clock, Diary(clock, 85.0), replace(PACE, measure_s=1.2, window_s=0.12), line)
    assert {each.window.steps for each in line.windows} == {2}


def test_a_slow_training_gets_three_windows_and_no_more():
    """Steps of 10 s do not fit a measuring time of 2 s; three of them are the least."""
    clock, line = FakeClock(), Notebook()
    measure(clock, Diary(clock, 10_000.0), PACE, line)
    assert [each.window.steps for each in line.windows] == [1, 1, 1]


def test_disturbed_windows_are_run_again_as_often_as_the_parent_says():
    """Two more, then one more, then enough: the first ones are kept."""
    clock, line = FakeClock(), Notebook(wire.Again(2), wire.Again(1), wire.Enough())
    measure(clock, Diary(clock, 100.0), PACE, line)
    ready = [place for place, message in enumerate(line.said) if isinstance(message, wire.Ready)]
    assert ready == [12, 15, 17]
    assert len(line.windows) == 13


def test_a_heat_that_takes_turns_runs_a_window_a_turn():
    """None is planned. A turn begins with steps that are not timed; where a step is long, cold caches do not show."""
    clock, line = FakeClock(), Notebook(wire.TakeTurn(), wire.TakeTurn(), wire.Enough())
    measure(clock, Diary(clock, 10.0), IN_TURNS, line, PartFacts(warm_s=0.025, device_memory_bytes=lambda: 7))
    first, second = (each.window for each in line.windows)
    assert (first.steps, second.steps, second.start_ns - first.end_ns) == (50, 50, 30_000_000)
    ready = [message for message in line.said if isinstance(message, wire.Ready)]
    assert [each.device_memory_bytes for each in ready] == [7] * 3
    assert ready[-1].steps == second.first_step + second.steps - 1
    clock, line = FakeClock(), Notebook(wire.TakeTurn(), wire.TakeTurn(), wire.Enough())
    measure(clock, Diary(clock, 700.0), IN_TURNS, line, PartFacts(warm_s=0.025))
    first, second = (each.window for each in line.windows)
    assert (first.steps, second.start_ns) == (1, first.end_ns)


def test_a_turn_begins_after_the_steps_that_its_order_says():
    """So all lanes time the same steps, however long theirs take."""
    clock, line = FakeClock(), Notebook(wire.TakeTurn(3, 40), wire.TakeTurn(3, 44), wire.Enough())
    measure(clock, Diary(clock, 10.0), IN_TURNS, line, PartFacts(warm_s=0.025, taken=1))
    assert [(each.window.first_step, each.window.steps) for each in line.windows] == [(41, 3), (45, 3)]


def test_a_known_step_takes_no_steps_to_find_out():
    """The first window begins after the first step."""
    clock, line = FakeClock(), Notebook(wire.TakeTurn(), wire.Enough())
    measure(clock, Diary(clock, 100.0), replace(IN_TURNS, known_step_ns=1e8), line, PartFacts(taken=1))
    assert [(each.window.first_step, each.window.steps) for each in line.windows] == [(2, 5)]


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_training_that_does_not_learn_cannot_win(loss):
    """The window is handed over without its loss, then the heat ends with the reason."""

    class Diverging(Diary):
        def loss(self) -> float:
            return loss

    clock, line = FakeClock(), Notebook()
    with pytest.raises(LaneError, match=rf"the loss became {loss} in window 1: this lane does not learn"):
        measure(clock, Diverging(clock, 100.0), PACE, line)
    assert [each.loss for each in line.windows] == [None]


def test_a_proof_that_ends_in_nothing_ends_the_heat():
    """A lane whose proof is no number would learn nothing, so it is not timed."""

    class Diverging(FakeTraining):
        def prove(self, precision: str) -> ProofRun:
            run = super().prove(precision)
            return replace(run, losses=(*run.losses[:2], math.nan))

    class Room(FakeBackend):
        def build(self, order: HeatOrder) -> FakeTraining:
            return Diverging(Script(step_ms=100.0), order, self.clock)

    line = Notebook()
    with pytest.raises(LaneError, match="the loss became nan at step 3 of the proof, in fp32"):
        run_heat(Room(), order_for(), line)
    assert line.windows == []


def test_steps_are_timed_between_two_fences():
    """Three steps of 7 ms, none of them marked."""
    clock = FakeClock()
    runner = Diary(clock, 7.0)
    assert time_steps(clock, runner, 3) == 21_000_000
    assert runner.asked == "|sss|"


@pytest.mark.parametrize(
    ("settings", "precisions"),
    [
        (Settings(), ("fp32",)),
        (Settings(precision="bf16"), ("fp32", "bf16")),
        (Settings(precision="tf32"), ("fp32", "tf32")),
        (Settings(input="only"), ()),
        (Settings(input="only", precision="bf16"), ()),
    ],
)
def test_a_reduced_precision_is_proven_twice(settings, precisions):
    """In float32 that it is the same work, in its own precision how far it strays; a loader alone proves nothing."""
    assert precisions == precisions_to_prove(settings)


def test_every_precision_that_is_to_be_proven_is():
    """What the loop sends is what the table above asks."""
    line = Notebook()
    run_heat(FakeBackend(), order_for(precision="bf16"), line)
    assert [message.run.precision for message in line.said if isinstance(message, wire.Proved)] == ["fp32", "bf16"]
