"""Forks the heats of a forked command. Importing laptime takes a heat a quarter of a second, PyTorch 3 s, Keras 4 s.

A guardian and its heat are still processes of their own, with the pipes, session, environment and end that they have
when a command starts them. Only what `exec` does is done here: descriptors are closed, signals and warnings are as in a
new Python. `command_server.py` uses it where all lanes are of one of the `KINDS`, and tests with many fake heats of
their own do, too. A framework is imported and has computed nothing, as in a heat that waits for its turn
(`run/turns.py`). These start as users start them: heats for whose framework an environment variable counts that
the server does not have, other frameworks, and whatever `House.start` or `House.run(..., starts="cold")` starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import runpy
import signal
import subprocess
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from laptime.engine.backends import open_backend
from laptime.engine.run import guardian
from laptime.engine.run.child import GUARDIAN
from laptime.model.frameworks import FRAMEWORKS

# The frameworks that one process imports, and whose heats it forks. A lane of plain Python next to PyTorch's runs code
# that imports PyTorch; next to JAX's it may not, and JAX would be among its versions.
KINDS = {
    "fake": ("fake",),
    "python": ("python",),
    "torch": ("torch", "python"),
    "keras-torch": ("torch", "keras-torch"),
    "jax": ("jax",),
}
IGNORED = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
COUNTING = ("PYTHON", "LD_", "LC_", "LANG")  # a fake does not care how its memory is kept
# What the environment of a real heat may have for itself: none of these frameworks reads it as it is imported. The last
# are set by frameworks that a test has imported.
HARMLESS = ("LAPTIME_", "XLA_PYTHON_", "TF_FORCE_", "PYTEST_", "COLUMNS", "LINES", "NO_COLOR", "TERM")
HARMLESS += ("TF_CPP_", "TF2_", "TPU_", "ENABLE_RUNTIME_", "HDF5_PLUGIN_", "TORCHINDUCTOR_CACHE_", "PYTORCH_NVML_")
# glibc reads these as a process starts, and takes them later by `mallopt` too: <malloc.h>. PyTorch's lanes set the
# number of threads themselves before they compute.
KEEPS_MEMORY = {"MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_TOP_PAD_": -2, "MALLOC_MMAP_THRESHOLD_": -3}
LARGEST_INT = 2**31 - 1
OF_TORCH = (*KEEPS_MEMORY, "OMP_NUM_THREADS", "MKL_NUM_THREADS", "JAX_")
READ_LATER = {"python": (*KEEPS_MEMORY, "JAX_"), "torch": OF_TORCH, "keras-torch": OF_TORCH, "jax": (*KEEPS_MEMORY,)}
BEGAN_WITH = dict(os.environ)
PLAIN_POPEN = subprocess.Popen


class ForkingPopen(PLAIN_POPEN):  # type: ignore[type-arg]
    """Starts what it has to; a guardian goes on in the forked process, and never comes to its `exec`."""

    kind = "fake"

    def __init__(self, command: Any, *further: Any, **options: Any) -> None:
        if str(GUARDIAN) in command and _may_fork(options["env"], self.kind):
            words = command[command.index(str(GUARDIAN)) :]
            options["preexec_fn"] = partial(_be_the_guardian, words, options["env"], options["pass_fds"])
        super().__init__(command, *further, **options)


def prepare(kind: str = "fake") -> None:
    """Import what heats of a kind will need, once for all of them."""
    with warnings.catch_warnings(action="ignore"):  # as a heat shows none
        for framework in KINDS[kind]:
            open_backend(framework).warm_up()
    importlib.import_module("laptime.engine.heat.__main__")
    sys.modules.pop("laptime.engine.heat.__main__", None)  # each heat runs it


def find_kind(words: Sequence[str], *, is_fake: bool) -> str:
    """Return the kind of which all lanes are that a command names, or nothing.

    A command that resumes goes on with fake lanes where there are no others.
    """
    lanes = {word.partition("/")[0] for word in words} & {row.name for row in FRAMEWORKS}
    if not is_fake:
        return next((kind for kind, held in KINDS.items() if kind != "fake" and lanes and lanes <= {*held}), "")
    resumes = [*words[:1]] == ["resume"]
    return "fake" if (lanes == {"fake"} or (resumes and not lanes)) and not any(".py" in word for word in words) else ""


def fork_heats(kind: str) -> None:
    """Let all heats of this process be forked: they are of this kind."""
    ForkingPopen.kind = kind
    subprocess.Popen = ForkingPopen  # type: ignore[misc]


def _may_fork(environment: dict[str, str], kind: str) -> bool:
    """Whether no variable differs that counts as a process starts, or as a framework is imported."""
    if kind == "fake":
        counting = {name for name in (*environment, *os.environ) if name.startswith(COUNTING)}
        return all(environment.get(name) == os.environ.get(name) for name in counting)
    harmless = HARMLESS + READ_LATER[kind]
    differing = {name for name, _ in environment.items() ^ BEGAN_WITH.items()}
    return all(name.startswith(harmless) for name in differing)


def _be_the_guardian(words: list[str], environment: dict[str, str], pipes: tuple[int, ...]) -> None:
    gc.freeze()  # what the starting process has left behind is its own to clear away
    _close_all_but(pipes)
    _forget_imports_of_others()
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = words
    guardian._become = _be_the_heat
    guardian.main()


def _be_the_heat(command: list[str], printing_fd: int) -> None:
    """Leave the guardian as Python leaves a new process that was told to run `-P -m laptime.engine.heat`."""
    os.dup2(printing_fd, 1)
    os.dup2(printing_fd, 2)
    signal.set_wakeup_fd(-1)
    for number in guardian.WAKING:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python does when it starts; the guardian's start undid it
    pipes = command[command.index("laptime.engine.heat") + 1 :]  # a template also has a socket
    _close_all_but(tuple(map(int, pipes)))
    warnings.resetwarnings()
    for category in IGNORED:
        warnings.simplefilter("ignore", category)
    subprocess.Popen = PLAIN_POPEN  # type: ignore[misc]
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # a test's own go to files that are closed by now
    del sys.path[0]
    for name, number in KEEPS_MEMORY.items():
        if name in os.environ:
            ctypes.CDLL(None).mallopt(number, min(int(os.environ[name]), LARGEST_INT))
    np.random.seed()  # noqa: NPY002  each process draws others, if it sets no seed
    sys.argv[:] = ["laptime.engine.heat", *pipes]
    runpy.run_module("laptime.engine.heat", run_name="__main__", alter_sys=True)


def _forget_imports_of_others() -> None:
    """Drop modules that the thread of a sensor was importing: nobody is left to finish them and to unlock them."""
    bootstrap: Any = importlib._bootstrap  # type: ignore[attr-defined]
    bootstrap._module_locks.clear()
    bootstrap._blocking_on.clear()
    for name, module in list(sys.modules.items()):
        if getattr(getattr(module, "__spec__", None), "_initializing", False):
            del sys.modules[name]


def _close_all_but(kept: tuple[int, ...]) -> None:
    """Close what `exec` would: with it the pipe on which the starting process waits for that."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        if descriptor > 2 and descriptor not in kept:
            with contextlib.suppress(OSError):
                os.close(descriptor)
