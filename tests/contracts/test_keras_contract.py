"""The contract suites on each of Keras's engines, in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from rooms_here import IN_FULL, KERAS_ROOMS, run_alone

from long_cases import cases

# One process an engine: to import it takes as long as many a suite.
SUITES = (
    "test_backend_contract.py",
    "test_planted_contract.py",
    "test_predictor_contract.py",
    "test_profile_contract.py",
    "test_learner_contract.py",
    "test_files_contract.py",
    "test_cached_contract.py",
    "test_own_keras_contract.py",
    "test_shared_contract.py",
)


@pytest.mark.parametrize("engine", cases(IN_FULL, long=[each for each in KERAS_ROOMS if each != IN_FULL]))
def test_an_engine_keeps_the_contract(engine, tmp_path):
    """What holds for PyTorch's own loop holds for Keras's `fit`."""
    code, said = run_alone([Path(__file__).with_name(name) for name in SUITES], engine, tmp_path)
    assert (code, " passed" in said) == (0, True), said
