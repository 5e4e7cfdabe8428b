"""No driver, a broken one, no permission, no card: each is a sentence, from both sensors and from the list."""

from __future__ import annotations

import pytest
from scripted_cards import DRIVER, NO_PERMISSION, one

ASK = (
    "says = [sensor.probe().missing for sensor in (NvmlSensor(), SlowNvmlSensor())] + [list_cards().missing]\n"
    "try:\n    NvmlSensor().open(1)\nexcept SensorError as error:\n    says.append(error.says)\n"
    "tell(says)"
)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("!4", "no permission to talk to the NVIDIA driver"),
        ("!9", "its kernel module is not loaded"),
        ("!18", "its library and its kernel module are of two versions; restart this computer"),
        ("!13", "the NVIDIA driver is too old"),
        ("!999", "in a container, it often lost its devices"),
        ("!17", "NVML cannot be opened: The operating system has blocked the request."),
    ],
)
def test_a_library_that_does_not_open_says_why(watch, code, words):
    told = watch({(-1, "Init", 0): code}, ASK)
    assert len(told) == 4
    assert len(set(told)) == 1
    assert words in told[0]


def test_a_driver_without_cards_says_so(watch):
    told = watch({**DRIVER, (-1, "Count", 0): "0"}, ASK)
    assert set(told) == {"the NVIDIA driver is here, but it shows no card"}


def test_cards_that_nobody_may_ask_are_named(watch):
    told = watch(one() | {(-1, "Handle", 0): NO_PERMISSION}, ASK)
    assert set(told) == {"NVML's card 0: this user may not ask (NVML: Insufficient Permissions)"}


def test_cards_that_cannot_be_counted_are_said(watch):
    told = watch(DRIVER, ASK)
    assert set(told) == {"this card does not tell (NVML: Not Supported)"}


def test_no_library_is_no_driver(run_beside, tmp_path):
    """A file that is no library is in its place, so that none of the system's own is found."""
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "libnvidia-ml.so.1").write_text("no library")
    told = run_beside(ASK, folder)
    assert len(set(told)) == 1
    assert told[0].startswith("no NVIDIA driver is installed here")


def test_a_card_that_answers_is_no_reason_to_stay_away(watch):
    assert watch(one(), "tell([NvmlSensor().probe(), SlowNvmlSensor().probe()])") == [None, None]


def test_the_library_is_not_imported_before_it_is_asked(watch):
    """Who starts laptime does not wait for it."""
    assert watch(one(), "import sys\ntell('pynvml' in sys.modules)") is False
