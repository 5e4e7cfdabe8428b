"""Who else computes on a card: processes on it that are not of the heat's tree."""

from __future__ import annotations

import os
from typing import Any

import psutil

from laptime.model.missing import Missing
from laptime.sensors.nvml.memory import ask_memory
from laptime.sensors.nvml.question import Answer, Ask, Place
from laptime.sensors.nvml.session import NOT_SUPPORTED

# A context alone takes more than this; what a card without any holds is less (3 MiB on an H200).
A_CONTEXT_BYTES = 64 << 20
HIDDEN = Missing("the card's memory is in use, yet its list of processes is empty, as it can be in a container")


def begin_foreign(at: Place) -> Ask:
    """An empty list is taken for the truth only while the card's memory is empty too: some containers see none.

    A process that cannot be found here has just ended, or is of another container: it may be anybody's.
    """

    def ask() -> tuple[Answer, Answer]:
        held = list_processes(at.nvml, at.card.handle)
        if not held:
            used = ask_memory(at.nvml, at.card.handle).used_bytes
            return (0.0, 0.0) if used < A_CONTEXT_BYTES else (HIDDEN, HIDDEN)
        try:
            foreign = {pid: held_bytes for pid, held_bytes in held.items() if not is_in_tree(pid, at.pid)}
        except ProcessLookupError:
            return None, None
        known = [each for each in foreign.values() if each is not None]
        memory = float(sum(known)) if len(known) == len(foreign) else Missing("NVML does not tell a process's memory")
        return float(len(foreign)), memory

    return ask


def list_processes(nvml: Any, handle: Any) -> dict[int, int | None]:
    """Give each process on a card with what it holds there; one that computes and draws is in both of NVML's lists."""
    held: dict[int, int | None] = {}
    for each in [*nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle), *_drawing(nvml, handle)]:
        told = None if each.usedGpuMemory is None else int(each.usedGpuMemory)
        before = held.get(int(each.pid))
        held[int(each.pid)] = told if before is None else max(before, told or 0)
    return held


def _drawing(nvml: Any, handle: Any) -> list[Any]:
    """Cards that only compute have no such list."""
    try:
        return list(nvml.nvmlDeviceGetGraphicsRunningProcesses_v3(handle))
    except nvml.NVMLError as error:
        if error.value != NOT_SUPPORTED:
            raise
        return []


def is_in_tree(pid: int, root: int) -> bool:
    """Tell whether a process descends from another, or is left over in the session that it leads.

    Raises ProcessLookupError where there is no such process.
    """
    if pid == root:
        return True
    try:
        os.kill(pid, 0)
        return os.getsid(pid) == root or any(each.pid == root for each in psutil.Process(pid).parents())
    except (PermissionError, psutil.AccessDenied):
        return False  # another user's; the heat's are our own
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError(pid) from error
