"""What whole trainings and answers took, from readings whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from measured import CPU, changed
from timelines import CARD, channel, timeline

from laptime.analysis.diagnosis.findings import judge_trainings
from laptime.analysis.usage import Span, answer_pairs, answer_usages, timed_spans, training_usage
from laptime.model.machine import Device
from laptime.model.process import Mark, ProcessRun, Settings, Timeline, Watched
from laptime.model.protocol import BatchRun, Evaluation, FullRun, InferHeat, LapResult, Score
from laptime.model.quantities import Estimate, Missing
from laptime.model.record import BatchResult, InferLane, LaneResult, Parity
from laptime.model.sample import Window

CUDA = Device("cuda:0", "cuda", "a card", usable=True)
BUSY = channel("heat", "busy_s", "s", "counter")
ALL_BUSY = channel("host", "busy_s", "s", "counter")
HOT = channel("host", "temperature_c", "C")
PACKAGE = channel("package-0", "energy_j", "J", "counter")
CARD_POWER = channel(CARD, "power_instant_mw", "mW")
ONE = Missing("one training of each gives no interval")


def marks(*told: tuple[str, float]) -> tuple[Mark, ...]:
    return tuple(Mark(name, round(at_s * 1e9)) for name, at_s in told)


def estimate(value: float) -> Estimate:
    return Estimate(value, ONE, ONE)


def lane(device: Device = CPU, lap_s: float | None = 5.0) -> LaneResult:
    return LaneResult(
        name="torch/cpu/as-written",
        framework={},
        device=device,
        settings=Settings(),
        status="ok",
        reason=None,
        step_ms=estimate(100.0),
        lap_s=None if lap_s is None else estimate(lap_s),
        items_per_s=estimate(1000.0),
        first_step_ms=None,
        startup_s=None,
        peak_memory_bytes=Missing("-"),
        device_memory_bytes=Missing("-"),
        energy_j_per_lap=Missing("-"),
        parity=Parity("same"),
    )


# Proof until 4 s, a lap and its validation, three seconds of writing a checkpoint, another lap, a test.
MARKS = marks(
    ("import", 0.0),
    ("proof", 2.0),
    ("lap 1", 4.0),
    ("validation 1", 9.0),
    ("checkpoint 1", 10.0),
    ("lap 2", 13.0),
    ("checkpoint 2", 18.0),
    ("test", 18.1),
    ("end", 20.1),
)


def run(*watched: Watched, **changes: object) -> FullRun:
    score = Score(5_000, 1.0, 0.5)
    laps = tuple(
        LapResult(number, 50, 5.0, score, number == 1, Evaluation(score, 1.0) if number == 1 else None)
        for number in (1, 2)
    )
    made = FullRun(ProcessRun("torch/cpu/as-written", "ok", phases_s={"start": 1.0, "import": 3.0, "proof": 2.0}),
                   seed=0, order=0, laps=laps, watched=watched, test=Evaluation(score, 2.0))  # fmt: skip
    return changed(made, **changes)


def watched(shown, begin_s: float = 0.0, names=MARKS, hz: float = 1.0, **more) -> Watched:
    line = timeline(shown, seconds=22.0, hz=hz, begin_s=begin_s, **more)
    return Watched(line, tuple(Mark(each.name, each.at_ns + round(begin_s * 1e9)) for each in names))


def test_laps_validations_and_the_test_are_timed():
    """Start-up, proof and a checkpoint of seconds are not; one of a tenth of a second cannot be told apart."""
    assert timed_spans(Watched(Timeline(), MARKS)) == (Span(4.0, 10.0), Span(13.0, 20.1))


def test_what_is_not_over_is_not_timed():
    """A lap that was broken off has no end."""
    assert timed_spans(Watched(Timeline(), MARKS[:7])) == (Span(4.0, 10.0), Span(13.0, 18.0))
    assert timed_spans(Watched(Timeline(), MARKS[:6])) == (Span(4.0, 10.0),)
    assert timed_spans(Watched(Timeline(), ())) == ()


def by_phase(*, training: float, elsewhere: float):
    """Return a counter that grows otherwise between 4 and 10 and between 13 and 20.1 seconds."""

    def counted(at_s: float) -> float:
        trained_s = max(0.0, min(at_s, 10.0) - 4.0) + max(0.0, min(at_s, 20.1) - 13.0)
        return training * trained_s + elsewhere * (at_s - trained_s)

    return counted


def test_only_what_is_timed_counts():
    """The proof keeps both cores busy and takes 90 W; training takes one and a half, and 30 W."""
    shown = {BUSY: by_phase(training=1.5, elsewhere=2.0), ALL_BUSY: by_phase(training=1.75, elsewhere=2.0),
             PACKAGE: by_phase(training=30.0, elsewhere=90.0)}  # fmt: skip
    told = training_usage([run(watched(shown))], CPU, 2, lane())
    assert told.processor_percent == pytest.approx(75, abs=0.5)
    assert told.others_percent == pytest.approx(12.5, abs=0.5)
    assert (told.energy.how, told.energy.of) == ("counted", "the processor")
    assert told.energy.power_w == pytest.approx(30.0, rel=1e-3)
    assert told.energy.j_per_lap == pytest.approx(150.0, rel=1e-3)
    assert told.energy.j_whole == pytest.approx(30.0 * (5 + 5 + 1 + 2), rel=1e-3)
    assert told.energy.wh_whole == pytest.approx(30.0 * 13 / 3600, rel=1e-3)


def test_a_resumed_training_is_the_sum_of_its_parts():
    """Each part has times of its own clock; the second computer has been started again."""
    first = watched({PACKAGE: lambda t: 1000 + 20 * t, HOT: lambda _: 50.0}, begin_s=500.0, names=MARKS[:6])
    second = watched({PACKAGE: lambda t: 40 * t, HOT: lambda _: 70.0}, names=(MARKS[0], *MARKS[5:]))
    told = training_usage([run(first, second)], CPU, 2, lane())
    assert told.temperature_most_c == 70.0
    # 6 s (readings five seconds apart or six) at 20 W, 7 s at 40 W.
    assert told.energy.power_w == pytest.approx((6 * 20 + 7 * 40) / 13, rel=1e-3)
    assert told.energy.j_whole == pytest.approx(told.energy.power_w * 13, rel=1e-6)


def test_a_temperature_rises_over_the_whole_training():
    """Two degrees a minute, seen over all its stretches together."""
    told = training_usage([run(watched({HOT: lambda t: 40 + t / 30}, hz=10.0))], CPU, 2, lane())
    assert told.temperature_slope_c_per_min == pytest.approx(2.0, abs=0.2)


def test_a_training_that_is_not_whole_has_no_energy_of_the_whole():
    """Its laps have."""
    broken = run(watched({PACKAGE: lambda t: 30 * t}), status="interrupted")
    told = training_usage([broken], CPU, 2, lane())
    assert told.energy.j_per_lap == pytest.approx(150.0, rel=1e-3)
    assert told.energy.j_whole == Missing("no training was whole")


def test_several_seeds_give_the_middle():
    runs = [run(watched({PACKAGE: lambda t, w=w: w * t}), seed=w) for w in (10, 20, 60)]
    assert training_usage(runs, CPU, 2, lane()).energy.j_whole == pytest.approx(20 * 13, rel=1e-3)


def test_trainings_that_nobody_watched_have_no_usage():
    assert training_usage([run()], CPU, 2, lane()) is None


def test_a_clock_of_its_own_tells_nothing_of_a_training():
    """No reading can be compared with a lap."""
    seen = watched({BUSY: lambda t: t, PACKAGE: lambda t: t})
    seen = replace(seen, timeline=replace(seen.timeline, clock=Missing("a virtual clock")))
    told = training_usage([run(seen)], CPU, 2, lane())
    assert told.processor_percent == told.energy.j_whole == Missing("a virtual clock")


def heat(begin_s: float, shown, hz: float = 10.0) -> InferHeat:
    """Return two seconds of single calls, and as much of batches of eight."""
    at = [round((begin_s + each) * 1e9) for each in (0.5, 2.0, 4.0, 4.5, 6.5, 7.0)]
    told = ("import", "single calls", "batch 8", "batch 64", "end")
    windows = tuple(Window(round((begin_s + 4.5 + place / 2) * 1e9), round((begin_s + 5 + place / 2) * 1e9), 10)
                    for place in range(4))  # fmt: skip
    places = (at[0], at[1], at[2], at[4], at[5])
    return InferHeat(
        ProcessRun("torch/cuda:0/best", "ok", timeline=timeline(shown, seconds=8.0, hz=hz, begin_s=begin_s)),
        order=0,
        round=0,
        items_a_call=1,
        calls_ns=(10_000_000,) * 200,
        batches=(BatchRun(8, windows), BatchRun(64, (), "out of memory")),
        marks=tuple(Mark(name, place) for name, place in zip(told, places, strict=True)),
    )


def answers(*heats: InferHeat) -> InferLane:
    batches = (BatchResult(8, estimate(400.0)), BatchResult(64, None, "out of memory"))
    return InferLane(
        lane="torch/cuda:0/best",
        items_a_call=1,
        p50_ms=estimate(10.0),
        p95_ms=None,
        p99_ms=None,
        calls=200,
        wait=None,
        batches=batches,
        heats=heats,
    )


def test_answers_are_timed_by_part():
    """Single calls lie between two marks, a batch between its windows; one that had no room was not timed."""
    one = heat(100.0, {BUSY: lambda t: t})
    assert [span for _, span in answer_pairs([one], None)] == [Span(102.0, 104.0)]
    assert [span for _, span in answer_pairs([one], 8)] == [Span(104.5, 106.5)]
    assert answer_pairs([one], 64) == []


def test_a_thousand_answers_have_energy_from_all_heats_together():
    """A heat's part is under the two seconds that energy needs; three heats have six. A batch takes more power."""

    def watts(begin_s):
        return lambda t: 200e3 if t < begin_s + 4.25 else 400e3

    heats = [heat(begin_s, {CARD_POWER: watts(begin_s)}) for begin_s in (0.0, 50.0, 90.0)]
    single, batch = answer_usages(answers(*heats), CUDA, 2)
    assert (single.batch, batch.batch) == (None, 8)
    assert (single.usage.energy.how, single.usage.energy.of) == ("estimated", CARD)
    assert single.usage.energy.j_per_1000_items == pytest.approx(1000 * 200 / 100, rel=1e-3)
    assert batch.usage.energy.j_per_1000_items == pytest.approx(1000 * 400 / 400, rel=1e-3)
    assert batch.usage.energy.items_per_j == pytest.approx(1.0, rel=1e-3)
    assert single.usage.energy.j_per_lap == Missing("answers have no laps")


def test_one_short_heat_has_no_energy():
    told = answer_usages(answers(heat(0.0, {CARD_POWER: lambda _: 2e5}, hz=9.7)), CUDA, 2)[1]
    assert "energy needs 2 s" in told.usage.energy.j_per_1000_items.missing


def test_answers_that_nobody_watched_have_no_usage():
    assert answer_usages(answers(changed(heat(0.0, {}), timeline=None)), CUDA, 2) == ()


@pytest.mark.parametrize(("others", "says"), [(0.25, None), (0.75, "other processes took 0.75 of 2 cores.")])
def test_a_training_next_to_other_work_is_not_reliable(others, says):
    """By what the cores did while it trained; the proof before it does not count."""
    shown = {BUSY: by_phase(training=1.0, elsewhere=0.0), ALL_BUSY: by_phase(training=1.0 + others, elsewhere=2.0)}
    found = [each.says for each in judge_trainings([run(watched(shown))], 2)]
    assert found == ([] if says is None else [f"while torch/cpu/as-written ran, {says}"])
