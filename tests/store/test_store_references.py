"""The references of proofs are kept for next time; losing one costs time and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from math import isfinite

import pytest
from hypothesis import HealthCheck, assume, given, settings
from store_records import references

from laptime.model.sample import ProofRun, Reference
from laptime.store.disk import SUFFIX, host
from laptime.store.references import batches_kept, load_reference, place_batches, save_reference

RUN = ProofRun("fp64", (2.3, 2.2), 1.0, 0.1, (0.1, 0.2), 0.5)


def reference(key):
    return Reference(key, RUN, RUN, 7, 1_337_002)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Return every test a cache of its own."""
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "laptime" / "references"


def test_a_reference_comes_back(cache):
    """What was computed once is not computed again."""
    assert save_reference(reference("cifar-cnn-10-0"))
    assert reference("cifar-cnn-10-0") == load_reference("cifar-cnn-10-0")
    assert [path.name for path in cache.iterdir()] == ["cifar-cnn-10-0.json"]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(references)
def test_any_finite_reference_comes_back_whatever_its_key(any_reference):
    """A key may hold what no file name can. A core's score may be missing, and an infinite one reads as missing."""
    work = any_reference.work
    assume(work is None or work.core_score is None or isfinite(work.core_score))
    assert save_reference(any_reference)
    kept = load_reference(any_reference.key)
    assert kept in {any_reference, None}


@pytest.mark.parametrize("key", ["a/b", "../up", "", ".", "my.py:training", "x" * 300, "ключ"])
def test_a_key_never_leaves_the_folder(key, cache):
    """A user's own function may be called anything."""
    assert save_reference(reference(key))
    assert reference(key) == load_reference(key)
    assert len(list(cache.iterdir())) == 1


def test_an_unknown_key_is_absent():
    """Nothing kept is no error."""
    assert load_reference("never-saved") is None


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[]", b'{"key": "k"}', b"[" * 100_000])
def test_an_unreadable_reference_counts_as_absent_and_is_replaced(data, cache):
    """A damaged cache repairs itself."""
    cache.mkdir(parents=True)
    (cache / "k.json").write_bytes(data)
    assert load_reference("k") is None
    assert save_reference(reference("k"))
    assert reference("k") == load_reference("k")


def test_a_reference_of_another_key_counts_as_absent(cache):
    """A file that was renamed by hand must not prove another workload."""
    save_reference(reference("one"))
    (cache / "one.json").rename(cache / "two.json")
    assert load_reference("two") is None


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    """A proof holds whether or not its reference could be kept."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path / "file"))
    assert not save_reference(reference("k"))


def test_a_proofs_batches_are_removed_with_their_race(cache):
    """Of each of its seeds; another race's, those of a living process and references stay."""
    save_reference(reference("kept"))
    others = [place_batches("another", 0), cache / ".r-1-0.json", cache / f".r-1-0.{host()}.{os.getppid()}.tmp"]
    with batches_kept("r-1"):
        for path in (place_batches("r-1", 0), place_batches("r-1", 1_000_003), *others):
            path.write_bytes(b"batches")
    assert sorted(cache.iterdir()) == sorted([cache / "kept.json", *others])


def test_batches_of_a_race_that_was_killed_are_removed_by_the_next(cache):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    cache.mkdir(parents=True)
    (cache / f".r-0-0.{host()}.{ended.pid}{SUFFIX}").write_bytes(b"batches")
    with batches_kept("r-1"):
        assert list(cache.iterdir()) == []


def test_an_id_from_a_record_leads_nowhere_else(cache):
    """It is a name, and no path and no pattern."""
    assert place_batches("../../x/*[!a]", 0).parent == cache
    assert "*" not in place_batches("*", 0).name
