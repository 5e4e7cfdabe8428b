"""A stated memory is read as people write it, and held against what there is."""

from __future__ import annotations

import pytest

from laptime.model.errors import UsageError
from laptime.remedies import cached


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("4 GB", 4_000_000_000),
        ("512MB", 512_000_000),
        ("1.5 GiB", 3 << 29),
        ("10 kb", 10_000),
        (" 2 TiB ", 2 << 40),
        ("7 B", 7),
        (12345, 12345),
    ],
)
def test_a_memory_is_read(written, size):
    assert size == cached.read_memory(written)


@pytest.mark.parametrize("written", ["4", "GB", "4 G", "-1 GB", "1e3 MB", "4 GB of it", 1.5, b"4 GB", -1])
def test_what_is_no_memory_is_refused(written):
    with pytest.raises(UsageError, match='write it as "4 GB"'):
        cached.read_memory(written)


@pytest.mark.parametrize(
    ("size", "written"), [(4_000_000_000, "4 GB"), (1_536_000, "1.54 MB"), (999, "999 B"), (25_300_000_000, "25.3 GB")]
)
def test_a_memory_is_written(size, written):
    assert written == cached.write_memory(size)


def test_what_is_free_is_what_this_machine_could_give():
    free, whose = cached.free_memory()
    assert 10**6 < free < 10**14
    assert whose.startswith(("on this machine of", "within this container's limit of"))


def test_a_containers_limit_is_told_where_it_is_the_smaller(monkeypatch):
    """A limit of 1 GB of which 900 MB are used, in a larger machine."""
    monkeypatch.setattr(cached, "memory_limit_bytes", lambda: 1_000_000)
    monkeypatch.setattr(cached, "memory_left_bytes", lambda: 100_000)
    with pytest.raises(UsageError, match=r"memory=200 KB: 100 KB are free within this container's limit of 1 MB"):
        cached.check_memory(200_000)
