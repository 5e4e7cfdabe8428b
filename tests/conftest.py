"""What the whole-program tests share: a house of its own for each test, and the real command run in it."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
from itertools import chain, islice
from pathlib import Path

import pytest

import forked_heats as forking
import laptime
from house import House

LONGEST_REAL_S = 400
MOST_PROCESSES = 8
# The longest first: seconds of one core, as of 2026-11-24.
LONGEST = (
    "test_keras_contract.py",  # 120
    "test_attach_programs.py",  # 41
    "test_cli_torch_races.py",  # 31
    "test_cli_keras.py",  # 31
    "test_library_notebook.py",  # 28
    "test_cli_files.py",  # 25
    "test_honest_contract.py",  # 25
    "test_cli_scripts.py",  # 24
    "test_cli_ranks.py",  # 22
    "test_cli_python.py",  # 21
    "test_torch_proof.py",  # 21
    "test_attack_environments.py",  # 20
    "test_cli_torch_full.py",  # 18
    "test_cli_outputs.py",  # 16
    "test_steps_rooms.py",  # 16
    "test_library_calls.py",  # 15
    "test_cli_watched.py",  # 15
    "test_nvml_doctor.py",  # 14
    "test_cli_profile.py",  # 14
    "test_run_endings.py",  # 13
    "test_cli_resume.py",  # 13
    "test_pipelines_loaders.py",  # 13
    "test_torch_learner.py",  # 12
    "test_torch_denormals.py",  # 12
    "test_alone_framework.py",  # 12
    "test_cli_signals.py",  # 12
    "test_cli_torch_infer.py",  # 11
    "test_cli_jax.py",  # 11
    "test_data_made.py",  # 11
    "test_torch_chances.py",  # 11
    "test_torch_single_steps.py",  # 11
    "test_attack_kills.py",  # 11
)

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
    """Begin with what takes longest: else one process would be at it while the others are done.

    Each process begins with an equal part of the list, and takes tests from the end of another's part when its own is
    done. So the longest are dealt to the heads of the parts, file by file, since the tests of a file share a race.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    longest = _group_longest(items)
    others = iter([item for item in items if item.path.name not in LONGEST])
    ordered: list[pytest.Item] = []
    end = 0
    for number in range(processes):
        ordered += chain.from_iterable(longest[number::processes])
        end += (len(items) - end) // (processes - number)
        ordered += islice(others, max(end - len(ordered), 0))
    items[:] = [*ordered, *others]


def _group_longest(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    """Return the tests of each of the longest files, the longest file first; what an engine of Keras takes is one."""
    groups: dict[tuple[int, str], list[pytest.Item]] = {}
    for item in items:
        name = item.path.name
        if name in LONGEST:
            groups.setdefault((LONGEST.index(name), item.name if name == LONGEST[0] else ""), []).append(item)
    return [groups[key] for key in sorted(groups)]


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


@pytest.fixture(scope="session")
def torch_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one cache to the trainings of all test processes, so that each float64 reference is computed once."""
    ours = tmp_path_factory.getbasetemp()
    return (ours.parent if "PYTEST_XDIST_WORKER" in os.environ else ours) / "shared-cache" / "laptime"


@pytest.fixture(scope="module")
def torch_house(tmp_path_factory: pytest.TempPathFactory, torch_cache: Path) -> House:
    """Return a house in which real trainings run, to all tests of a module."""
    house = House(tmp_path_factory.mktemp("house"))
    house.fake, house.cache, house.longest_s, house.is_brief = "", torch_cache, LONGEST_REAL_S, True
    return house


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
