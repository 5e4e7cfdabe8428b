"""The contract suites on each of Keras's engines, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rooms_here import ALONE, INSTALLED

HERE = Path(__file__).parent
SUITES = {"heats": "test_backend_contract.py", "whole trainings": "test_learner_contract.py"}


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("engine", [name for name in INSTALLED if name.startswith("keras")])
def test_an_engine_keeps_the_contract(engine, suite):
    """What holds for PyTorch's own loop holds for Keras's `fit`."""
    command = [sys.executable, "-m", "pytest", str(HERE / SUITES[suite]), "-q", "-p", "no:xdist", "-W", "default"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    ended = subprocess.run(
        command, env={**environment, ALONE: engine}, capture_output=True, text=True, check=False, timeout=600
    )
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-1000:]
