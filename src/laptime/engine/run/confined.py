"""Starts heats in sandboxes, and finds what they leave behind all the same: a later one could read it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from laptime.engine.run.child import OWN_FOLDERS
from laptime.engine.run.launchers import LocalLauncher
from laptime.model.plan import PlannedLane
from laptime.model.process import SHM_FOLDER, Sandbox

NAMESPACES_S = 30.0  # to start Python; they take some milliseconds
Traces = dict[str, tuple[int, int, int]]
"""Files and folders of this user, by their paths: the number of each, its size, and when it was changed."""


class ConfinedLauncher(LocalLauncher):
    """Starts children in sandboxes. It is made before the first of them.

    In the folders `written` a child may write, where the system allows layers; else nowhere but in its own.
    """

    def __init__(self, written: Sequence[Path] = ()) -> None:
        self._shared = _list_traces(SHM_FOLDER)
        # The folders that are in none of the others
        found = {folder.resolve() for folder in written}
        outermost = sorted(folder for folder in found if not any(other in folder.parents for other in found))
        layered = tuple(map(str, filter(_may_have_layer, outermost)))
        if layered and _allows(*layered):
            self._sandbox = Sandbox(has_namespaces=True, layered=layered)
        else:
            self._sandbox = Sandbox(has_namespaces=_allows())

    def sandbox_for(self, lane: PlannedLane | None) -> Sandbox:
        return self._sandbox if lane is None else replace(self._sandbox, files=lane.writes, has_ranks=lane.is_ranked)

    def find_left(self, *, shares_memory: bool) -> tuple[str, ...]:
        """Return what children left behind; none of them may be alive. Shared memory counts where it is not their own.

        What another program of this user puts there meanwhile cannot be told apart.
        """
        folders = _list_traces(tempfile.gettempdir(), f"{OWN_FOLDERS}{os.getpid()}-")
        now = _list_traces(SHM_FOLDER) if shares_memory else {}
        return (*folders, *(path for path, trace in now.items() if self._shared.get(path) != trace))


def _may_have_layer(folder: Path) -> bool:
    """Whether a layer hides nothing there: no other file system, and not the temporary folder of the heats."""
    if not sys.platform.startswith("linux"):
        return False
    mounts = [Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines()]
    hidden = [*mounts, Path(tempfile.gettempdir()).resolve()]
    return not any(folder in place.parents for place in hidden) and not {",", ":", "\\"} & {*str(folder)}


def _allows(*layered: str) -> bool:
    """Try namespaces and layers in a process of its own: some systems refuse halfway, where there is no way back."""
    if not sys.platform.startswith("linux"):
        return False
    with contextlib.suppress(OSError, subprocess.SubprocessError), tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-P", "-m", "laptime.engine.heat.sandbox", folder, *layered]
        return not subprocess.run(words, capture_output=True, check=False, timeout=NAMESPACES_S).returncode
    return False


def _list_traces(folder: str, begin: str = "") -> Traces:
    found: Traces = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if entry.name.startswith(begin) and status.st_uid == os.geteuid():
                    found[entry.path] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found
