"""What lanes took of the machine: only columns that have figures, and once the reasons for what would be missed."""

from __future__ import annotations

from dataclasses import replace

from records import lane, record

from laptime.model.ask import Ask
from laptime.model.quantities import Missing
from laptime.model.sample import Energy, Usage
from laptime.show.pages.lanes import usage_lines

NO_METER = Missing("rapl: only root may read it")
NO_CARD = Missing("this lane computes on the processor")
COOL = Missing("a virtual machine has none")
NONE = Energy("the processor", *[NO_METER] * 5)
PROCESSOR = Usage(
    processor_percent=97.6,
    others_percent=1.2,
    memory_most_bytes=8e8,
    device_percent=NO_CARD,
    active_percent=NO_CARD,
    device_memory_most_bytes=NO_CARD,
    temperature_of="host",
    temperature_most_c=COOL,
    temperature_slope_c_per_min=COOL,
    power_most_w=NO_METER,
    energy=NONE,
)
CARD = replace(
    PROCESSOR,
    processor_percent=12.0,
    device_percent=91.0,
    active_percent=64.0,
    device_memory_most_bytes=12e9,
    temperature_of="GPU-1f",
    temperature_most_c=63.0,
    temperature_slope_c_per_min=2.5,
    power_most_w=690.0,
    energy=Energy("GPU-1f", "counted", 512.0, 5632.0, 112.0, 8.9),
)


def shown(*usages: Usage | None, width: int = 200, **asked: object) -> str:
    names = ("torch/cpu/as-written", "torch/cuda:0/best")
    lanes = tuple(lane(name, 20.0, usage=usage) for name, usage in zip(names, usages, strict=False))
    return "\n".join(usage_lines(record(lanes, ask=Ask(**asked)), width, color=False))


def test_a_processor_without_meters_says_why_once():
    """Three columns, and a line for each reason."""
    assert shown(PROCESSOR).splitlines() == [
        "while timed    cores busy    others    memory",
        "torch/cpu      98 %          1 %       812 MB",
        "- (temperature: a virtual machine has none)",
        "- (power, energy: rapl: only root may read it)",
    ]


def test_a_card_shows_all_it_has():
    """Next to a processor lane, which has no such figures: a dash, and never 0."""
    head, first, second = shown(PROCESSOR, CARD).splitlines()
    titles = ("cores busy", "others", "memory", "card busy", "of its units", "card memory", "hottest", "power", "a lap")
    places = [head.index(title) for title in (*titles, "1,000 items", "items/J")]
    assert places == sorted(places)
    assert first.split()[-1] == "-"
    assert "91 %" in second
    assert "64 %" in second
    assert "63 \N{DEGREE SIGN}C +2.5/min" in second
    assert "512 W, at most 690 W" in second
    assert "5.63 kJ counted" in second
    assert "1.56 Wh" in second
    assert second.endswith("8.90")


def test_money_is_of_energy_and_of_time():
    """5,632 J at 0.25 a kWh are 0.000391; 10 s of a lap at 3.60 an hour are 0.01."""
    assert shown(PROCESSOR, CARD, price_per_kwh=0.25).splitlines()[2].endswith("0.000391")
    assert shown(PROCESSOR, CARD, rate_per_hour=3.6).splitlines()[2].endswith("0.0100")


def test_a_narrow_page_has_sentences():
    text = shown(PROCESSOR, CARD, width=60)
    assert text.startswith("torch/cpu while timed: cores busy 98 %")
    assert "torch/cuda:0/best while timed: cores busy 12 %" in text
    assert max(map(len, text.splitlines())) <= 60


def test_lanes_that_were_not_watched_say_nothing():
    assert shown(None, None) == ""


def test_memory_of_a_loaders_processes_is_shown_for_old_records_too():
    """Their lanes have the trainer's own mark alone, and the readings knew more."""
    assert "5.00 GB" in shown(replace(PROCESSOR, memory_most_bytes=5e9))
