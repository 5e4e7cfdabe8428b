"""Turns a minute of an H200's own readings into recordings for the replay sensor, as laptime's two sensors show them.

    python bench/recording.py bench/results/2026-11-20-h200-nvml.json.gz tests/recordings

The card's UUID was taken out before the minute was kept; the recordings call it by zeros. The slow sensor's activity is
that of the tenth of a second before each reading, not of the whole second.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from laptime.machine.sensors.nvml.library import FAST, SLOW_QUESTIONS, CardQuestion
from laptime.model.quantities import Missing
from replay_sensor import FORM, Recording

CARD = "GPU-00000000-0000-0000-0000-000000000000"
WHOSE = Missing("the minute was kept without the numbers of the heats' processes")
ABSENT = {
    "foreign_processes": WHOSE,
    "foreign_memory_bytes": WHOSE,
}
Row = dict[str, Any]


def value(name: str, *within: str) -> Callable[[Row, Row], float | None]:
    def pick(row: Row, _once: Row) -> float | None:
        told = row[name]["v"]
        for each in within:
            told = told[each]
        return told

    return pick


def field(name: str) -> Callable[[Row, Row], float | None]:
    return value("fields", f"NVML_FI_DEV_{name}", "ull")


def metric(number: int) -> Callable[[Row, Row], float | None]:
    """Return a counter of activity, which the first row of all does not tell: it has nothing to be compared with."""

    def pick(row: Row, _once: Row) -> float | None:
        told = row["gpm"].get("v")
        return told[str(number)][1] if told and told[str(number)][0] == 0 else None

    return pick


def once(name: str) -> Callable[[Row, Row], float | None]:
    return lambda _row, told: told[name]["v"]


PICKS: dict[str, Callable[[Row, Row], float | None]] = {
    "busy_percent": value("UtilizationRates", "gpu"),
    "memory_used_bytes": value("memory_v2", "used"),
    "temperature_c": value("Temperature"),
    "power_instant_mw": field("POWER_INSTANT"),
    "power_average_mw": value("PowerUsage"),
    "sm_clock_mhz": value("clock1"),
    "clock_reasons": value("CurrentClocksEventReasons"),
    "energy_mj": value("TotalEnergyConsumption"),
    "sm_active_percent": metric(2),
    "memory_total_bytes": value("memory_v2", "total"),
    "sm_clock_most_mhz": once("maxclock1"),
}


def convert(told: Row, name: str, questions: tuple[CardQuestion, ...], every: int) -> Recording:
    """Keep each so-manieth row, and of it what the questions show."""
    rows = told["rows"][::every]
    figures = [figure for question in questions for figure in question.shows]
    kept = [figure for figure in figures if figure.name not in ABSENT]
    about = "NVIDIA H200, driver 580.159.04, 2026-11-20: a minute of races and of rest"
    return Recording(
        form=FORM,
        about=about,
        name=name,
        period_s=every / 10,
        channels=tuple(figure.of(CARD) for figure in kept),
        absent=tuple((figure.of(CARD), ABSENT[figure.name]) for figure in figures if figure.name in ABSENT),
        at_ns=tuple(round(row["at"] * 1e9) for row in rows),
        figures=tuple(tuple(PICKS[figure.name](row, told["once"]) for row in rows) for figure in kept),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    told = json.loads(gzip.decompress(asked.source.read_bytes()))
    for name, questions, every in (("nvml", FAST, 1), ("nvml-slow", SLOW_QUESTIONS, 10)):
        place = asked.folder / f"h200-{name}.json.gz"
        made = convert(told, name, questions, every)
        place.write_bytes(gzip.compress(msgspec.json.encode(made), mtime=0))
        print(f"{place}: {len(made.channels)} channels, {len(made.at_ns)} readings, {place.stat().st_size} bytes")


if __name__ == "__main__":
    main()
