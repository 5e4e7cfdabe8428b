"""The truth about a script: its iterations and their time, by a counter of our own. laptime is no part of it.

`CODE` is a `sitecustomize.py`. It notes the time of each step of an optimizer, each backward pass, each batch of a
loader, and of each start and end of a loader, in a file for each process.
"""

from __future__ import annotations

import statistics
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from strangers.nouns import Counted

KINDS = ("steps", "backwards", "batches", "edge")
WARM_UP = 3  # iterations that are not timed
CODE = """
import mmap, os, sys
from time import monotonic_ns
state = {"pid": 0, "at": 0}
SIZE = 32 << 20
def note(kind):
    pid = os.getpid()
    if state["pid"] != pid:
        file = os.open(os.path.join(os.environ["STRANGERS_COUNTS"], str(pid)), os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(file, SIZE)
        state.update(pid=pid, at=0, map=memoryview(mmap.mmap(file, SIZE)).cast("q"))
        os.close(file)
    if state["at"] < SIZE // 8:
        state["map"][state["at"]] = monotonic_ns() * 4 + kind
        state["at"] += 1
def noted(function, kind, before=None):
    def called(*given, **named):
        if before is not None:
            note(before)
        try:
            found = function(*given, **named)
        except StopIteration:
            note(3)
            raise
        if kind is not None:
            note(kind)
        return found
    return called
def hook():
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from torch.utils.data import DataLoader, dataloader
    register_optimizer_step_post_hook(lambda *_: note(0))
    torch.Tensor.backward = noted(torch.Tensor.backward, 1)
    dataloader._BaseDataLoaderIter.__next__ = noted(dataloader._BaseDataLoaderIter.__next__, 2)
    DataLoader.__iter__ = noted(DataLoader.__iter__, None, before=3)
words = [os.path.basename(word) for word in sys.orig_argv]
if os.environ.get("STRANGERS_SCRIPT") in words and "laptime" not in words and "STRANGERS_COUNTS" in os.environ:
    hook()
"""


@dataclass(frozen=True, slots=True)
class Truth:
    """What a counter saw: how many iterations, their mean time, and that with what lies between them.

    An iteration begins where the one before ended, or where a loader starts after that: validation lies between.
    `within_ms` is the mean of those before which no loader starts. `whole_ms` is the time from the end of the third
    iteration to the end of the last one, over their number.
    """

    iterations: int
    mean_ms: float
    within_ms: float
    whole_ms: float
    whole_s: float


def read_truth(folder: Path, counts: Counted, per: int) -> Truth | None:
    """Return what the process that had most iterations did; None where none had enough."""
    found = [truth_of(events_of(file), counts, per) for file in folder.iterdir()]
    return max((each for each in found if each is not None), key=lambda each: each.iterations, default=None)


def events_of(file: Path) -> list[tuple[int, str]]:
    """Return the times, in ns, and kinds of all events of a process."""
    data = file.read_bytes()
    end = len(data.rstrip(b"\0")) + 7 & ~7
    values = (value for (value,) in struct.iter_unpack("<q", data[:end]))
    return [(value // 4, KINDS[value % 4]) for value in values if value]


def truth_of(events: list[tuple[int, str]], counts: Counted, per: int) -> Truth | None:
    ends: list[int] = []
    began: list[int] = []  # of the same iterations: the end of the one before, or the last start of a loader since
    starts: list[bool] = []  # whether a loader starts before it
    number, edge_ns = 0, 0
    for time_ns, kind in events:
        if kind == "edge":
            edge_ns = time_ns
        number += kind == counts
        if kind == counts and number % per == 0:
            starts.append(edge_ns > (ends[-1] if ends else 0))
            began.append(max(edge_ns, ends[-1] if ends else 0))
            ends.append(time_ns)
    if len(ends) < WARM_UP + 2:
        return None
    whole = [(after - before) / 1e6 for before, after in pairwise(ends)][WARM_UP - 1 :]
    own = [(end - begin) / 1e6 for begin, end in zip(began, ends, strict=True)][WARM_UP:]
    within = [each for each, is_first in zip(own, starts[WARM_UP:], strict=True) if not is_first]
    means = [statistics.fmean(each) for each in (own, within if len(within) >= WARM_UP else own, whole)]
    return Truth(number // per, *means, (ends[-1] - ends[0]) / 1e9)
