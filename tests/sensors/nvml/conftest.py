"""A machine with cards that are not there: nvidia-ml-py loads a library that plays a script."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_cards import Script, lines

HERE = Path(__file__).parent
SOURCE = HERE / "scripted_nvml.c"
HOUSE = HERE.parents[2] / "src"
LONGEST_S = 60


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Path:
    """Build the library under the name that nvidia-ml-py asks the system for, and give its folder."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform != "linux":
        pytest.skip("a scripted NVML needs a C compiler and Linux")
    folder = tmp_path_factory.mktemp("nvml")
    target = folder / "libnvidia-ml.so.1"
    options = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
    subprocess.run([compiler, *options, "-o", target, SOURCE], check=True)
    return folder


@pytest.fixture
def run_beside(tmp_path) -> Callable[..., Any]:
    """Return how to run a program with the libraries of a folder; what it prints comes back."""

    def run(program: str, folder: Path, **environment: str) -> Any:
        path = os.pathsep.join([str(HOUSE), str(HERE)])
        ended = subprocess.run(
            [sys.executable, "-c", f"from watching import *\n{program}"],
            env={**os.environ, "LD_LIBRARY_PATH": str(folder), "PYTHONPATH": path, **environment},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    return run


@pytest.fixture
def watch(library, run_beside, tmp_path) -> Callable[..., Any]:
    """Return how to run a program on a scripted machine, and what the script becomes when the program calls `later`."""

    def watch_machine(script: Script, program: str, then: Script | None = None) -> Any:
        place = tmp_path / "machine"
        place.write_text(lines(script))
        (tmp_path / "machine.later").write_text(lines(then or {}))
        return run_beside(program, library, LAPTIME_TEST_NVML=str(place))

    return watch_machine
