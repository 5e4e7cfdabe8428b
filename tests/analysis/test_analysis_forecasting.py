"""A step on a device that is not here, from operators and peaks as literals."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from laptime.model.hardware import Efficiencies, KnownDevice, StepOperator
from laptime.model.quantities import Missing
from laptime.questions.forecast.reduce import (
    forecast_step,
    range_of,
    regime_of,
    spread_of,
    times_as_long,
    with_python,
)
from laptime.questions.forecast.seen import Correction, MeasuredStep, learn_from

CARD = KnownDevice(
    "A card", "card", "cuda", "Ada", fp32_tflops=10.0, tf32_tflops=20.0, fp16_tflops=40.0, bandwidth_gb_s=100.0
)
KNOWN = Efficiencies(
    products={"fp32": {"conv": 0.5}, "tf32": {"conv": 0.5}, "matrix": {"conv": 0.5}},
    memory={"fp32": 0.5, "tf32": 0.5, "matrix": 0.5},
    least_us={"fp32": 10.0, "tf32": 10.0, "matrix": 10.0, "move": 5.0},
    host_us={"eager": 2_000.0, "graph": 0.0},
    core_score=2_000,
    architectures={"Ada": {"fp32": 2.0}},
    halved={"matrix": 1.5},
    doubled={"convolutions": 0.5, "products": 0.8},
    power={"fp32": 1.0, "matrix": 0.5},
    watts_per_tflop={"Ada": 20.0},
    spread={"fp32": 0.1, "tf32": 0.2, "matrix": 0.3, "unseen": 0.5},
)
CONV = StepOperator("conv", flops=1e10, bytes=1e3)  # 1 ms at 10 TFLOP/s, 20 ns at 50 GB/s
MOVE = StepOperator("move", flops=0.0, bytes=1e8)  # 2 ms at 50 GB/s


def step_of(*operators, device=CARD, precision="fp32", execution="graph"):
    return forecast_step(operators, device, precision, execution, KNOWN)


def test_each_operator_takes_the_longer_of_its_operations_and_its_bytes():
    """Half of the peak, doubled by the architecture, and the least time of each."""
    found = step_of(CONV, MOVE)
    assert found.step_s == pytest.approx(1e-3 + 2e-3 + 15e-6)
    assert found.binds == "memory"
    assert step_of(CONV, CONV, CONV).binds == "products"


def test_a_host_that_launches_slowly_binds():
    found = step_of(CONV, execution="eager")
    assert found.host_s == 2e-3
    assert found.step_s == pytest.approx((2e-3**4 + found.device_s**4) ** 0.25)
    assert found.binds == "launches"


def test_a_host_launches_as_fast_as_one_of_its_cores_is():
    """Next to those on which launches were measured; as those where it is not known."""
    slow, unknown = (step_of(CONV, device=replace(CARD, core_score=each), execution="eager") for each in (1_000, None))
    assert (slow.host_s, unknown.host_s) == (2 * 2e-3, 2e-3)
    assert [times_as_long(*each) for each in ((2_000, 1_000), (None, 1_000), (2_000, None))] == [2.0, 1.0, 1.0]


def test_the_python_of_a_step_is_added_to_what_the_host_does():
    found = with_python(step_of(CONV, execution="eager"), 0.5)
    assert (found.host_s, found.binds) == (0.5 + 2e-3, "python")
    assert with_python(step_of(CONV), 1e-5).binds == "products"


def test_on_cards_that_add_up_at_half_the_rate_units_lose_less_than_half():
    """As the makers' peaks say; float32 outside of the units is as fast as ever."""
    halved = replace(CARD, halved_sums=True)
    plain, faster = (step_of(CONV, device=each, precision="fp16").step_s for each in (CARD, halved))
    assert (plain - 10e-6) / (faster - 10e-6) == pytest.approx(1.5)
    assert step_of(CONV, device=halved) == step_of(CONV)


def test_a_second_float32_path_counts_less_than_the_first():
    """As a factor on the peak in float32; units have paths of their own."""
    doubled = replace(CARD, doubled_fp32=True)
    assert step_of(CONV, device=doubled).step_s - 10e-6 == pytest.approx(2 * (step_of(CONV).step_s - 10e-6))
    assert step_of(CONV, device=doubled, precision="fp16") == step_of(CONV, precision="fp16")


def test_a_card_that_may_draw_less_than_its_kind_reaches_less():
    """A quarter of the power for its peak: a quarter of the rate in float32, half of it on matrix units."""
    weak = replace(CARD, power_w=50.0)
    for precision, slower in (("fp32", 4), ("bf16", 2)):
        usual, found = (step_of(CONV, device=each, precision=precision) for each in (CARD, weak))
        assert found.device_s > 0.8 * slower * usual.device_s


def test_an_operator_that_computes_and_moves_for_as_long_takes_longer_than_either():
    both = step_of(replace(CONV, bytes=5e7)).device_s  # 1 ms of each
    assert both == pytest.approx(math.sqrt(2) * 1e-3 + 10e-6)


def test_without_units_for_a_precision_the_next_best_computes():
    """bf16 on a card that has only fp16, and on one that has neither."""
    assert regime_of(CARD, "bf16") == ("matrix", 40e12)
    assert regime_of(CARD, "tf32") == ("tf32", 20e12)
    old = replace(CARD, tf32_tflops=None, fp16_tflops=None)
    assert regime_of(old, "bf16") == ("fp32", 10e12)


@pytest.mark.parametrize(
    ("device", "operator", "why"),
    [
        (replace(CARD, fp32_tflops=None), CONV, "it has no units for fp32"),
        (replace(CARD, bandwidth_gb_s=None), CONV, "its bandwidth is not known"),
        (CARD, StepOperator("grouped", 1.0, 1.0), "no efficiency of grouped operators was measured on such a device"),
    ],
)
def test_what_nobody_measured_has_a_reason_in_place_of_a_number(device, operator, why):
    assert step_of(operator, device=device) == Missing(why)


def test_an_architecture_that_was_not_measured_has_the_widest_range():
    assert spread_of(CARD, "fp32", KNOWN) == 0.1
    assert spread_of(replace(CARD, architecture="Next"), "fp32", KNOWN) == 0.5


def test_a_range_has_a_tenth_of_a_normal_distribution_outside_on_each_side():
    found = range_of(10.0, 0.1)
    assert found.low * found.high == pytest.approx(100.0)
    assert math.log(found.high / 10.0) == pytest.approx(0.12816)


def test_an_operator_that_is_called_often_takes_its_time_each_time():
    assert step_of(replace(CONV, calls=3), replace(MOVE, calls=2)) == step_of(CONV, CONV, CONV, MOVE, MOVE)
    assert step_of(replace(CONV, calls=3), execution="eager").host_s == 3 * 2e-3


def test_what_nobody_can_count_is_told_apart():
    """By its share of the time: half of it here."""
    unknown = StepOperator("unknown", flops=0.0, bytes=1e8)
    assert step_of(MOVE, unknown).unknown_share == pytest.approx(0.5, rel=0.01)
    assert step_of(MOVE, CONV).unknown_share == 0.0


# What measured steps say of others.

NEW_CARD = replace(CARD, short="new", architecture="Unheard")  # which the fit has not seen


def step_on(device, *, times, what="other", execution="graph", **more):
    """Return a step that took some times as long as it is predicted there."""
    ms = 1e3 * times * step_of(CONV, device=device, execution=execution).step_s
    return MeasuredStep(what, (CONV,), "fp32", execution, device, ms, f"r-{what}", **more)


def learned(*steps, device=NEW_CARD, precision="fp32", execution="graph", known=KNOWN):
    return learn_from(steps, device, precision, execution, known)


def test_what_another_training_on_the_card_is_off_is_taken_over_in_part():
    """By half of one, by more of several, and the range has left what that does not explain."""
    one = learned(step_on(NEW_CARD, times=1.44))
    assert one.times == pytest.approx(1.2)
    assert one.share == pytest.approx(math.sqrt(0.75))
    three = learned(*(step_on(NEW_CARD, times=1.44, what=name) for name in "abc"))
    assert three.times == pytest.approx(1.44**0.75)
    assert three.share < one.share
    assert "trainings measured there: 3 (r-a, r-b, r-c)" in three.notes[0]


def test_many_steps_of_one_training_count_as_one():
    often = learned(*(step_on(NEW_CARD, times=1.44) for _ in range(9)))
    assert often == learned(step_on(NEW_CARD, times=1.44))


@pytest.mark.parametrize(
    "step",
    [
        step_on(NEW_CARD, times=1.44, has_loader=True),  # it may have waited for its batches
        step_on(NEW_CARD, times=1.44, execution="eager"),  # its host may be off, and not the card
        step_on(replace(NEW_CARD, short="other", architecture="Volta"), times=1.44),
        replace(step_on(NEW_CARD, times=1.44), precision="bf16"),
    ],
)
def test_what_is_not_alike_says_nothing(step):
    assert learned(step) == Correction()


def test_relatives_count_where_nothing_of_the_architecture_was_fitted():
    relative = replace(NEW_CARD, short="relative")
    found = learned(step_on(relative, times=1.44))
    assert found.times == pytest.approx(1.44**0.4)
    assert (
        learned(step_on(CARD, times=1.44), device=replace(CARD, short="ti")) == Correction()
    )  # Ada was fitted in float32


def test_the_steps_on_the_card_itself_go_before_those_on_relatives():
    found = learned(step_on(replace(NEW_CARD, short="relative"), times=1.9), step_on(NEW_CARD, times=1.44))
    assert found.times == pytest.approx(1.2)


def test_a_card_that_the_fit_has_seen_is_predicted_by_the_fit():
    assert learned(step_on(NEW_CARD, times=1.44), known=replace(KNOWN, cards={"fp32": ["new"]})) == Correction()


def test_a_step_that_is_far_off_is_left_out_and_named():
    found = learned(step_on(NEW_CARD, times=3.0), step_on(NEW_CARD, times=1.44, what="good"))
    assert found.times == pytest.approx(1.2)
    assert found.notes[1] == "1 measured there was off by more than twofold, and is left out"
    assert learned(step_on(NEW_CARD, times=3.0)).times == 1
