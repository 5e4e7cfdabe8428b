"""Nothing that laptime did not make is renamed, removed, replaced or shown as a set, whatever it is called."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from laptime.model.errors import StoreError, UsageError
from laptime.store.disk import host
from laptime.trainings.data import describe_made, made_sets, make_source, remove_set
from laptime.trainings.data.making import MADE_MARK, MARKED, name_part, open_part, remove_stale_parts
from laptime.trainings.workloads import CATALOGUE

PETS, CIFAR = CATALOGUE["pets-densenet"], CATALOGUE["cifar-cnn"]


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """A user's project that is also where LAPTIME_CACHE points to."""
    monkeypatch.setenv("LAPTIME_CACHE", ".")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def sets(project):
    folder = project / "laptime" / "data"
    folder.mkdir(parents=True)
    return folder


def make(items=20):
    said = []
    return make_source(CIFAR, items, said.append), said


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def dead_process() -> int:
    return int(
        subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True).stdout
    )


def test_a_projects_own_data_folder_is_not_touched(project):
    """Names that `split -b` and downloads produce, a folder that is called as a set, another program's manifest."""
    mine = project / "data"
    for name in ("big.tar.part-aa", "video.mp4.part-99999", "cifar-cnn-20/notes.txt", "scenes-cnn/manifest.json"):
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text("{}")
    before = digests(mine)
    source, said = make()
    assert str(project / "laptime" / "data" / "cifar-cnn-20") == source.folder
    assert (said, [each.name for each in made_sets()]) == ([], ["cifar-cnn-20"])
    remove_set("cifar-cnn-20")
    for name in ("scenes-cnn", "cifar-cnn-20"):
        with pytest.raises(UsageError, match=f"there is no made data '{name}'; there is: none"):
            remove_set(name)
    assert before == digests(mine)


def write_folder(place: Path) -> None:
    place.mkdir()
    (place / "mine.txt").write_text("mine")


def write_another_programs(place: Path) -> None:
    write_folder(place)
    (place / "manifest.json").write_text(json.dumps({"workload": "cifar-cnn", "bytes": 3, "digest": "x", "schema": 1}))


def write_a_mark_of_other_words(place: Path) -> None:
    write_folder(place)
    (place / MADE_MARK).write_bytes(MARKED + b"but not this one")


def link_to_a_folder(place: Path) -> None:
    write_folder(place.with_name("elsewhere"))
    place.symlink_to(place.with_name("elsewhere"))


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda place: place.write_text("mine"), "laptime did not make the file"),
        (lambda place: place.mkdir(), "laptime did not make the folder"),
        (write_folder, "laptime did not make the folder"),
        (write_another_programs, "laptime did not make the folder"),
        (write_a_mark_of_other_words, "laptime did not make the folder"),
        (link_to_a_folder, "is a symbolic link"),
        (lambda place: place.symlink_to("nowhere"), "is a symbolic link"),
        (os.mkfifo, "laptime did not make the file"),
    ],
)
def test_what_has_a_sets_name_and_is_not_ours_is_refused(sets, write, said):
    """In words, with the way out, by each command; it is not listed, and it stays as it was."""
    place = sets / "cifar-cnn-20"
    write(place)
    names, before = sorted(sets.iterdir()), digests(sets)
    assert made_sets() == ()
    for action in (make, lambda: describe_made(CIFAR, 20), lambda: remove_set("cifar-cnn-20")):
        with pytest.raises(StoreError, match=said) as caught:
            action()
        assert str(place) in caught.value.says
        assert "LAPTIME_CACHE" in caught.value.hint
    assert (names, before) == (sorted(sets.iterdir()), digests(sets))


def test_what_has_a_parts_name_and_no_mark_is_left_alone(sets):
    """A name is no proof, and neither is a mark under a name that is not exactly ours."""
    dead = dead_process()
    unmarked = f".cifar-cnn.making.{host()}.part-{dead}"
    others = ("big.tar.part-aa", f"video.part-{dead}", f".x.{host()}.part-{dead}", f"cifar.making.{host()}.part-{dead}")
    for name in (unmarked, *others):
        write_folder(sets / name)
    for name in others[2:]:
        (sets / name / MADE_MARK).write_bytes(MARKED)
    (sets / f".file.making.{host()}.part-{dead}").write_text("mine")
    before = digests(sets)
    make()
    remove_set("cifar-cnn-20")
    assert before == digests(sets)
    assert unmarked not in {each.name for each in made_sets()}


def test_a_set_that_lies_elsewhere_is_used_and_not_removed(sets, project):
    """A link to a whole set is the user's own; the link stays, and what it leads to."""
    source, _ = make()
    moved = Path(source.folder).rename(project / "moved")
    (sets / "cifar-cnn-20").symlink_to(moved)
    assert make() == (source, [])
    assert [each.state for each in made_sets()] == ["whole"]
    with pytest.raises(StoreError, match="is a symbolic link"):
        remove_set("cifar-cnn-20")
    (moved / "test_batch").unlink()
    with pytest.raises(StoreError, match="is a symbolic link"):
        make()
    assert (moved / "data_batch_1").exists()


def test_a_set_of_an_older_laptime_is_still_ours(sets):
    """It has a manifest and no mark."""
    source, _ = make()
    (Path(source.folder) / MADE_MARK).unlink()
    assert make() == (source, [])
    remove_set("cifar-cnn-20")
    assert list(sets.iterdir()) == []


def test_a_part_whose_removal_was_cut_short_is_still_known(sets, monkeypatch):
    """The mark goes last; what is left of it goes the next time."""
    part = sets / f".cifar-cnn.removed.{host()}.part-{dead_process()}"
    open_part(part)
    (part / "a").mkdir()
    (part / "a" / "locked").write_text("x")
    (part / "link").symlink_to(sets.parent)

    def fail(place: object, *_: object) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", fail)
        remove_stale_parts(sets)
    assert (part / MADE_MARK).read_bytes() == MARKED
    remove_stale_parts(sets)
    assert list(sets.iterdir()) == []
    assert sets.parent.exists()


def test_a_pipe_in_a_manifests_place_is_not_waited_for(sets):
    """Neither is one in the mark's place."""
    write_folder(sets / "cifar-cnn-20")
    os.mkfifo(sets / "cifar-cnn-20" / "manifest.json")
    os.mkfifo(sets / "cifar-cnn-20" / MADE_MARK)
    with pytest.raises(StoreError, match="laptime did not make the folder"):
        make()


def test_threads_of_one_process_do_not_take_each_others_parts(sets):
    """Two want the same set, and one another."""
    trouble: list[Exception] = []

    def work(items: int) -> None:
        try:
            make(items)
        except Exception as error:  # noqa: BLE001  a thread's error is judged below
            trouble.append(error)

    threads = [threading.Thread(target=work, args=(items,)) for items in (20, 20, 30)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert trouble == []
    assert sorted(path.name for path in sets.iterdir()) == ["cifar-cnn-20", "cifar-cnn-30"]


def test_a_part_says_whose_it_is(sets):
    part = name_part(sets / "pets-densenet-4")
    assert part.name == f".pets-densenet-4.making.{host()}.part-{os.getpid()}"
