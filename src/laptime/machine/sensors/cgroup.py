"""How many cores and how much memory this process may use: its affinity, and control groups (version 2 or 1)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from laptime.machine.sensors.base import read_lines
from laptime.model.quantities import Missing

ROOT = Path("/sys/fs/cgroup")
PROC = Path("/proc")
# A version 1 group without a limit reports a number near 2**63.
NO_LIMIT_BYTES = 1 << 60
# Quotas are quotients of whole microseconds: a whole number of cores may come out slightly lower.
QUOTA_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class _Group:
    """A group: its folder, and its path from the root of its hierarchy."""

    folder: Path
    path: str


@dataclass(frozen=True, slots=True)
class _Quota:
    """How many cores a group may use at once."""

    cores: float
    folder: Path
    path: str


def usable_cores(root: Path = ROOT, proc: Path = PROC) -> int:
    """Return the whole cores within affinity and quota, at least one.

    A quota is rounded down. With one thread too many, all threads stop in each period of 0.1 s until it ends, and every
    step waits for the slowest thread: two threads on 1.5 cores are held back a quarter of the time, one never is.
    """
    quota = quota_cores(root, proc)
    allowed = len(allowed_cores())
    return allowed if isinstance(quota, Missing) else max(1, min(allowed, int(quota + QUOTA_ROUNDING)))


def allowed_cores(pid: int = 0) -> frozenset[int]:
    """Return the cores on which a process may run, by its affinity; all cores where the system has no affinity."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(pid))
    return frozenset(range(os.cpu_count() or 1))


def quota_cores(root: Path = ROOT, proc: Path = PROC) -> float | Missing:
    """Return how many cores the tightest quota allows, of this process's group and of all groups above it."""
    tightest = _tightest_quota(root, proc)
    return Missing("no processor quota is set") if tightest is None else tightest.cores


def memory_limit_bytes(root: Path = ROOT, proc: Path = PROC) -> int | Missing:
    """Return the tightest memory limit of this process's group and of all groups above it."""
    limits = _memory_limits(root, proc)
    return min(limits.values()) if limits else Missing("no memory limit is set")


def memory_left_bytes(root: Path = ROOT, proc: Path = PROC) -> int | Missing:
    """Return how much more memory the groups allow; each limit counts the use of its own group.

    Files that were read stay in memory, and the kernel frees them when it needs room: they are not in use.
    """
    left: list[int] = []
    for folder, limit in _memory_limits(root, proc).items():
        for name in ("memory.current", "memory.usage_in_bytes"):
            words = _words(folder / name)
            if words and words[0].isdigit():
                cache_bytes = read_cache_bytes(" ".join(read_lines(folder / "memory.stat"))) or 0
                left.append(limit - max(0, int(words[0]) - cache_bytes))
                break
    return max(0, min(left)) if left else Missing("no control group limits memory and counts it")


def memory_used_files(root: Path = ROOT, proc: Path = PROC) -> list[Path]:
    """Return the files that may report the memory use: of the group with the tightest limit first, then of our own."""
    return _memory_files(root, proc, "memory.current", "memory.usage_in_bytes")


def memory_stat_files(root: Path = ROOT, proc: Path = PROC) -> list[Path]:
    """Return the files that may report what the memory holds, in the same order."""
    return _memory_files(root, proc, "memory.stat", "memory.stat")


def throttling_files(root: Path = ROOT, proc: Path = PROC) -> list[Path]:
    """Return the files that may count throttling: of the group with the tightest quota first, then of our own."""
    tightest = _tightest_quota(root, proc)
    own = [group.folder / "cpu.stat" for group in (*_groups(root, "", proc), *_groups(root, "cpu", proc))]
    return own if tightest is None else [tightest.folder / "cpu.stat", *own]


def quota_used_files(root: Path = ROOT, proc: Path = PROC) -> list[Path]:
    """Return the files that may report the processor time of all processes under the tightest quota."""
    tightest = _tightest_quota(root, proc)
    if tightest is None:
        return []
    return [tightest.folder / "cpu.stat", root / "cpuacct" / tightest.path / "cpuacct.usage"]


def read_used_ns(text: str) -> int | None:
    """Return how long a group's processes ran, from a cpu.stat or a cpuacct.usage."""
    words = text.split()
    if "usage_usec" in words[:-1]:
        return int(words[words.index("usage_usec") + 1]) * 1_000
    return int(words[0]) if len(words) == 1 else None


def read_throttled_ns(text: str) -> int | None:
    """Return for how long a group was held back, from a cpu.stat."""
    words = text.split()
    for name, unit_ns in (("throttled_usec", 1_000), ("throttled_time", 1)):
        if name in words[:-1]:
            return int(words[words.index(name) + 1]) * unit_ns
    return None


def read_cache_bytes(text: str) -> int | None:
    """Return how much memory holds files that are also on a disk, from a memory.stat; the kernel frees it first.

    Version 1 reports a group's own share, and the sum with its subgroups as "total".
    """
    words = text.split()
    figures = dict(zip(words[::2], words[1::2], strict=False))
    for names in (("total_active_file", "total_inactive_file"), ("active_file", "inactive_file")):
        if all(figures.get(name, "").isdigit() for name in names):
            return sum(int(figures[name]) for name in names)
    return None


def _tightest_quota(root: Path, proc: Path) -> _Quota | None:
    found = []
    for group in _groups(root, "", proc):
        words = _words(group.folder / "cpu.max")
        if len(words) == 2 and words[0] != "max":
            found.append(_Quota(int(words[0]) / int(words[1]), group.folder, group.path))
    for group in _groups(root, "cpu", proc):
        quota = _words(group.folder / "cpu.cfs_quota_us")
        period = _words(group.folder / "cpu.cfs_period_us")
        if quota and period and int(quota[0]) > 0:
            found.append(_Quota(int(quota[0]) / int(period[0]), group.folder, group.path))
    return min(found, key=lambda quota: quota.cores, default=None)


def _memory_limits(root: Path, proc: Path) -> dict[Path, int]:
    """Return the limit of each group that has one, by the group's folder."""
    places = [group.folder / "memory.max" for group in _groups(root, "", proc)]
    places += [group.folder / "memory.limit_in_bytes" for group in _groups(root, "memory", proc)]
    words_of = {place.parent: _words(place) for place in places}
    return {
        folder: int(words[0])
        for folder, words in words_of.items()
        if words and words[0].isdigit() and int(words[0]) < NO_LIMIT_BYTES
    }


def _memory_files(root: Path, proc: Path, unified: str, separate: str) -> list[Path]:
    together = [group.folder / unified for group in _groups(root, "", proc)]
    places = together + [group.folder / separate for group in _groups(root, "memory", proc)]
    limits = _memory_limits(root, proc)
    return sorted(places, key=lambda place: limits.get(place.parent, NO_LIMIT_BYTES))


def _groups(root: Path, controller: str, proc: Path) -> list[_Group]:
    """Return the group of this process and all groups above it, up to the root as a container sees it."""
    own = "/"
    for line in read_lines(proc / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if (controllers == "" and controller == "") or (controller and controller in controllers.split(",")):
            own = path
    bases = [root / controller] if controller else [root, root / "unified"]
    paths = [own.strip("/")]
    while paths[-1]:
        paths.append(paths[-1].rpartition("/")[0])
    return [_Group(base / path, path) for base in bases for path in paths if ".." not in path.split("/")]


def _words(path: Path) -> list[str]:
    lines = read_lines(path)
    return lines[0].split() if lines else []
