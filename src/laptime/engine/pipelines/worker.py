"""`python -m laptime.engine.pipelines.worker SLOTS_FD HELD_FD`: make requested batches until the input ends.

The first line of the input is the job; each further line is a batch's number and a slot. The worker answers with the
files that it skipped. When the training ends, however it ends, the worker's input ends, and so does the worker.
"""

from __future__ import annotations

import signal
import sys

import msgspec

from laptime.engine.pipelines.decode import AuthorsBatchMaker
from laptime.engine.pipelines.job import LoaderJob
from laptime.engine.pipelines.making import BatchMaker, PictureStore, map_shared, slot_of
from laptime.model.errors import LaptimeError

OUT_OF_ROOM = -1


class BatchReply(msgspec.Struct, frozen=True):
    """A batch is in its slot, or cannot be made."""

    number: int
    bad: tuple[tuple[str, str], ...] = ()
    error: str | None = None


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training handles Ctrl-C, and the worker ends with it
    requests = sys.stdin.buffer
    replies = sys.stdout.buffer
    job = msgspec.json.decode(requests.readline(), type=LoaderJob)
    slots = int(sys.argv[1])
    held = int(sys.argv[2])
    memory = map_shared(slots)
    kept = PictureStore(map_shared(held), len(job.paths), job.worker, job.workers) if held != OUT_OF_ROOM else None
    make: BatchMaker | AuthorsBatchMaker = BatchMaker(job, kept) if job.way == "ours" else AuthorsBatchMaker(job)
    while line := requests.readline():
        number, slot = map(int, line.split())
        images, labels = slot_of(memory, job, slot)
        try:
            done = BatchReply(number, tuple(make(number, images, labels)))
        except (LaptimeError, MemoryError, OSError) as error:
            done = BatchReply(number, error=str(error) or type(error).__name__)
        replies.write(msgspec.json.encode(done) + b"\n")
        replies.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
