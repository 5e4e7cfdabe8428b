"""The container's own limits and how often they held this process back, from control groups (version 2 or 1)."""

from __future__ import annotations

from pathlib import Path

from laptime.model.missing import Missing

ROOT = Path("/sys/fs/cgroup")
PROC = Path("/proc")
# A version 1 group without a limit states a number near 2**63.
NO_LIMIT_BYTES = 1 << 60


def quota_cores(root: Path = ROOT) -> float | Missing:
    """Give how many cores the quota allows."""
    for folder in _folders(root, ""):
        words = _words(folder / "cpu.max")
        if len(words) == 2 and words[0] != "max":
            return int(words[0]) / int(words[1])
    for folder in _folders(root, "cpu"):
        quota, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
        if quota and period and int(quota[0]) > 0:
            return int(quota[0]) / int(period[0])
    return Missing("no processor quota is set")


def memory_limit_bytes(root: Path = ROOT) -> int | Missing:
    """Give how much memory the container may use."""
    places = [folder / "memory.max" for folder in _folders(root, "")]
    places += [folder / "memory.limit_in_bytes" for folder in _folders(root, "memory")]
    for place in places:
        words = _words(place)
        if words and words[0].isdigit() and int(words[0]) < NO_LIMIT_BYTES:
            return int(words[0])
    return Missing("no memory limit is set")


def memory_used_bytes(root: Path = ROOT) -> int | Missing:
    """Give how much memory the container's group holds now, without files that it would give back when asked."""
    for place in memory_used_files(root):
        words = _words(place)
        if words and words[0].isdigit():
            caches = (read_cache_bytes(" ".join(_lines(each))) for each in memory_stat_files(root))
            return max(0, int(words[0]) - next((each for each in caches if each is not None), 0))
    return Missing("no control group counts memory here")


def throttled_ms(root: Path = ROOT) -> float | Missing:
    """Give for how long the quota has held this group back since it was made."""
    for place in throttling_files(root):
        throttled_ns = read_throttled_ns(" ".join(_lines(place)))
        if throttled_ns is not None:
            return throttled_ns / 1e6
    return Missing("no control group counts throttling here")


def memory_used_files(root: Path = ROOT, proc: Path = PROC) -> list[Path]:
    """Give the files that may tell how much memory the group holds, the likeliest first."""
    return _files(root, proc, "memory.current", "memory", "memory.usage_in_bytes")


def memory_peak_files(root: Path = ROOT, proc: Path = PROC) -> list[Path]:
    """Give the files that may tell the most memory that the group has held since it was made."""
    return _files(root, proc, "memory.peak", "memory", "memory.max_usage_in_bytes")


def memory_stat_files(root: Path = ROOT, proc: Path = PROC) -> list[Path]:
    """Give the files that may tell what the group's memory holds, the likeliest first."""
    return _files(root, proc, "memory.stat", "memory", "memory.stat")


def throttling_files(root: Path = ROOT, proc: Path = PROC) -> list[Path]:
    """Give the files that may count throttling, the likeliest first."""
    return _files(root, proc, "cpu.stat", "cpu", "cpu.stat")


def read_throttled_ns(text: str) -> int | None:
    """Find in a cpu.stat for how long its group was held back."""
    words = text.split()
    for name, unit_ns in (("throttled_usec", 1_000), ("throttled_time", 1)):
        if name in words[:-1]:
            return int(words[words.index(name) + 1]) * unit_ns
    return None


def read_cache_bytes(text: str) -> int | None:
    """Find in a memory.stat how much holds files that lie on a disk too: the kernel lets go of it first.

    Version 1 tells a group's own share, and with its groups' together as "total".
    """
    words = text.split()
    told = dict(zip(words[::2], words[1::2], strict=False))
    for names in (("total_active_file", "total_inactive_file"), ("active_file", "inactive_file")):
        if all(told.get(name, "").isdigit() for name in names):
            return sum(int(told[name]) for name in names)
    return None


def _files(root: Path, proc: Path, unified: str, controller: str, separate: str) -> list[Path]:
    together = [folder / unified for folder in _folders(root, "", proc)]
    return together + [folder / separate for folder in _folders(root, controller, proc)]


def _folders(root: Path, controller: str, proc: Path = PROC) -> list[Path]:
    """Give this process's own group first, then the root as a container sees it."""
    own = "/"
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if (controllers == "" and controller == "") or (controller and controller in controllers.split(",")):
            own = path
    base = root / controller if controller else root
    unified = [] if controller else [root / "unified"]
    return [base / own.lstrip("/"), base, *unified]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _words(path: Path) -> list[str]:
    lines = _lines(path)
    return lines[0].split() if lines else []
