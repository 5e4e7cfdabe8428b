"""200 races killed with -9 at random moments: every file can still be read, and no process is left."""

from __future__ import annotations

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor

from laptime.store import decode

KILLS = 200
AT_ONCE = 4
EARLIEST_S, LATEST_S = 0.05, 1.8


def test_no_kill_leaves_an_unreadable_file_or_a_process(house):
    """Four at a time, in one folder of records: while starting, proving, measuring, writing."""

    def race_and_kill(after_s: float) -> None:
        process = house.start("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "100", "-q")
        time.sleep(after_s)
        process.kill()
        house.finish(process)

    moments = [random.uniform(EARLIEST_S, LATEST_S) for _ in range(KILLS)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(race_and_kill, moments))

    assert house.is_empty_within(2)
    records = [decode(place.read_bytes(), place.name) for place in house.files()]
    assert {"running"} == {record.status for record in records}
    heats = [sum(len(lane.heats) for lane in record.lanes) for record in records]
    assert len(heats) > KILLS / 10
    assert len(set(heats)) > 1
    rows = house.run("list", "--json")
    assert rows.code == 0
    assert len(records) == len(rows.json)
    assert {None} == {row["unreadable"] for row in rows.json}
    for place in (house.cache / "references").glob("*.json"):
        assert json.loads(place.read_bytes())
    assert house.run("show", "latest").code == 0
