"""The host's sensor against others on a real load: psutil as it runs, /usr/bin/time or the system when it has ended."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from trees import by_name

from laptime.machine.sensors.host import HostSensor
from laptime.machine.sensors.host.process_tree import PortableMachine, PortableTree

HELD_BYTES = 256 << 20
TIME = Path("/usr/bin/time")
LOAD = f"""
import os, sys, time

def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until: pass

def say(word):
    print(word, flush=True)
    sys.stdin.readline()

say("empty")
held = bytearray(b"x") * {HELD_BYTES}
say("holds")
del held
for depth in range(2):
    if not os.fork():
        if not depth:  # one of the two has a child of its own
            pid = os.fork()
            if not pid:
                burn(0.6)
                os._exit(0)
            os.waitpid(pid, 0)
        burn(1.2)
        os._exit(0)
burn(1.2)
os.wait(), os.wait()
say("burnt")
"""


def run(read):
    """Run the load step by step; give what is read at each, and the processor time that it took by the system."""
    told = TIME.exists() and sys.platform == "linux"
    command = [str(TIME), "-f", "%U %S"] if told else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child = subprocess.Popen(
        [*command, sys.executable, "-c", LOAD],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    readings = {}
    for word in ("empty", "holds", "burnt"):
        assert child.stdout.readline() == f"{word}\n"
        readings[word] = read(child.pid, word)
        child.stdin.write("\n")
        child.stdin.flush()
    _, errors = child.communicate()
    if told:
        return readings, sum(map(float, errors.split()))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return readings, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.long
def test_a_known_load_is_measured_within_two_percent():
    """Memory that was allocated, and processor time of a process, its children and theirs, most of them ended.

    From /proc and by psutil, side by side: the load waits while it is read.
    """
    minutes = iter(range(0, 10**15, 60 * 10**9))
    sensors = {"proc": HostSensor(clock=lambda: next(minutes)), "psutil": PortableTree()}
    opened, others = {}, {}

    def read(pid, word):
        if not opened:
            opened.update({way: sensor.open(pid) for way, sensor in sensors.items()})
        tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        others[word] = sum(process.memory_info().rss for process in tree)
        return {way: by_name(opened[way], sensor.read()) for way, sensor in sensors.items()}

    try:
        readings, used_s = run(read)
    finally:
        for sensor in sensors.values():
            sensor.close()
    for way in sensors:
        empty, holds, burnt = (readings[word][way] for word in ("empty", "holds", "burnt"))
        grown = holds["heat", "resident_bytes"] - empty["heat", "resident_bytes"]
        assert grown == pytest.approx(HELD_BYTES, rel=0.02)
        assert holds["heat", "resident_bytes"] == pytest.approx(others["holds"], rel=0.02)
        assert burnt["heat", "busy_s"] == pytest.approx(used_s, rel=0.02)
    host_s = readings["burnt"]["proc"]["host", "busy_s"] - readings["empty"]["proc"]["host", "busy_s"]
    assert host_s > 0.9 * used_s


def test_this_machine_reads_as_psutil_reads_it():
    """Memory and processor time of everybody, in either way."""
    for sensor in (HostSensor(), PortableMachine()):
        opened = sensor.open(1)
        told = by_name(opened, sensor.read())
        sensor.close()
        memory, times = psutil.virtual_memory(), psutil.cpu_times()
        busy_s = sum(times) - times.idle - getattr(times, "iowait", 0) - sum(getattr(times, "guest", ()) or ())
        assert told["host", "memory_available_bytes"] == pytest.approx(memory.available, rel=0.05)
        assert told["host", "busy_s"] == pytest.approx(busy_s, rel=0.02)


def test_without_proc_psutil_is_asked(tmp_path):
    """As on macOS: fewer figures, each of them told."""
    sensor = HostSensor(proc=tmp_path / "nowhere")
    assert sensor.probe() is None
    opened = sensor.open(psutil.Process().pid)
    told = by_name(opened, sensor.read())
    sensor.close()
    assert {"busy_s", "resident_bytes", "threads"} <= {name for device, name in told if device == "heat"}
    assert None not in told.values()
    assert told["heat", "processes"] >= 1
    assert {"minor_faults", "temperature_c"} <= {channel.name for channel, _ in opened.absent}
