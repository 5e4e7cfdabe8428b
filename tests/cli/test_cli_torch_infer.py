"""Inference in PyTorch and Keras, short: the command that users type."""

from __future__ import annotations

import pytest

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


def test_keras_answers_as_pytorch_does(torch_house):
    """As its users ask it, and at its best; each by call and by batch, against one float64 reference."""
    pytest.importorskip("keras")
    pytest.importorskip("tensorflow")
    lanes = ("torch/cpu", "keras-tf", "keras-tf/cpu/best")
    record = torch_house.raced("cifar-cnn", *lanes, "--infer", "--heats", "1", "--budget", "5s")
    assert record["exit code"] == 0
    assert [lane["name"] for lane in record["lanes"]] == [
        "torch/cpu/as-written",
        "keras-tf/cpu/as-written",
        "keras-tf/cpu/best",
    ]
    assert {lane["parity"]["status"] for lane in record["lanes"]} == {"same"}
    assert list(record["lanes"][1]["framework"])[:2] == ["keras", "tensorflow"]
    _, written, best = record["infer"]["lanes"]
    assert written["wait"]["first_call_s"] > 0
    assert best["p50_ms"]["median"] < written["p50_ms"]["median"]
    for lane in (written, best):
        assert lane["batches"][0]["items_per_s"]["median"] > 0
        # On a slow processor the largest batches do not fit into five seconds, and are said not to.
        assert all(each["reason"] or each["items_per_s"]["median"] > 0 for each in lane["batches"])
