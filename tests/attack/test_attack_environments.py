"""Commands in hostile surroundings: each ends in an answer or in a sentence, and leaves nothing behind.

A dozen of the rows by default, each with a race and one more command, and a third of them a day in `make test`;
LAPTIME_ATTACK=long takes all rows, each with a race and three more (see environments.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from attacking import IS_LONG, THIRDS, in_thirds
from environments import Environment, all_environments, make_folder

PARTS = 24 if IS_LONG else THIRDS
OTHERS_EACH = 3 if IS_LONG else 1
LONGEST_S = 120
RACE = ("race", "cifar-cnn", "fake/cpu", "--heats", "1", "--quiet")
COMMANDS = (
    RACE,
    ("list",),
    ("show", "latest"),
    ("devices", "--framework", "fake"),
    ("devices", "--check", "--framework", "fake"),
    ("plan", "cifar-cnn", "fake/cpu"),
    ("data", "list"),
    ("workloads", "--json"),
    ("profile", "cifar-cnn", "fake/cpu", "--quiet"),
    ("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "2", "--json"),
    ("train", "cifar-cnn", "fake/cpu", "--laps", "1", "--quiet"),
    ("infer", "cifar-cnn", "fake/cpu", "--heats", "1", "--quiet"),
    ("resume", "latest"),
    ("why", "cifar-cnn", "fake/cpu", "--budget", "2s", "--quiet"),
    ("race", "~nouser/x.py:f", "fake/cpu"),
    ("race", "cifar-cnn", "fake/cpu", "--data", "~nouser/x"),
    ("--help",),
)
FEW = (
    "closed 0 1 2",
    "the reader of stderr is gone",
    "at most 16 descriptors",
    "at most 0 bytes a file",
    "SIGCHLD ignored",
    "all signals blocked",
    "LAPTIME_HOME='~nouser'",
    "a working folder that is deleted",
    "a working folder that is not UTF-8",
    "pidfd_open refused with ENOSYS",
    "no /proc",
    "at most 5 tasks",
)
# 0 answered, 2 usage, 3 a lane or a result is lost, 5 a device is missing, 141 the reader is gone.
GOOD_CODES = {0, 2, 3, 5, 141}


ROWS = [row for row in all_environments() if IS_LONG or row.name in FEW]


@pytest.fixture
def yard():
    """Return a folder that other users may walk through, too."""
    folder = Path(tempfile.mkdtemp(prefix="laptime-attack-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(os.fsencode(folder), ignore_errors=True)


@pytest.mark.long
@pytest.mark.parametrize("part", range(1, PARTS + 1) if IS_LONG else in_thirds())
def test_commands_in_hostile_surroundings_end_in_words(yard, tally, part):
    """No traceback, no end by a signal, no process left, no file but in the house."""
    tally.what = f"commands in {len(ROWS)} hostile environments"
    rows = ROWS[part - 1 :: PARTS]
    for number, row in enumerate(rows):
        for place, words in enumerate(_race_and_others(part + number)):
            ground = yard / f"{number}-{place}"
            faults = _try(ground, row, words)
            tally.note(f"{row.name} | laptime {' '.join(words)} | {'; '.join(faults)}" if faults else None)
            shutil.rmtree(os.fsencode(ground), ignore_errors=True)
    tally.check(least=len(rows))


def _race_and_others(number: int) -> tuple[tuple[str, ...], ...]:
    """A race, and the next commands in turn, so that all rows together meet every command."""
    others = COMMANDS[1:]
    return RACE, *(others[(OTHERS_EACH * number + each) % len(others)] for each in range(OTHERS_EACH))


def _try(ground: Path, row: Environment, words: tuple[str, ...]) -> list[str]:
    """Run one command in one environment, in a house of its own; say what went wrong."""
    outside = {name: ground / name for name in ("user", "scratch", "work")}
    house = {name: ground / name for name in ("home", "cache", "data", "caches")}
    for folder in (ground, *outside.values(), *house.values()):
        folder.mkdir()
        folder.chmod(0o777)
    cwd = make_folder(row.cwd, outside["work"])
    mark = f"{ground}"
    own = {
        "LAPTIME_FAKE": "1",
        "LAPTIME_HOME": str(house["home"]),
        "LAPTIME_CACHE": str(house["cache"]),
        "XDG_DATA_HOME": str(house["data"]),
        "XDG_CACHE_HOME": str(house["caches"]),
        "HOME": str(outside["user"]),
        "TMPDIR": str(outside["scratch"]),
        "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
        "ATTACK": mark,
    }
    kept = {
        key: os.environ[key] for key in ("PATH", "LANG", "USER", "TERM", "PYTHONDONTWRITEBYTECODE") if key in os.environ
    }
    env = {key: value for key, value in {**kept, **own, **row.env}.items() if value is not None}
    options = {"cwd": cwd, **row.options}

    def begin() -> None:
        if row.cwd == "deleted":
            cwd.rmdir()
        for step in row.before:
            step()

    process = subprocess.Popen(
        [*row.wrap, sys.executable, "-P", "-m", "laptime", *words],
        env={os.fsencode(key): value.encode("utf-8", "surrogateescape") for key, value in env.items()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=begin,  # noqa: PLW1509  no thread runs here
        **options,
    )
    try:
        out, err = process.communicate(timeout=LONGEST_S)
        faults = []
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        faults = [f"no end within {LONGEST_S} s"]
    said = (out + err).decode("utf-8", "replace")
    if "Traceback" in said or "Exception ignored" in said or "Fatal Python error" in said:
        faults.append(f"a traceback: ...{said[-700:]}")
    if process.returncode not in GOOD_CODES:
        faults.append(f"exit code {process.returncode}: {said[-300:]}")
    faults += [f"still running: {each}" for each in _left_over(mark)]
    named = [
        cwd / value for value in row.env.values() if value and value[0] != "~"
    ]  # a folder named in the row is the house's, too
    strangers = [each for folder in outside.values() for each in _files_below(folder)]
    return faults + [f"a file outside: {each}" for each in strangers if not any(map(each.is_relative_to, named))]


def _left_over(mark: str) -> list[str]:
    """Name the processes of this attempt that are there a second after it ended, and end them."""
    deadline = time.monotonic() + 1
    while (left := [each for each in psutil.process_iter() if _is_of(each, mark)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    names = []
    for each in left:
        with suppress(psutil.Error):
            names.append(" ".join(each.cmdline())[:200])
            each.kill()
    return names


def _is_of(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get("ATTACK") == mark and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def _files_below(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]
