"""`python -m laptime.pipelines.worker SLOTS_FD HELD_FD`: make the batches that are asked for, until nobody asks.

It is told its job in the first line, then a batch's number and a slot in each; it answers with the files that it
had to pass over. When the training ends, whichever way, its input ends, and so does it.
"""

from __future__ import annotations

import signal
import sys

import msgspec

from laptime.errors import LaptimeError
from laptime.pipelines.held import Held
from laptime.pipelines.job import Job
from laptime.pipelines.making import Making
from laptime.pipelines.published import InPlace
from laptime.pipelines.shared import map_shared, slot_of

OUT_OF_ROOM = -1


class Done(msgspec.Struct, frozen=True):
    """A batch is in its slot, or cannot be made."""

    number: int
    bad: tuple[tuple[str, str], ...] = ()
    error: str | None = None


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training ends in its own way, and this with it
    given, told = sys.stdin.buffer, sys.stdout.buffer
    job = msgspec.json.decode(given.readline(), type=Job)
    slots, held = int(sys.argv[1]), int(sys.argv[2])
    memory = map_shared(slots)
    kept = Held(map_shared(held), len(job.paths), job.worker, job.workers) if held != OUT_OF_ROOM else None
    make: Making | InPlace = Making(job, kept) if job.way == "ours" else InPlace(job)
    while line := given.readline():
        number, slot = map(int, line.split())
        images, labels = slot_of(memory, job, slot)
        try:
            done = Done(number, tuple(make(number, images, labels)))
        except (LaptimeError, MemoryError, OSError) as error:
            done = Done(number, error=str(error) or type(error).__name__)
        told.write(msgspec.json.encode(done) + b"\n")
        told.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
