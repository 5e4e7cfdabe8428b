"""Plates: labels are read from file names, a few wrong ones are skipped, many are refused."""

from __future__ import annotations

import pytest

from laptime.model.errors import UsageError
from laptime.trainings.data import list_items, read_source
from laptime.trainings.data.scan import labels_of, text_of
from laptime.trainings.workloads import CATALOGUE

PLATES = CATALOGUE["plates-cnn"]


def fill(folder, *names):
    for name in names:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"x")
    return folder


def plates(count, part=""):
    return [f"{part}AB{number:06d}.jpg" for number in range(count)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("AB12CD34.jpg", "AB12CD34"),
        ("train/deep/AB12CD34_2.PNG", "AB12CD34"),
        ("AB12CD34-night.jpg", "AB12CD34"),
        ("AB12CD34.1.jpg", "AB12CD34"),
        ("00000000.jpg", "00000000"),
        ("AB12CD345.jpg", None),
        ("AB12CD3.jpg", None),
        ("ab12cd34.jpg", None),
        ("AB12CD34 x.jpg", None),
        ("ÄB12CD34.jpg", None),
        ("AB1٢CD34.jpg", None),
    ],
)
def test_a_name_begins_with_its_text(name, text):
    """Eight characters of 0-9A-Z, then nothing, or something behind a mark."""
    assert text == text_of(name)


def test_labels_are_places_among_the_36_characters():
    assert labels_of(["0123ABYZ", "ZZZZZZZ9"]).tolist() == [[0, 1, 2, 3, 10, 11, 34, 35], [35] * 7 + [9]]


def test_a_tree_is_divided_by_the_seed(tmp_path):
    """In the published proportion of 105 to 76."""
    source = read_source(PLATES, fill(tmp_path, *plates(60), *plates(40, "more/")), 3)
    assert (source.train_items, source.test_items, source.split_seed) == (58, 42, 3)
    train, test = list_items(source, "train"), list_items(source, "test")
    assert train.labels.shape == (58, 8)
    assert test.labels.shape == (42, 8)
    assert len({*train.paths, *test.paths}) == 100


def test_train_and_test_are_read_as_they_are(tmp_path):
    """What is next to them is not read."""
    source = read_source(PLATES, fill(tmp_path, *plates(3, "train/"), *plates(2, "test/a/"), "x.jpg"), 0)
    assert (source.train_items, source.test_items, source.split_seed) == (3, 2, None)
    assert [str(tmp_path / f"test/a/AB00000{number}.jpg") for number in (0, 1)] == list(
        list_items(source, "test").paths
    )


def test_a_few_wrong_names_are_skipped_with_a_note(tmp_path):
    """Up to one in a hundred; they are in neither part."""
    source = read_source(PLATES, fill(tmp_path, *plates(198), "hello.jpg", "world.png"), 0)
    assert source.train_items + source.test_items == 198
    (note,) = source.notes
    assert note.startswith("2 of 200 images in ")
    assert note.endswith("are not named by a plate's text: hello.jpg, world.png; skipped")
    assert len(list_items(source, "train").paths) == source.train_items


def test_many_wrong_names_are_refused(tmp_path):
    """The first three are named."""
    fill(tmp_path, *plates(50), *(f"photo{number}.jpg" for number in range(5)))
    with pytest.raises(UsageError) as caught:
        read_source(PLATES, tmp_path, 0)
    assert "5 of 55 images" in caught.value.says
    assert "photo0.jpg, photo1.jpg, photo2.jpg ... (up to 1% are skipped)" in caught.value.says
    assert "eight characters of 0-9A-Z" in caught.value.hint


def test_a_folder_without_images_is_refused(tmp_path):
    """And a part without them."""
    with pytest.raises(UsageError, match="there are no images in"):
        read_source(PLATES, tmp_path, 0)
    fill(tmp_path, *plates(3, "train/"))
    (tmp_path / "test").mkdir()
    with pytest.raises(UsageError, match=r"there are no images in .*/test"):
        read_source(PLATES, tmp_path, 0)


def test_one_plate_cannot_be_in_two_parts(tmp_path):
    with pytest.raises(UsageError, match="has one image only"):
        read_source(PLATES, fill(tmp_path, *plates(1)), 0)
