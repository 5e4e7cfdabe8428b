"""The container's limits, read from small folder trees laid out as control groups of version 2 and 1."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from laptime.machine.sensors import cgroup
from laptime.machine.sensors.cgroup import usable_cores
from laptime.model.quantities import Missing

NO_QUOTA = Missing("no processor quota is set")
NO_LIMIT = Missing("no memory limit is set")


@pytest.fixture
def tree(tmp_path):
    """Return a way to lay out a tree: each keyword of the path is a file, each value its text."""

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
    ("files", "left"),
    [
        ({"memoryDOTcurrent": "9000\n", "memoryDOTstat": "file 8000\nactive_file 1000\ninactive_file 500\n"}, 2500),
        ({"memoryDOTcurrent": "9000\n"}, 1000),
        (
            {
                "memory__memoryDOTusage_in_bytes": "9000\n",
                "memory__memoryDOTstat": "active_file 1\ninactive_file 2\n"
                "total_active_file 30\ntotal_inactive_file 40\n",
            },
            1070,
        ),
        ({}, Missing("no control group limits memory and counts it")),
    ],
)
def test_memory_that_is_left_counts_what_would_be_given_back(tree, files, left):
    """Files that were read stay in memory, and count as the group's, until a process needs the room."""
    limit = {"memory__memoryDOTlimit_in_bytes" if "memory__memoryDOTstat" in files else "memoryDOTmax": "10000\n"}
    assert cgroup.memory_left_bytes(tree(**files, **limit)) == left


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
        ({"cpuDOTstat": "usage_usec\n\n"}, None),
        ({}, None),
    ],
)
def test_throttling_is_given_in_milliseconds(tree, files, milliseconds):
    """Version 2 counts in microseconds, version 1 in nanoseconds."""
    told = [
        cgroup.read_throttled_ns(place.read_text())
        for place in cgroup.throttling_files(tree(**files))
        if place.exists()
    ]
    assert milliseconds == next((each / 1e6 for each in told if each is not None), None)


def test_a_machine_without_control_groups_is_no_error(tmp_path):
    """Every reading is absent, with its reason."""
    root = tmp_path / "nowhere"
    assert (
        cgroup.quota_cores(root),
        cgroup.memory_limit_bytes(root),
    ) == (NO_QUOTA, NO_LIMIT)


def test_this_machine_can_be_read():
    """Whatever the real tree holds is a positive number or an absence with a reason."""
    for reading in (cgroup.quota_cores(), cgroup.memory_limit_bytes()):
        assert reading.missing if isinstance(reading, Missing) else reading > 0


JOB = "slurm/job_7"
STEP = f"{JOB}/step_0"


def nested(tmp_path, version: int, files: dict[str, str]) -> tuple[Path, Path]:
    """Lay out groups, and a /proc that puts this process into the step of a Slurm job."""
    controllers = "" if version == 2 else "cpu,memory,cpuacct"
    listed = {"proc/self/cgroup": f"{0 if version == 2 else 3}:{controllers}:/{STEP}\n"}
    for name, text in {**listed, **{f"cg/{place}": text for place, text in files.items()}}.items():
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return tmp_path / "cg", tmp_path / "proc"


def test_limits_of_groups_above_count_in_version_2(tmp_path):
    """Slurm limits the job, one level above the group of the step: the tightest limit on the way up holds."""
    files = {
        f"{STEP}/cpu.max": "max 100000\n",
        f"{STEP}/memory.max": "max\n",
        f"{STEP}/memory.current": "100\n",
        f"{STEP}/cpu.stat": "usage_usec 7\nthrottled_usec 0\n",
        f"{JOB}/cpu.max": "200000 100000\n",
        f"{JOB}/memory.max": "5000\n",
        f"{JOB}/memory.current": "4000\n",
        f"{JOB}/cpu.stat": "usage_usec 9000000\nthrottled_usec 3000\n",
        "slurm/cpu.max": "800000 100000\n",
        "slurm/memory.max": "90000\n",
        "slurm/memory.current": "10000\n",
    }
    root, proc = nested(tmp_path, 2, files)
    assert cgroup.quota_cores(root, proc) == 2.0
    assert cgroup.memory_limit_bytes(root, proc) == 5000
    assert cgroup.memory_left_bytes(root, proc) == 1000
    stat = (root / JOB / "cpu.stat").read_text()
    assert cgroup.throttling_files(root, proc)[0] == cgroup.quota_used_files(root, proc)[0] == root / JOB / "cpu.stat"
    assert (cgroup.read_throttled_ns(stat), cgroup.read_used_ns(stat)) == (3_000_000, 9_000_000_000)
    assert cgroup.memory_used_files(root, proc)[0] == root / JOB / "memory.current"


def test_limits_of_groups_above_count_in_version_1(tmp_path):
    """Each controller has a tree of its own there."""
    files = {
        f"cpu/{STEP}/cpu.cfs_quota_us": "-1\n",
        f"cpu/{STEP}/cpu.cfs_period_us": "100000\n",
        f"cpu/{JOB}/cpu.cfs_quota_us": "150000\n",
        f"cpu/{JOB}/cpu.cfs_period_us": "100000\n",
        f"cpuacct/{JOB}/cpuacct.usage": "2500000000\n",
        f"memory/{STEP}/memory.limit_in_bytes": "9223372036854771712\n",
        f"memory/{JOB}/memory.limit_in_bytes": "7000\n",
        f"memory/{JOB}/memory.usage_in_bytes": "9000\n",
    }
    root, proc = nested(tmp_path, 1, files)
    assert cgroup.quota_cores(root, proc) == 1.5
    used = cgroup.quota_used_files(root, proc)[1]
    assert (used, cgroup.read_used_ns(used.read_text())) == (root / f"cpuacct/{JOB}/cpuacct.usage", 2_500_000_000)
    assert cgroup.memory_limit_bytes(root, proc) == 7000
    assert cgroup.memory_left_bytes(root, proc) == 0


@pytest.mark.parametrize(
    ("quota_us", "cores"), [(150_000, 1), (50_000, 1), (199_999, 1), (200_000, 2), (99_900_000, 0)]
)
def test_a_quota_is_rounded_down_to_whole_cores(tmp_path, quota_us, cores):
    """One thread more than the quota allows has all threads stopped in each period; affinity bounds it, too."""
    root, proc = nested(tmp_path, 2, {f"{JOB}/cpu.max": f"{quota_us} 100000\n"})
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert usable_cores(root, proc) == min(cores or allowed, allowed)
