"""What may be removed: records that are here and that no process writes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from store_records import record

from laptime.model.errors import RecordError
from laptime.store.files import find_removable, list_records, remove, save
from laptime.store.schema import encode


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_record_that_is_running_cannot_be_removed(home, tmp_path):
    """Its process would write it again. Nor can a file elsewhere; one that cannot be read can."""
    save(replace(record(), status="running"))
    with pytest.raises(RecordError, match="r-2026-11-20-a1b2 is still running"):
        find_removable("latest")
    elsewhere = tmp_path / "r-2026-11-20-0000.json"
    elsewhere.write_bytes(encode(record(elsewhere.stem)))
    with pytest.raises(RecordError, match="is not in the folder of records"):
        find_removable(str(elsewhere))
    (home / "records" / "broken.json").write_text("{")
    remove(find_removable("broken"))
    assert [row.id for row in list_records()] == ["r-2026-11-20-a1b2"]
    save(record())
    remove(find_removable("r-2026"))
    assert list_records() == ()
