"""Made-up /proc and /sys for the sensors: a few files under a folder, and a clock that shows what it is set to."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

STAT = "cpu  100 10 50 800 40 5 5 30 20 0\ncpu0 50 5 25 400 20 2 3 15 10 0\ncpu1 50 5 25 400 20 3 2 15 10 0\n"
MACHINE = {
    "proc/stat": STAT + "intr 9 0 0\nctxt 5000\nbtime 1\nprocesses 321\nprocs_running 1\n",
    "proc/loadavg": "1.25 0.50 0.10 1/88 4000\n",
    "proc/meminfo": "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 400 kB\nSwapTotal: 200 kB\nSwapFree: 150 kB\n",
}


def lay_out(root: Path, files: Mapping[str, str]) -> None:
    for place, text in files.items():
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def stat_line(
    pid: int, *, state: str = "S", parent: int = 1, ticks=(0, 0, 0, 0), faults=(0, 0, 0, 0), threads=1
) -> str:
    """Return /proc/PID/stat of a process whose name would mislead who looks for blanks."""
    fields = [state, parent, 1, 1, 0, -1, 0, *faults, *ticks, 20, 0, threads, 0, 999, 1, 2]
    return f"{pid} (a) b (c) " + " ".join(map(str, fields)) + "\n"


def process(pid: int, *, children: str = "", resident_pages: int = 10, **stat) -> dict[str, str]:
    """Return the files of a process with one thread."""
    return {
        f"proc/{pid}/stat": stat_line(pid, **stat),
        f"proc/{pid}/statm": f"100 {resident_pages} 3 1 0 5 0\n",
        f"proc/{pid}/task/{pid}/children": children,
    }


class Clock:
    """A clock that shows what it is set to, so it may jump."""

    def __init__(self) -> None:
        self.now_ns = 10**12

    def __call__(self) -> int:
        return self.now_ns

    def forward(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


def by_name(opened, figures) -> dict[tuple[str, str], float | None]:
    """Return a reading as device and name -> figure."""
    return {(each.device, each.name): figure for each, figure in zip(opened.channels, figures, strict=True)}


def reasons(opened) -> dict[tuple[str, str], str]:
    return {(channel.device, channel.name): why.missing for channel, why in opened.absent}


def open_files() -> list[str]:
    """Return what this process holds open."""
    targets = []
    for place in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            targets.append(str(place.readlink()))
    return targets
