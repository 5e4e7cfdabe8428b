"""Steady state: shapes that anyone can name by eye, planted changes, and what one odd window may not do."""

from __future__ import annotations

import random
import time
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laptime.model.stats import Steady, find_steady, median
from long_cases import cases

seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(
    ("kind", "start", "values"),
    [
        ("flat", 0, [1.0] * 3),
        ("flat", 0, [10.0, 10.1, 9.9, 10.0, 10.1, 9.95]),
        ("flat", 0, [1.0] * 10 + [1.015] * 10),
        ("warm-up", 1, [5.0, 1.0, 1.0, 1.0]),
        ("warm-up", 1, [1.3, 1.0, 1.01, 0.99, 1.0, 1.0]),
        ("warm-up", 2, [3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("warm-up", 4, [1.5] * 4 + [1.0] * 8),
        ("warm-up", 12, [1.0] * 8 + [1.5] * 4 + [1.0] * 8),
        ("warm-up", 10, [1.0] * 6 + [1.5, 2.0, 1.2, 1.8] + [1.0] * 6),
        ("slowing", 6, [1.0] * 6 + [1.2] * 6),
        ("slowing", 9, [3.0] * 3 + [1.0] * 6 + [1.3] * 6),
        ("slowing", 20, [1.0] * 20 + [1.019] * 20 + [1.025] * 20),
        ("slowing", 2, [0.8, 0.8, 1.0, 1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_shapes_that_have_a_name(kind, start, values):
    """What the eye sees is what is said."""
    assert Steady(kind, start) == find_steady(values)


@pytest.mark.parametrize(
    "values",
    [
        [1.0] * 6 + [3.0] + [1.0] * 6,
        [1.0] * 6 + [3.0, 2.0] + [1.0] * 6,
        [1.0] * 6 + [0.4] + [1.0] * 6,
        [1.0] * 6 + [3.0, 1.0, 3.0, 1.0, 5.0] + [1.0] * 6,
        [1.0, 0.998] * 4 + [3.0, 1.006, 3.0] + [1.0, 0.998] * 4,
        [1.0] * 10 + [2.0],
        [1.0] * 10 + [2.0, 2.5],
        [1.0, 1.0, 4.0, 1.0, 1.0],
    ],
)
def test_odd_windows_do_not_cut_a_flat_run(values):
    """A shared machine disturbs a window or two; that is not a level."""
    assert Steady("flat", 0) == find_steady(values)


@pytest.mark.parametrize(
    ("start", "values"),
    [
        (0, []),
        (0, [1.0, 1.0]),
        (0, [1.0, 1.5, 2.3, 3.4, 5.1, 7.6, 11.4]),
        (0, [1.0] * 8 + [2.0, 3.0, 4.0, 5.0]),
        (0, [1.0, 2.0] * 10),
        (3, [9.0] * 3 + [1.0, 1.8, 1.3, 2.2, 1.1, 1.9, 1.0, 2.1]),
    ],
)
def test_no_steady_end_is_said_to_be_unsteady(start, values):
    """Too few windows, a climb to the end, or a level that is all spread."""
    assert Steady("unsteady", start) == find_steady(values)


@given(seeds, st.integers(1, 6), st.integers(8, 60), st.floats(1.1, 6))
def test_a_planted_warm_up_is_found_to_the_window(seed, cold, warm, factor):
    """Whatever its size and length, with half a percent of noise."""
    values = quiet(seed, cold + warm)
    values[:cold] = [value * factor for value in values[:cold]]
    assert Steady("warm-up", cold) == find_steady(values)


@given(seeds, st.integers(3, 30), st.integers(3, 30), st.floats(1.1, 6))
def test_a_planted_slowing_is_found_to_the_window(seed, fast, slow, factor):
    """A heat that gets slower for good is not called steady from the start."""
    values = quiet(seed, fast + slow)
    values[fast:] = [value * factor for value in values[fast:]]
    assert Steady("slowing", fast) == find_steady(values)


@given(seeds, st.integers(8, 60), st.floats(0.1, 10), st.data())
def test_one_odd_window_anywhere_but_first_changes_nothing(seed, count, factor, data):
    """Only the first window can be a warm-up of one; elsewhere one window is no level."""
    values = quiet(seed, count)
    values[data.draw(st.integers(1, count - 1))] *= factor
    assert Steady("flat", 0) == find_steady(values)


@given(st.lists(st.floats(1e-3, 1e3), max_size=40))
def test_the_answer_fits_the_series(values):
    """Flat starts at once, a change starts later, and at least three windows are steady."""
    found = find_steady(values)
    assert {"flat": found.start == 0, "unsteady": True}.get(found.kind, found.start > 0)
    assert found.kind == "unsteady" or len(values) - found.start >= 3
    if found.kind == "warm-up":
        assert median(values[found.start :]) < max(values[: found.start])
    if found.kind == "slowing":
        assert median(values[found.start :]) > min(values[: found.start])


@pytest.mark.parametrize(("windows", "noise"), cases((5, 0.02), (12, 0.03), (60, 0.05), long=[(1000, 0.05)]))
def test_noise_alone_is_mostly_called_flat(windows, noise):
    """Of 200 heats without any change, at most 24 are cut."""
    generator = random.Random(windows)
    heats = [[1 + noise * generator.gauss(0, 1) for _ in range(windows)] for _ in range(200)]
    assert sum(find_steady(heat) == Steady("flat", 0) for heat in heats) >= 176


@pytest.mark.parametrize(("windows", "odd"), [(40, {20, 22}), (700, set(random.Random(3).sample(range(3, 700), 56)))])
def test_noise_around_odd_windows_is_mostly_called_flat(windows, odd):
    """Of 50 heats with 4 % noise and some windows at double time, at most 5 are cut."""
    generator = random.Random(windows)
    heats = [[(1 + (place in odd)) * (1 + 0.04 * generator.gauss(0, 1)) for place in range(windows)] for _ in range(50)]
    assert sum(find_steady(heat) == Steady("flat", 0) for heat in heats) >= 45


def test_a_long_series_is_pooled_without_losing_the_change():
    """Of 2000 windows the first 103 are slow; the start is at most one pooled block late, and never early."""
    values = quiet(8, 2000)
    values[:103] = [value * 1.5 for value in values[:103]]
    found = find_steady(values)
    assert found.kind == "warm-up"
    assert 103 <= found.start <= 110


def test_ten_times_the_windows_take_nothing_like_a_hundred_times_as_long():
    """The cut is quadratic, so long series are pooled first; bench/stats.py measures the milliseconds."""

    def took_s(windows):
        values = quiet(9, windows)
        begin = time.process_time()
        find_steady(values)
        return time.process_time() - begin

    short, long = (min(took_s(windows) for _ in range(5)) for windows in (400, 4000))
    assert long < 12 * short


@pytest.mark.parametrize("bad", [0.0, -1.0, nan, inf])
def test_what_no_clock_measures_is_refused(bad):
    """A window of no time is a fault of the clock, not a fast window."""
    with pytest.raises(ValueError, match="positive and finite"):
        find_steady([1.0, 1.0, bad, 1.0])


def quiet(seed, count):
    """Make windows about 1 with half a percent of noise either way."""
    generator = random.Random(seed)
    return [1 + generator.uniform(-0.005, 0.005) for _ in range(count)]
