"""Cuts against all partitions of short series, and a noise that neither levels nor slopes can swell."""

from __future__ import annotations

import random
from itertools import combinations, pairwise
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laptime.model.stats import cut, noise_of

# The charge for a cut, in units of noise^2 * log(length), as stats.py sets it.
CHARGE = 5.0


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=9), st.floats(0.01, 0.5))
def test_no_other_partition_is_cheaper(logs, noise):
    """Every partition of a short series is tried; none beats the one that was found."""
    inner = range(1, len(logs))
    everyone = (places for count in range(len(logs)) for places in combinations(inner, count))
    cheapest = min(cost(logs, noise, [0, *places, len(logs)]) for places in everyone)
    found = cut(logs, noise)
    assert pytest.approx(cheapest, abs=1e-9) == cost(logs, noise, [first for first, _ in found] + [len(logs)])


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=80), st.floats(0.01, 0.5))
def test_segments_cover_the_series_once(logs, noise):
    """Nothing is left out and nothing is counted twice."""
    found = cut(logs, noise)
    assert list(range(len(logs))) == [place for first, end in found for place in range(first, end)]


def test_a_clear_change_is_cut_where_it_is():
    """Two levels, one cut."""
    assert cut([0.5] * 4 + [0.0] * 6, 0.02) == [(0, 4), (4, 10)]


@pytest.mark.parametrize("disturbance", ["none", "levels", "slope", "odd windows"])
def test_noise_is_what_was_planted(disturbance):
    """The estimate is within a fifth of the planted 3 %, whatever the level does meanwhile."""
    generator = random.Random(4)
    shift = {
        "none": lambda _: 0.0,
        "levels": lambda place: 0.5 * (place // 100),
        "slope": lambda place: 0.01 * place,
        "odd windows": lambda place: 0.7 * (place % 20 == 7),
    }[disturbance]
    logs = [generator.gauss(0, 0.03) + shift(place) for place in range(400)]
    assert pytest.approx(0.03, rel=0.2) == noise_of(logs)


@pytest.mark.parametrize("windows", [4, 5, 7])
def test_short_series_are_not_read_as_quieter_than_they_are(windows):
    """Few windows know their noise badly, but over many heats neither too small nor too large."""
    generator = random.Random(windows)
    heats = [[generator.gauss(0, 0.03) for _ in range(windows)] for _ in range(1000)]
    assert pytest.approx(0.03, rel=0.25) == sum(map(noise_of, heats)) / 1000


def test_correlated_noise_is_not_taken_for_a_small_one():
    """Noise with a correlation of 0.8 between neighbours keeps most of its size."""
    generator = random.Random(5)
    logs = [0.0]
    for _ in range(2000):
        logs.append(0.8 * logs[-1] + 0.6 * generator.gauss(0, 0.03))
    assert 0.6 * 0.03 < noise_of(logs) < 1.1 * 0.03


def test_a_perfect_clock_still_has_some_noise():
    """Without a least noise a virtual clock's smallest flicker would be a level."""
    assert 0 < noise_of([0.0] * 10) < 0.02
    assert noise_of([0.0]) == noise_of([0.0] * 10)


def cost(logs, noise, edges):
    """Price a partition as the docstring of `cut` says."""
    error = 0.0
    for first, end in pairwise(edges):
        mean = sum(logs[first:end]) / (end - first)
        error += sum((value - mean) ** 2 for value in logs[first:end])
    return error + (len(edges) - 2) * CHARGE * noise**2 * log(len(logs))
