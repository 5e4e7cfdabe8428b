"""What may hide devices, and what the processor has to do: nodes, variables, shared memory, WSL; load and clocks."""

from __future__ import annotations

import os
import stat

import psutil
import pytest

from laptime.machine.look import find_virtual, read_host_environment, read_use
from laptime.model.quantities import Missing


@pytest.fixture
def dev(tmp_path):
    """Make nodes as files: what counts is who may open them."""
    place = tmp_path / "dev"
    for name in ("nvidia0", "nvidiactl", "nvidia-caps/nvidia-cap1", "dri/renderD128", "dri/by-path/x", "kfd", "null"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("")
    (place / "nvidia0").chmod(0o666)
    (place / "kfd").chmod(0o660)
    return place


def test_nodes_are_told_with_who_may_open_them(dev, tmp_path):
    """Folders next to them are none, nor are nodes of other things."""
    nodes = {each.path: each for each in read_host_environment(dev, tmp_path, tmp_path, {}).nodes}
    named = ("nvidia0", "nvidiactl", "nvidia-caps/nvidia-cap1", "dri/renderD128", "kfd")
    assert sorted(nodes) == sorted(str(dev / each) for each in named)
    assert (nodes[str(dev / "nvidia0")].mode, nodes[str(dev / "kfd")].mode) == ("0666", "0660")
    assert nodes[str(dev / "kfd")].owner == (dev / "kfd").owner()
    assert all(each.may_open for each in nodes.values())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_a_node_that_may_not_be_opened_is_told(dev, tmp_path):
    (dev / "kfd").chmod(stat.S_IRUSR)
    (kfd,) = [each for each in read_host_environment(dev, tmp_path, tmp_path, {}).nodes if each.path.endswith("kfd")]
    assert not kfd.may_open


def test_variables_are_told_as_they_are_set(dev, tmp_path):
    """An empty one hides every card, and is not the same as none; others are nobody's business."""
    given = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "2", "HOME": "/root", "SECRET": "x"}
    found = read_host_environment(dev, tmp_path, tmp_path, given, container="docker")
    assert found.variables == {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "2"}
    assert found.container == "docker"


def test_shared_memory_is_measured_or_missing(dev, tmp_path):
    assert read_host_environment(dev, tmp_path, tmp_path, {}).shared_memory_bytes == Missing(
        f"{dev / 'shm'}: No such file or directory"
    )
    (dev / "shm").mkdir()
    told = os.statvfs(dev / "shm")
    assert read_host_environment(dev, tmp_path, tmp_path, {}).shared_memory_bytes == told.f_blocks * told.f_frsize


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/version": "Linux version 5.15.90.1-microsoft-standard-WSL2"}, "wsl"),
        ({"sys/hypervisor/type": "xen"}, "xen"),
        ({"sys/class/dmi/id/sys_vendor": "QEMU", "sys/class/dmi/id/product_name": "Standard PC"}, "QEMU Standard PC"),
        ({"sys/class/dmi/id/sys_vendor": "Dell Inc.", "proc/cpuinfo": "flags : fpu hypervisor\n"}, None),
        ({"proc/cpuinfo": "processor : 0\nflags : fpu hypervisor sse\n"}, "a hypervisor"),
        ({"proc/cpuinfo": "processor : 0\nflags : fpu sse\n"}, None),
    ],
)
def test_a_virtual_machine_is_known_by_what_it_says(tmp_path, files, expected):
    for place, text in files.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    assert find_virtual(tmp_path / "proc", tmp_path / "sys") == expected


def test_use_is_what_the_system_says():
    """Shares are shares, and no more memory is left than there is."""
    told = read_use(watched_s=0.05)
    assert 0 <= told.busy_percent <= 100
    assert told.load_1m == pytest.approx(os.getloadavg()[0], abs=1)
    assert 0 < told.memory_available_bytes <= psutil.virtual_memory().total


def test_governors_and_clocks_are_read_where_cores_tell_them(tmp_path):
    """Each once; a virtual machine's cores tell none."""
    for core, (governor, khz) in enumerate(
        (("powersave", 800_000), ("powersave", 1_200_000), ("schedutil", 1_000_000))
    ):
        folder = tmp_path / "devices/system/cpu" / f"cpu{core}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(f"{governor}\n")
        (folder / "scaling_cur_freq").write_text(f"{khz}\n")
    told = read_use(tmp_path, watched_s=0.01)
    assert (told.governors, told.frequency_mhz) == (("powersave", "schedutil"), 1000.0)
    none = read_use(tmp_path / "virtual", watched_s=0.01)
    assert "no core reports a governor" in none.governors.missing
    assert "no core reports its frequency" in none.frequency_mhz.missing
