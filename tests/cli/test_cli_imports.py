"""The parent never imports a framework: it asks a child that does."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Code that looks for a framework finds it installed; code that imports it gets an error: this must not be.
WALLED = """\
import importlib.machinery
import sys

class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "torchvision", "keras", "jax", "tensorflow"}:
            return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec):
        raise AssertionError(f"{spec.name} was imported by the parent")

    def exec_module(self, module):
        raise AssertionError("never reached")

sys.meta_path.insert(0, Wall())
sys.argv[0] = "laptime"
from laptime.cli.main import main

main()
"""


@pytest.fixture(scope="module")
def walled(shared_house):
    """Return the command in a process that cannot import any framework; its children can."""

    def run(*words):
        return subprocess.run(
            [sys.executable, "-c", WALLED, *words],
            env=shared_house.environment(),
            cwd=shared_house.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    assert run("race", "fake/cpu", "--heats", "1", "-q").returncode == 0
    return run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "1"), "2.00x"),
        pytest.param(("race", "fake/cpu", "--heats", "1", "--json"), '"status": "finished"', marks=pytest.mark.long),
        (("race", "cifar-cnn", "fake/cpu", "--dry-run"), "fake/cpu/as-written"),
        pytest.param(("race", "cifar-cnn", "torch/cpu/best", "--dry-run"), "torch/cpu/best", marks=pytest.mark.long),
        (("workloads",), "scenes-cnn"),
        (("list",), "cifar-cnn"),
        (("show", "latest"), "Same work"),
        (("--help",), "Records:"),
        (("race", "--help"), "--budget"),
        (("--version",), "version"),
    ],
)
def test_no_command_imports_a_framework(walled, words, said):
    """The answer is the same where importing one would fail."""
    answer = walled(*words)
    assert answer.returncode == 0, answer.stderr
    assert said in answer.stdout
    assert "was imported" not in answer.stdout + answer.stderr


@pytest.mark.long
def test_devices_asks_children_what_frameworks_see(walled):
    """PyTorch's devices are there, though this process could not have asked it."""
    answer = walled("devices", "--framework", "torch", "--json")
    assert answer.returncode == 0, answer.stderr
    assert '"framework": "torch"' in answer.stdout
    assert "was imported" not in answer.stdout


def test_the_wall_is_a_wall(shared_house):
    """Were a framework imported, these tests would notice."""
    program = WALLED.replace("from laptime", "import torch.nn\nfrom laptime")
    broken = subprocess.run([sys.executable, "-c", program, "list"], capture_output=True, text=True, check=False)
    assert broken.returncode == 1
    assert "torch was imported by the parent" in broken.stderr
