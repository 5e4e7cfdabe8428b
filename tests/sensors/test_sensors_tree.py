"""The heat's process tree: made-up families that change between readings, and real ones that fork, part and end."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time

import pytest
from trees import MACHINE, Clock, by_name, lay_out, process, stat_line

from laptime.machine.sensors.host import HostSensor

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
BURN = """
import os, sys, time
def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until: pass
"""
MANY_THREADS = """
import subprocess, sys, threading, time
threading.stack_size(65536)
for _ in range(1000): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
subprocess.Popen(["sleep", "60"]).wait()
"""
QUICK_FORKS = (
    BURN
    + """
import resource
for _ in range(60):
    pid = os.fork()
    if not pid:
        burn(0.004)
        os._exit(0)
    os.waitpid(pid, 0)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime + time.process_time(), flush=True)
time.sleep(60)
"""
)
UNWAITED = (
    BURN
    + """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
pid = os.fork()
if not pid:
    burn(0.3)
    print("burnt", flush=True)
    sys.stdin.readline()
    os._exit(0)
time.sleep(60)
"""
)
PARTED = (
    BURN
    + """
if not os.fork():
    if not os.fork():
        burn(0.3)
        print(os.getppid(), os.getpid(), flush=True)
        time.sleep(60)
    time.sleep(60)
time.sleep(60)
"""
)


class Hurry(Clock):
    """A clock on which a minute passes between two looks, so that everything is always due."""

    def __call__(self) -> int:
        self.forward(60)
        return self.now_ns


@pytest.fixture
def start():
    """Start Python programs that are ended, with all they started, when the test is over."""
    running = []

    def start_one(program: str) -> subprocess.Popen:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        running.append(subprocess.Popen([sys.executable, "-c", program], text=True, start_new_session=True, **pipes))
        return running[-1]

    yield start_one
    for child in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


@pytest.fixture
def watch():
    """Open sensors on real processes, and close them after the test."""
    sensors = []

    def open_one(pid, clock=None):
        sensors.append(HostSensor(clock=clock or Hurry()))
        opened = sensors[-1].open(pid)

        def read() -> dict[str, float | None]:
            named = by_name(opened, sensors[-1].read())
            return {name: figure for (device, name), figure in named.items() if device == "heat"}

        return read

    yield open_one
    for sensor in sensors:
        sensor.close()


def until(read, holds, seconds: float = 10.0) -> dict[str, float | None]:
    """Read until something holds."""
    deadline = time.monotonic() + seconds
    while not holds(told := read()):
        assert time.monotonic() < deadline, told
        time.sleep(0.02)
    return told


def test_a_made_up_family_is_added_up_as_it_changes(tmp_path):
    """A child is found in the list of any thread; when it ends, its parent's count takes over; a zombie is nobody."""
    clock = Clock()
    root = process(100, threads=2, ticks=(10, 5, 2, 1), faults=(7, 3, 2, 1), resident_pages=20)
    second_thread = {"proc/100/task/101/children": "200 "}
    lay_out(tmp_path, MACHINE | root | second_thread | process(200, ticks=(4, 0, 0, 0), faults=(1, 0, 1, 0)))
    sensor = HostSensor(tmp_path / "proc", tmp_path / "sys", clock)
    opened = sensor.open(100)
    first = by_name(opened, sensor.read())
    lay_out(tmp_path, {"proc/200/stat": stat_line(200, state="Z", ticks=(6, 0, 0, 0))})
    clock.forward(0.1)
    zombie = by_name(opened, sensor.read())
    (tmp_path / "proc/200/stat").write_text("")
    shutil.rmtree(tmp_path / "proc/200")
    lay_out(tmp_path, {"proc/100/stat": stat_line(100, threads=2, ticks=(10, 5, 8, 1), faults=(7, 4, 2, 2))})
    clock.forward(0.1)
    after = by_name(opened, sensor.read())
    sensor.close()

    def told(reading, *names):
        return [reading["heat", name] for name in names]

    assert told(first, "processes", "threads", "minor_faults", "major_faults") == [2, 3, 11, 4]
    assert told(first, "resident_bytes") == [30 * PAGE_BYTES]
    assert told(zombie, "processes", "threads") == [1, 2]
    assert told(after, "processes", "threads") == [1, 2]
    assert [reading["heat", "busy_s"] for reading in (first, zombie, after)] == pytest.approx(
        [22 * TICK_S, 24 * TICK_S, 24 * TICK_S]
    )


def test_new_members_are_looked_for_only_after_somebody_forked(tmp_path):
    """The number last given to a process decides; while it stays, the lists of children are not read."""
    clock = Clock()
    lay_out(tmp_path, MACHINE | process(100))
    sensor = HostSensor(tmp_path / "proc", tmp_path / "sys", clock)
    opened = sensor.open(100)
    lay_out(tmp_path, process(200) | {"proc/100/task/100/children": "200 "})
    seen = []
    for newest in (4000, 4000, 4001):
        clock.forward(2)
        lay_out(tmp_path, {"proc/loadavg": f"0.1 0.1 0.1 1/88 {newest}\n"})
        seen.append(by_name(opened, sensor.read())["heat", "processes"])
    sensor.close()
    assert seen == [1, 1, 2]


def test_where_the_newest_process_is_not_told_every_look_is_a_whole_one(tmp_path):
    """Some sandboxes say 0 for ever."""
    clock = Clock()
    lay_out(tmp_path, MACHINE | process(100) | {"proc/loadavg": "0.1 0.1 0.1 0/0 0\n"})
    sensor = HostSensor(tmp_path / "proc", tmp_path / "sys", clock)
    opened = sensor.open(100)
    lay_out(tmp_path, process(200) | {"proc/100/task/100/children": "200 "})
    clock.forward(2)
    assert by_name(opened, sensor.read())["heat", "processes"] == 2
    sensor.close()


def test_children_that_end_between_two_readings_are_counted(start, watch):
    """Sixty of them, too short for most to be seen: what they used is what the system says they did."""
    child = start(QUICK_FORKS)
    read = watch(child.pid)
    while not select.select([child.stdout], [], [], 0)[0]:
        read()
        time.sleep(0.01)
    used_s = float(child.stdout.readline())
    assert read()["busy_s"] == pytest.approx(used_s, abs=5 * TICK_S)
    assert read()["processes"] == 1


def test_a_child_that_nobody_waits_for_is_counted(start, watch):
    """The parent ignores its children's ends, so the kernel hands their time to nobody."""
    child = start(UNWAITED)
    read = watch(child.pid)
    assert child.stdout.readline() == "burnt\n"
    before = read()
    assert before["processes"] == 2
    child.stdin.write("end\n")
    child.stdin.flush()
    after = until(read, lambda told: told["processes"] == 1)
    assert after["busy_s"] >= before["busy_s"] >= 0.28
    assert after["minor_faults"] >= before["minor_faults"]


def test_a_grandchild_whose_parent_has_ended_stays_a_member(start, watch):
    """It is watched to its end, and what it used is kept."""
    child = start(PARTED)
    read = watch(child.pid)
    parent, grandchild = map(int, child.stdout.readline().split())
    assert read()["processes"] == 3
    os.kill(parent, signal.SIGKILL)
    before = until(read, lambda told: told["processes"] == 2)
    os.kill(grandchild, signal.SIGKILL)
    after = until(read, lambda told: told["processes"] == 1)
    assert after["busy_s"] >= before["busy_s"] >= 0.28


def test_a_tree_that_has_ended_tells_nothing(start, watch):
    """A heat that ended is no error."""
    child = start("import time; time.sleep(60)")
    read = watch(child.pid)
    assert read()["processes"] == 1
    child.kill()
    child.wait()
    assert set(read().values()) == {None}
    assert set(read().values()) == {None}


def test_a_thousand_threads_are_looked_into_some_at_a_time(start, watch):
    """All are counted at every reading; a child is found when the child lists of all have been gone through."""
    child = start(MANY_THREADS)
    assert child.stdout.readline() == "ready\n"
    read = watch(child.pid)
    readings = [read() for _ in range(40)]
    assert {reading["threads"] for reading in readings} == {1001}
    child.stdin.write("start another\n")
    child.stdin.flush()
    until(read, lambda told: told["processes"] == 2)
