"""Which record `latest` and `@label` mean: one that this user made here, by the clock of now. And the key for that."""

from __future__ import annotations

import errno
import os
from dataclasses import replace

import pytest
from store_records import record

from laptime.model.errors import RecordError
from laptime.store.exchange import import_records
from laptime.store.files import find, is_ours, load, path_of, save
from laptime.store.schema import encode

OWN, THEIRS, ODD = "r-2026-11-20-aaaa", "r-2026-11-20-bbbb", "r-2026-11-20-cccc"
FUTURE = "2099-01-01T00:00:00+00:00"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Return every test a home of its own."""
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def labelled(identity, started="2026-11-20T10:00:00+00:00", label="base"):
    made = record(identity, started)
    return replace(made, ask=replace(made.ask, label=label))


def bring(tmp_path, made):
    """Import a record of another machine."""
    file = tmp_path / f"{made.id}.json"
    file.write_bytes(encode(made))
    import_records([str(file)])


def test_a_strangers_record_is_neither_latest_nor_a_label_of_ours(tmp_path):
    """It may say that it began in 2099."""
    save(labelled(OWN))
    bring(tmp_path, labelled(THEIRS, FUTURE))
    assert (load("latest").id, load("@base").id) == (OWN, OWN)
    assert load(THEIRS).started == FUTURE


def test_a_signature_of_another_key_is_none(home):
    save(labelled(THEIRS, FUTURE))
    [key] = home.glob("laptime-key-*")
    key.unlink()
    save(labelled(OWN))
    assert find("latest") == path_of(OWN)


def test_a_clock_that_was_wrong_once_does_not_win_for_ever():
    """Both are one's own; if no other is there, it is latest."""
    save(labelled(ODD, FUTURE))
    assert load("latest").id == ODD
    save(labelled(OWN))
    assert (load("latest").id, load("@base").id) == (OWN, OWN)


def test_where_all_records_are_of_others_latest_names_them(tmp_path, home):
    """A user who has no key yet has made none, and means what was brought here."""
    bring(tmp_path, labelled(THEIRS))
    assert (load("latest").id, load("@base").id) == (THEIRS, THEIRS)
    path = save(labelled(OWN))
    path.unlink()
    with pytest.raises(RecordError, match=f"none of these is: {THEIRS}"):
        load("latest")


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
def test_a_key_is_made_where_a_file_system_has_no_hard_links(home, monkeypatch, code):
    def refuse(*_paths, **_options):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    save(record(OWN))
    [key] = home.glob("laptime-key-*")
    assert (key.stat().st_mode & 0o777, key.stat().st_size) == (0o600, 32)
    assert is_ours(load(OWN), OWN)
    save(record(ODD))
    assert is_ours(load(OWN), OWN)


def test_an_older_record_masks_its_secrets_when_it_is_read():
    """It was saved with them, and signed."""
    made, words = record(OWN), ("--hf-token", "abcdef", "--epochs", "3")
    subject = replace(made.workload, title="train.py --hf-token abcdef", command=("python", "train.py", *words))
    path = save(replace(made, ask=replace(made.ask, command=words), workload=subject))
    assert b"abcdef" in path.read_bytes()
    read = load(OWN)
    assert b"abcdef" not in encode(read)
    assert read.ask.command == ("--hf-token", "***", "--epochs", "3")
    assert is_ours(read, OWN)
