"""Races killed with -9 at random moments: every file can still be read, and no process is left.

60 of them; LAPTIME_KILLS=200 for more.
"""

from __future__ import annotations

import json
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from laptime.store import decode

PARTS = 4
KILLS = int(os.environ.get("LAPTIME_KILLS", "60")) // PARTS
AT_ONCE = 2
RACE = ("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "100", "-q")
EARLIEST_S = 0.05


def heats_on_disk(house):
    """Read every record, as whoever lists them would; tell how many heats each holds."""
    records = [decode(place.read_bytes(), place.name) for place in house.files()]
    assert {"running"} >= {record.status for record in records}
    return [sum(len(lane.heats) for lane in record.lanes) for record in records]


def kill(house, process):
    process.kill()
    house.finish(process)


def time_until_all_have_heats(house):
    """Race as many at once as will be killed at once: when each has saved two heats depends on the machine and day."""
    began_s = time.monotonic()
    processes = [house.start(*RACE) for _ in range(AT_ONCE)]
    while sum(heats >= 2 for heats in heats_on_disk(house)) < AT_ONCE:
        assert time.monotonic() - began_s < house.longest_s
        time.sleep(0.02)
    took_s = time.monotonic() - began_s
    for process in processes:
        kill(house, process)
    return took_s


@pytest.mark.parametrize("_part", range(PARTS))
def test_no_kill_leaves_an_unreadable_file_or_a_process(house, _part):
    """Two at a time, in one folder of records: while starting, proving, measuring, writing."""
    latest_s = time_until_all_have_heats(house)

    def race_and_kill(after_s: float) -> None:
        process = house.start(*RACE)
        time.sleep(after_s)
        kill(house, process)

    moments = [random.uniform(EARLIEST_S, latest_s) for _ in range(KILLS)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(race_and_kill, moments))

    assert house.is_empty_within(2)
    heats = heats_on_disk(house)
    assert len(heats) > AT_ONCE + KILLS / 10
    assert len(set(heats)) > 1
    rows = house.run("list", "--json")
    assert rows.code == 0
    assert len(heats) == len(rows.json)
    assert {None} == {row["unreadable"] for row in rows.json}
    for place in (house.cache / "references").glob("*.json"):
        assert json.loads(place.read_bytes())
    assert house.run("show", "latest").code == 0
