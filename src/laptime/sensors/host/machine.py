"""What the whole machine does: processor time, load, memory, faults, and the control group's memory and throttling."""

from __future__ import annotations

import os
from pathlib import Path

from laptime.model.timeline import Channel
from laptime.sensors import cgroup
from laptime.sensors.host.source import Figures, Source

TICK_S = 1 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01

STAT = (
    Channel("host", "busy_s", "s", "counter"),
    Channel("host", "io_wait_s", "s", "counter"),
    Channel("host", "stolen_s", "s", "counter"),
    Channel("host", "cores_online", "cores"),
    Channel("host", "context_switches", "switches", "counter"),
    Channel("host", "forks", "forks", "counter"),
)
LOAD = (Channel("host", "load_1m", "load"),)
MEMORY = (
    Channel("host", "memory_used_bytes", "bytes"),
    Channel("host", "memory_available_bytes", "bytes"),
    Channel("host", "swap_used_bytes", "bytes"),
)
FAULTS = (
    Channel("host", "page_faults", "faults", "counter"),
    Channel("host", "major_faults", "faults", "counter"),
)
GROUP_USED = (Channel("host", "cgroup_memory_bytes", "bytes"),)
GROUP_CACHE = (Channel("host", "cgroup_cache_bytes", "bytes"),)
GROUP_PEAK = (Channel("host", "cgroup_peak_bytes", "bytes"),)
GROUP_THROTTLED = (Channel("host", "cgroup_throttled_s", "s", "counter"),)


def quick_source(proc: Path) -> Source:
    """Give the processor's times, at every reading."""
    return Source(proc / "stat", STAT, read_stat)


def slow_sources(proc: Path, sys: Path) -> tuple[Source, ...]:
    """Give what changes slowly, is summed up by the kernel itself, or is added up over all cores when it is asked."""
    groups = sys / "fs" / "cgroup"
    used, peak = cgroup.memory_used_files(groups, proc), cgroup.memory_peak_files(groups, proc)
    throttling, held = cgroup.throttling_files(groups, proc), cgroup.memory_stat_files(groups, proc)
    return (
        Source(proc / "loadavg", LOAD, lambda data: [float(data.split(maxsplit=1)[0])]),
        Source(proc / "meminfo", MEMORY, read_meminfo),
        Source(proc / "vmstat", FAULTS, lambda data: [find(data, b"\npgfault "), find(data, b"\npgmajfault ")]),
        Source(used, GROUP_USED, read_number, "no control group counts memory here"),
        Source(held, GROUP_CACHE, read_cache, "no control group tells its cache"),
        Source(peak, GROUP_PEAK, read_number, "no control group tells a peak of memory here"),
        Source(throttling, GROUP_THROTTLED, read_throttled, "no control group counts throttling here"),
    )


def read_stat(data: bytes) -> Figures:
    """Read /proc/stat. Busy is all but idle and waiting, time stolen by a hypervisor included."""
    user, nice, system, _idle, wait, irq, softirq, steal = map(int, data[: data.index(b"\n")].split()[1:9])
    busy = user + nice + system + irq + softirq + steal
    cores = data.count(b"\ncpu") or None
    return [busy * TICK_S, wait * TICK_S, steal * TICK_S, cores, find(data, b"\nctxt "), find(data, b"\nprocesses ")]


def read_meminfo(data: bytes) -> Figures:
    total, available = find(data, b"MemTotal:"), find(data, b"\nMemAvailable:")
    swap, swap_free = find(data, b"\nSwapTotal:"), find(data, b"\nSwapFree:")
    return [
        None if total is None or available is None else (total - available) * 1024,
        None if available is None else available * 1024,
        None if swap is None or swap_free is None else (swap - swap_free) * 1024,
    ]


def read_number(data: bytes) -> Figures:
    return [int(data)]


def read_cache(data: bytes) -> Figures:
    return [cgroup.read_cache_bytes(data.decode())]


def read_throttled(data: bytes) -> Figures:
    throttled_ns = cgroup.read_throttled_ns(data.decode())
    return [None if throttled_ns is None else throttled_ns / 1e9]


def find(data: bytes, word: bytes) -> int | None:
    """Give the number that stands behind a word."""
    place = data.find(word)
    return None if place < 0 else int(data[place + len(word) : place + len(word) + 32].split(maxsplit=1)[0])
