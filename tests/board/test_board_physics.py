"""What no device can do is refused, and what a real one did is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from board_records import kept

from laptime.show.board.add import board_rows
from laptime.show.board.evidence import strip
from laptime.show.board.physics import expected_step, find_impossible
from laptime.trainings.workloads import CATALOGUE

SCENES = CATALOGUE["scenes-cnn"]


def row_of(name: str, lane: str):
    return next(each for each in board_rows(strip(kept(name)), "") if each.lane == lane)


@pytest.fixture(scope="module")
def card():
    """An H100's row of scenes-cnn, whose energy was metered."""
    return row_of("scenes-cnn-h100", "torch/cuda:0/best")


def faults(row, workload=SCENES):
    return list(find_impossible(row, workload, kept("scenes-cnn-h100").machine.processor))


def with_step(row, ms):
    return replace(row, step_ms=replace(row.step_ms, middle=ms), energy_j_per_lap=None)


def test_what_was_measured_is_possible(card):
    assert faults(card) == []
    for lane in ("torch/cuda:0/as-written", "torch/cuda:0/fastest", "torch/cpu/as-written"):
        assert faults(row_of("scenes-cnn-h100", lane)) == []


def test_a_step_above_the_peak_is_not(card):
    """Its 29 GFLOP are 13 by the fastest convolutions, which take an H100 at least 0.023 ms in tf32."""
    assert faults(with_step(card, 1.0)) == []
    assert not [each for each in faults(with_step(card, 0.03)) if "TFLOP/s" in each]
    (says,) = [each for each in faults(with_step(card, 0.02)) if "TFLOP/s" in each]
    assert "are above what NVIDIA H100 80GB HBM3 can do" in says


def test_weights_have_to_move(card):
    """170 MB of weights and twice as much of Adam's state are read and written: 0.5 GB beyond any cache."""
    (says,) = [each for each in faults(with_step(card, 0.1)) if "GB/s" in each]
    assert "its weights need" in says
    assert not [each for each in faults(with_step(card, 0.3)) if "GB/s" in each]


def test_a_processor_has_its_cores_at_the_fastest_clock():
    slow = row_of("cifar-cnn-default", "torch/cpu/best")
    processor = kept().machine.processor
    assert list(find_impossible(slow, CATALOGUE["cifar-cnn"], processor)) == []
    fast = with_step(slow, 5.0)
    assert "TFLOP/s are above" in next(find_impossible(fast, CATALOGUE["cifar-cnn"], processor))
    many = replace(processor, cores_usable=64)
    assert list(find_impossible(fast, CATALOGUE["cifar-cnn"], many)) == []


@pytest.mark.parametrize(("watts", "says"), [(2_000, "above the limit"), (1, "when it is idle"), (400, None)])
def test_energy_is_between_idle_and_the_limit(card, watts, says):
    found = faults(replace(card, energy_j_per_lap=watts * card.lap_s.middle))
    assert [says in each for each in found] == ([] if says is None else [True])


def test_a_forecast_is_shown_where_it_knows_the_device(card):
    expected = expected_step(card, SCENES)
    assert expected.low < 3.0 < expected.high * 1.1
    assert expected_step(row_of("cifar-cnn-default", "torch/cpu/best"), CATALOGUE["cifar-cnn"]) is None
    assert expected_step(replace(card, device=replace(card.device, short=None)), SCENES) is None
