"""What cannot be saved is shown all the same: the result on stdout, the trouble on stderr, exit code 3."""

from __future__ import annotations

import resource

import pytest

EIGHT_KB = 8_192


def full_disk() -> None:
    """Let no file grow beyond 8 kB: a record does not fit, as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (EIGHT_KB, EIGHT_KB))


@pytest.mark.long
def test_a_full_disk_loses_the_record_and_not_the_result(house):
    """The table is whole; what went wrong and the way out stand on stderr.

    Neither a record nor a temporary file is left half-written, and the list is not disturbed.
    """
    answer = house.race("cifar-cnn", "fake/cpu", "fake/cpu/best", preexec_fn=full_disk)
    assert answer.code == 3
    assert "2.00x faster (2.00-2.00)" in answer.out
    first, second = answer.err.splitlines()
    assert first.startswith("laptime: the record r-")
    assert first.endswith(
        "could not be saved in "
        + str(house.home / "records")
        + ": the file would be larger than this process may write"
    )
    assert second == "  Make room there, or set LAPTIME_HOME to a folder that can be written."
    assert not (house.home / "records").exists()
    assert house.run("list", "--json").json == []


@pytest.mark.long
def test_heats_that_were_saved_before_the_disk_was_full_stay(house):
    """The journal of the first heats is whole, the later ones did not fit any more."""
    house.race("fake/cpu", "--heats", "1")
    (first,) = house.files()
    limit = first.stat().st_size * 3 // 2
    first.unlink()

    def nearly_full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    answer = house.race("fake/cpu", "--heats", "8", preexec_fn=nearly_full)
    assert answer.code == 3
    assert "8 heats each, " in answer.out
    kept = house.kept()
    assert kept["status"] == "running"
    assert 1 <= len(kept["lanes"][0]["heats"]) < 8


@pytest.mark.parametrize("words", [("--json",), ()])
def test_a_place_that_is_no_folder_is_named(house, words):
    """A file is where the records should go."""
    house.home.write_text("not a folder")
    answer = house.race("fake/cpu", "--heats", "1", *words)
    assert answer.code == 3
    first, *_ = answer.err.splitlines()
    assert (
        first
        == f"laptime: what comes now cannot be saved in {house.home / 'records'}: a file is where a folder is needed"
    )
    assert "50.0 s" in answer.out or '"status": "finished"' in answer.out
    assert "a file is where a folder is needed" in answer.err
    listed = house.run("list")
    assert (listed.code, listed.out) == (2, "")
    assert "cannot be listed" in listed.err


def test_a_reference_that_cannot_be_kept_is_no_trouble(house):
    """It is made again the next time."""
    house.cache.parent.mkdir()
    house.cache.write_text("not a folder")
    assert house.race("fake/cpu", "--heats", "1").code == 0
