"""The suite of lanes that run users' steps, on each such room, in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from rooms_here import STEP_ROOMS, run_alone

from long_cases import cases


@pytest.mark.parametrize("framework", cases("python", long=[each for each in STEP_ROOMS if each != "python"]))
def test_a_room_of_steps_keeps_its_contract(framework, tmp_path):
    """Users' steps are run, fenced and proven."""
    suites = [Path(__file__).with_name(name) for name in ("test_steps_contract.py", "test_shared_contract.py")]
    code, said = run_alone(suites, framework, tmp_path)
    assert (code, " passed" in said) == (0, True), said
