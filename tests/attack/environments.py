"""Hostile surroundings in which a command may be started: one row each, by its family."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from system_calls import IS_POSSIBLE, refuse_call

Step = Callable[[], None]
HOSTILE_NAME = b"caf\xe9 \x1b]0;x\x07 \xff"
NOBODY = 61_234
# Numbers of system calls on x86_64, which old kernels do not have or containers refuse.
CALLS = {
    "pidfd_open": 434,
    "memfd_create": 319,
    "prctl": 157,
    "sched_setaffinity": 203,
    "sched_getaffinity": 204,
    "statx": 332,
    "getrandom": 318,
    "close_range": 436,
    "copy_file_range": 326,
    "fsync": 74,
    "flock": 73,
    "fallocate": 285,
    "inotify_init1": 294,
    "epoll_create1": 291,
    "perf_event_open": 298,
    "prlimit64": 302,
}


@dataclass(frozen=True)
class Environment:
    """How a command is started: variables (None takes one away), steps before it begins, its folder, its wrapper."""

    name: str
    env: dict[str, str | None] = field(default_factory=dict)
    before: tuple[Step, ...] = ()
    cwd: str | None = None
    wrap: tuple[str, ...] = ()
    options: dict[str, object] = field(default_factory=dict)


def all_environments() -> list[Environment]:
    """List them all; those that this machine cannot make are left out."""
    families = (_plain, _streams, _limits, _signals, _variables, _folders, _calls, _namespaces, _users)
    return [row for family in families for row in family()]


def _plain() -> list[Environment]:
    return [Environment("nothing hostile")]


def _streams() -> list[Environment]:
    closed = [
        Environment(f"closed {' '.join(map(str, numbers))}", before=(partial(_close, numbers),))
        for numbers in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
    ]
    odd = [
        Environment(f"{name} is {place}", before=(partial(_point, number, place, flags),))
        for number, name in enumerate(("stdin", "stdout", "stderr"))
        for place, flags in (("/dev/full", os.O_RDWR), ("/dev/null", os.O_RDONLY))
    ]
    gone = [
        Environment(f"the reader of {name} is gone", before=(partial(_break_pipe, number),))
        for number, name in ((1, "stdout"), (2, "stderr"))
    ]
    return [*closed, *odd, *gone]


def _limits() -> list[Environment]:
    mb = 1 << 20
    kinds = (
        (resource.RLIMIT_NOFILE, "descriptors", (16, 20, 24, 32, 64)),
        (resource.RLIMIT_FSIZE, "bytes a file", (0, 1, 1000, 20_000)),
        (resource.RLIMIT_AS, "bytes of addresses", (2000 * mb, 4000 * mb)),
        (resource.RLIMIT_STACK, "bytes of stack", (1 * mb, 64 * mb)),
        (resource.RLIMIT_CORE, "bytes of core", (0,)),
        (resource.RLIMIT_MEMLOCK, "bytes locked", (0,)),
        (resource.RLIMIT_DATA, "bytes of data", (1000 * mb,)),
    )
    limited = [
        Environment(f"at most {most} {name}", before=(partial(_limit, kind, most),))
        for kind, name, values in kinds
        for most in values
    ]
    cores = [Environment("one core", before=(partial(_keep_to_one_core),))] if hasattr(os, "sched_setaffinity") else []
    nice = [Environment(f"nice {step}", before=(partial(_nice, step),)) for step in (1, 19)]
    masks = [Environment(f"umask {mask:03o}", before=(partial(_set_umask, mask),)) for mask in (0, 0o077, 0o777)]
    return [*limited, *cores, *nice, *masks]


def _signals() -> list[Environment]:
    names = ("SIGCHLD", "SIGINT", "SIGTERM", "SIGPIPE", "SIGHUP", "SIGALRM", "SIGUSR1")
    numbers = [(name, getattr(signal, name)) for name in names]
    ignored = [Environment(f"{name} ignored", before=(partial(_ignore, number),)) for name, number in numbers]
    blocked = [Environment(f"{name} blocked", before=(partial(_block, {number}),)) for name, number in numbers]
    return [*ignored, *blocked, Environment("all signals blocked", before=(partial(_block, signal.valid_signals()),))]


def _variables() -> list[Environment]:
    odd = "\x1b]0;x\x07 \udcff"
    places = (
        "",
        "~nouser",
        "~nouser/x",
        "/dev/null",
        "/proc/self",
        "relative",
        "x" * 300,
        "a\nb",
        odd,
        "/proc/nonexistent",
    )
    folders = [
        Environment(f"{name}={place!r:.40}", {name: place})
        for name in ("LAPTIME_HOME", "LAPTIME_CACHE", "HOME", "TMPDIR", "XDG_DATA_HOME", "XDG_CACHE_HOME")
        for place in places
    ]
    rows = {
        "PYTHONIOENCODING": ("ascii", "latin-1", "utf-16", "ascii:replace"),
        "LC_ALL": ("C", "POSIX", "de_DE.ISO-8859-1", "nonsense", "tr_TR.UTF-8"),
        "PYTHONUTF8": ("0", "1"),
        "COLUMNS": ("0", "-1", "1", "7", "99999999999", "x", ""),
        "LINES": ("0", "x"),
        "TERM": ("", "dumb", "nonsense", odd),
        "NO_COLOR": ("", "1"),
        "PATH": ("", "/nonexistent"),
        "TZ": ("", "nonsense", "/dev/null", "Asia/Kathmandu"),
        "PYTHONWARNINGS": ("error", "nonsense"),
        "PYTHONDEVMODE": ("1",),
        "PYTHONOPTIMIZE": ("2",),
        "PYTHONHASHSEED": ("0",),
        "PYTHONMALLOC": ("debug", "malloc"),
        "PYTHONUNBUFFERED": ("1",),
        "PYTHONFAULTHANDLER": ("1",),
        "PYTHONTRACEMALLOC": ("1",),
        "PYTHONINTMAXSTRDIGITS": ("640",),
        "PYTHONBREAKPOINT": ("0",),
        "PYTHONNOUSERSITE": ("1",),
        "PYTHONDONTWRITEBYTECODE": ("",),
        "OMP_NUM_THREADS": ("0", "-1", "x", "100000"),
        "CUDA_VISIBLE_DEVICES": ("", "-1", "x", "99", odd),
        "KERAS_BACKEND": ("nonsense", ""),
        "LAPTIME_HEAT": ("1",),
        "LAPTIME_FAKE": ("/nonexistent", "~nouser", "/dev/null"),
        "container": ("docker", odd),
        "SOURCE_DATE_EPOCH": ("0",),
        "LD_PRELOAD": ("/nonexistent.so",),
        "MALLOC_PERTURB_": ("85",),
    }
    single = [Environment(f"{name}={value!r:.40}", {name: value}) for name, values in rows.items() for value in values]
    without = [Environment(f"no {name}", {name: None}) for name in ("HOME", "PATH", "LANG", "USER", "TERM", "TMPDIR")]
    both = [Environment("C locale without UTF-8", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})]
    unset = dict.fromkeys(("LAPTIME_HOME", "LAPTIME_CACHE", "XDG_DATA_HOME", "XDG_CACHE_HOME"))
    own = [Environment("no LAPTIME_HOME nor LAPTIME_CACHE", {"LAPTIME_HOME": None, "LAPTIME_CACHE": None})]
    lost = [Environment("no folder for anything", {**unset, "HOME": "~nouser"})]
    return [*folders, *single, *without, *both, *own, *lost]


def _folders() -> list[Environment]:
    kinds = ("deleted", "not UTF-8", "with a line end", "with a quote", "very long", "hidden", "unwritable")
    here = [Environment(f"a working folder that is {kind}", cwd=kind) for kind in kinds]
    there = [Environment(f"in {place}", options={"cwd": place}) for place in ("/", "/proc", "/dev", "/sys")]
    return [*here, *there]


def make_folder(kind: str | None, folder: Path) -> Path:
    """Make the working folder of this kind; one that is to be deleted goes when the command begins."""
    if kind == "not UTF-8":
        folder = Path(os.fsdecode(os.fsencode(folder) + b"/" + HOSTILE_NAME))
    elif kind == "with a line end":
        folder /= "a\nb"
    elif kind == "with a quote":
        folder /= 'it\'s "here"; $(touch x)'
    elif kind == "very long":
        folder /= "/".join(["d" * 200] * 12)
    elif kind == "hidden":
        folder /= ".hidden"
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "unwritable":
        folder.chmod(0o555)
    return folder


def _calls() -> list[Environment]:
    if not IS_POSSIBLE:
        return []
    return [
        Environment(f"{name} refused with {word}", before=(partial(refuse_call, number, code),))
        for name, number in CALLS.items()
        for word, code in (("EPERM", errno.EPERM), ("ENOSYS", errno.ENOSYS))
    ]


def _namespaces() -> list[Environment]:
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-Urm", "true"], check=False, capture_output=True).returncode:
        return []
    mounts = {
        "no /proc": "mount -t tmpfs none /proc",
        "no /sys": "mount -t tmpfs none /sys",
        "/tmp that cannot be written": "mount -t tmpfs -o ro none /tmp; mount -t tmpfs -o ro none /var/tmp",
        "no /dev/shm": "mount -t tmpfs -o ro none /dev/shm",
        "cgroups that cannot be read": "mount -t tmpfs none /sys/fs/cgroup",
    }
    mounted = [
        Environment(name, wrap=(unshare, "-Urm", "sh", "-c", f'{how}; exec "$@"', "sh")) for name, how in mounts.items()
    ]
    own = [
        Environment("first process of a container", wrap=(unshare, "-Urmpf", "--mount-proc")),
        Environment("process numbers of another space", wrap=(unshare, "-Urpf")),
        Environment("no network", wrap=(unshare, "-Urn")),
        Environment("another host's name", wrap=(unshare, "-Uru", "sh", "-c", 'hostname "a b;c"; exec "$@"', "sh")),
    ]
    return [*mounted, *own]


def _users() -> list[Environment]:
    """Another user, who may read what this one may (its Python is in a folder of its own), and nothing else."""
    setpriv = shutil.which("setpriv")
    if os.getuid() or setpriv is None:
        return []
    number, reads = str(NOBODY), "+dac_read_search"
    other = (
        setpriv,
        "--reuid",
        number,
        "--regid",
        number,
        "--clear-groups",
        "--inh-caps",
        reads,
        "--ambient-caps",
        reads,
    )
    return [
        Environment("a user that no list names", wrap=other),
        Environment("a user that no list names, without HOME", {"HOME": None}, wrap=other),
        *(
            Environment(f"at most {most} tasks", before=(partial(_limit, resource.RLIMIT_NPROC, most),), wrap=other)
            for most in (2, 3, 5, 8, 12, 20)  # with 1 the system refuses to start Python
        ),
    ]


def _close(numbers: tuple[int, ...]) -> None:
    for number in numbers:
        os.close(number)


def _point(number: int, place: str, flags: int) -> None:
    opened = os.open(place, flags)
    os.dup2(opened, number)
    os.close(opened)


def _break_pipe(number: int) -> None:
    read_fd, write_fd = os.pipe()
    os.dup2(write_fd, number)
    os.close(write_fd)
    os.close(read_fd)


def _limit(kind: int, most: int) -> None:
    resource.setrlimit(kind, (most, most))


def _keep_to_one_core() -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])


def _nice(step: int) -> None:
    os.nice(step)


def _set_umask(mask: int) -> None:
    os.umask(mask)


def _ignore(number: int) -> None:
    signal.signal(number, signal.SIG_IGN)


def _block(numbers: set[int]) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
