"""The contract suites on each of Keras's engines, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rooms_here import ALONE, INSTALLED

HERE = Path(__file__).parent
SUITES = {
    "heats": "test_backend_contract.py",
    "whole trainings": "test_learner_contract.py",
    "planted differences": "test_planted_contract.py",
}


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("engine", [name for name in INSTALLED if name.startswith("keras")])
def test_an_engine_keeps_the_contract(engine, suite, tmp_path):
    """What holds for PyTorch's own loop holds for Keras's `fit`."""
    quick = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    command = [sys.executable, "-m", "pytest", str(HERE / SUITES[suite]), "-q", "-p", "no:xdist", "-W", "default"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    ended = subprocess.run(
        command, env={**environment, **quick, ALONE: engine}, capture_output=True, text=True, check=False, timeout=600
    )
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-1000:]
