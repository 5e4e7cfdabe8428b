"""Where traces are: next to the records, one file a lane, no two lanes in one."""

from __future__ import annotations

import pytest

from laptime.store.disk import host
from laptime.store.files import place_trace


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path))
    return tmp_path


def test_a_lane_is_spelt_as_a_file_may_be_called(home):
    assert place_trace("r-1", "torch/cuda:0/best").parent == home / "traces"
    assert place_trace("r-1", "torch/cpu/as-written").name == "r-1-torch-cpu-as-written.json.gz"


@pytest.mark.parametrize(
    ("one", "other"),
    [("a/b+c", "a/b-c"), ("x/" + "y" * 200, "x/" + "y" * 201), ("torch/cuda:0", "torch/cuda/0")],
)
def test_no_two_lanes_share_a_file(one, other):
    assert place_trace("r-1", one) != place_trace("r-1", other)
    assert len(place_trace("r-1", one).name) < 200


def test_what_a_killed_child_left_is_removed(home):
    """Its process is gone: no process has this number."""
    left = home / "traces" / f".r-1-a.json.{host()}.{2**22 + 1}.laptime.tmp"
    left.parent.mkdir()
    left.write_text("half a trace")
    place_trace("r-2", "torch/cpu")
    assert not left.exists()
