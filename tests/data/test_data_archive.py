"""CIFAR-10's archive: found in each of its shapes, held against its digests, and never able to run anything."""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import tarfile
import warnings

import numpy as np
import pytest

from laptime.model.errors import LaneError, UsageError
from laptime.trainings.data import archive, make_source, read_arrays, read_source, scan
from laptime.trainings.data.scan import PickleRefusedError, read_batch, write_batch
from laptime.trainings.workloads import CATALOGUE

CIFAR = CATALOGUE["cifar-cnn"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make a small set in the archive's own format."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAPTIME_CACHE", str(tmp_path_factory.mktemp("cache")))
        return make_source(CIFAR, 60, lambda _: None)


@pytest.fixture
def unpacked(made, tmp_path):
    """Return a folder of batches that does not say that laptime made it, and the digests it has."""
    folder = tmp_path / archive.UNPACKED
    shutil.copytree(made.folder, folder)
    (folder / "manifest.json").unlink()
    return folder


@pytest.fixture
def packed(unpacked):
    place = unpacked.parent / archive.PACKED
    with tarfile.open(place, "w:gz") as file:
        file.add(unpacked, archive.UNPACKED)
    return place


def digests(folder):
    return {name: hashlib.md5((folder / name).read_bytes()).hexdigest() for name in archive.MD5}


def refused(path):
    with pytest.raises(UsageError) as caught:
        read_source(CIFAR, path, 0)
    return caught.value.says


def test_made_batches_are_read_as_arrays(made):
    """All classes in both parts, images as rows of pixels with the colour last."""
    train, test = read_arrays(made, "train"), read_arrays(made, "test")
    assert ((60, 32, 32, 3), np.uint8) == (train.images.shape, train.images.dtype)
    assert ((12,), np.int64) == (test.labels.shape, test.labels.dtype)
    assert set(range(10)) == set(train.labels.tolist())


def test_other_readers_can_read_made_batches(unpacked):
    """The keys and kinds are those of the real archive, as everybody reads it."""
    for name in (*archive.TRAIN_FILES, *archive.TEST_FILES):
        with warnings.catch_warnings(), (unpacked / name).open("rb") as file:
            warnings.simplefilter("ignore")  # numpy renamed the module that old pickles name
            batch = pickle.load(file, encoding="latin1")
        assert {"batch_label", "labels", "data", "filenames"} == batch.keys()
        assert batch["data"].shape == (12, 3072)
        assert [type(each) for each in batch["labels"]] == [int] * 12
    with (unpacked / archive.META).open("rb") as file:
        assert pickle.load(file)["label_names"] == list(CIFAR.classes)


def test_colours_are_planes_in_the_file_and_last_in_the_array(unpacked):
    """As in CIFAR-10: 1,024 bytes of red, then green, then blue."""
    batch = read_batch((unpacked / "test_batch").read_bytes())
    image = scan.read_part(unpacked, archive.TEST_FILES, None).images[3]
    assert image[2, 5].tolist() == [batch["data"][3, plane * 1024 + 2 * 32 + 5] for plane in range(3)]


def test_packed_and_unpacked_are_the_same(packed, unpacked):
    """With the digests compared in both."""
    md5 = digests(unpacked)
    archive.check_archive(unpacked, md5, "")
    archive.check_archive(packed, md5, "")
    archive.check_archive(packed, {}, hashlib.md5(packed.read_bytes()).hexdigest())
    one, other = (scan.read_part(place, archive.TRAIN_FILES, md5) for place in (packed, unpacked))
    assert (one.images == other.images).all()
    assert (one.labels == other.labels).all()


@pytest.mark.parametrize("inside", [True, False])
def test_the_archive_is_found_in_each_shape(packed, unpacked, inside):
    """The file, the folder, and the folder that either is in."""
    assert packed == archive.find_archive(packed)
    assert unpacked == archive.find_archive(unpacked)
    if inside:
        assert unpacked == archive.find_archive(unpacked.parent)
    else:
        shutil.rmtree(unpacked)
        assert packed == archive.find_archive(packed.parent)


def test_a_folder_of_something_else_is_refused(tmp_path):
    assert "does not hold CIFAR-10" in refused(tmp_path)


def test_what_only_looks_like_the_archive_is_refused(unpacked, packed):
    """Its batches have other digests than CIFAR-10's; the first is named."""
    assert f"data_batch_1 in {unpacked} is not CIFAR-10's: its MD5 is not c99cafc1" in refused(unpacked)
    assert f"data_batch_1 in {packed} is not CIFAR-10's" in refused(packed)


def test_one_wrong_batch_is_named(unpacked):
    md5 = digests(unpacked)
    with (unpacked / "data_batch_4").open("ab") as file:
        file.write(b"x")
    with pytest.raises(UsageError, match=r"data_batch_4 in .* is not CIFAR-10's"):
        archive.check_archive(unpacked, md5)


def test_a_missing_batch_is_named(unpacked, packed):
    (unpacked / "data_batch_3").unlink()
    assert "is not whole: data_batch_3 is not there" in refused(unpacked)
    with tarfile.open(packed, "w:gz") as file:
        file.add(unpacked, archive.UNPACKED)
    with pytest.raises(UsageError, match="is not whole: data_batch_3 is not in it"):
        archive.check_archive(packed, digests_without(unpacked))


def digests_without(folder):
    return {name: hashlib.md5((folder / name).read_bytes()).hexdigest() for name in archive.MD5 if "3" not in name}


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_archive_says_how_long_it_is(packed, unpacked, share):
    """And how long it should be."""
    data = packed.read_bytes()
    packed.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(UsageError) as caught:
        archive.check_archive(packed, digests(unpacked))
    assert f"cannot be unpacked to its end: it has {int(len(data) * share):,} bytes" in caught.value.says
    assert "170,498,071" in caught.value.says


def test_a_changed_archive_is_refused_where_it_is_read(made, tmp_path):
    """The child reads what the parent looked at."""
    folder = shutil.copytree(made.folder, tmp_path / "copy")
    source = read_source(CIFAR, folder, 0)
    assert (source.made, source.train_items) == (True, 60)
    (folder / "test_batch").write_bytes(b"")
    with pytest.raises(LaneError, match="test_batch has 0 bytes and had"):
        read_arrays(source, "train")
    with pytest.raises(UsageError, match=r"damaged: test_batch has 0 bytes"):
        read_source(CIFAR, folder, 0)


class Mischief:
    """Runs a command when unpickled in the usual way."""

    def __reduce__(self):
        return os.system, ("touch /tmp/laptime-was-here",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_runs_code_is_refused(protocol):
    with pytest.raises(PickleRefusedError, match=r"it asks for posix.system"):
        read_batch(pickle.dumps({"data": Mischief()}, protocol))


@pytest.mark.parametrize(
    "data",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cnumpy\nload\n.",
        b"cnumpy\nndarray.__class__\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x10ndarray.__class__\x93.",
        b"Psomething\n.",
        b"\x82\x01.",
        b"",
        b"not a pickle",
        pickle.dumps([1, 2, 3]),
        pickle.dumps({"data": np.zeros(3, object)}),
    ],
)
def test_nothing_but_tables_of_bytes_is_read(data):
    """Each is refused, and none of it runs."""
    with pytest.raises(PickleRefusedError):
        read_batch(data)


def test_bytes_that_python_3_wrote_for_python_2_are_read():
    """Which is the other kind of batch that is about."""
    table = {b"data": b"\xff\x00", "labels": [1, 2]}
    assert read_batch(pickle.dumps(table, 2)) == {"data": b"\xff\x00", "labels": [1, 2]}


@pytest.mark.parametrize(
    "table",
    [
        {b"labels": [1]},
        {b"data": np.zeros((2, 3072), np.uint8)},
        {b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]},
        {b"data": np.zeros((1, 3072), np.uint8), b"labels": [10]},
        {b"data": np.zeros((1, 3072), np.uint8), b"labels": [-1]},
        {b"data": b"text", b"labels": [1]},
    ],
)
def test_a_batch_without_pictures_and_labels_is_refused(tmp_path, table):
    (tmp_path / "test_batch").write_bytes(write_batch(table))
    with pytest.raises(UsageError, match="is no batch of CIFAR-10"):
        scan.read_part(tmp_path, archive.TEST_FILES, None)


def test_arrays_survive_being_written_and_read():
    array = np.arange(256, dtype=np.uint8).reshape(2, 128)
    assert (array == read_batch(write_batch({b"data": array}))["data"]).all()
