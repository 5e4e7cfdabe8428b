"""Trainings that read image files, as whole programs: made on the spot or given, the authors' loader and ours."""

from __future__ import annotations

import shutil

import pytest


@pytest.fixture(scope="module")
def plates(common_house, made_once):
    """Race once, whole trainings and loaders alone, in PyTorch and in Keras; the files are made first.

    PyTorch's best trains on files in the last test.
    """
    trained = ("torch/cpu/batch=16", "keras-torch/cpu/input=fast+batch=16")
    lanes = (*trained, "torch/cpu/input=only", "torch/cpu/best+input=only")
    words = ("plates-cnn", *lanes, "--items", "256", "--heats", "1", "--budget", "5s")
    return made_once("plates", lambda _: common_house.raced(*words))["lanes"]


@pytest.mark.long
def test_plates_race_with_the_authors_loader_and_ours(torch_house, plates):
    """Every lane does the same work, and the record says which loader it had."""
    assert [lane["parity"]["status"] for lane in plates[:2]] == ["same"] * 2
    assert [lane["settings"]["input"] for lane in plates[:2]] == ["published", "fast"]
    assert all(lane["step_ms"]["median"] > 0 for lane in plates)
    made = torch_house.done("data", "list", "--json").json
    assert ("plates-cnn", 256) in {(each["workload"], each["train_items"]) for each in made}


@pytest.mark.long
def test_image_files_are_raced_across_frameworks(plates):
    """The authors' loader in PyTorch's loop, ours in Keras's fit: the same network does the same work."""
    across = plates[:2]
    assert [lane["name"] for lane in across] == ["torch/cpu/batch=16", "keras-torch/cpu/input=fast+batch=16"]
    assert list(across[1]["framework"])[:2] == ["keras", "torch"]
    assert [(lane["parity"]["status"], lane["status"]) for lane in across] == [("same", "ok")] * 2
    assert all(
        result["heat"]["first_step_ns"] > 0 and result["heat"]["windows"][0]["step_ns"] for result in across[1]["heats"]
    )
    assert all("batches at once" in note for lane in across for note in lane["notes"])
    assert [result["heat"]["fresh"] is None for lane in across for result in lane["heats"]] == [True, False]


@pytest.mark.long
def test_a_loader_alone_is_faster_than_the_authors(plates):
    """The ceiling that each loader sets; nothing is trained, so nothing is proven."""
    theirs, ours = (lane["items_per_s"]["median"] for lane in plates[2:])
    assert ours > 1.5 * theirs
    assert [lane["parity"]["status"] for lane in plates[2:]] == ["unproven"] * 2


@pytest.mark.long
def test_a_plan_says_what_would_be_made_and_makes_nothing(torch_house):
    said = torch_house.done("race", "pets-densenet", "torch/cpu", "--items", "300", "--dry-run").out
    assert "300" in said
    assert "pets-densenet" in said
    assert not (torch_house.cache / "data" / "pets-densenet-300").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("scenes-cnn", "fake/cpu", "--data", "nowhere"), "nowhere"),
        (("my.py:training", "python/cpu", "--data", "."), "a training of your own brings its data with it"),
        (("scenes-cnn", "--items", "0"), "'0' is not a count; such as 5000, or all"),
        (("scenes-cnn", "--items", "5", "--data", "."), "--items says how many are made, and --data brings its own"),
    ],
)
def test_data_that_cannot_be_is_refused_before_anything_runs(house, tmp_path, words, says):
    (tmp_path / "my.py").write_text("def training(): ...\n")
    done = house.done("race", *words, code=2)
    assert says in done.err
    assert not done.out


@pytest.mark.long
def test_a_whole_training_on_given_files_and_a_damaged_one_is_named(torch_house, tmp_path):
    """Laps with loss, accuracy, validation and test on your own folder; eight steps of a small batch.

    What could not be used is in the record. The other workloads' float64 references take up to a minute and a
    half; tests/backends trains them without.
    """
    torch_house.done("data", "make", "plates-cnn", "--items", "256")
    given = tmp_path / "plates"
    shutil.copytree(torch_house.cache / "data" / "plates-cnn-256", given)
    (given / "manifest.json").unlink()  # with it, a folder that was changed is refused
    damaged = min((given / "train").rglob("*.jpg"))
    damaged.write_bytes(damaged.read_bytes()[:500])
    words = ("torch/cpu/best+batch=32", "--full", "--laps", "1", "--steps-per-lap", "2", "--data", str(given))
    record = torch_house.raced("plates-cnn", *words)
    (run,) = record["answer"]["runs"]
    (lap,) = run["laps"]
    assert (run["process"]["status"], lap["steps"]) == ("ok", 8)
    assert lap["score"]["loss"] > 0
    assert 0 <= lap["score"]["accuracy"] <= 1
    looked_at = lap["validation"] or run["test"]
    assert looked_at["score"]["items"] > 0
    (lane,) = record["lanes"]
    assert lane["parity"]["status"] == "same"
    (note,) = [note for note in lane["notes"] if "left out" in note]
    assert note.startswith("left out 1 of 256 images: ")
    assert damaged.name in note
