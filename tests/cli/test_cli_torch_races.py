"""Short real races in PyTorch, by the command that users type."""

import resource
import shutil
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ADDRESSES = 6_000_000_000
OWN = ROOT / "tests" / "backends" / "own_trainings.py"
ENDINGS = OWN.with_name("own_endings.py")


def test_a_real_race_proves_the_same_work_and_gives_a_factor(torch_house):
    """As written, and at its best in bf16: two lanes of one proven training; the best has what it says that it sets."""
    lanes = ("torch/cpu", "torch/cpu/best+bf16")
    record = torch_house.raced("cifar-cnn", *lanes, "--heats", "2", "--budget", "20s")
    assert [lane["parity"]["status"] for lane in record["lanes"]] == ["same"] * 2
    assert record["workload"]["parameters"] == 1_337_002
    assert record["lanes"][0]["parity"]["worst"] < 1e-6
    assert record["lanes"][1]["parity"]["strays"] > record["lanes"][1]["parity"]["worst"]
    for lane in record["lanes"]:
        assert 1 <= len(lane["heats"]) <= 2  # a slow machine has no time for a second round
        assert lane["lap_s"]["median"] == pytest.approx(lane["step_ms"]["median"] * 500 / 1000, rel=0.3)
        assert lane["items_per_s"]["median"] == pytest.approx(100_000 / lane["step_ms"]["median"])
        assert lane["startup_s"] > 0
        assert all(len(heat["windows"]) >= 3 for heat in lane["heats"])
        assert all(heat["losses"][-1] < 2.4 for heat in lane["heats"])
    settings = record["lanes"][1]["settings"]
    assert (settings["layout"], settings["optimizer"], settings["malloc"]) == ("channels_last", "fused", "keep")
    assert settings["threads"] == record["machine"]["processor"]["cores_usable"]
    assert all(each["pairs"] == len(lane["heats"]) and each["same_work"] for each in record["comparisons"])


def test_settings_are_reachable_by_name(torch_house):
    """Each is carried to the child, and the lane finishes."""
    lanes = [f"torch/cpu/{settings}" for settings in ("fp16+threads=1", "input=only+batch=2x")]
    record = torch_house.raced(f"{OWN}:by_factory", *lanes, "--heats", "1", "--budget", "5s")
    assert [(lane["name"], lane["status"]) for lane in record["lanes"]] == [(lane, "ok") for lane in lanes]


def test_compile_runs_where_there_is_a_compiler_and_is_refused_elsewhere(torch_house):
    """torch.compile needs g++ for the processor."""
    has_compiler = bool(shutil.which("g++") or shutil.which("clang++"))
    words = ("race", f"{OWN}:by_factory", "torch/cpu/compile", "--heats", "1", "--budget", "5s", "--quiet")
    done = torch_house.done(*words, code=0 if has_compiler else 2)
    assert ("yes (proof" in done.out) if has_compiler else ("needs a compiler" in done.err)


def test_the_example_of_a_training_of_ones_own(torch_house):
    """What the README tells people to run."""
    done = torch_house.done("race", f"{ROOT / 'examples' / 'own_training.py'}:training", "--budget", "8s", "--quiet")
    assert "54,277 parameters" in done.out
    assert "torch/cpu/best" in done.out


def test_a_users_failing_function_is_shown_with_its_own_message(torch_house):
    """Exit 3, the lane is a DNF, and the sentence stands in the table."""
    words = ("race", f"{OWN}:raises", "torch/cpu", "--heats", "1", "--budget", "5s", "--quiet")
    done = torch_house.done(*words, code=3)
    assert "raised ValueError: no such data set" in " ".join(done.out.split())


def test_what_the_processor_cannot_do_is_refused_before_anything_runs(torch_house):
    """A sentence with the reason and what there is instead."""
    done = torch_house.done("race", "cifar-mlp", "torch/cpu", "torch/cpu/tf32", code=2)
    assert "Ampere" in done.err


def test_a_step_that_exits_ends_one_lane_only(torch_house):
    """The other lane, in which it does not, finishes; where it was is said."""
    lanes = ("torch/cpu", "torch/cpu/malloc=keep")
    answer = torch_house.done("race", f"{ENDINGS}:python_exit", *lanes, "--heats", "1", "--budget", "3s", code=3)
    said = " ".join(answer.out.split())
    assert "torch/cpu did not finish, in proof: its code ended the process: sys.exit('enough of this'), in own" in said
    assert "1 heat each" in said


def test_memory_that_is_not_there_is_said(torch_house):
    """A batch of a million images cannot be made."""
    words = ("cifar-mlp", "torch/cpu/batch=1000000", "--heats", "1", "--budget", "5s")
    limit = partial(resource.setrlimit, resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    answer = torch_house.done("race", *words, "--json", "--quiet", code=3, preexec_fn=limit)
    (failed,) = answer.json["lanes"]
    assert failed["status"] == "dnf"
    assert "memory" in failed["reason"].lower()
