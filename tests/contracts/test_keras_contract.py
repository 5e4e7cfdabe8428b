"""The contract suites on each of Keras's engines, in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from rooms_here import INSTALLED, run_alone

# Two processes an engine: each has to import it, and that takes as long as many a suite.
SUITES = {
    "heats, differences, answers, profiles": (
        "test_backend_contract.py",
        "test_planted_contract.py",
        "test_predictor_contract.py",
        "test_profile_contract.py",
    ),
    "trainings, files, models of users": (
        "test_learner_contract.py",
        "test_files_contract.py",
        "test_own_keras_contract.py",
    ),
}


@pytest.mark.parametrize("suites", SUITES)
@pytest.mark.parametrize("engine", [name for name in INSTALLED if name.startswith("keras")])
def test_an_engine_keeps_the_contract(engine, suites, tmp_path):
    """What holds for PyTorch's own loop holds for Keras's `fit`."""
    code, said = run_alone([Path(__file__).with_name(name) for name in SUITES[suites]], engine, tmp_path)
    assert (code, " passed" in said) == (0, True), said
