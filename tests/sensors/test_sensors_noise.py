"""Processor time of everybody and of one process tree, seen on real processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from trees import Clock, lay_out, stat_line
from trees import process as files_of

from laptime.machine.sensors.host.sensor import NoiseReader
from laptime.model.quantities import Missing

BUSY = "while True: pass"
BUSY_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"
BUSY_PAST = (
    "import subprocess, sys, time\n"
    "subprocess.run([sys.executable, '-c', 'import time\\nwhile time.process_time() < 0.3: pass'])\n"
    "print('done', flush=True)\n"
    "time.sleep(60)\n"
)
SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def start():
    """Start Python programs that are ended, with all they started, when the test is over."""
    running = []

    def start_one(program: str, **options) -> subprocess.Popen:
        running.append(subprocess.Popen([sys.executable, "-c", program], start_new_session=True, **options))
        return running[-1]

    yield start_one
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def spent(sensor, seconds=0.6):
    """Return what everybody and the tree took in this time."""
    before = sensor.read()
    time.sleep(seconds)
    after = sensor.read()
    return after.busy_s - before.busy_s, after.tree_s - before.tree_s, (after.at_ns - before.at_ns) / 1e9


def open_on(process) -> NoiseReader:
    sensor = NoiseReader()
    assert sensor.probe() is None
    sensor.open(process.pid)
    time.sleep(0.2)  # interpreters start with a burst of their own
    return sensor


def test_another_process_is_not_taken_for_the_tree(start):
    """A busy process next to the tree counts for everybody, and not for the tree."""
    sensor = open_on(start(SLEEP))
    start(BUSY)
    busy_s, tree_s, wall_s = spent(sensor)
    assert busy_s > 0.3 * wall_s
    assert tree_s <= 0.05


@pytest.mark.parametrize("program", [BUSY, BUSY_CHILD], ids=["itself", "its child"])
def test_the_work_of_a_tree_is_its_own(start, program):
    """The process and what it started both count for the tree, and no more than everybody took."""
    sensor = open_on(start(program))
    busy_s, tree_s, wall_s = spent(sensor)
    assert tree_s > 0.3 * wall_s
    assert tree_s <= busy_s + 0.05


def test_a_child_that_has_ended_is_not_forgotten(start):
    """Its time is still the tree's, as everybody's count still holds it."""
    process = start(BUSY_PAST, stdout=subprocess.PIPE, text=True)
    sensor = open_on(process)
    assert process.stdout.readline() == "done\n"
    assert sensor.read().tree_s >= 0.28


def test_what_a_process_that_is_gone_took_is_not_known(start):
    """Zero would make its work that of others."""
    process = start("pass")
    sensor = open_on(process)
    process.wait()
    assert sensor.read().tree_s == Missing("the processor time of the heat's processes cannot be read")
    sensor.close()


def test_readings_are_of_the_monotonic_clock():
    """So that the span between two of them is what a window lasted."""
    before_ns = time.monotonic_ns()
    reading = NoiseReader().read()
    assert before_ns <= reading.at_ns <= time.monotonic_ns()
    assert reading.load_1m >= 0


TICKS = os.sysconf("SC_CLK_TCK")
QUOTA = {
    "proc/self/cgroup": "0::/pod\n",
    "cg/pod/cpu.max": "400000 100000\n",
    "cg/pod/cpu.stat": "usage_usec 1000000\nthrottled_usec 0\n",
}


def stat_of(*busy_s: float) -> dict[str, str]:
    """Lay out /proc/stat of a machine whose cores were busy for so long."""
    lines = [f"cpu{core} {round(each * TICKS)} 0 0 9000 70 0 0 0 5 0" for core, each in enumerate(busy_s)]
    return {"proc/stat": "\n".join([f"cpu {round(sum(busy_s) * TICKS)} 0 0 9000 70 0 0 0 5 0", *lines, "intr 9 0"])}


def seen_by(root, cores, *readings: dict[str, str]):
    """Read once after each change of the files, a second apart; give the differences of the first and the last."""
    clock = Clock()
    lay_out(root, {"proc/loadavg": "1.00 0.50 0.10 1/88 4000\n"} | readings[0])
    sensor = NoiseReader(root / "proc", root / "cg", frozenset(cores), clock)
    sensor.open(100)
    told = [sensor.read()]
    for files in readings[1:]:
        lay_out(root, files)
        clock.forward(1.0)
        told.append(sensor.read())
    sensor.close()
    return sensor, told[0], told[-1]


def test_cores_of_others_are_no_matter_of_ours(tmp_path):
    """Another process on a core outside of our affinity takes nothing from us; one on ours does."""
    _, before, after = seen_by(tmp_path, {0}, files_of(100) | stat_of(1.0, 1.0), stat_of(1.25, 2.0))
    assert after.busy_s - before.busy_s == pytest.approx(0.25)
    _, before, after = seen_by(tmp_path, {1}, stat_of(1.0, 1.0), stat_of(1.25, 2.0))
    assert after.busy_s - before.busy_s == pytest.approx(1.0)


def test_in_a_pod_only_what_shares_the_quota_is_counted(tmp_path):
    """4 of 64 cores by quota: 30 busy cores of the host are others' business, unless our threads wait for them."""
    thread = {"proc/100/task/100/schedstat": "5000000000 100000000 9\n"}
    begin = files_of(100, ticks=(TICKS, 0, 0, 0)) | QUOTA | stat_of(*[1.0] * 64) | thread
    end = {
        "proc/100/stat": stat_line(100, ticks=(4 * TICKS, 0, 0, 0)),
        "cg/pod/cpu.stat": "usage_usec 4500000\nthrottled_usec 20000\n",
        "proc/100/task/100/schedstat": "8000000000 600000000 9\n",
        **stat_of(*[1.5] * 64),
    }
    sensor, before, after = seen_by(tmp_path, range(64), begin, end)
    assert not sensor.owns_cores
    assert after.busy_s - before.busy_s == pytest.approx(3.5)
    assert after.tree_s - before.tree_s == pytest.approx(3.0)
    assert after.cores_busy_s - before.cores_busy_s == pytest.approx(32.0)
    assert after.waited_s - before.waited_s == pytest.approx(0.5)
    assert after.throttled_ms - before.throttled_ms == pytest.approx(20.0)


def test_a_quota_as_large_as_the_affinity_takes_no_core_away(tmp_path):
    sensor, reading, _ = seen_by(tmp_path, range(4), files_of(100) | QUOTA | stat_of(*[1.0] * 4))
    assert sensor.owns_cores
    assert isinstance(reading.waited_s, Missing)


def test_a_child_that_ends_in_the_midst_hides_no_other(tmp_path):
    """Of three children one is gone when it is looked at: what the two others used is still the heat's."""
    children = files_of(200, ticks=(50, 0, 0, 0)) | files_of(300, ticks=(70, 0, 0, 0))
    begin = files_of(100, children="150 200 300 ") | children | stat_of(1.0)
    _, reading, _ = seen_by(tmp_path, {0}, begin)
    assert reading.tree_s == pytest.approx(120 / TICKS)


def test_a_process_that_goes_takes_nothing_back(tmp_path):
    """What it had used stays the heat's, also where its parent has not taken it over."""
    begin = files_of(100, children="200 ") | files_of(200, ticks=(50, 0, 0, 0)) | stat_of(1.0)
    lay_out(tmp_path, begin | {"proc/loadavg": "1.00 0.50 0.10 1/88 4000\n"})
    clock = Clock()
    sensor = NoiseReader(tmp_path / "proc", tmp_path / "cg", frozenset({0}), clock)
    sensor.open(100)
    before = sensor.read()
    (tmp_path / "proc/200/stat").write_text("")
    shutil.rmtree(tmp_path / "proc/200")
    clock.forward(1.0)
    assert sensor.read().tree_s == before.tree_s == pytest.approx(50 / TICKS)
    sensor.close()
