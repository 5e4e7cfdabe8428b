"""The same training in several frameworks, each in a process of its own, by the command that users type."""

from __future__ import annotations

import resource
from functools import partial

ADDRESSES = 8_000_000_000
ENGINES = {"keras-tf": "tensorflow", "keras-jax": "jax", "keras-torch": "torch"}


def test_a_race_across_frameworks_proves_the_same_work(torch_house):
    """PyTorch's own loop and Keras on three engines, against one float64 reference; versions are in the record."""
    record = torch_house.raced("cifar-mlp", "torch/cpu", *ENGINES, "--heats", "1", "--budget", "20s")
    assert [(lane["parity"]["status"], lane["status"]) for lane in record["lanes"]] == [("same", "ok")] * 4
    assert all(lane["parity"]["worst"] < lane["parity"]["tolerance"] / 2 for lane in record["lanes"])
    for lane, (name, engine) in zip(record["lanes"][1:], ENGINES.items(), strict=True):
        assert lane["name"] == f"{name}/cpu/as-written"
        assert list(lane["framework"])[:2] == ["keras", engine]
        (heat,) = lane["heats"]
        assert lane["step_ms"]["median"] > 1
        assert heat["first_step_ms"] > 0
        assert bool(heat["windows"][0]["step_ns"]) == (name != "keras-jax")
    assert {each["lane"].split("/")[0] for each in record["comparisons"]} == set(ENGINES)


def test_a_whole_training_in_keras_learns_and_is_tested(torch_house):
    """Two laps in which the loss falls, and a test on images that no training saw."""
    words = ("keras-tf/cpu/best", "--full", "--laps", "2", "--steps-per-lap", "20")
    record = torch_house.raced("cifar-mlp", *words)
    (run,) = record["full"]["runs"]
    first, second = run["laps"]
    assert second["score"]["loss"] < first["score"]["loss"]
    assert (first["steps"], first["score"]["items"]) == (20, 640)
    assert run["test"]["score"]["items"] == 10_000
    assert run["test"]["score"]["accuracy"] > 0.12
    assert record["lanes"][0]["parity"]["status"] == "same"


def test_image_files_are_raced_across_frameworks(torch_house):
    """The authors' loader in PyTorch's loop, ours in Keras's fit: the same network does the same work."""
    lanes = ("torch/cpu/batch=8", "keras-tf/cpu/input=fast+batch=8")
    record = torch_house.raced("plates-cnn", *lanes, "--items", "64", "--heats", "1", "--budget", "5s")
    assert [(lane["parity"]["status"], lane["status"]) for lane in record["lanes"]] == [("same", "ok")] * 2
    assert all("batches at once" in note for lane in record["lanes"] for note in lane["notes"])
    assert [heat["fresh"] is None for lane in record["lanes"] for heat in lane["heats"]] == [True, False]


def test_a_batch_for_which_there_is_no_memory_ends_one_lane_only(torch_house):
    """TensorFlow raises or crashes, by what it was refused in; the other lane finishes."""
    words = ("cifar-cnn", "keras-tf/cpu/batch=20000", "torch/cpu", "--heats", "1", "--budget", "5s")
    limit = partial(resource.setrlimit, resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    answer = torch_house.done("race", *words, "--json", "--quiet", code=3, preexec_fn=limit)
    failed, other = answer.json["lanes"]
    assert (failed["status"], other["status"]) == ("dnf", "ok")
    assert failed["reason"].startswith("out of memory: ")


def test_what_keras_cannot_do_is_refused_before_anything_runs(torch_house):
    """A usage error with its way out, whatever other lanes there are."""
    lanes = ("torch/cpu", "keras-torch/cpu/input=copy")
    done = torch_house.done("race", "plates-cnn", *lanes, "--items", "256", code=2)
    assert "on a processor batches are where they are used" in " ".join(done.err.split())
    assert "name input=only: the loader alone" in " ".join(done.err.split())
