"""The contract suites on each of Keras's engines, in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from rooms_here import INSTALLED, run_alone

SUITES = {
    "heats": "test_backend_contract.py",
    "whole trainings": "test_learner_contract.py",
    "planted differences": "test_planted_contract.py",
    "image files": "test_files_contract.py",
    "answers": "test_predictor_contract.py",
}


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("engine", [name for name in INSTALLED if name.startswith("keras")])
def test_an_engine_keeps_the_contract(engine, suite, tmp_path):
    """What holds for PyTorch's own loop holds for Keras's `fit`."""
    code, said = run_alone(Path(__file__).with_name(SUITES[suite]), engine, tmp_path)
    assert (code, " passed" in said) == (0, True), said
