"""Trainings that read image files, as whole programs: made on the spot or given, the authors' loader and ours."""

from __future__ import annotations

import pytest


def test_plates_race_with_the_authors_loader_and_ours(torch_house):
    """Files are made first; every lane does the same work, and the record says which loader it had."""
    lanes = ("torch/cpu/batch=16", "torch/cpu/best+batch=16", "torch/cpu/best+batch=16+workers=1")
    record = torch_house.raced("plates-cnn", *lanes, "--items", "256", "--heats", "1", "--budget", "5s")
    assert [lane["parity"]["status"] for lane in record["lanes"]] == ["same"] * 3
    assert [lane["settings"]["input"] for lane in record["lanes"]] == ["published", "fast", "fast"]
    assert all(lane["step_ms"]["median"] > 0 for lane in record["lanes"])
    made = torch_house.done("data", "list", "--json").json
    assert ("plates-cnn", 256) in {(each["workload"], each["train_items"]) for each in made}


def test_a_loader_alone_is_faster_than_the_authors(torch_house):
    """The ceiling that each loader sets; nothing is trained, so nothing is proven."""
    lanes = ("torch/cpu/input=only", "torch/cpu/best+input=only")
    record = torch_house.raced("scenes-cnn", *lanes, "--items", "96", "--heats", "1", "--budget", "6s")
    theirs, ours = (lane["items_per_s"]["median"] for lane in record["lanes"])
    assert ours > 1.5 * theirs
    assert [lane["parity"]["status"] for lane in record["lanes"]] == ["unproven"] * 2


def test_a_plan_says_what_would_be_made_and_makes_nothing(torch_house):
    said = torch_house.done("plan", "pets-densenet", "torch/cpu", "--items", "300").out
    assert "300" in said
    assert "pets-densenet" in said
    assert not (torch_house.cache / "data" / "pets-densenet-300").exists()


def test_given_images_are_read_and_spoilt_ones_are_named(torch_house, tmp_path):
    """A folder of one's own: what could not be used stands in the record."""
    torch_house.done("data", "make", "plates-cnn", "--items", "256")
    given = tmp_path / "plates"
    (torch_house.cache / "data" / "plates-cnn-256").rename(given)
    (given / "manifest.json").unlink()  # with it, a folder that was changed is refused
    spoilt = min((given / "train").rglob("*.jpg"))
    spoilt.write_bytes(spoilt.read_bytes()[:500])
    words = ("torch/cpu/best", "--data", str(given), "--heats", "1", "--budget", "4s")
    (lane,) = torch_house.raced("plates-cnn", *words)["lanes"]
    (note,) = [note for note in lane["notes"] if "left out" in note]
    assert note.startswith("left out 1 of 256 images: ")
    assert spoilt.name in note


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("scenes-cnn", "--data", "nowhere"), "nowhere"),
        (("my.py:training", "--data", "."), "a training of your own brings its data with it"),
        (("scenes-cnn", "--items", "0"), "'0' is not a count; such as 5000, or all"),
        (("scenes-cnn", "--items", "5", "--data", "."), "--items says how many are made, and --data brings its own"),
    ],
)
def test_data_that_cannot_be_is_refused_before_anything_runs(torch_house, tmp_path, words, says):
    (tmp_path / "my.py").write_text("def training(): ...\n")
    done = torch_house.done("race", *words, code=2, cwd=tmp_path)
    assert says in done.err
    assert not done.out


@pytest.mark.parametrize(("what", "items", "batch"), [("scenes-cnn", "96", 8), ("plates-cnn", "256", 32)])
def test_a_whole_training_on_files(torch_house, what, items, batch):
    """Laps with loss, accuracy, validation and test on files that were made for it; four steps of a small batch.

    pets-densenet is left out: its float64 reference takes a minute and a half.
    """
    words = (f"torch/cpu/best+batch={batch}", "--full", "--laps", "1", "--steps-per-lap", "1", "--items", items)
    record = torch_house.raced(what, *words)
    (run,) = record["full"]["runs"]
    (lap,) = run["laps"]
    assert (run["status"], lap["steps"]) == ("ok", 4)
    assert lap["score"]["loss"] > 0
    assert 0 <= lap["score"]["accuracy"] <= 1
    looked_at = lap["validation"] or run["test"]
    assert looked_at["score"]["items"] > 0
    assert record["lanes"][0]["parity"]["status"] == "same"
