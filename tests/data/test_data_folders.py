"""Class folders: labels by sorted names, parts or a seeded split, and a sentence for all that can be wrong."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from laptime.model.errors import LaneError, UsageError
from laptime.trainings.data import list_items, read_source
from laptime.trainings.workloads import CATALOGUE

PETS, SCENES = CATALOGUE["pets-densenet"], CATALOGUE["scenes-cnn"]


@pytest.fixture
def fill(tmp_path):
    """Put small files that look like images by their names into folders."""

    def fill(*places, count=3, suffix=".jpg"):
        for place in places:
            (tmp_path / place).mkdir(parents=True, exist_ok=True)
            for number in range(count):
                (tmp_path / place / f"{number}{suffix}").write_bytes(b"x" * (number + 1))
        return tmp_path

    return fill


def names_of(source, part):
    return [os.path.relpath(path, source.folder) for path in list_items(source, part).paths]


def refused(workload, folder):
    with pytest.raises(UsageError) as caught:
        read_source(workload, folder, 0)
    return str(caught.value)


def test_train_and_test_are_read_as_they_are(fill):
    """Each part has its own items, in the order of their names, labelled by class."""
    fill("train/cats", "train/dogs", count=2)
    source = read_source(PETS, fill("test/dogs", "test/cats", count=1), 5)
    assert (source.test_items, source.train_items, source.classes, source.split_seed) == (2, 4, ("cats", "dogs"), None)
    assert not source.made
    assert names_of(source, "train") == ["train/cats/0.jpg", "train/cats/1.jpg", "train/dogs/0.jpg", "train/dogs/1.jpg"]
    assert list_items(source, "train").labels.tolist() == [0, 0, 1, 1]
    assert list_items(source, "test").labels.tolist() == [0, 1]


def test_class_folders_alone_are_divided_by_the_seed(fill):
    """In the published proportion, class by class, the same for the same seed, with nothing in both parts."""
    source = read_source(PETS, fill("cats", "dogs", count=50), 5)
    assert source.split_seed == 5
    assert (source.train_items, source.test_items) == (80, 20)
    train, test = names_of(source, "train"), names_of(source, "test")
    assert (len(train), len(test)) == (80, 20)
    assert not set(train) & set(test)
    assert Counter(list_items(source, "test").labels.tolist()) == {0: 10, 1: 10}
    assert test == names_of(read_source(PETS, fill(), 5), "test")
    assert test != names_of(read_source(PETS, fill(), 6), "test")


@pytest.mark.parametrize("counts", [(2, 2), (2, 90), (3, 1000), (7, 11)])
def test_a_split_leaves_every_class_in_both_parts(fill, counts):
    """However few there are of a class, and the counts are as promised."""
    fill("cats", count=counts[0])
    source = read_source(PETS, fill("dogs", count=counts[1]), 1)
    for part, items in (("train", source.train_items), ("test", source.test_items)):
        labels = list_items(source, part).labels
        assert (items, {0, 1}) == (len(labels), set(labels.tolist()))


@pytest.mark.parametrize("suffix", [".jpg", ".JPEG", ".png", ".BMP", ".webp", ".tif", ".Tiff"])
def test_all_kinds_of_images_are_found(fill, suffix):
    """In any case of their letters."""
    assert read_source(PETS, fill("cats", "dogs", suffix=suffix), 0).train_items == 4


def test_what_is_no_image_is_left_out_and_counted(fill):
    """Hidden files, other kinds, files next to the class folders."""
    folder = fill("train/cats", "train/dogs", "test/cats", "test/dogs")
    for name in (".DS_Store", "train/cats/.hidden.jpg", "train/cats/notes.txt", "train/list.csv"):
        (folder / name).write_text("x")
    source = read_source(PETS, folder, 0)
    assert source.train_items == 6
    assert source.notes == (
        "1 file left out: hidden",
        "1 file left out: of another kind",
        "1 file left out: outside the class folders",
    )


def test_images_may_lie_deeper_in_a_class_folder(fill):
    """As Keras reads them."""
    source = read_source(PETS, fill("cats/a/b", "cats", "dogs"), 0)
    assert source.train_items + source.test_items == 9
    assert sorted(np.bincount(list_items(source, "train").labels)) == [2, 5]


def test_a_folder_may_have_any_name(fill):
    """Not only plain letters, and links to class folders are followed."""
    folder = fill("elsewhere/kätzchen \udcff'", "dogs")
    (folder / "cats").symlink_to(folder / "elsewhere/kätzchen \udcff'")
    shutil.move(folder / "elsewhere", folder.parent / f"{folder.name}-moved")
    (folder / "cats").unlink()
    (folder / "cats").symlink_to(folder.parent / f"{folder.name}-moved/kätzchen \udcff'")
    assert read_source(PETS, folder, 0).classes == ("cats", "dogs")


def test_a_missing_path_is_named(tmp_path):
    """With the way out."""
    said = refused(PETS, tmp_path / "nowhere")
    assert f"--data {tmp_path / 'nowhere'}: there is no such file or folder" in said
    assert "leave --data out" in said


def test_a_path_that_cannot_be_looked_at_is_refused(tmp_path):
    """A name that is too long fails for every user, root too."""
    assert "its name is too long" in refused(PETS, tmp_path / ("x" * 300))
    assert "cannot be a path" in refused(PETS, tmp_path / "a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission_is_named(fill):
    """A class folder that may not be opened."""
    folder = fill("cats", "dogs")
    (folder / "cats").chmod(0)
    assert "cats cannot be read: no permission" in refused(PETS, folder)
    (folder / "cats").chmod(0o755)


def test_a_file_in_place_of_a_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    assert "is a file" in refused(PETS, tmp_path / "file")


def test_an_empty_folder_is_refused(tmp_path, fill):
    """And a `train` without class folders."""
    assert f"there is no class folder in {tmp_path}" in refused(PETS, tmp_path)
    (tmp_path / "train").mkdir()
    assert f"no class folder in {tmp_path / 'train'}" in refused(PETS, fill("test/cats"))


@pytest.mark.parametrize("part", ["", "train/", "test/"])
def test_an_empty_class_folder_is_named(fill, part):
    """With or without parts."""
    others = ["cats", "dogs"] if not part else ["train/cats", "train/dogs", "test/cats", "test/dogs"]
    folder = fill(*others)
    for file in (folder / f"{part}dogs").iterdir():
        file.unlink()
    assert f"the class folder {folder}/{part}dogs has no images in it" in refused(PETS, folder)


def test_a_class_that_is_missing_in_one_part_is_named(fill):
    """Missing in test, and only in test."""
    folder = fill("train/cats", "train/dogs", "test/cats")
    said = refused(PETS, folder)
    assert f"{folder}/train has a class that {folder}/test does not have: dogs" in said
    fill("test/dogs", "test/birds")
    assert f"{folder}/test has a class that {folder}/train does not have: birds" in refused(PETS, folder)


def test_labels_must_fit_the_network(fill):
    """As many class folders as outputs."""
    said = refused(SCENES, fill("cats", "dogs"))
    assert "labels that do not fit the network" in said
    assert "2 class folders (cats, dogs), and scenes-cnn has 8 outputs" in said


def test_one_image_cannot_be_in_two_parts(fill):
    fill("cats", count=1)
    folder = fill("dogs")
    assert f"{folder / 'cats'} has one image only" in refused(PETS, folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "cats/new.jpg").write_bytes(b"abc"), "cats/new.jpg was added"),
        (lambda folder: (folder / "cats/2.jpg").unlink(), "one file of 3 bytes was removed"),
        (lambda folder: (folder / "dogs/1.jpg").write_bytes(b"longer"), "dogs/1.jpg has 6 bytes and had 2"),
        (lambda folder: (folder / "dogs/1.jpg").write_bytes(b""), "dogs/1.jpg has 0 bytes and had 2"),
        (lambda folder: (folder / "dogs/1.jpg").rename(folder / "dogs/a.jpg"), "at least one file has another name"),
        (lambda folder: [(folder / f"dogs/{each}.jpg").unlink() for each in (0, 1)], "2 files were removed"),
        (lambda folder: [(folder / f"dogs/n{each}.jpg").touch() for each in (0, 1)], "2 files were added"),
        (lambda folder: shutil.rmtree(folder / "dogs"), "3 files were removed"),
        (shutil.rmtree, "it is not there"),
    ],
)
def test_a_folder_that_changed_is_refused(fill, change, said):
    """What changed is named, as well as names and sizes can tell."""
    folder = fill("cats", "dogs")
    source = read_source(PETS, folder, 0)
    change(folder)
    with pytest.raises(LaneError) as caught:
        list_items(source, "train")
    assert f"the data in {folder} changed since the race looked at it" in caught.value.says
    assert said in caught.value.says


def test_several_files_with_other_sizes_are_said(fill):
    """One cannot be told from the sums, so none is named."""
    folder = fill("cats", "dogs")
    source = read_source(PETS, folder, 0)
    for name in ("cats/0.jpg", "dogs/2.jpg"):
        (folder / name).write_bytes(b"something else")
    with pytest.raises(LaneError, match="several files have another size"):
        list_items(source, "test")


def test_a_digest_of_another_kind_is_a_change(fill):
    """A source that was not made by `read_source`."""
    source = replace(read_source(PETS, fill("cats", "dogs"), 0), digest="abc")
    with pytest.raises(LaneError, match="digest is of another kind"):
        list_items(source, "train")
