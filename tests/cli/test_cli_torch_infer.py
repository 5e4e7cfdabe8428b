"""Inference in PyTorch and Keras, short: the command that users type."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.long

LANES = ("torch/cpu/best+bf16", "keras-torch", "keras-torch/cpu/best")


@pytest.fixture(scope="module")
def answered(common_house, made_once):
    """Ask the MLP once, at its best in bf16, and in Keras, for all who only read the record."""
    words = ("--infer", "--heats", "1", "--budget", "5s", "--sensor-rate", "20")
    record = made_once("answers", lambda _: common_house.raced("cifar-mlp", *LANES, *words))
    assert record["exit code"] == 0
    return record


def test_the_mlp_answers_and_is_proven_in_both_precisions(answered):
    """Timed by call and by batch, with the parts of its first answer; bf16 says how far it strays."""
    parity = answered["lanes"][0]["parity"]
    assert (parity["status"], 0 < parity["worst"] < parity["strays"] < 0.02) == ("same", True)
    lane = answered["answer"]["lanes"][0]
    assert [each["batch"] for each in lane["batches"]] == [1, 8, 64, 256]
    assert all(each["items_per_s"]["median"] > 0 for each in lane["batches"])
    assert lane["p50_ms"]["median"] <= lane["p95_ms"]["median"] <= lane["p99_ms"]["median"]
    assert all(lane["wait"][each] > 0 for each in ("import_s", "first_call_s", "further_call_s"))
    assert answered["workload"]["parameters"] == 12_230_010


def test_answers_say_what_they_took(common_house, answered):
    """Single calls and each batch size by themselves; the page shows the first and the quickest."""
    lane = answered["answer"]["lanes"][0]
    (heat,) = lane["heats"]
    assert [each["batch"] for each in lane["usages"]] == [None, 1, 8, 64, 256]
    assert heat["process"]["timeline"]["clock"] is None
    assert [mark["name"] for mark in heat["marks"]][-1] == "end"
    busy = {each["batch"]: each["usage"]["processor_percent"] for each in lane["usages"]}
    assert 10 < busy[256] <= 105  # the system counts in ticks of ten milliseconds, and a part takes some 400
    assert answered["lanes"][0]["usage"] == lane["usages"][0]["usage"]
    page = common_house.done("show", answered["id"], "--details").out
    assert "torch/cpu/best+bf16, single calls" in page


def test_keras_answers_as_pytorch_does(answered):
    """As its users ask it, and at its best; each by call and by batch, against one float64 reference."""
    lanes = answered["lanes"][1:]
    assert [lane["name"] for lane in lanes] == ["keras-torch/cpu/as-written", "keras-torch/cpu/best"]
    assert {lane["parity"]["status"] for lane in lanes} == {"same"}
    assert list(lanes[0]["framework"])[:2] == ["keras", "torch"]
    written, best = answered["answer"]["lanes"][1:]
    assert written["wait"]["first_call_s"] > 0
    for lane in (written, best):
        assert 0 < lane["p50_ms"]["median"] <= lane["p95_ms"]["median"] <= lane["p99_ms"]["median"]
        assert lane["batches"][0]["items_per_s"]["median"] > 0
        # On a slow processor the largest batches do not fit into five seconds, and are said not to.
        assert all(each["reason"] or each["items_per_s"]["median"] > 0 for each in lane["batches"])
