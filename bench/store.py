"""A store of 100,000 records is listed, filtered and searched within 200 ms, and loses nothing to kills or writers.

    python bench/store.py                                     100,000 records, 1,000 kills, 16 writers; 3 GB of disk
    python bench/store.py --records 2000 --kills 20           a short try

The records are copies of a small real race (tests/recordings), each with another id and start. First the index is made
from nothing. Then processes list all rows, keep the newest 30, filter them by workload, and find a record by the
beginning of its id: the limit is for a process that has listed before, and the first list of each is measured too. The
whole command is measured as well: most of it is the start of Python and, for a list, 100,000 lines.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from common import ROOT, Figure, finish, fresh_home, parser_for, run_json
from laptime.model.errors import RecordError
from laptime.model.record import Record
from laptime.model.stats import median
from laptime.store.files import list_records, load, save
from laptime.store.index import INDEX_NAME, home_folder, records_folder
from laptime.store.schema import decode, encode

RECORDING = ROOT / "tests" / "recordings" / "schema-1" / "race-failed.json.gz"
MOST_MS, SAVE_MOST_MS, LEAST_A_SECOND = 200.0, 50.0, 1000.0
READERS = 7
WRITERS, SAVES = 16, 40
LONGEST_WRITE_S = 0.03
READER = """
import json, sys, time
from laptime.store.files import find, list_records
began = time.perf_counter()
cold = len(list_records())
first = (time.perf_counter() - began) * 1e3
began = time.perf_counter()
rows = list_records()
newest = rows[:30]
listed = time.perf_counter()
chosen = [row for row in list_records() if row.workload == sys.argv[2]][:30]
filtered = time.perf_counter()
found = find(sys.argv[1])
ended = time.perf_counter()
print(json.dumps({"rows": len(rows), "chosen": len(chosen), "found": found.stem, "first": first,
                  "list": (listed - began) * 1e3, "filter": (filtered - listed) * 1e3,
                  "find": (ended - filtered) * 1e3}))
"""
WRITER = """
import json, sys, time
from dataclasses import replace
from laptime.store.files import list_records, load, save
def taken(work):
    began, busy = time.perf_counter(), time.process_time()
    made.append(work())
    return (time.perf_counter() - began) * 1e3, (time.process_time() - busy) * 1e3
made = [load(sys.argv[1])]
first = taken(lambda: save(replace(made[0], id=sys.argv[2])))
second = taken(lambda: save(replace(made[0], id=sys.argv[2])))
listed = taken(list_records)
again = taken(list_records)
assert any(row.id == sys.argv[2] for row in made[-1])
print(json.dumps({"rows": len(made[-1]), "first save": first, "save": second, "first list": listed, "list": again}))
"""


def fill(count: int) -> tuple[int, list[str]]:
    """Write copies of the recording, and return the size of one and the ids."""
    small = decode(gzip.decompress(RECORDING.read_bytes()), RECORDING.name)
    data = encode(small)
    old_id, old_start = small.id.encode(), small.started.encode()
    records_folder().mkdir(parents=True)
    ids, dice = [], random.Random(0)
    for number in range(count):
        day, rest = 1 + number // 65536 % 28, number % 65536
        identity = f"r-2026-{1 + number % 12:02d}-{day:02d}-{dice.getrandbits(32):08x}"
        start = f"2026-{1 + number % 12:02d}-{day:02d}T{rest % 24:02d}:{rest // 24 % 60:02d}:00+00:00"
        made = data.replace(old_id, identity.encode()).replace(old_start, start.encode())
        if number % 2:
            made = made.replace(b'"cifar-mlp"', b'"other-mlp"')
        (records_folder() / f"{identity}.json").write_bytes(made)
        ids.append(identity)
    return len(data), ids


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    made = work()
    return time.perf_counter() - began, made


def read_in_fresh_processes(ids: list[str]) -> list[dict[str, Any]]:
    told = []
    for number in range(READERS):
        identity = ids[len(ids) * (number + 1) // (READERS + 1)]
        found = run_json([sys.executable, "-c", READER, identity[:-1], "other-mlp"])
        assert (found["rows"], found["found"]) == (len(ids), identity), found
        told.append(found)
    return told


def write_in_fresh_processes(ids: list[str]) -> list[dict[str, Any]]:
    told = []
    for number in range(READERS):
        found = run_json([sys.executable, "-c", WRITER, ids[0], f"r-2027-01-01-{number:04x}"])
        assert found["rows"] == len(ids) + number + 1, found
        told.append(found)
    return told


def writing_figure(name: str, told: list[dict[str, Any]], what: str, **limits: float) -> Figure:
    """Return the time of one step of those processes, as a clock sees it."""
    taken = [each[what][0] for each in told]
    return Figure(name, median(taken), "ms", min(taken), max(taken), **limits)


def command_ms(*words: str) -> float:
    command = [sys.executable, "-m", "laptime", *words]
    taken = [timed(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True))[0] for _ in range(3)]
    return 1e3 * median(taken)


def measure_scale(count: int) -> tuple[list[Figure], dict[str, Any]]:
    with fresh_home():
        size, ids = fill(count)
        began_s = time.process_time()
        rebuilt_s, rows = timed(list_records)
        rebuilt_cpu_s = time.process_time() - began_s
        assert len(rows) == count
        time.sleep(2.5)  # a folder that has just changed is not trusted yet
        settled_s, _ = timed(list_records)
        told = read_in_fresh_processes(ids)
        saved = write_in_fresh_processes(ids)
        figures = [
            Figure("index made from nothing", count / rebuilt_s, "records/s", least=LEAST_A_SECOND),
            *(
                Figure(f"{what}, warm process", median([each[what] for each in told]), "ms",
                       min(each[what] for each in told), max(each[what] for each in told), most=MOST_MS)
                for what in ("list", "filter", "find")
            ),
            Figure("first list of a process, files cached", median([each["first"] for each in told]), "ms",
                   min(each["first"] for each in told), max(each["first"] for each in told)),
            Figure("index made from nothing, processor time", count / rebuilt_cpu_s, "records/s"),
            writing_figure("save, first of a process", saved, "first save", most=SAVE_MOST_MS),
            writing_figure("save again", saved, "save", most=SAVE_MOST_MS),
            writing_figure("list after one more record, first list of a process", saved, "first list"),
            writing_figure("list after one more record, warm process", saved, "list"),
            Figure("list after one more record, warm process, processor time",
                   median([each["list"][1] for each in saved]), "ms"),
            Figure("laptime list --json, the whole command", command_ms("list", "--json"), "ms"),
            Figure("laptime show ID, the whole command", command_ms("show", ids[-1]), "ms"),
            Figure("size of a record", float(size), "bytes"),
            Figure("size of the index", float((home_folder() / INDEX_NAME).stat().st_size), "bytes"),
        ]  # fmt: skip
        return figures, {"records": count, "index written again s": settled_s, "readers": told, "writers": saved}


def measure_writers(record: Record) -> Figure:
    """Have processes save records of their own at once, while this one lists; count those that are lost."""
    with fresh_home():
        ids = [[f"r-2026-01-01-{writer:04x}{number:04x}" for number in range(SAVES)] for writer in range(WRITERS)]
        children = [in_child(lambda own=own: [save(replace(record, id=each)) for each in own]) for own in ids]
        for _ in range(20):
            assert all(row.unreadable is None for row in list_records())
        for child in children:
            os.waitpid(child, 0)
        listed = {row.id for row in list_records() if row.unreadable is None}
        lost = {each for own in ids for each in own} - listed
        return Figure(f"records lost by {WRITERS} writers of {SAVES} records", float(len(lost)), most=0)


def measure_kills(record: Record, kills: int) -> tuple[Figure, Figure]:
    """Kill a process that saves one record again and again, at random moments, and read the record each time."""
    dice, unreadable = random.Random(0), 0
    with fresh_home():
        save(record)
        for _ in range(kills):
            child = in_child(lambda: [save(replace(record, elapsed_s=float(number))) for number in range(10_000)])
            time.sleep(dice.random() * LONGEST_WRITE_S)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            try:
                load(record.id)
            except RecordError:
                unreadable += 1
        list_records()
        left = len(list(records_folder().iterdir())) - 1
    kept = Figure(f"unreadable records after {kills} kill -9 during writes", float(unreadable), most=0)
    return kept, Figure("files left behind after the next list", float(left), most=0)


def in_child(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=1_000)
    given: argparse.Namespace = parser.parse_args()
    small = decode(gzip.decompress(RECORDING.read_bytes()), RECORDING.name)
    figures, details = measure_scale(given.records)
    figures += [measure_writers(small), *measure_kills(small, given.kills)]
    return finish("store", figures, given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
