"""Devices that are not here: the shipped table is sound, a name is found however it is written, a file is checked."""

from __future__ import annotations

import pytest

from laptime.machine.hardware import find_device, known_devices, known_efficiencies, match_label, read_devices
from laptime.model.errors import UsageError

MINE = """
[[device]]
name = "My card"
short = "my-card"
kind = "cuda"
architecture = "Ada"
fp32_tflops = 40
bandwidth_gb_s = 700
"""


def test_the_table_has_common_devices_whose_names_are_their_own():
    """Handles and other names are each of one device."""
    devices = known_devices()
    assert len(devices) >= 40
    shorts = [each.short for each in devices]
    assert len(set(shorts)) == len(shorts)
    assert {"gtx-1060", "t4", "a100-40gb", "h100-sxm", "b200", "mi300x", "tpu-v5e", "m1-max", "i7-9700k"} <= set(shorts)
    names = [name for each in devices for name in (each.name, *each.aliases)]
    assert len(set(names)) == len(names)


def test_facts_are_plausible_and_a_price_has_its_provider_and_date():
    """A matrix peak is dense, so it is at least the ordinary one; each device has its sources."""
    for each in known_devices():
        assert each.sources, each.short
        assert each.bandwidth_gb_s is None or 20 < each.bandwidth_gb_s < 10_000
        for peak in (each.tf32_tflops, each.fp16_tflops):
            assert peak is None or each.fp32_tflops is None or peak >= 0.99 * each.fp32_tflops, each.short
        assert (each.price_per_hour is None) == (each.price_provider is None) == (each.price_date is None)


@pytest.mark.parametrize("word", ["t4", "T4", "Tesla T4", "NVIDIA Tesla T4"])
def test_a_device_is_found_by_any_of_its_names(word):
    assert find_device(word, known_devices()).short == "t4"


def test_a_typo_has_the_nearest_names():
    with pytest.raises(UsageError) as caught:
        find_device("rtx-309", known_devices())
    assert "rtx-3090" in caught.value.hint


def test_a_drivers_name_means_a_device_or_none():
    assert match_label("NVIDIA GeForce RTX 3090", known_devices()).short == "rtx-3090"
    assert match_label("NVIDIA H200", known_devices()).short == "h200"
    assert match_label("processor", known_devices()) is None


def test_a_file_of_your_own_comes_before_the_table(tmp_path):
    place = tmp_path / "mine.toml"
    place.write_text(MINE + MINE.replace("my-card", "t4").replace("My card", "Another T4"))
    devices = read_devices(place)
    assert find_device("my-card", devices).peak_flops("fp32") == 40e12
    assert find_device("t4", devices).name == "Another T4"
    assert len(devices) == len(known_devices()) + 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[device", "it is no TOML"),
        ("x = 1", "it has no [[device]]"),
        (MINE.replace('kind = "cuda"\n', ""), "my-card has no kind"),
        (MINE + "speed = 3\n", "my-card has an unknown key speed"),
        (MINE.replace("40", "0"), "fp32_tflops of my-card: expected a number above 0"),
        (MINE.replace("40", '"fast"'), "fp32_tflops of my-card: expected a number above 0"),
        (MINE.replace('"cuda"', '"gpu"'), "kind of my-card is gpu"),
        (MINE + MINE, "my-card is there twice"),
    ],
)
def test_a_file_that_cannot_be_is_refused_with_its_reason(tmp_path, text, says):
    place = tmp_path / "mine.toml"
    place.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_devices(place)
    assert says in caught.value.says


def test_what_was_fitted_is_there_for_each_kind_of_arithmetic():
    """Each regime has its memory, its least time and its spread."""
    known = known_efficiencies()
    assert set(known.products) == set(known.memory) == {"fp32", "tf32", "matrix"}
    for regime in known.products:
        assert 0.1 < known.memory[regime] < 2
        assert known.least_us[regime] > 0
        assert 0.02 < known.spread[regime] <= known.spread["unseen"] < 1
        assert {"conv", "product"} <= set(known.products[regime])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = " + "[" * 5_000, "it is no TOML"),
        ("device = [1]", "it has no [[device]]"),
        (MINE.replace("= 40", "= " + "9" * 6_000), "it is no TOML"),
        (MINE.replace("= 40", "= " + "9" * 400), "expected a number above 0 and up to 1e+12"),
        (MINE.replace("= 40", "= inf"), "expected a number above 0 and up to 1e+12"),
        (MINE.replace("= 40", "= nan"), "expected a number above 0 and up to 1e+12"),
    ],
    ids=["brackets", "no table", "6,000 digits", "400 digits", "inf", "nan"],
)
def test_a_hostile_file_of_devices_is_refused_in_a_sentence(tmp_path, text, says):
    place = tmp_path / "hostile.toml"
    place.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_devices(place)
    assert says in caught.value.says
