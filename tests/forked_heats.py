"""Forks the heats of a forked command, without the quarter second of processor time that each takes to import laptime.

A guardian and its heat are still processes of their own, with the pipes, session, environment and end that they have
when a command starts them. Only what `exec` does is done here: descriptors are closed, signals and warnings are as in a
new Python. `command_server.py` uses it where all lanes are fake, and tests with many fake heats of their own do, too:
frameworks and users' code start as users start them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import runpy
import signal
import subprocess
import sys
import warnings
from functools import partial
from typing import Any

from laptime.model.frameworks import FRAMEWORKS
from laptime.run import guardian
from laptime.run.child import GUARDIAN

# What a heat of the fake imports.
USED_BY_HEATS = ("laptime.heat.__main__", "laptime.backends.fake", "numpy")
IGNORED = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
COUNTING = ("PYTHON", "LD_", "LC_", "LANG")  # a fake does not care how its memory is kept
PLAIN_POPEN = subprocess.Popen


class ForkingPopen(PLAIN_POPEN):  # type: ignore[type-arg]
    """Starts what it has to; a guardian goes on in the forked process, and never comes to its `exec`."""

    def __init__(self, command: Any, *further: Any, **options: Any) -> None:
        if str(GUARDIAN) in command and _may_fork(options["env"]):
            words = command[command.index(str(GUARDIAN)) :]
            options["preexec_fn"] = partial(_be_the_guardian, words, options["env"], options["pass_fds"])
        super().__init__(command, *further, **options)


def prepare() -> None:
    """Import what heats will need, once for all of them."""
    for name in USED_BY_HEATS:
        importlib.import_module(name)
    sys.modules.pop("laptime.heat.__main__", None)  # each heat runs it


def are_fake(words: list[str]) -> bool:
    """Whether a command runs fake lanes alone: it names them, or resumes where there are no others."""
    lanes = {word.partition("/")[0] for word in words} & {row.name for row in FRAMEWORKS}
    resumes = words[:1] == ["resume"]
    return (lanes == {"fake"} or (resumes and not lanes)) and not any(".py" in word for word in words)


def fork_heats() -> None:
    """Let all heats of this process be forked."""
    subprocess.Popen = ForkingPopen  # type: ignore[misc]


def _may_fork(environment: dict[str, str]) -> bool:
    """Whether no variable differs that counts as a process starts."""
    counting = {name for name in (*environment, *os.environ) if name.startswith(COUNTING)}
    return all(environment.get(name) == os.environ.get(name) for name in counting)


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
    """Leave the guardian as Python leaves a new process that was told to run `-P -m laptime.heat`."""
    os.dup2(printing_fd, 1)
    os.dup2(printing_fd, 2)
    signal.set_wakeup_fd(-1)
    for number in guardian.WAKING:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    pipes = command[-2:]
    _close_all_but(tuple(map(int, pipes)))
    warnings.resetwarnings()
    for category in IGNORED:
        warnings.simplefilter("ignore", category)
    subprocess.Popen = PLAIN_POPEN  # type: ignore[misc]
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # a test's own go to files that are closed by now
    del sys.path[0]
    sys.argv[:] = ["laptime.heat", *pipes]
    runpy.run_module("laptime.heat", run_name="__main__", alter_sys=True)


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
