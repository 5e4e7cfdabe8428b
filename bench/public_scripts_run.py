"""How `bench/public_scripts.py` describes a published script, and runs it with a counter of its own."""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COUNTED = ("steps", "backwards", "batches", "keras")
SLOT = struct.Struct("<3q")  # how many, and when the first timed and the last one ended
LIMIT_S = 1_800  # a machine may be busy
WARM_UP = 3  # iterations that are not timed
COUNTER = """
import mmap, os, struct, sys
from time import monotonic_ns
slot_of = struct.Struct("<3q")
state = {"pid": 0}
def open_file():
    file = os.open(os.path.join(os.environ["COUNTS"], "%d" % os.getpid()), os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(file, 4 * slot_of.size)
    state.update(pid=os.getpid(), map=mmap.mmap(file, 4 * slot_of.size))
warm_up = int(os.environ["WARM_UP"])
def count(slot):
    if state["pid"] != os.getpid():
        open_file()
    now, since, last = slot_of.unpack_from(state["map"], slot_of.size * slot)
    time = monotonic_ns()
    slot_of.pack_into(state["map"], slot_of.size * slot, now + 1, time if now + 1 == warm_up else since, time)
def counted(function, slot):
    def called(*given, **named):
        found = function(*given, **named)
        count(slot)
        return found
    return called
words = [os.path.basename(word) for word in sys.orig_argv[:3]]
if "laptime" in words or "resource_tracker" in str(sys.orig_argv):
    pass
elif os.environ.get("COUNTS_OF") == "keras":
    import keras
    each = keras.callbacks.CallbackList
    each.on_train_batch_end = counted(each.on_train_batch_end, 3)
else:
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from torch.utils.data import dataloader
    register_optimizer_step_post_hook(lambda *_: count(0))
    torch.Tensor.backward = counted(torch.Tensor.backward, 1)
    dataloader._BaseDataLoaderIter.__next__ = counted(dataloader._BaseDataLoaderIter.__next__, 2)
"""


@dataclass(frozen=True)
class Published:
    """One script, as the list describes it."""

    name: str
    repository: str
    commit: str
    folder: str
    command: list[str]
    changes: str = "none"
    counts: str = "steps"
    per: int = 1
    batch: float | None = None
    planted: str = ""
    says: str = ""
    line: str = ""
    remedy: str = ""
    without: str = ""
    traced: str = ""


def run(command: list[str], folder: str, **variables: str) -> dict[str, Any]:
    """Run a command in a folder, with one thread."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    begin = time.monotonic()
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **threads, **variables, "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        timeout=LIMIT_S,
        check=False,
    )
    return {
        "exit_code": ended.returncode,
        "seconds": round(time.monotonic() - begin, 2),
        "tail": ended.stdout.decode(errors="replace")[-6_000:],
    }


def run_counted(command: list[str], script: Published, folder: str) -> dict[str, Any]:
    """Run a command in a folder, with the counter in each of its Pythons."""
    with tempfile.TemporaryDirectory(prefix="laptime-counts-") as place:
        own_code = Path(place) / "site-packages"  # a library's: laptime names lines of the script
        own_code.mkdir()
        (own_code / "sitecustomize.py").write_text(COUNTER, encoding="utf-8")
        counts = Path(place) / "counts"
        counts.mkdir()
        own = {"COUNTS": str(counts), "COUNTS_OF": script.counts, "WARM_UP": str(WARM_UP * script.per)}
        ended = run(command, folder, PYTHONPATH=str(own_code), **own)
        size = len(COUNTED) * SLOT.size
        rows = [list(SLOT.iter_unpack(f.read_bytes())) for f in counts.iterdir() if f.stat().st_size == size]
    found = {name: sorted(row[slot][0] for row in rows if row[slot][0]) for slot, name in enumerate(COUNTED)}
    return {"counts": found, "iteration_ms": time_of(rows, script), **ended}


def time_of(rows: list[list[tuple[int, int, int]]], script: Published) -> float | None:
    """Return what an iteration took in the process that had most of them, with what is between iterations."""
    slot = COUNTED.index(script.counts)
    number, since_ns, last_ns = max((row[slot] for row in rows), default=(0, 0, 0))
    iterations = number / script.per - WARM_UP
    return (last_ns - since_ns) / 1e6 / iterations if iterations >= 1 and since_ns else None
