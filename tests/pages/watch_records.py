"""Records of watched commands: what agents sent, as literal events, through laptime's own readers."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

import records

from laptime.analysis.diagnosis.script_findings import script_findings
from laptime.analysis.script_process import ProcessReader, compare_ranks
from laptime.attach import kinds
from laptime.model.ask import Ask
from laptime.model.plan import Subject
from laptime.model.quantities import Missing
from laptime.model.record import Record
from laptime.model.script import GrowingList, MemoryTrend, ScriptProcess, SeenLine, SeenReads
from laptime.model.watched import WatchAnswer

MS = 1_000_000
HELLO = {
    "pid": 4711, "parent": 1, "python": "3.12.1", "executable": "/usr/bin/python", "versions": {"torch": "2.13.0"},
}  # fmt: skip
OPTIMIZER = {"optimizer": 1, "name": "AdamW", "parameters": {"cpu": 25300}, "dtypes": ["float32"]}
LOADER = {
    "loader": 1, "batches": 40, "num_workers": 0, "batch_size": 32, "pin_memory": False, "persistent_workers": False,
}  # fmt: skip
Event = tuple[int, float, float, int]


def process(events: Sequence[Event], *facts: dict, **hello: object) -> ScriptProcess:
    """Return what is read of a process that sent these facts and events; times are in milliseconds."""
    reader = ProcessReader({**HELLO, **hello})
    for each in facts:
        reader.take_facts(each)
    for kind, begin, end, value in events:
        reader.take_events(struct.pack(kinds.EVENT, kind, round(begin * MS), round(end * MS), value))
    reader.take_facts({"is_leaving": True, "lost": 0})
    return reader.process()


def epochs(wait: float, backward: float = 1.0, save: float = 0.0) -> list[Event]:
    """Return two epochs of 40 iterations, each with validation and a checkpoint after it."""
    events: list[Event] = []
    at = 0.0
    for epoch in range(2):
        events.append((kinds.LOADER_OPEN, at, at + 0.5, 1))
        at += 0.5
        for step in range(40):
            slower = 20 * wait if epoch == step == 0 else 0.0
            got = at + wait + slower
            done = got + 1.0 + backward
            events += [
                (kinds.FETCH, at, got, 1 << kinds.ITEMS_SHIFT | 32),
                (kinds.BACKWARD, got + 1.0, done, 0),
                (kinds.LOSS, done, done, struct.unpack("<q", struct.pack("<d", 2.3 / (1 + step + 40 * epoch)))[0]),
                (kinds.STEP, done + 0.1, done + 0.5, 1),
            ]
            at = done + 0.6 + 0.001 * (step % 5)
        events += [(kinds.LOADER_END, at, at + 0.2, 1), (kinds.LOADER_OPEN, at + 0.3, at + 0.4, 2)]
        events += [
            (kinds.FETCH, at + 0.4, at + 2, 2 << kinds.ITEMS_SHIFT | 32),
            (kinds.LOADER_END, at + 30, at + 31, 2),
        ]
        if save:
            events.append((kinds.SAVE, at + 31, at + 31 + save, 0))
        at += 32 + save
    return events


def watched(answer: WatchAnswer, **changes: object) -> Record:
    subject = Subject("train.py", "python train.py --epochs 2", None, None, None, None, "items", file="train.py")
    return replace(
        records.record(
            (), question="watch", workload=subject, published=None, ask=Ask("python", command=answer.command)
        ),
        answer=answer,
        findings=script_findings(answer, records.MACHINE, is_quiet=True),
        **changes,
    )


COMMAND = ("python", "train.py", "--epochs", "2")


def waits() -> Record:
    """A loop that waits for its data most of the time."""
    return watched(WatchAnswer(COMMAND, 0, 12.5, (process(epochs(8.0, save=40.0), LOADER, OPTIMIZER),), others=2))


def ranks() -> Record:
    """Two ranks, of which the second holds the first up."""
    first = process(epochs(0.5, backward=4.0), LOADER, OPTIMIZER, rank="0", world="2")
    second = process(epochs(2.5, backward=2.0), LOADER, OPTIMIZER, rank="1", world="2", pid=4712)
    command = ("torchrun", "--nproc-per-node", "2", "train.py")
    return watched(WatchAnswer(command, 1, 20.0, (first, second), skew=compare_ranks((first, second)), left_running=1))


def unseen() -> Record:
    """A command in which no training was seen."""
    reason = Missing("Python was started with -I, and so reads nothing of its environment")
    return watched(WatchAnswer(("python", "-I", "train.py"), 0, 12.5, unseen=reason))


def keras() -> Record:
    """A fit of Keras whose count is not sure, and a hook that failed."""
    batches = [(kinds.KERAS_BATCH, 10.0 * at, 10.0 * at + 9, 1) for at in range(30)]
    fit = process(
        [*batches, (kinds.KERAS_EPOCH, 0, 300, 0), (kinds.COMPILE, 1, 8, 0)],
        {"keras_batch": 64, "keras_data": "ArrayDataAdapter", "iterator": 1},
        {"is_failed": "epochs", "error": "AttributeError: no batch_size"},
        {"is_leaving": True, "lost": 32},
        versions={"keras": "3.15.1", "jax": "0.10.2"},
    )
    return watched(WatchAnswer(COMMAND, 0, 3.0, (fit,)))


def lines() -> Record:
    """A loop whose transform is slow, that prints its loss and keeps it."""
    graph = GrowingList("train.py:41", "losses", 1.0, "graph", 4)
    seen = replace(
        process(epochs(8.0), LOADER, OPTIMIZER),
        lines=(
            SeenLine("data.py:12", "data", 0.91, in_worker=True),
            SeenLine("train.py:36", "forward", 0.97),
            SeenLine("train.py:42", "outside", 0.88),
        ),
        reads=(SeenReads("train.py:42", 2.0, 0.03),),
        lists=(graph,),
        memory=MemoryTrend(61_000, 52_000, 70_000, 410_000_000, 520_000_000, grows=True),
    )
    return watched(WatchAnswer(COMMAND, 0, 12.5, (seen,)))


SHOWN = {"lines": lines, "waits": waits, "ranks": ranks, "unseen": unseen, "keras": keras}
