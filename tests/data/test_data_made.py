"""Made data: whole or not at all, the same items whatever the count, and every trouble in a sentence."""

from __future__ import annotations

import builtins
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from laptime.model.errors import StoreError, UsageError
from laptime.model.frameworks import install_command
from laptime.store.disk import host
from laptime.trainings.data import (
    describe_made,
    list_items,
    made_sets,
    make_source,
    making,
    read_arrays,
    read_source,
    remove_set,
)
from laptime.trainings.data.archive import MAKER
from laptime.trainings.data.making import MADE_MARK, MARKED, ItemCounts, MakingRate, announce, choose_counts, name_part
from laptime.trainings.workloads import CATALOGUE
from laptime.trainings.workloads.data import PICTURES

SCENES, PETS, PLATES = (CATALOGUE[name] for name in ("scenes-cnn", "pets-densenet", "plates-cnn"))
CIFAR, MLP = CATALOGUE["cifar-cnn"], CATALOGUE["cifar-mlp"]
FILES = (SCENES, PETS, PLATES)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Return every test a cache of its own."""
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "laptime"


@pytest.fixture
def told():
    return []


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in Path(folder).rglob("*")
        if path.is_file() and path.name not in {"manifest.json", MADE_MARK}
    }


@pytest.mark.parametrize("workload", CATALOGUE.values(), ids=lambda each: each.name)
def test_a_set_is_made_once(workload, told, cache):
    """With exactly the items asked for, and the published share of test items; then it is found."""
    source = make_source(workload, 40, told.append)
    tests = {"scenes-cnn": 10, "cifar-cnn": 10, "cifar-mlp": 10, "pets-densenet": 10, "plates-cnn": 29}[workload.name]
    assert (40, tests, True) == (source.train_items, source.test_items, source.made)
    assert str(cache / "data" / f"{workload.name}-40") == source.folder
    assert source.classes == workload.classes
    before = (Path(source.folder) / "manifest.json").stat().st_mtime_ns
    assert source == make_source(workload, 40, told.append)
    assert before == (Path(source.folder) / "manifest.json").stat().st_mtime_ns
    assert told == []
    assert [f"{workload.name}-40"] == [path.name for path in (cache / "data").iterdir()]


@pytest.mark.long
@pytest.mark.parametrize("workload", FILES, ids=lambda each: each.name)
def test_an_item_does_not_depend_on_how_many_are_made(workload, told, tmp_path):
    """Nor on when, or by which thread: files of a smaller set are in the larger one, byte for byte."""
    small = contents(make_source(workload, 20, told.append).folder)
    large = contents(make_source(workload, 37, told.append).folder)
    assert small.items() <= large.items()


def test_arrays_do_not_depend_on_how_many_are_made(told):
    """Across blocks and batches too, and both CIFAR trainings have the same."""
    small, large = (read_arrays(make_source(CIFAR, items, told.append), "train") for items in (260, 777))
    assert (small.images == large.images[:260]).all()
    assert (small.labels == large.labels[:260]).all()
    assert (small.images == read_arrays(make_source(MLP, 260, told.append), "train").images).all()


@pytest.mark.long
@pytest.mark.parametrize("workload", [SCENES, PETS])
def test_photographs_are_of_various_sizes_in_all_classes(workload, told):
    """About as large as real ones; both parts have each class; no picture is in both, but some come twice."""
    source = make_source(workload, 64, told.append)
    files = contents(source.folder)
    sizes = [Image.open(io.BytesIO(data)).size for data in files.values()]
    low, high = (160, 400) if workload is SCENES else (200, 320)
    assert all(low <= side <= high for size in sizes for side in size)
    assert len(set(sizes)) > 40
    assert {True, False} == {width > height for width, height in sizes}
    assert 13_000 < np.mean([len(data) for data in files.values()]) < 19_000
    train, test = list_items(source, "train"), list_items(source, "test")
    assert all(abs(count - 64 / workload.outputs[-1]) <= 1 for count in Counter(train.labels.tolist()).values())
    assert set(range(workload.outputs[-1])) == set(test.labels.tolist())
    assert len(set(files.values())) == len(files) - (64 - PICTURES)


@pytest.mark.long
def test_plates_are_named_by_their_text(told):
    """A region's two letters, four digits, two letters; each of the 36 characters occurs."""
    source = make_source(PLATES, 60, told.append)
    files = contents(source.folder)
    sizes = [Image.open(io.BytesIO(data)).size for data in files.values()]
    assert all(240 <= width <= 360 and 100 <= height <= 200 for width, height in sizes)
    assert 8_000 < np.mean([len(data) for data in files.values()]) < 13_000
    labels = list_items(source, "train").labels
    assert (labels.shape, len(set(labels.ravel().tolist()))) == ((60, 8), 36)
    assert ((labels < 10) == ([False] * 2 + [True] * 4 + [False] * 2)).all()


def test_made_data_can_be_given_as_data(told):
    """--data with a folder that laptime made."""
    for workload in (SCENES, PLATES, CIFAR):
        source = make_source(workload, 40, told.append)
        assert source == read_source(workload, Path(source.folder), 7)


def test_a_made_folder_that_is_damaged_is_refused_as_data(told):
    source = make_source(SCENES, 40, told.append)
    next(Path(source.folder).glob("train/sea/*")).unlink()
    with pytest.raises(UsageError, match=r"is damaged: one file of .* was removed"):
        read_source(SCENES, Path(source.folder), 0)


def spoil_manifest(folder):
    (folder / "manifest.json").write_text("{")


def set_maker(folder, maker):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "maker": maker}))


@pytest.mark.long
@pytest.mark.parametrize(
    ("spoil", "state", "said"),
    [
        (lambda folder: (folder / "manifest.json").unlink(), "half-written", "it was never finished"),
        (spoil_manifest, "half-written", "it was never finished"),
        (lambda folder: next(folder.glob("test/dog/*")).unlink(), "half-written", "damaged, one file of"),
        (lambda folder: next(folder.glob("test/dog/*")).write_bytes(b""), "half-written", "has 0 bytes and had"),
        (lambda folder: set_maker(folder, MAKER - 1), "other version", "another version of laptime"),
        (lambda folder: set_maker(folder, MAKER + 1), "other version", "another version of laptime"),
    ],
)
def test_a_set_that_is_not_whole_is_made_anew(told, spoil, state, said):
    """It is noticed, told, and made as it was."""
    folder = Path(make_source(SCENES, 16, told.append).folder)
    before = contents(folder)
    spoil(folder)
    assert [state] == [each.state for each in made_sets()]
    make_source(SCENES, 16, told.append)
    (sentence,) = told
    assert said in sentence
    assert sentence.endswith("; it is made again")
    assert before == contents(folder)
    assert [(each.name, each.state) for each in made_sets()] == [("scenes-cnn-16", "whole")]


def test_what_dead_processes_left_is_removed(told, cache):
    """And what a living one is making stays, unlisted; an unknown host's is judged by its age."""
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    left, living, far, empty = (
        f".pets-densenet.making.{host()}.part-{int(dead.stdout)}",
        f".pets-densenet.making.{host()}.part-{os.getppid()}",
        ".pets-densenet.replaced.far-host.part-1",
        f".scenes-cnn.making.{host()}.part-{int(dead.stdout)}",
    )
    for name in (left, living, far):
        (cache / "data" / name / "train").mkdir(parents=True)
        (cache / "data" / name / MADE_MARK).write_bytes(MARKED)
    (cache / "data" / empty).mkdir()
    assert {left, empty} == {each.name for each in made_sets()}
    os.utime(cache / "data" / far, (0, 0))
    make_source(PETS, 4, told.append)
    assert {"pets-densenet-4", living} == {path.name for path in (cache / "data").iterdir()}


@pytest.mark.long
def test_a_process_that_is_killed_leaves_no_set(cache):
    """Killed in the middle: what it left is seen, and goes the next time."""
    program = "from laptime.trainings.data import make_source; from laptime.trainings.workloads import CATALOGUE\n"
    program += "make_source(CATALOGUE['scenes-cnn'], 5000, print)"
    process = subprocess.Popen([sys.executable, "-c", program])
    while not list((cache / "data").glob("*.part-*/train/cat/*")):
        assert process.poll() is None
    process.kill()
    process.wait()
    (left,) = made_sets()
    assert (left.state, left.workload) == ("half-written", "scenes-cnn")
    make_source(PETS, 4, print)
    assert [path.name for path in (cache / "data").iterdir()] == ["pets-densenet-4"]


@pytest.mark.long
def test_a_set_that_another_finished_meanwhile_is_used(told, cache):
    """Two races that begin at once: one set, and no trouble."""
    programs = [
        subprocess.Popen([sys.executable, "-c", MAKE_PETS], stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [(each.communicate()[1], each.returncode) for each in programs] == [("", 0), ("", 0)]
    assert [path.name for path in (cache / "data").iterdir()] == ["pets-densenet-200"]


MAKE_PETS = """\
from laptime.trainings.data import make_source; from laptime.trainings.workloads import CATALOGUE
make_source(CATALOGUE['pets-densenet'], 200, lambda _: None)
"""


def test_sets_are_removed_by_name(told, cache):
    """And an unknown name is answered with those that there are."""
    make_source(PETS, 4, told.append)
    with pytest.raises(UsageError, match="no made data 'pets'; there is: pets-densenet-4"):
        remove_set("pets")
    with pytest.raises(UsageError, match="no made data"):
        remove_set("../data/pets-densenet-4")
    removed = remove_set("pets-densenet-4")
    assert (removed.train_items, removed.workload, removed.state) == (4, "pets-densenet", "whole")
    assert list((cache / "data").iterdir()) == []
    with pytest.raises(UsageError, match="there is: none"):
        remove_set("pets-densenet-4")


def test_a_set_says_what_it_is(told):
    """Its bytes are those of its files."""
    source = make_source(PETS, 4, told.append)
    (found,) = made_sets()
    assert found.bytes == sum(map(len, contents(source.folder).values()))
    assert (found.folder, found.train_items, found.test_items) == (source.folder, 4, 2)


def test_a_plan_is_told_what_is_there_or_would_be_made(told, cache):
    """Nothing is made for it."""
    assert f"as many images as are made in about 10 s, will be written to {cache}" in describe_made(SCENES, None)
    assert "40 train and 10 test images, about 800 kB, will be written" in describe_made(SCENES, 40)
    assert "18,687 train and 4,463 test images, about 370 MB" in describe_made(SCENES, 0)
    assert not cache.exists()
    source = make_source(SCENES, 40, told.append)
    assert describe_made(SCENES, 40).startswith("made data: 40 train and 10 test images, ")
    assert describe_made(SCENES, 40).endswith(f"in {source.folder}")


@pytest.mark.parametrize(
    ("items", "per_s", "counts"),
    [
        (None, 1000, ItemCounts(8064, 1926)),
        (None, 1, ItemCounts(256, 61)),
        (None, 1e6, ItemCounts(18_687, 4_463)),
        (0, 1, ItemCounts(18_687, 4_463)),
        (100, 1, ItemCounts(100, 24)),
        (8, 1, ItemCounts(8, 8)),
        (20_000, 1, ItemCounts(20_000, 4_777)),
    ],
)
def test_the_pace_or_the_asker_says_how_many(items, per_s, counts):
    """Ten seconds' worth in whole batches, at least eight batches, never more than published."""
    assert counts == choose_counts(SCENES, items, per_s)


@pytest.mark.parametrize(("workload", "items"), [(SCENES, 7), (CIFAR, 9), (PETS, 1), (PLATES, -1)])
def test_too_few_items_are_refused(workload, items, told, cache):
    with pytest.raises(UsageError, match="too few"):
        make_source(workload, items, told.append)
    assert not cache.exists()


def test_a_large_set_is_announced_before_it_is_written(told, tmp_path):
    """With its size and its place, from 200 MB on."""
    announce(SCENES, ItemCounts(10_000, 2_000), MakingRate(1000, 16_000), tmp_path / "set", told.append)
    assert told == []
    announce(SCENES, ItemCounts(18_687, 4_463), MakingRate(1000, 16_000), tmp_path / "set", told.append)
    (sentence,) = told
    assert f"18,687 train and 4,463 test images, about 370 MB, will be written to {tmp_path / 'set'}" in sentence


def test_a_set_that_cannot_fit_is_refused_at_once(told, tmp_path):
    """Before any of it is written."""
    with pytest.raises(StoreError, match=r"needs about .* and only .* are free in"):
        announce(SCENES, ItemCounts(10**9, 10**9), MakingRate(1000, 1e6), tmp_path / "set", told.append)


def test_progress_is_told_with_the_time_to_go(told, monkeypatch):
    """From the second second on; here earlier, so that nobody has to wait."""
    monkeypatch.setattr(making, "FIRST_WORD_S", 0.01)
    make_source(PLATES, 60, told.append)
    (sentence,) = told
    assert re.search(r"of 103 images for plates-cnn made, about \d+ s to go", sentence)


@pytest.mark.parametrize("workload", [PETS, CIFAR])
def test_a_full_disk_leaves_nothing_half_written(workload, cache):
    """Said in a sentence; the limit on a file's size takes the place of the disk."""
    program = f"""
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000))
from laptime.trainings.data import make_source
from laptime.model.errors import StoreError
from laptime.trainings.workloads import CATALOGUE
try:
    make_source(CATALOGUE[{workload.name!r}], 500, print)
except StoreError as error:
    print(error.says)
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (
        f"the made data for {workload.name} could not be written to {cache / 'data'}: a file would be" in answer.stdout
    )
    assert list((cache / "data").iterdir()) == []


def test_a_cache_that_is_no_folder_is_named(told, cache):
    """A file is where the folder should be."""
    cache.parent.mkdir()
    cache.write_text("not a folder")
    with pytest.raises(StoreError, match="a file is where a folder is needed"):
        make_source(PETS, 4, told.append)
    with pytest.raises(StoreError, match="cannot be listed: a file is"):
        made_sets()


def test_a_name_beside_a_set_tells_its_process(cache):
    assert name_part(cache / "x").name.endswith(f".part-{os.getpid()}")


def test_without_pillow_it_is_said_what_to_install(told, monkeypatch, cache):
    """CIFAR needs none."""
    real = builtins.__import__

    def wall(name, *rest):
        if name.partition(".")[0] == "PIL":
            raise ImportError("No module named 'PIL'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", wall)
    with pytest.raises(UsageError) as caught:
        make_source(SCENES, 16, told.append)
    assert "needs Pillow" in caught.value.says
    assert caught.value.hint == install_command("images")
    assert list((cache / "data").iterdir()) == []
    assert make_source(CIFAR, 20, told.append).train_items == 20
