"""Short real races in PyTorch, by the command that users type."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWN = ROOT / "tests" / "backends" / "own_trainings.py"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """One home and one cache for all, so that a reference is computed once."""
    return tmp_path_factory.mktemp("home")


def laptime(home, *words, code=0):
    """Run the command; give its result, which must have the expected exit code and no traceback."""
    places = {"LAPTIME_HOME": str(home / "data"), "LAPTIME_CACHE": str(home / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "laptime", *words],
        env={**os.environ, **places, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert code == done.returncode, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def race(home, *words, code=0):
    return json.loads(laptime(home, "race", *words, "--json", "--quiet", code=code).stdout)


def test_a_real_race_proves_the_same_work_and_gives_a_factor(home):
    """As written, at its best and in bf16: three lanes of one proven training."""
    lanes = ("torch/cpu", "torch/cpu/best", "torch/cpu/best+bf16")
    record = race(home, "cifar-cnn", *lanes, "--heats", "2", "--budget", "75s")
    assert [lane["parity"]["status"] for lane in record["lanes"]] == ["same"] * 3
    assert record["workload"]["parameters"] == 1_337_002
    assert record["lanes"][0]["parity"]["worst"] < 1e-6
    assert record["lanes"][2]["parity"]["strays"] > record["lanes"][2]["parity"]["worst"]
    for lane in record["lanes"]:
        assert len(lane["heats"]) == 2
        assert lane["lap_s"]["median"] == pytest.approx(lane["step_ms"]["median"] * 500 / 1000, rel=0.3)
        assert lane["items_per_s"]["median"] == pytest.approx(100_000 / lane["step_ms"]["median"])
        assert lane["startup_s"] > 0
        assert all(len(heat["windows"]) >= 3 for heat in lane["heats"])
        assert all(heat["losses"][-1] < 2.4 for heat in lane["heats"])
    assert all(each["pairs"] == 2 and each["same_work"] for each in record["comparisons"])


def test_the_reference_is_computed_once_and_kept(home):
    """A second race of the same workload and seed finds it."""
    for _ in range(2):
        race(home, "cifar-mlp", "torch/cpu", "--heats", "1", "--budget", "10s")
    assert len(list((home / "cache").rglob("cifar-mlp-*.json"))) == 1


def test_best_sets_what_it_says(home):
    """The child really runs with the threads and the layout that the record states."""
    record = race(home, "plates-cnn", "torch/cpu/best", "--heats", "1", "--budget", "10s")
    settings = record["lanes"][0]["settings"]
    assert settings["layout"] == "channels_last"
    assert settings["optimizer"] == "fused"
    assert settings["malloc"] == "keep"
    assert settings["threads"] == record["machine"]["processor"]["cores_usable"]


@pytest.mark.parametrize("setting", ["fp16", "threads=1", "input=fast", "input=only", "batch=2x"])
def test_settings_are_reachable_by_name(home, setting):
    """Each is carried to the child, and the lane finishes."""
    record = race(home, "cifar-mlp", f"torch/cpu/{setting}", "--heats", "1", "--budget", "5s")
    assert record["lanes"][0]["status"] == "ok"
    assert record["lanes"][0]["name"] == f"torch/cpu/{setting}"


def test_compile_runs_where_there_is_a_compiler_and_is_refused_elsewhere(home):
    """torch.compile needs g++ for the processor."""
    has_compiler = bool(shutil.which("g++") or shutil.which("clang++"))
    words = ("race", f"{OWN}:by_factory", "torch/cpu/compile", "--heats", "1", "--budget", "10s", "--quiet")
    done = laptime(home, *words, code=0 if has_compiler else 2)
    assert ("yes (proof" in done.stdout) if has_compiler else ("needs a compiler" in done.stderr)


def test_the_example_of_a_training_of_ones_own(home):
    """What the README tells people to run."""
    done = laptime(home, "race", f"{ROOT / 'examples' / 'own_training.py'}:training", "--budget", "15s", "--quiet")
    assert "54,277 parameters" in done.stdout
    assert "torch/cpu/best" in done.stdout


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("raises", "raised ValueError: no such data set"),
        ("returns_three", "returned int, not a laptime.Training"),
        ("iterated_once", "it can be iterated only once"),
    ],
)
def test_a_users_failing_function_is_shown_with_its_own_message(home, function, says):
    """Exit 3, the lane is a DNF, and the sentence stands in the table."""
    done = laptime(home, "race", f"{OWN}:{function}", "torch/cpu", "--heats", "1", "--budget", "5s", "--quiet", code=3)
    assert says in " ".join(done.stdout.split())


def test_what_the_processor_cannot_do_is_refused_before_anything_runs(home):
    """A sentence with the reason and what there is instead."""
    for setting, why in (("tf32", "Ampere"), ("graph", "CUDA"), ("workers=2", "input=fast"), ("threads=4096", "cores")):
        done = laptime(home, "race", "cifar-mlp", f"torch/cpu/{setting}", code=2)
        assert why in done.stderr


def test_memory_that_is_not_there_ends_one_lane_only(home):
    """A batch of a million images cannot be made; the other lane finishes."""
    words = ("cifar-mlp", "torch/cpu/batch=1000000", "torch/cpu/best", "--heats", "1", "--budget", "10s")
    limited = f"ulimit -v 12000000; exec {sys.executable} -m laptime race {' '.join(words)} --json --quiet"
    places = {"LAPTIME_HOME": str(home / "data"), "LAPTIME_CACHE": str(home / "cache")}
    done = subprocess.run(
        ["bash", "-c", limited], env={**os.environ, **places}, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 3, done.stderr
    failed, other = json.loads(done.stdout)["lanes"]
    assert failed["status"] == "dnf"
    assert "memory" in failed["reason"].lower()
    assert other["status"] == "ok"
