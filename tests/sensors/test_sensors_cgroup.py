"""The container's limits, read from small folder trees laid out as control groups of version 2 and 1."""

from __future__ import annotations

from pathlib import Path

import pytest

from laptime.model.missing import Missing
from laptime.sensors import cgroup

NO_QUOTA = Missing("no processor quota is set")
NO_LIMIT = Missing("no memory limit is set")
NO_COUNT = Missing("no control group counts throttling here")


@pytest.fixture
def tree(tmp_path):
    """Give a way to lay out a tree: each keyword of the path is a file, each value its text."""

    def lay_out(**files: str) -> Path:
        for name, text in files.items():
            place = tmp_path / name.replace("__", "/").replace("DOT", ".")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        return tmp_path

    return lay_out


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpuDOTmax": "150000 100000\n"}, 1.5),
        ({"cpuDOTmax": "50000 100000\n"}, 0.5),
        ({"cpuDOTmax": "max 100000\n"}, NO_QUOTA),
        ({"cpu__cpuDOTcfs_quota_us": "400000\n", "cpu__cpuDOTcfs_period_us": "100000\n"}, 4.0),
        ({"cpu__cpuDOTcfs_quota_us": "-1\n", "cpu__cpuDOTcfs_period_us": "100000\n"}, NO_QUOTA),
        ({"cpu__cpuDOTcfs_quota_us": "400000\n"}, NO_QUOTA),
        ({"cpuDOTmax": ""}, NO_QUOTA),
        ({}, NO_QUOTA),
    ],
)
def test_a_quota_is_given_in_cores(tree, files, cores):
    """Quota over period; `max` and -1 are no quota."""
    assert cores == cgroup.quota_cores(tree(**files))


@pytest.mark.parametrize(
    ("files", "used"),
    [
        ({"memoryDOTcurrent": "9000\n", "memoryDOTstat": "file 8000\nactive_file 1000\ninactive_file 500\n"}, 7500),
        ({"memoryDOTcurrent": "9000\n"}, 9000),
        (
            {
                "memory__memoryDOTusage_in_bytes": "9000\n",
                "memory__memoryDOTstat": "active_file 1\ninactive_file 2\n"
                "total_active_file 30\ntotal_inactive_file 40\n",
            },
            8930,
        ),
        ({}, Missing("no control group counts memory here")),
    ],
)
def test_memory_in_use_is_without_what_would_be_given_back(tree, files, used):
    """Files that were read stay in memory, and count as the group's, until somebody needs the room."""
    assert cgroup.memory_used_bytes(tree(**files)) == used


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"memoryDOTmax": "8589934592\n"}, 8_589_934_592),
        ({"memoryDOTmax": "max\n"}, NO_LIMIT),
        ({"memory__memoryDOTlimit_in_bytes": "4294967296\n"}, 4_294_967_296),
        ({"memory__memoryDOTlimit_in_bytes": "9223372036854771712\n"}, NO_LIMIT),
        ({}, NO_LIMIT),
    ],
)
def test_a_memory_limit_is_given_in_bytes(tree, files, limit):
    """A number near 2**63 is how version 1 says that there is none."""
    assert limit == cgroup.memory_limit_bytes(tree(**files))


@pytest.mark.parametrize(
    ("files", "milliseconds"),
    [
        ({"cpuDOTstat": "usage_usec 99\nnr_throttled 3\nthrottled_usec 1250\n"}, 1.25),
        ({"cpu__cpuDOTstat": "nr_periods 9\nnr_throttled 3\nthrottled_time 2500000\n"}, 2.5),
        ({"cpuDOTstat": "usage_usec 99\n", "cpu__cpuDOTstat": "throttled_time 3000000\n"}, 3.0),
        ({"cpuDOTstat": "usage_usec\n\n"}, NO_COUNT),
        ({}, NO_COUNT),
    ],
)
def test_throttling_is_given_in_milliseconds(tree, files, milliseconds):
    """Version 2 counts in microseconds, version 1 in nanoseconds."""
    assert milliseconds == cgroup.throttled_ms(tree(**files))


def test_a_machine_without_control_groups_is_no_error(tmp_path):
    """Every reading is absent, with its reason."""
    root = tmp_path / "nowhere"
    assert (
        cgroup.quota_cores(root),
        cgroup.memory_limit_bytes(root),
        cgroup.throttled_ms(root),
    ) == (NO_QUOTA, NO_LIMIT, NO_COUNT)


def test_this_machine_can_be_read():
    """Whatever the real tree holds is a positive number or an absence with a reason."""
    for reading in (cgroup.quota_cores(), cgroup.memory_limit_bytes()):
        assert reading.missing if isinstance(reading, Missing) else reading > 0
