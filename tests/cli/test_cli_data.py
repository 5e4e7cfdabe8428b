"""`laptime data`: what was made is listed, made and removed, by real commands."""

from __future__ import annotations

import os
import resource
import signal
import time

import pytest
from terminal import OnTerminal


def make(house, *words):
    return house.run("data", "make", "pets-densenet", "--items", "6", *words)


def test_nothing_is_there_at_first(house):
    """Which is said, with the way to change it; as JSON it is an empty list."""
    assert house.run("data", "list").out == "No data made yet; laptime data make WHAT makes some.\n"
    assert house.run("data", "list", "--json").json == []
    assert not house.cache.exists()


def test_a_set_is_made_listed_and_removed(house):
    """Each command says in a line what it did."""
    folder = house.cache / "data" / "pets-densenet-6"
    made = make(house)
    assert (made.code, made.err) == (0, "")
    assert made.out.startswith("pets-densenet-6: 6 train and 2 test items, ")
    assert f" kB, in {folder}, made in " in made.out
    assert make(house).out.endswith(f"in {folder}, was there already\n")
    head, row = house.run("data", "list", env={"COLUMNS": "300"}).out.splitlines()
    assert head.split() == ["data", "train", "test", "size", "state", "folder"]
    assert row.split()[:3] == ["pets-densenet-6", "6", "2"]
    assert row.split()[-2:] == ["whole", str(folder)]
    removed = house.run("data", "remove", "pets-densenet-6")
    assert (removed.code, removed.err) == (0, "")
    assert removed.out.startswith("pets-densenet-6: removed 6 train and 2 test items, ")
    assert list(folder.parent.iterdir()) == []


def test_every_command_speaks_json(house):
    """With the same counts."""
    folder = str(house.cache / "data" / "pets-densenet-6")
    made = make(house, "--json").json
    assert (made.pop("was_there"), made.pop("seconds") > 0) == (False, True)
    assert made.pop("bytes") > 10_000
    assert made == {
        "name": "pets-densenet-6",
        "folder": folder,
        "workload": "pets-densenet",
        "train_items": 6,
        "test_items": 2,
        "state": "whole",
    }
    assert make(house, "--json").json["was_there"]
    (listed,) = house.run("data", "--json").json
    assert listed["folder"] == folder
    assert house.run("data", "list", "--json").json == [listed]
    assert house.run("data", "remove", "pets-densenet-6", "--json").json == listed


def test_data_alone_lists(house):
    assert house.run("data").out == house.run("data", "list").out


def test_a_list_fits_the_page(house):
    """However narrow it is."""
    make(house)
    for width in (20, 60, 100):
        lines = house.run("data", env={"COLUMNS": str(width)}).out.splitlines()
        assert max(map(len, lines)) <= width


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("make", "pets"), "unknown workload 'pets'; nearest: pets-densenet"),
        (("make", "pets-densenet", "--items", "1"), "1 items are too few for pets-densenet"),
        (("make", "pets-densenet", "--items", "0"), "'0' is not a count above 0, nor 'all'"),
        (("make", "pets-densenet", "--items", "many"), "'many' is not a count above 0, nor 'all'"),
        (("make",), "Missing argument 'WHAT'"),
        (("remove", "pets"), "there is no made data 'pets'; there is: none"),
        (("burn",), "No such command 'burn'"),
    ],
)
def test_a_slip_is_explained(house, words, said):
    """Exit code 2, nothing on stdout, nothing made."""
    answer = house.run("data", *words)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert not (house.cache / "data").exists()


def test_a_damaged_set_is_listed_as_such_and_made_anew(house):
    """The trouble on stderr, the result on stdout."""
    make(house)
    next((house.cache / "data").glob("*/train/cats/*")).unlink()
    assert [each["state"] for each in house.run("data", "--json").json] == ["half-written"]
    answer = make(house)
    assert answer.code == 0
    assert "it is damaged, one file of " in answer.err
    assert "; it is made again" in answer.err
    assert "made in" in answer.out


def test_a_notice_stays_on_a_terminal(house):
    """Above what is drawn in its place: why a set is made again can still be read at the end."""
    make(house)
    next((house.cache / "data").glob("*/train/cats/*")).unlink()
    on = OnTerminal(house, "data", "make", "pets-densenet", "--items", "6", columns=400)
    assert on.finish() == 0
    notice, made = on.shown()[0].all_rows
    assert notice.endswith("; it is made again")
    assert made.startswith("pets-densenet-6: 6 train and 2 test items, ")


def full_disk():
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_192, 8_192))


def test_a_full_disk_is_a_sentence(house):
    """Exit code 3, and nothing half-written."""
    answer = house.run("data", "make", "scenes-cnn", "--items", "40", preexec_fn=full_disk)
    assert (answer.code, answer.out) == (3, "")
    first, second = answer.err.splitlines()
    assert first.startswith(f"laptime: the made data for scenes-cnn could not be written to {house.cache / 'data'}: ")
    assert "LAPTIME_CACHE" in second
    assert list((house.cache / "data").iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_a_sentence(house):
    house.cache.parent.mkdir(mode=0o555)
    answer = make(house)
    assert answer.code == 3
    assert "no permission" in answer.err


@pytest.mark.long
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_interrupts_leaves_nothing_half_written(house, number, code):
    """Ctrl-C and a polite kill."""
    process = house.start("data", "make", "scenes-cnn", "--items", "9000")
    deadline = time.monotonic() + 30
    while not list((house.cache / "data").glob(".*.part-*/train/sea/*")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    assert house.finish(process).code == code
    assert list((house.cache / "data").iterdir()) == []


@pytest.mark.long
def test_what_lasts_tells_how_long(house):
    """On stderr, with the time to go, from the second second on."""
    process = house.start("data", "make", "scenes-cnn", "--items", "9000")
    house.read_until(process, "images for scenes-cnn made, about ")
    process.send_signal(signal.SIGINT)
    assert " s to go" in house.finish(process).err
