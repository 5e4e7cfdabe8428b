"""What the whole-program tests share: a house of its own for each test, and the real command run in it."""

from __future__ import annotations

import compileall
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attacking import sums_of

import forked_heats as forking
import laptime
from command_server import BRIEF_TRIES
from house import House, real_house
from laptime.machine import core_score

MOST_PROCESSES = 8
# One test of it takes as long as hundreds of others, which are done meanwhile.
FIRST = "test_keras_contract.py"

SOURCES = Path(__file__).parents[1] / "src" / "laptime"
# What is compiled is compiled before all tests: a command whose disk is full would leave half a file for the others.
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
# As in an activated environment: the Python of the tests is the one that runs scripts.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
sys.dont_write_bytecode = False  # the tests' own, as pytest rewrites them, are kept for the next time

laptime.keep_memory()  # a quarter of the time of PyTorch's tests in this process would be page faults


def pytest_configure(config: pytest.Config) -> None:
    """Compile all of laptime once; else each of the hundreds of commands that are run would do so for itself."""
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(SOURCES, quiet=2)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: else one process would be at it while the others are done."""
    items.sort(key=lambda item: item.path.name != FIRST)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many attacks there were, also where other processes have tried them."""
    for line in sums_of([*terminalreporter.getreports(""), *terminalreporter.getreports("failed")]):
        terminalreporter.write_line(line)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes run tests: three for two cores, since a fifth of a test's time is waiting."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores + cores // 2, MOST_PROCESSES)


def _keep_to_own_cores() -> None:
    """Where tests run side by side, each process keeps to its cores: a training of several threads waits ten times as
    long for a core that it has to share. What a test starts keeps to them too, and laptime takes as many threads as it
    may use cores.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None or not hasattr(os, "sched_setaffinity"):
        return
    cores, workers = sorted(os.sched_getaffinity(0)), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    own = cores[int(worker.removeprefix("gw")) % len(cores) :: workers]
    if own:
        os.sched_setaffinity(0, own)


_keep_to_own_cores()


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def forked_heats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the fake heats forked that a test starts from its own process."""
    forking.prepare()
    monkeypatch.setattr(subprocess, "Popen", forking.ForkingPopen)
    monkeypatch.setattr(core_score, "SCORE_TRIES", BRIEF_TRIES)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all test processes of this session share."""
    ours = tmp_path_factory.getbasetemp()
    return ours.parent if "PYTEST_XDIST_WORKER" in os.environ else ours


@pytest.fixture(scope="session")
def torch_cache(shared_folder: Path) -> Path:
    """Return one cache to the trainings of all test processes, so that each float64 reference is computed once."""
    return shared_folder / "shared-cache" / "laptime"


@pytest.fixture(scope="session")
def made_once(shared_folder: Path) -> Callable[[str, Callable[[Path], Any]], Any]:
    """Return what makes a thing once for all test processes, in a folder of its own, and returns it as JSON.

    Tests of one fixture may be run by several processes: the first that asks makes it, the others wait for it.
    """

    def make_once(name: str, make: Callable[[Path], Any]) -> Any:
        folder = shared_folder / "made-once" / name
        folder.mkdir(parents=True, exist_ok=True)
        made = folder / "made.json"
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                made.write_text(json.dumps(make(folder)), encoding="utf-8")
        return json.loads(made.read_bytes())

    return make_once


@pytest.fixture
def take_records_of(made_once: Callable[[str, Callable[[Path], Any]], Any], torch_cache: Path) -> Callable[..., None]:
    """Return what runs a command once for all test processes, and gives a house its records as if it had run there."""

    def take(house: House, *words: str) -> None:
        def run(folder: Path) -> str:
            first = House(folder)
            first.fake, first.cache = house.fake, torch_cache
            first.done(*words)
            return str(first.home)

        script = Path(house.fake).read_text(encoding="utf-8") if house.fake != "1" else ""
        name = hashlib.sha256(repr((words, script)).encode()).hexdigest()[:16]
        shutil.copytree(made_once(name, run), house.home)

    return take


@pytest.fixture(scope="session")
def common_house(shared_folder: Path, torch_cache: Path) -> House:
    """Return the house of the real races that all test processes share: any of them can show their records."""
    folder = shared_folder / "common-house"
    folder.mkdir(exist_ok=True)
    return real_house(folder, torch_cache)


@pytest.fixture(scope="module")
def torch_house(tmp_path_factory: pytest.TempPathFactory, torch_cache: Path) -> House:
    """Return a house in which real trainings run, to all tests of a module."""
    return real_house(tmp_path_factory.mktemp("house"), torch_cache)


@pytest.fixture(scope="module")
def shared_house(tmp_path_factory: pytest.TempPathFactory, torch_cache: Path) -> House:
    """Return a house to all tests of a module, for commands that change nothing in it."""
    house = House(tmp_path_factory.mktemp("house"))
    house.cache = torch_cache
    return house


@pytest.fixture
def known_references(house: House, torch_cache: Path) -> None:
    """Let a test's house take the float64 references that others had computed: a fake's is the same for any script."""
    house.cache = torch_cache
