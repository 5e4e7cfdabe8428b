"""The contract suites on each of Keras's engines, in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from rooms_here import IN_FULL, KERAS_ROOMS, run_alone

# That Keras works at all is shown by a race of it, in tests/cli/test_cli_keras.py.
FIRST = ("test_backend_contract.py",)
OTHERS = (
    "test_own_keras_contract.py",
    "test_planted_contract.py",
    "test_predictor_contract.py",
    "test_profile_contract.py",
    "test_learner_contract.py",
    "test_files_contract.py",
    "test_cached_contract.py",
    "test_shared_contract.py",
)
# One process an engine: to import it takes as long as many a suite.
WHOLE = [(engine, (*FIRST, *OTHERS)) for engine in KERAS_ROOMS if engine != IN_FULL]


@pytest.mark.long
@pytest.mark.parametrize(("engine", "suites"), [(IN_FULL, FIRST), (IN_FULL, OTHERS), *WHOLE])
def test_an_engine_keeps_the_contract(engine, suites, tmp_path):
    """What holds for PyTorch's own loop holds for Keras's `fit`."""
    code, said = run_alone([Path(__file__).with_name(name) for name in suites], engine, tmp_path)
    assert (code, " passed" in said) == (0, True), said
