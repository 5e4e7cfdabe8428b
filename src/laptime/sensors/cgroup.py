"""The container's own limits and how often they held this process back, from control groups (version 2 or 1)."""

from __future__ import annotations

from pathlib import Path

from laptime.model.missing import Missing

ROOT = Path("/sys/fs/cgroup")
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
    """Give how much memory the container's group holds now."""
    places = [folder / "memory.current" for folder in _folders(root, "")]
    places += [folder / "memory.usage_in_bytes" for folder in _folders(root, "memory")]
    for place in places:
        words = _words(place)
        if words and words[0].isdigit():
            return int(words[0])
    return Missing("no control group counts memory here")


def throttled_ms(root: Path = ROOT) -> float | Missing:
    """Give for how long the quota has held this group back since it was made."""
    for folder in [*_folders(root, ""), *_folders(root, "cpu")]:
        stat = dict(line.split()[:2] for line in _lines(folder / "cpu.stat") if len(line.split()) >= 2)
        if "throttled_usec" in stat:
            return int(stat["throttled_usec"]) / 1e3
        if "throttled_time" in stat:
            return int(stat["throttled_time"]) / 1e6
    return Missing("no control group counts throttling here")


def _folders(root: Path, controller: str) -> list[Path]:
    """Give this process's own group first, then the root as a container sees it."""
    own = "/"
    for line in _lines(Path("/proc/self/cgroup")):
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
