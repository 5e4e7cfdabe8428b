"""Findings about processor and memory of the host: quota, threads, page faults, swap, memory, clocks."""

from __future__ import annotations

from laptime.diagnosis.seen import Seen
from laptime.model.missing import Missing
from laptime.model.record import Finding

THROTTLED_SHARE = 0.02
PAGE_BYTES = 4096
FAULTS_BYTES_A_STEP = 8 << 20
FAULTS_SHARE = 0.05  # of a step, at a quarter of a microsecond a page: what zeroing and mapping one costs at least
FAULT_NS = 250
SWAPPED_BYTES = 64 << 20
FULL = 0.95


def held_back_by_quota(seen: Seen) -> Finding | None:
    """The container's quota stopped the heat's threads."""
    share = seen.growth_per_s("host", "cgroup_throttled_s")
    if share is None or share <= THROTTLED_SHARE:
        return None
    quota = seen.machine.processor.quota_cores
    cores = "" if isinstance(quota, Missing) else f" of {quota:g} cores"
    return Finding(
        "processor limited",
        f"{seen.lane.name}: the container's quota{cores} held it back for {100 * share:.0f} % of the time.",
        {"throttled_share": share},
        f"Take no more threads than the quota has cores (threads={_whole(quota)}), or raise the quota.",
        "proven",
    )


def more_threads_than_cores(seen: Seen) -> Finding | None:
    """They wait for each other in turns."""
    threads, cores = seen.lane.settings.threads, seen.machine.processor.cores_usable
    if threads is None or threads <= cores or seen.lane.device.kind != "cpu":
        return None
    return Finding(
        "threads above cores",
        f"{seen.lane.name}: {threads} threads share {cores} cores.",
        {"threads": threads, "cores": cores},
        f"Race threads={cores} beside it.",
        "likely",
    )


def faults_each_step(seen: Seen) -> Finding | None:
    """Memory that was given back in one step is fetched again in the next, page by page."""
    rate = seen.growth_per_s("heat", "minor_faults")
    if rate is None or not seen.heats:
        return None
    step_ms = sum(heat.step_ms for heat in seen.heats) / len(seen.heats)
    faults = rate * step_ms / 1e3
    if faults * PAGE_BYTES < FAULTS_BYTES_A_STEP or faults * FAULT_NS / 1e6 < FAULTS_SHARE * step_ms:
        return None
    keeps = seen.lane.settings.malloc == "keep"
    advice = (
        "malloc=keep is set already: a loader or a copy makes new arrays each step."
        if keeps
        else "Race malloc=keep beside it: freed memory then stays in the process."
    )
    return Finding(
        "page faults",
        f"{seen.lane.name}: {faults:,.0f} page faults a step, {faults * PAGE_BYTES / 1e6:,.0f} MB fetched anew.",
        {"faults_per_step": faults, "step_ms": step_ms},
        advice,
        "likely",
    )


def swapping(seen: Seen) -> Finding | None:
    """Memory lies on a disk."""
    swapped = max(seen.values("host", "swap_used_bytes"), default=0.0)
    faults = seen.growth_per_s("heat", "major_faults") or 0.0
    if swapped < SWAPPED_BYTES or faults < 1:
        return None
    return Finding(
        "swap in use",
        f"{seen.lane.name}: {swapped / 1e9:.1f} GB lie in swap, and {faults:.0f} pages a second came from a disk.",
        {"swap_bytes": swapped, "major_faults_per_s": faults},
        "Free memory, or take a smaller batch.",
        "likely",
    )


def full_memory(seen: Seen) -> Finding | None:
    """The container's limit, or the machine's memory, is nearly used up.

    Files that were read stay in memory for as long as there is room, and count as a container's: they are not in use.
    """
    limit = seen.machine.memory_limit_bytes
    used = max(seen.values("host", "cgroup_memory_bytes"), default=0.0)
    used -= max(seen.values("host", "cgroup_cache_bytes"), default=0.0)
    free = min(seen.values("host", "memory_available_bytes"), default=None)
    total = seen.machine.memory_bytes
    if not isinstance(limit, Missing) and limit < total and used > FULL * limit:
        what, share = f"{used / 1e9:.1f} of the {limit / 1e9:.1f} GB that the container may use", used / limit
    elif free is not None and free < (1 - FULL) * total:
        what, share = f"all but {free / 1e9:.1f} of {total / 1e9:.1f} GB", 1 - free / total
    else:
        return None
    return Finding(
        "memory full",
        f"{seen.lane.name}: {what} were in use.",
        {"share": share},
        "The system ends processes that go beyond; take a smaller batch, or fewer workers.",
        "likely",
    )


def _whole(quota: float | Missing) -> str:
    return "N" if isinstance(quota, Missing) else str(max(1, int(quota)))
