"""Step times that depend on the step's number: what is a state of the training, and what is none."""

from __future__ import annotations

from random import Random

import pytest
from measured import changed, heat_of, plan_of, planned, reference

from laptime.analysis.heats import summarise_heat
from laptime.analysis.lanes import summarise_lane
from laptime.analysis.step_states import (
    find_lane_state,
    find_slow_laps,
    find_state,
    ratio_within,
    ratios_within,
    times_of,
)
from laptime.model.protocol import LapResult, Score
from laptime.model.sample import Window

NOISE = 0.05


def heats(steps_ms, number: int = 3, seed: int = 0, noise: float = NOISE, first: int = 5):
    """Return heats that take these steps, each with its own level and its own noise."""
    chance = Random(seed)
    made = []
    for _ in range(number):
        level = chance.uniform(0.95, 1.1)
        made.append({first + at: ms * level * chance.lognormvariate(0, noise) for at, ms in enumerate(steps_ms)})
    return made


def steps(*parts: tuple[int, float]) -> list[float]:
    return [ms for count, ms in parts for _ in range(count)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("number", [2, 3, 6])
@pytest.mark.parametrize("noise", [0.02, 0.15])
def test_a_step_that_becomes_slow_is_found_with_its_number(seed, number, noise):
    """Five times as slow from the twelfth step on, in each of some heats."""
    found = find_state(heats(steps((11, 80.0), (40, 400.0)), number, seed, noise, first=1))
    assert found is not None
    assert (found.step, found.until, found.agree, found.heats) == (12, None, number, number)
    assert found.times_low == pytest.approx(5, rel=0.2)
    assert found.times_high == pytest.approx(5, rel=0.35)
    assert found.share == pytest.approx(40 * 320 / (11 * 80 + 40 * 400), rel=0.1)
    assert found.is_sure


def test_denormals_set_in():
    """As measured on two Intel cores: steps of a training that learned its data to nothing."""
    measured = [80, 80, 80, 319, 318, 1118, 657]
    found = find_state([dict(enumerate(measured, 13))] * 3)
    assert (found.step, round(found.times_low), round(found.times_high)) == (16, 4, 8)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "curriculum",
    [steps((30, 50.0), (30, 80.0), (30, 120.0), (30, 200.0)), [50.0 + 2 * step for step in range(100)]],
    ids=["stairs", "ramp"],
)
def test_growing_sequences_are_found(seed, curriculum):
    found = find_state(heats(curriculum, seed=seed, first=1))
    assert found is not None
    assert found.until is None
    assert 5 <= found.step <= 32
    assert found.times_high > 2.5


@pytest.mark.parametrize("seed", range(4))
def test_a_state_that_ends_again_is_found(seed):
    found = find_state(heats(steps((30, 50.0), (30, 120.0), (30, 50.0)), seed=seed, first=1))
    assert found is not None
    assert (found.step, found.until) == (31, 60)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("number", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [7, 20, 100, 700])
@pytest.mark.parametrize("noise", [0.01, 0.05, 0.1])
def test_noise_alone_is_no_state(seed, number, count, noise):
    assert find_state(heats([80.0] * count, number, seed, noise)) is None


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "ordinary",
    [
        [2000.0, *[80.0] * 40],
        [200.0, 180.0, 160.0, 150.0, 120.0, *[80.0] * 40],
        [400.0 if step % 25 == 0 else 80.0 for step in range(120)],
        [1.0, 1.0, 1.0, 1.0, 300.0] * 20,
        [*[2.0] * 8, *[300.0] * 8] * 6,
        [80.0] * 40 + [85.0] * 60,
        [*[120.0] * 30, *[80.0] * 60],
    ],
    ids=["a cold step", "warm-up", "ends of laps", "bursts", "long bursts", "a falling clock", "faster later"],
)
def test_what_a_training_ordinarily_has_is_no_state(seed, ordinary):
    for number in (1, 3):
        assert find_state(heats(ordinary, number, seed)) is None


@pytest.mark.parametrize("seed", range(6))
def test_single_slow_steps_at_random_are_no_state(seed):
    """As a garbage collection has them: other steps in each heat."""
    chance = Random(seed)
    made = [
        {step: ms * (4 if chance.random() < 0.08 else 1) for step, ms in heat.items()}
        for heat in heats([80.0] * 100, 3, seed)
    ]
    assert find_state(made) is None


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("number", [3, 5])
def test_a_slow_spell_of_the_machine_in_one_heat_is_no_state(seed, number):
    made = heats([80.0] * 60, number, seed)
    begins = Random(seed).randrange(5, 50)
    made[0] = {step: ms * (2 if step >= begins else 1) for step, ms in made[0].items()}
    assert find_state(made) is None


def test_heats_that_come_further_than_others_are_no_state():
    """Two fast heats that end early leave the slower ones alone: no heat became slower."""
    fast, slow = heats([80.0] * 20, 2, 1, 0.01), heats([120.0] * 60, 2, 2, 0.01)
    assert find_state([*fast, *slow]) is None


def test_one_heat_alone_is_not_sure():
    found = find_state(heats(steps((20, 80.0), (30, 200.0)), 1))
    assert found is not None
    assert not found.is_sure


def test_a_long_heat_names_the_very_step():
    """Of 9,000 steps some are taken together."""
    found = find_state(heats(steps((4_321, 1.0), (4_679, 3.0)), 2, first=1))
    assert found is not None
    assert found.step == 4_322


def test_a_disturbed_window_is_left_out_and_a_slow_one_is_not():
    """Its own slow steps are what a lane is asked for; what other processes did to it is not."""
    windows = [
        Window(1, 1 + 2_000_000, 2, (1_000_000, 1_000_000), first_step=1),
        Window(5_000_000, 13_000_000, 2, (), flag="other processes took 1.0 cores", first_step=3),
        Window(14_000_000, 16_000_000, 2, (), first_step=7),
        Window(20_000_000, 28_000_000, 2, (), flag="the machine was slow for all lanes", first_step=5),
    ]
    heat = changed(heat_of(1.0), windows=tuple(windows))
    assert times_of(heat) == {1: 1.0, 2: 1.0, 5: 4.0, 6: 4.0, 7: 1.0, 8: 1.0}


@pytest.mark.parametrize("noise", [0.2, 0.35])
@pytest.mark.parametrize("count", [3, 5, 8])
def test_a_few_windows_that_are_slow_by_chance_are_no_state(count, noise):
    """At five windows a heat, 27 of 60 such lanes once had a state: a window counted as often as it had steps."""
    chance = Random(1)
    for _ in range(40):
        times = [[chance.lognormvariate(0, noise) for _ in range(count)] for _ in range(3)]
        assert find_lane_state(windowed(times)) is None


def test_a_state_shows_in_five_windows_of_four_heats():
    chance = Random(1)
    times = [[level * chance.lognormvariate(0, 0.05) for level in (1, 1, 1, 2, 2)] for _ in range(4)]
    found = find_lane_state(windowed(times))
    assert found is not None
    assert found.step == pytest.approx(61, abs=20)


def windowed(heats_ms):
    """Return a lane whose windows of 20 steps have such means, and no times of single steps."""
    made = []
    for number, means_ms in enumerate(heats_ms):
        windows: list[Window] = []
        for at, mean_ms in enumerate(means_ms):
            begin = windows[-1].end_ns if windows else 0
            windows.append(Window(begin, begin + round(20e6 * mean_ms), 20, (), first_step=1 + 20 * at))
        made.append(heat_of(1.0, number, windows=tuple(windows), losses=(2.3,) * len(windows)))
    lane = planned()
    return summarise_lane(plan_of(lane), lane, tuple(map(summarise_heat, made)), reference())


def test_the_same_steps_of_two_lanes_are_compared():
    """Without the state they take 100 ms: the two differ by five there."""
    mine, theirs = heats(steps((11, 100.0), (40, 500.0)), 3, 1), heats(steps((60, 100.0)), 3, 2)
    found = find_state(mine)
    assert found is not None
    assert ratio_within(found, mine, theirs) == pytest.approx(5, rel=0.1)
    assert ratio_within(found, mine, [{1: 1.0}]) is None


def laps(*ms: float) -> list[LapResult]:
    return [LapResult(at + 1, 100, each / 10, Score(100, 1.0 / (at + 1), 0.5)) for at, each in enumerate(ms)]


@pytest.mark.parametrize(
    ("trainings", "found"),
    [
        ([laps(10, 10, 30, 40)], (3, 3.0, 4.0, 1)),
        ([laps(12, 10, 30, 40), laps(10, 10, 31, 40)], (3, 2.9, 3.8, 2)),
        ([laps(10, 10, 30, 10)], None),
        ([laps(40, 10, 10, 10)], None),
        ([laps(10, 10, 30, 40), laps(10, 10, 10, 10)], None),
        ([laps(10)], None),
        ([], None),
    ],
)
def test_laps_that_become_slow_are_found(trainings, found):
    """In all trainings of a lane, and to their end."""
    state = find_slow_laps(trainings)
    told = state and (state.step, round(state.times_low, 1), round(state.times_high, 1), state.agree)
    assert told == found


def test_steps_before_the_windows_show_how_fast_a_training_was():
    """Its windows open after it has become slow. The very first step, which compiles, is left out."""
    early_ns = (900_000_000, *[80_000_000] * 11, *[400_000_000] * 3)
    windows = (Window(0, 4_000_000_000, 10, (400_000_000,) * 10, first_step=16),)
    told = [times_of(heat_of(400.0, number, windows=windows, early_ns=early_ns)) for number in range(3)]
    assert min(told[0]) == 2
    found = find_state(told)
    assert found is not None
    assert (found.step, found.agree) == (13, 3)
    assert find_state([{step: ms for step, ms in each.items() if step > 15} for each in told]) is None


def test_ratios_of_a_state_are_taken_round_by_round():
    slow, fast = lane_of_rounds(400.0), lane_of_rounds(100.0)
    found = find_state([times_of(result.heat) for result in slow.heats])
    assert found is not None
    assert ratios_within(found, slow, fast) == pytest.approx([4.0] * 3)


def lane_of_rounds(late_ms):
    """Return a lane of three heats whose steps take so long from the twelfth on."""
    ns = (*[100_000_000] * 11, *[round(late_ms * 1e6)] * 10)
    windows = (Window(0, sum(ns), len(ns), ns, first_step=1),)
    lane = planned()
    made = tuple(heat_of(late_ms, number, windows=windows) for number in range(3))
    return summarise_lane(plan_of(lane), lane, tuple(map(summarise_heat, made)), reference())
