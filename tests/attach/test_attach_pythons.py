"""The agent runs on Python 3.8 and later, with the standard library only. A Python without PyTorch has a stand-in."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from watcher import Watcher

import laptime.attach

FOLDER = Path(laptime.attach.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))
OLDEST, NEWEST = 8, 15
STAND_IN = Path(__file__).parent / "stand_in"
SCRIPT = """
import sys, torch
from torch.utils.data import DataLoader
opt = torch.optim.SGD()
for epoch in range(2):
    for batch in DataLoader([[torch.Tensor(0.0, (4,))]] * 10):
        torch.Tensor(2.5).backward()
        opt.step()
print(sys.version_info[1])
"""


def find_pythons() -> dict[int, str]:
    """Return the Pythons of this machine by their minor version: on the path, and where pyenv keeps them."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {}
    for minor in range(OLDEST, NEWEST):
        places = [shutil.which(f"python3.{minor}"), *map(str, sorted(kept.glob(f"3.{minor}.*/bin/python")))]
        working = [each for each in places if each and _minor_of(each) == minor]
        if working:
            found[minor] = working[-1]
    return found


def _minor_of(python: str) -> int | None:
    ended = subprocess.run(
        [python, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True, check=False
    )
    return int(ended.stdout) if ended.returncode == 0 else None


@pytest.mark.parametrize("file", FILES, ids=lambda each: each.name)
def test_each_file_is_written_for_python_3_8(file: Path) -> None:
    assert ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, OLDEST)).body


@pytest.mark.long
def test_the_agent_sees_a_training_on_every_python_there_is(tmp_path: Path) -> None:
    """Each Python of this machine, old and new; none of them has laptime installed."""
    pythons = {**find_pythons(), sys.version_info[1]: sys.executable}
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = " && ".join(f"'{python}' '{script}'" for python in pythons.values())
    ended, answer = Watcher(tmp_path).watch("sh", "-c", command, env={"PYTHONPATH": str(STAND_IN)})
    assert ended.code == 0, ended.err
    assert ended.out.split() == [str(minor) for minor in pythons]
    found = {int(each["python"].split(".")[1]): each for each in answer["processes"]}
    assert set(found) == set(pythons)
    for each in found.values():
        loop = each["loop"]
        assert (loop["iterations"], loop["epochs"], loop["items_per_iteration"]) == (20, 2, 4)
        assert (each["failed"], loop["unsure"], len(loop["losses"])) == ({}, None, 20)


def test_the_agent_imports_little(tmp_path: Path) -> None:
    """What a process imports more than without laptime, where it imports nothing itself."""
    source = "import sys; print(*sorted(sys.modules))"
    bare = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout.split()
    ended, _ = Watcher(tmp_path).watch(sys.executable, "-c", source)
    more = set(ended.out.split()) - set(bare)
    ours = {each for each in more if each.startswith("_laptime_attach")}
    assert ours == {
        "_laptime_attach",
        *(f"_laptime_attach.{name}" for name in ("agent", "finder", "kinds")),
    }
    allowed = {"__future__", "_socket", "atexit", "importlib", "sitecustomize", "struct", "warnings"}
    assert {each.split(".")[0] for each in more - ours} <= {*allowed, "_struct", "_abc", "fcntl"}
