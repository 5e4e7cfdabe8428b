"""The suite of JAX lanes, in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from rooms_here import INSTALLED, run_alone


@pytest.mark.skipif("jax" not in INSTALLED, reason="there is no JAX here")
def test_jax_lanes_keep_their_contract(tmp_path):
    """Users' steps are run, fenced and proven."""
    code, said = run_alone([Path(__file__).with_name("test_steps_contract.py")], "jax", tmp_path)
    assert (code, " passed" in said) == (0, True), said
