"""What devices can do at most, as a table below the devices; and how near the lanes of a race come to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from records import BEST, FIRST, record
from shown import in_details

from laptime.model.hardware import NOT_MEASURED, DeviceKey, DevicePeaks, Peak, Roofline, StepWork
from laptime.model.quantities import Missing
from laptime.questions.doctor.page import peak_lines, rate_with_prefix
from laptime.questions.profile.page import limit_lines
from laptime.questions.race import page as race
from laptime.show.pages.words import rates

render = in_details(race.PART.render)

CHIP = DeviceKey("AMD EPYC 9755 128-Core Processor, 2 cores", "AMD EPYC 9755 128-Core Processor (2 cores)")
CARD = DeviceKey("1f2e", "NVIDIA H100", "580.1")
PEAKS = DevicePeaks(
    CHIP.device,
    CHIP.label,
    "",
    "2026-11-22T10:00:00+00:00",
    {
        "fp32": Peak(2.35e11, 2.3e11, "jax 0.10.2", "product"),
        "bf16": Peak(1.022e12, 9.6e11, "torch 2.13.0", "1x1 convolution"),
        "copy": Peak(4.7e10, 4.55e10, "torch 2.13.0", "512 MB copied"),
    },
    {"fp16": Missing("torch: not implemented")},
)
ROOF = Roofline("fp32", StepWork(1e10, 1e9, ""), 9.6e10, 1.2e10, 0.408, 0.255, "products", 0.408, PEAKS)
WAITING = replace(ROOF, flops_per_s=2e10, bytes_per_s=3.8e10, binds="memory", share=0.809)


def test_each_limit_has_a_row_with_who_reached_it():
    """Best and middle in units that fit; below, what is absent with its reason, and when it was measured."""
    assert peak_lines([(CHIP, PEAKS)], 120) == [
        "at most                    what                    best         middle    by",
        "AMD EPYC 9755 (2 cores)    fp32 product     235 GFLOP/s    230 GFLOP/s    jax 0.10.2, product",
        "                           bf16 product    1.02 TFLOP/s    960 GFLOP/s    torch 2.13.0, 1x1 convolution",
        "                           copy               47.0 GB/s      45.5 GB/s    torch 2.13.0, 512 MB copied",
        "- (AMD EPYC 9755 (2 cores), fp16: torch: not implemented)",
        "AMD EPYC 9755 (2 cores): measured 2026-11-22",
    ]


def test_what_was_not_measured_is_said_once_with_the_way_to_measure_it():
    """Two devices that nobody measured are one line; what is kept and does not hold has its reason."""
    other = (replace(CHIP, device="other"), NOT_MEASURED)
    assert peak_lines([(CARD, NOT_MEASURED), other], 100) == ["What each can do at most: laptime devices --measure"]
    assert peak_lines([(CARD, Missing("its file is damaged"))], 100) == ["- (NVIDIA H100: its file is damaged)"]
    assert peak_lines([], 100) == []


@pytest.mark.parametrize("width", [40, 60, 80])
def test_no_line_is_wider_than_the_page(width):
    """Where no table fits there are sentences, with every figure in them."""
    lines = peak_lines([(CHIP, PEAKS)], width)
    assert max(map(len, lines)) <= width
    said = " ".join(" ".join(lines).split())
    assert all(figure in said for figure in ("235 GFLOP/s", "1.02 TFLOP/s", "47.0 GB/s", "torch 2.13.0"))


@pytest.mark.parametrize(
    ("value", "said"),
    [(9.999e11, "1.00 TFLOP/s"), (9.99e11, "999 GFLOP/s"), (1.2e15, "1.20 PFLOP/s"), (5e3, "0.00500 MFLOP/s")],
)
def test_a_rate_has_the_prefix_that_fits(value, said):
    """Rounded before the prefix is chosen."""
    assert rate_with_prefix(value, "FLOP/s") == said


def test_two_rates_share_the_prefix_of_the_peak():
    """So that they can be compared by eye."""
    assert rates((9.6e10, 1.022e12), "FLOP/s") == "0.0960 of 1.02 TFLOP/s"


def test_each_lane_says_which_side_binds_and_how_near_it_comes():
    """The side that binds comes first."""
    lanes = (replace(FIRST, roofline=ROOF), replace(BEST, roofline=WAITING))
    assert limit_lines(record(lanes), 120) == [
        "limit: torch/cpu 41 % of what its products allow (96.0 of 235 GFLOP/s fp32; 12.0 of 47.0 GB/s)",
        "  torch/cpu/best 81 % of what its memory allows (38.0 of 47.0 GB/s; 20.0 of 235 GFLOP/s fp32)",
    ]


def test_more_than_the_limit_is_said_as_it_is():
    """Bytes that stayed in caches were counted and not moved; a product that was beaten is no limit."""
    cached = replace(WAITING, bytes_per_s=5.6e10, share=1.19)
    beaten = replace(ROOF, flops_per_s=3e11, share=1.28)
    told = limit_lines(record((replace(FIRST, roofline=cached), replace(BEST, roofline=beaten))), 200)
    assert "119 % of what its memory allows (56.0 of 47.0 GB/s;" in told[0]
    assert told[0].endswith("; more than its memory moves, so some of it stayed in caches)")
    assert told[1].endswith("; more than the product that was measured, so it is no limit here)")


def test_a_race_on_a_device_that_nobody_measured_says_nothing():
    """It was not asked for."""
    assert limit_lines(record((FIRST, BEST)), 100) == []
    assert "limit" not in render(record((FIRST, BEST)))


def test_a_lane_that_was_profiled_says_how_its_limit_could_be_known():
    """Once for all lanes."""
    lanes = tuple(replace(each, absent={"roofline": NOT_MEASURED}) for each in (FIRST, BEST))
    assert limit_lines(record(lanes), 100) == [f"limit: {NOT_MEASURED.missing}"]


def test_a_limit_that_is_not_known_has_its_reason():
    """Next to those that are."""
    own = replace(BEST, absent={"roofline": Missing("a training of your own is counted with --profile")})
    told = limit_lines(record((replace(FIRST, roofline=ROOF), own)), 120)
    assert told[1] == "  torch/cpu/best - (a training of your own is counted with --profile)"


def test_the_page_of_a_race_has_the_block():
    """Between the instruments and the remarks, and no line wider than the page."""
    page = render(record((replace(FIRST, roofline=ROOF), replace(BEST, roofline=WAITING))), 60)
    assert "limit: torch/cpu 41 % of what its products allow" in page
    assert max(map(len, page.splitlines())) <= 60
