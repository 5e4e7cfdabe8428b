"""The host's sensor on made-up /proc and /sys: what it reads, what it says is absent, and when slow files are read."""

from __future__ import annotations

import os
import shutil

import pytest
from trees import MACHINE, Clock, by_name, lay_out, open_files, process, reasons

from laptime.machine.sensors.host import HostSensor

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CORE = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"
ZONE = "sys/class/thermal/thermal_zone0/"
WARM = {
    CORE.format(0): "3000000\n",
    CORE.format(1): "2000000\n",
    "sys/class/hwmon/hwmon0/name": "nvme\n",
    "sys/class/hwmon/hwmon0/temp1_input": "99000\n",
    "sys/class/hwmon/hwmon1/name": "coretemp\n",
    "sys/class/hwmon/hwmon1/temp1_input": "61000\n",
    "sys/class/hwmon/hwmon1/temp1_label": "Package id 0\n",
    "sys/class/hwmon/hwmon1/temp2_input": "65000\n",
    "sys/class/hwmon/hwmon1/temp2_label": "Core 0\n",
}
GROUPS = {
    "sys/fs/cgroup/memory.current": "7000\n",
    "sys/fs/cgroup/memory.stat": "anon 4000\nfile 3000\ninactive_file 1200\nactive_file 800\n",
    "sys/fs/cgroup/cpu.stat": "usage_usec 5\nnr_throttled 2\nthrottled_usec 2500000\n",
}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watch(tmp_path, clock):
    """Open a sensor on a made-up machine, and close it after the test."""
    sensors = []

    def open_one(*trees, pid=100):
        for files in trees:
            lay_out(tmp_path, files)
        sensors.append(HostSensor(tmp_path / "proc", tmp_path / "sys", clock))
        assert sensors[-1].probe() is None
        return sensors[-1], sensors[-1].open(pid)

    yield open_one
    for sensor in sensors:
        sensor.close()


def test_a_whole_machine_is_read(watch):
    """Every file's figures, in the units that the channels name."""
    sensor, opened = watch(MACHINE, WARM, GROUPS, process(100))
    assert opened.absent == ()
    assert by_name(opened, sensor.read()) == {
        ("host", "busy_s"): pytest.approx((100 + 10 + 50 + 5 + 5 + 30) * TICK_S),
        ("host", "cores_online"): 2,
        ("host", "memory_available_bytes"): 400 * 1024,
        ("host", "swap_used_bytes"): 50 * 1024,
        ("host", "cgroup_memory_bytes"): 7000,
        ("host", "cgroup_cache_bytes"): 2000,
        ("host", "cgroup_throttled_s"): 2.5,
        ("host", "frequency_mean_mhz"): 2500.0,
        ("host", "temperature_c"): 61.0,
        ("heat", "busy_s"): 0.0,
        ("heat", "minor_faults"): 0,
        ("heat", "major_faults"): 0,
        ("heat", "resident_bytes"): 10 * PAGE_BYTES,
        ("heat", "processes"): 1,
        ("heat", "threads"): 1,
    }


def test_a_container_without_sys_says_what_is_absent(watch):
    """Each figure that is not there has its reason; the others are read."""
    sensor, opened = watch(MACHINE, process(100))
    assert reasons(opened) == {
        ("host", "cgroup_memory_bytes"): "no control group counts memory here",
        ("host", "cgroup_cache_bytes"): "no control group reports its cache",
        ("host", "cgroup_throttled_s"): "no control group counts throttling here",
        ("host", "frequency_mean_mhz"): (
            "no core reports its frequency under /sys/devices/system/cpu, as in most virtual machines"
        ),
        ("host", "temperature_c"): (
            "no sensor of the processor's temperature is under /sys/class/hwmon or thermal, as in virtual machines"
        ),
    }
    assert None not in sensor.read()


def test_files_that_lack_a_word_or_hold_another_thing_are_absent(watch, tmp_path):
    """An old kernel has no MemAvailable; a file that is garbage, or not there, has no figure."""
    old = {"proc/meminfo": "MemTotal: 1000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"}
    garbage = {"sys/fs/cgroup/memory.current": "much\n"}
    sensor, opened = watch(MACHINE, old, GROUPS, garbage, WARM, process(100))
    told = reasons(opened)
    assert told["host", "memory_available_bytes"] == f"{tmp_path}/proc/meminfo does not tell it"
    assert told["host", "cgroup_memory_bytes"] == "no control group counts memory here"
    assert by_name(opened, sensor.read())["host", "swap_used_bytes"] == 0
    sensor.close()
    (tmp_path / "proc/meminfo").unlink()
    _, opened = watch(process(100))
    assert reasons(opened)["host", "swap_used_bytes"] == f"{tmp_path}/proc/meminfo: No such file or directory"


@pytest.mark.parametrize(
    ("files", "hottest"),
    [
        ({ZONE + "type": "acpitz\n", ZONE + "temp": "30000\n"}, None),
        (
            {
                "sys/class/thermal/thermal_zone0/type": "x86_pkg_temp\n",
                "sys/class/thermal/thermal_zone0/temp": "44000\n",
            },
            44.0,
        ),
        (
            {
                "sys/class/hwmon/hwmon0/name": "k10temp\n",
                "sys/class/hwmon/hwmon0/temp1_label": "Tctl\n",
                "sys/class/hwmon/hwmon0/temp1_input": "80000\n",
                "sys/class/hwmon/hwmon0/temp2_label": "Tdie\n",
                "sys/class/hwmon/hwmon0/temp2_input": "70000\n",
            },
            70.0,
        ),
        (
            {
                "sys/class/hwmon/hwmon0/name": "cpu_thermal\n",
                "sys/class/hwmon/hwmon0/temp1_input": "51000\n",
                "sys/class/hwmon/hwmon0/temp2_input": "52500\n",
            },
            52.5,
        ),
    ],
    ids=["the board's only", "a zone", "AMD's with an offset", "no labels"],
)
def test_the_hottest_place_of_the_processor_is_found(watch, files, hottest):
    """Other sensors (the board, a disk) are not taken for it."""
    sensor, opened = watch(MACHINE, files, process(100))
    assert hottest == by_name(opened, sensor.read()).get(("host", "temperature_c"))


def test_cores_come_and_go(watch, tmp_path, clock):
    """A core that is unplugged is left out of the frequencies; counters never fall, whatever the kernel's sums do."""
    sensor, opened = watch(MACHINE, WARM, process(100))
    before = by_name(opened, sensor.read())
    fewer = "cpu  100 10 50 800 30 5 5 29 20 0\ncpu0 50 5 25 400 20 2 3 15 10 0\nctxt 5001\nprocesses 321\n"
    lay_out(tmp_path, {"proc/stat": fewer, CORE.format(1): ""})
    clock.forward(1.5)
    after = by_name(opened, sensor.read())
    assert (before["host", "cores_online"], after["host", "cores_online"]) == (2, 1)
    assert after["host", "frequency_mean_mhz"] == 3000.0
    assert after["host", "busy_s"] == before["host", "busy_s"]


def test_of_many_cores_some_are_asked(watch):
    """Of 256, every eighth: all of them would take longer than all else together."""
    many = {CORE.format(core): f"{1000 + core}000\n" for core in range(256)}
    asked = [int(core) for core in sorted(map(str, range(256)))[::8]]
    sensor, opened = watch(MACHINE, many, process(100))
    assert by_name(opened, sensor.read())["host", "frequency_mean_mhz"] == 1000.0 + sum(asked) / 32
    assert sum("cpufreq" in target for target in open_files()) == 32


def test_dear_files_are_read_once_a_second(watch, tmp_path, clock):
    """Between, they have no figure; the fast ones have one at every reading."""
    sensor, opened = watch(MACHINE, WARM, process(100))
    sensor.read()
    lay_out(tmp_path, {"proc/meminfo": "MemAvailable: 9 kB\nSwapTotal: 9 kB\nSwapFree: 2 kB\n"})
    clock.forward(0.5)
    between = by_name(opened, sensor.read())
    assert between["host", "swap_used_bytes"] is None
    assert between["host", "temperature_c"] is None
    assert between["host", "busy_s"] is not None
    assert between["heat", "resident_bytes"] is not None
    clock.forward(0.6)
    assert by_name(opened, sensor.read())["host", "swap_used_bytes"] == 7 * 1024


def test_a_clock_that_jumps_back_stops_nothing(watch, clock):
    """Slow files are due at once; a jump forward is only late."""
    sensor, opened = watch(MACHINE, WARM, process(100))
    for jump_s in (0.0, -1e5, 1e6, -1.0):
        clock.forward(jump_s)
        assert by_name(opened, sensor.read())["host", "swap_used_bytes"] == 50 * 1024


def test_files_that_go_away_tell_nothing_any_more(watch, tmp_path, clock):
    """A container whose /sys is taken away in the middle, and a heat that has ended, cost their figures only."""
    sensor, opened = watch(MACHINE, WARM, process(100))
    sensor.read()
    shutil.rmtree(tmp_path / "sys")
    for place in (tmp_path / "proc/100").rglob("*"):
        if place.is_file():
            place.write_text("")
    clock.forward(2)
    after = by_name(opened, sensor.read())
    assert all(figure is None for (device, _), figure in after.items() if device == "heat")
    assert after["host", "busy_s"] is not None
    clock.forward(2)
    assert len(sensor.read()) == len(opened.channels)


def test_a_process_that_is_not_there_is_absent_and_the_host_is_read(watch):
    """Every figure of the heat has that reason; those of the machine are read."""
    sensor, opened = watch(MACHINE, WARM, GROUPS, pid=4242)
    assert set(reasons(opened).values()) == {"process 4242 is not there"}
    assert {device for device, _ in reasons(opened)} == {"heat"}
    assert None not in sensor.read()


def test_a_kernel_that_lists_no_children_has_every_process_asked_for_its_parent(watch, tmp_path, clock):
    """A child and a grandchild are found by their parents' numbers, and so is one that is started later."""
    lay_out(tmp_path, process(100) | process(200, parent=100) | process(300, parent=200) | process(400))
    for place in tmp_path.glob("proc/*/task/*/children"):
        place.unlink()
    sensor, opened = watch(MACHINE, WARM, GROUPS)
    assert by_name(opened, sensor.read())["heat", "processes"] == 3
    lay_out(tmp_path, process(500, parent=300) | {"proc/loadavg": "1.25 0.50 0.10 1/88 4001\n"})
    clock.forward(2)
    sensor.read()
    clock.forward(2)
    assert by_name(opened, sensor.read())["heat", "processes"] == 4


def test_no_files_stay_open(watch):
    """After it is closed, as many files are open as before; it may be opened again for the next heat."""
    before = len(open_files())
    sensor, opened = watch(MACHINE, WARM, GROUPS, process(100))
    first = sensor.read()
    sensor.close()
    assert before == len(open_files())
    assert sensor.open(100) == opened
    assert sensor.read() == first
