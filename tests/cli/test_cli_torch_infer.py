"""Inference in PyTorch, short: the command that users type."""

from __future__ import annotations

LANE = "torch/cpu/bf16+threads=1"


def test_the_mlp_answers_and_is_proven_in_both_precisions(torch_house):
    """Timed by call and by batch, with the parts of its first answer; bf16 says how far it strays."""
    record = torch_house.raced("cifar-mlp", LANE, "--infer", "--heats", "1", "--budget", "5s")
    assert record["exit code"] == 0
    (lane,), (result,) = record["infer"]["lanes"], record["lanes"]
    assert result["parity"]["status"] == "same"
    assert 0 < result["parity"]["strays"] < 0.02
    assert [each["batch"] for each in lane["batches"]] == [1, 8, 64, 256]
    assert all(each["items_per_s"]["median"] > 0 for each in lane["batches"])
    assert lane["p50_ms"]["median"] <= lane["p95_ms"]["median"] <= lane["p99_ms"]["median"]
    assert lane["wait"]["import_s"] > lane["wait"]["further_call_s"]
    assert record["workload"]["parameters"] == 12_230_010
