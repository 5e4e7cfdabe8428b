"""Ways to run a step on a card, one by one, compiled, captured, or both: in one real race, and for answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no card here"),
]
LANES = tuple(f"torch/cuda/fused+{execution}" for execution in ("eager", "compile", "graph", "compiled_graph"))


@pytest.mark.parametrize("command", ["race", "infer"])
def test_all_do_the_same_work(command, tmp_path):
    lanes = LANES if command == "race" else tuple(lane.replace("fused+", "") for lane in LANES)
    ended = subprocess.run(
        [sys.executable, "-m", "laptime", command, "cifar-cnn", *lanes, "--heats", "1", "--budget", "30s", "--json"],
        env=os.environ | {"LAPTIME_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    found = json.loads(ended.stdout)["lanes"]
    assert [lane["status"] for lane in found] == ["ok"] * 4, ended.stderr
    assert [lane["parity"]["status"] for lane in found] == ["same"] * 4
