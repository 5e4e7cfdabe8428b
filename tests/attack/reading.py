"""Read hostile files as laptime does, in a process of its own: `python reading.py KIND` with a path a line.

Each answer is a line: `ok`, or what went wrong. No file may take longer, or more memory, than a sound one could.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from laptime.engine.pipelines.decode import (
    DamagedImageError,
    decode_small,
    draw_turns,
    read_plain,
    read_smoothed,
    read_turned,
)
from laptime.engine.pipelines.job import rng_of
from laptime.model.errors import LaptimeError
from laptime.questions.subject import find_subject
from laptime.trainings.data import describe_set
from laptime.trainings.data.archive import TRAIN_FILES
from laptime.trainings.data.scan import read_part
from laptime.trainings.data.source import read_source
from laptime.trainings.workloads import find_workload

LONGEST_S = 20
MOST_BYTES = 1_500_000_000
ALL_BYTES = 6_000_000_000  # of addresses: what is read without bound must not take the machine with it
SIDE = 32


def read_image(path: str) -> None:
    """Open a picture in each of the four ways that trainings have; being refused is as good as being read."""
    (turn,) = draw_turns(rng_of(0, 0), 1)
    ways: tuple[Callable[[], object], ...] = (
        lambda: decode_small(path, SIDE, SIDE),
        lambda: read_plain(path, SIDE, SIDE),
        lambda: read_smoothed(path, SIDE, SIDE),
        lambda: read_turned(path, turn, SIDE, SIDE),
    )
    for way in ways:
        with contextlib.suppress(DamagedImageError):
            way()


def read_archive(path: str) -> None:
    """Find the archive as a race does, with its digests, and read it without them."""
    with contextlib.suppress(LaptimeError):
        read_source(find_workload("cifar-cnn"), Path(path), 0)
    place = Path(path)
    if place.is_file():
        read_part(place, TRAIN_FILES[:1], None)


def read_module(path: str) -> None:
    find_subject(f"{path}:training")


def read_manifest(path: str) -> None:
    describe_set(Path(path).parent)


READ = {"image": read_image, "archive": read_archive, "module": read_module, "manifest": read_manifest}


class TooSlowError(Exception):
    """A file took longer than any sound one."""


def _too_slow(_number: int, _frame: object) -> None:
    raise TooSlowError


def answer_to(read: Callable[[str], None], path: str) -> str:
    began_s = time.monotonic()
    signal.alarm(LONGEST_S)
    try:
        read(path)
    except LaptimeError as error:
        return "ok" if error.says else "an error without a word"
    except TooSlowError:
        return f"it took longer than {LONGEST_S} s"
    except BaseException as error:  # noqa: BLE001  that is what is looked for
        return f"{type(error).__name__}: {str(error)[:200]!r}"
    finally:
        signal.alarm(0)
    if time.monotonic() - began_s > LONGEST_S:
        return f"it took longer than {LONGEST_S} s"
    return "ok"


def most_bytes() -> int:
    """Return the most memory that this process has held since the mark was last taken down."""
    rows = Path("/proc/self/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("VmHWM")) * 1024


def main() -> None:
    signal.signal(signal.SIGALRM, _too_slow)
    resource.setrlimit(resource.RLIMIT_AS, (ALL_BYTES, ALL_BYTES))
    read = READ[sys.argv[1]]
    for line in sys.stdin.buffer.read().split(b"\0"):
        if line:
            before = psutil.Process().memory_info().rss
            answer = answer_to(read, os.fsdecode(line))
            peak = most_bytes()
            if answer == "ok" and peak - before > MOST_BYTES:
                answer = f"it took {(peak - before) / 1e9:.1f} GB"
            Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins again
            sys.stdout.write(answer.replace("\n", " ") + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
