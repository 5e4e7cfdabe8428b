"""Profiles by the command that users type: on the fake back end, and short ones on real frameworks."""

from __future__ import annotations

import gzip
import json
import signal
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("known_references")

EXAMPLES = Path(__file__).parents[2] / "examples"
RACE = (
    "race",
    "cifar-cnn",
    "fake/cpu",
    "fake/cpu/best",
    "fake/cuda:0",
    "fake/cuda:0/best",
    "--heats",
    "1",
    "--profile",
)
# One lane does not finish its heat, and one cannot be profiled.
TROUBLES = """
["fake/cpu/best"]
fail = { how = "raise", phase = "timing" }
["fake/cuda:0/as-written"]
fail = { how = "raise", phase = "profile" }
"""


def words_of(answer):
    return " ".join(answer.out.split())


def events_of(trace):
    return json.loads(gzip.decompress(Path(trace).read_bytes()))["traceEvents"]


def test_lanes_are_profiled_one_after_another(house):
    """Operators with their share, the profiler's cost, kernels; all in the record, and a trace a lane next to it."""
    answer = house.done("profile", "fake/cpu", "fake/cuda:0", "--details")
    said = words_of(answer)
    assert "fake/cpu: 20 steps under the fake profiler" in said
    assert "a step 125 ms, without it 100 ms (1.25 times)" in said
    assert "fake::convolution 75.0 ms 60 %" in said
    assert "device busy 50 % of the profiled time: 6.25 ms a step, 62 % of one without the profiler" in said
    assert "2 lanes profiled" in said
    assert "profile 2 of 2: fake/cuda:0/as-written" in answer.err
    record = house.kept()
    assert (record["question"], record["status"]) == ("profile", "finished")
    for lane, sides in zip(record["lanes"], ({"processor"}, {"processor", "device"}), strict=True):
        profile = lane["profile"]
        assert (lane["status"], set(lane["absent"]), lane["step_ms"]) == ("ok", {"roofline"}, None)
        assert "laptime devices --measure" in lane["absent"]["roofline"]["missing"]
        assert {each["where"] for each in profile["operators"]} == sides
        assert profile["work"]["flops"] == 6 * 1_337_002 * 100
        assert Path(profile["trace"]).parent == house.home / "traces"
        assert Path(profile["trace"]).name.startswith(record["id"])
        assert len(events_of(profile["trace"])) > 3
    assert house.done("show", "latest", "--details").out == answer.out
    (row,) = house.done("list", "--json").json
    assert (row["question"], row["workload"]) == ("profile", "cifar-cnn")
    assert "most in fake::convolution (60 % of a step)" in row["summary"]


def test_without_a_device_it_is_the_card(house):
    """As a framework's bare name means in a race."""
    record = house.done("profile", "fake", "--json", "-q").json
    assert [lane["name"] for lane in record["lanes"]] == ["fake/cuda:0/as-written"]


def test_a_race_is_profiled_off_the_clock(house):
    """The race's own figures are those of its heats; who did not finish, or cannot be profiled, ends nothing."""
    house.script(TROUBLES)
    answer = house.done(*RACE, "--details", code=3)
    said = words_of(answer)
    first, unfinished, failed, last = house.kept()["lanes"]
    assert said.index("against first") < said.index("own time")
    assert "fake/cpu: 20 steps under the fake profiler" in said
    for lane, step_ms in ((first, 100.0), (last, 5.0)):
        assert lane["step_ms"]["median"] == pytest.approx(step_ms)
        assert lane["profile"]["plain_ms"] == pytest.approx(step_ms)
        assert "profile" not in lane["absent"]
    reason = "in profile: RuntimeError: planted failure"
    assert (failed["status"], failed["profile"], failed["absent"]["profile"]) == ("ok", None, {"missing": reason})
    assert f"fake/cuda:0: - (profile: {reason})" in said
    assert unfinished["absent"]["profile"]["missing"] == "the lane did not finish"
    assert (house.kept()["question"], house.kept()["status"]) == ("race", "finished")


def test_a_killed_profile_is_the_lanes_own_failure(house):
    """In a question of its own it is the exit code's, too; what ends the counting leaves the profile."""
    house.script(
        '["fake/cpu*"]\nfail = { how = "kill", phase = "profile" }\n'
        '["fake/cuda*"]\nfail = { how = "kill", phase = "work" }\n'
    )
    answer = house.done("profile", "fake/cpu", "fake/cuda:0", "-q", code=3)
    gone, fine = house.kept()["lanes"]
    assert (gone["status"], gone["profile"]) == ("dnf", None)
    assert "killed by SIGKILL" in gone["absent"]["profile"]["missing"]
    assert fine["profile"]["operators"]
    assert fine["profile"]["work"] is None
    assert "killed by SIGKILL" in fine["profile"]["absent"]["work"]["missing"]
    assert "1 of 2 lanes profiled" in answer.out


@pytest.mark.long
def test_an_interrupt_while_profiling_keeps_the_race(house):
    """All heats, the factor, and the profile that was finished; the other says why it is not there."""
    house.script('["fake/cuda*"]\nfail = { how = "hang", phase = "profile" }\n')
    process = house.start("race", "fake/cpu", "fake/cuda:0", "--heats", "1", "--profile")
    house.read_until(process, "profile 2 of 2: fake/cuda:0/as-written")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    answer = house.finish(process)
    assert answer.code == 130
    record = house.kept()
    assert (record["status"], len(record["answer"]["comparisons"])) == ("interrupted", 1)
    first, second = record["lanes"]
    assert first["profile"]["operators"]
    assert second["absent"]["profile"]["missing"] == "the run was ended before its turn came"
    assert len(second["heats"]) == 1
    assert house.is_empty_within(10)


def test_a_plan_says_that_lanes_will_be_profiled(shared_house):
    said = words_of(shared_house.done("race", "fake/cpu", "--profile", "--dry-run"))
    assert "each lane that finished takes some steps more under its framework's profiler" in said


@pytest.mark.parametrize("other", ["--full", "--infer"])
def test_whole_trainings_and_answers_are_not_profiled(shared_house, other):
    answer = shared_house.done("race", "cifar-cnn", "fake/cpu", "--profile", other, code=2)
    assert "No such option '--profile'" in answer.err


@pytest.mark.parametrize("flag", ["--heats", "--budget", "--sensors"])
def test_what_is_of_races_alone_is_no_option(shared_house, flag):
    assert f"No such option '{flag}'" in shared_house.done("profile", "fake/cpu", flag, "1", code=2).err


@pytest.mark.long
def test_pytorchs_operators(torch_house):
    """Products are among the heaviest, and so is the update; memory and work are reported, the trace has events."""
    record = torch_house.done("profile", "cifar-mlp", "torch/cpu", "--json", "-q").json
    (lane,) = record["lanes"]
    profile = lane["profile"]
    assert (lane["status"], record["workload"]["parameters"]) == ("ok", 12_230_010)
    names = [each["name"] for each in profile["operators"]]
    assert {"aten::addmm", "aten::mm"} & set(names[:4])
    own_ms = sum(each["own_ms"] for each in profile["operators"])
    assert 0.5 * profile["profiled_ms"] < own_ms < 1.05 * profile["profiled_ms"]
    assert min(profile["profiled_ms"], profile["plain_ms"]) > 0  # which is longer, a busy machine decides
    assert max(each["memory_bytes"] for each in profile["operators"]) > 0
    # 12,230,010 weights without biases, batch 32: forward and both gradients, but none of the pixels'.
    products = 3072 * 3000 + 3000 * 1000 + 1000 * 10
    assert profile["work"]["flops"] == 2 * 32 * (3 * products - 3072 * 3000)
    assert profile["work"]["bytes"] > 4 * 12_230_010
    assert any(each.get("name") == "aten::addmm" for each in events_of(profile["trace"]))


@pytest.mark.long
def test_a_step_in_jax(torch_house):
    pytest.importorskip("jax", reason="there is no JAX here")
    what = f"{EXAMPLES / 'jax_training.py'}:training"
    (lane,) = torch_house.done("profile", what, "jax/cpu", "--json", "-q").json["lanes"]
    profile = lane["profile"]
    assert profile["by"].startswith("jax.profiler of JAX ")
    assert profile["operators"]
    assert all(each["own_ms"] >= 0 for each in profile["operators"])
    assert any(each["ph"] == "X" for each in events_of(profile["trace"]))


def test_plain_python_has_no_profiler(torch_house):
    """In words, and with the exit code of a lane that gave no answer."""
    what = f"{EXAMPLES / 'numpy_training.py'}:training"
    answer = torch_house.done("profile", what, "--json", "-q", code=3)
    (lane,) = answer.json["lanes"]
    assert (lane["name"], lane["status"], lane["profile"]) == ("python/cpu/as-written", "unusable", None)
    assert "a python lane calls the step as it is" in lane["absent"]["profile"]["missing"]
