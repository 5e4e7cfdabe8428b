"""The public API as the type checkers of others see it: from outside, strict, with no word of ours about it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import laptime
from laptime.library import functions
from laptime.library.asking import stub_text

PROGRAM = Path(__file__).with_name("typed_program.py")


def check(*command, cwd):
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True, check=False, timeout=300
    )


def test_laptime_says_that_it_is_typed():
    assert Path(laptime.__file__).with_name("py.typed").is_file()


def test_the_stub_is_what_the_table_makes():
    """`make signatures` writes it again."""
    stub = Path(functions.__file__).with_suffix(".pyi")
    assert stub.read_text(encoding="utf-8") == stub_text(functions.FUNCTIONS)


@pytest.mark.long
def test_mypy_agrees(tmp_path):
    """A mistake that it does not find would be an unused `type: ignore`."""
    (tmp_path / PROGRAM.name).write_text(PROGRAM.read_text())
    done = check("mypy", "--strict", "--config-file", "", PROGRAM.name, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_pyright_agrees(tmp_path):
    """By basedpyright, whose wheel holds all that it needs."""
    (tmp_path / PROGRAM.name).write_text(PROGRAM.read_text())
    settings = {
        "include": [PROGRAM.name],
        "typeCheckingMode": "strict",
        "reportUnnecessaryTypeIgnoreComment": "error",
        "enableTypeIgnoreComments": False,
        "pythonVersion": "3.11",
        "extraPaths": [str(Path(laptime.__file__).parents[1])],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = check("basedpyright", "--pythonpath", sys.executable, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
