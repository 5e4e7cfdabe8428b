"""The sensor `rapl` once more: its row and its class. Without them nothing knows that a package has a meter."""

from __future__ import annotations

import pytest
from replay import ask, copy_without, files_naming

PLACES = {"model/sample.py": ("rapl",), "machine/sensors/rapl.py": ()}
NAMED_IN_A_HINT = {"model/option_kinds.py"}  # "expected names, such as ['host', 'rapl']"

METERED = """
import json

from measured import CPU, changed, heat_of, windows_of
from timelines import channel, timeline

from laptime.analysis.heats import summarise_heat
from laptime.analysis.usage import summarise_usage
from laptime.model.errors import UsageError
from laptime.model.ask import Ask
from laptime.model.quantities import Missing
from laptime.model.sample import all_sensors, meters_of
from laptime.engine.run.instruments import SensorSelection

shown = {
    channel("package-0", "energy_j", "J", "counter"): lambda at_s: 7 + 30 * at_s,
    channel("dram-0", "energy_j", "J", "counter"): lambda at_s: 5 * at_s,
    channel("heat", "busy_s", "s", "counter"): lambda at_s: at_s,
}
heat = changed(heat_of(100.0, windows=windows_of(*[100.0] * 5)), timeline=timeline(shown))
told = summarise_usage([summarise_heat(heat)], (CPU,), 2, 50.0, 1000.0)
energy = told.energy
print(json.dumps({
    "how": energy.how if isinstance(energy.how, str) else energy.how.missing,
    "watts": None if isinstance(energy.power_w, Missing) else round(energy.power_w, 1),
    "busy": round(told.processor_percent),
    "meters": meters_of("cpu"),
    "sensors": list(all_sensors()),
    "without it": SensorSelection(("host",), 1.0).why_no_power(CPU).missing,
}))
"""
OTHERS = ["host", "nvml"]


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    return copy_without(tmp_path_factory.mktemp("source"), PLACES)


def test_it_is_in_two_files():
    """No other file knows its name, its devices, or the name of its channel."""
    assert files_naming("rapl", "package-", '"energy_j"') == set(PLACES) | NAMED_IN_A_HINT


@pytest.mark.long
def test_its_channel_is_a_meter_by_its_row():
    """The meter of the memory is none of the processor's."""
    assert ask(METERED) == {
        "how": "counted",
        "watts": 30.0,
        "busy": 50,
        "meters": ["rapl"],
        "sensors": ["host", "rapl", *OTHERS[1:]],
        "without it": "rapl: it was not asked for",
    }


def test_without_its_two_places_the_same_readings_are_no_meter(without):
    assert ask(METERED, without) == {
        "how": "no instrument shows the processor's power or energy",
        "watts": None,
        "busy": 50,
        "meters": [],
        "sensors": OTHERS,
        "without it": "no instrument reads it",
    }
