"""What stands between programs and devices here: device nodes, variables, shared memory, containers, WSL."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from laptime.machine.filesystem import find_filesystem
from laptime.model.missing import Missing
from laptime.model.surroundings import DeviceNode, Surroundings
from laptime.sensors.files import read_word

# NVIDIA's, AMD's computing, everybody's drawing and computing, WSL's, accelerators (TPUs and others), Neuron.
NODES = ("nvidia*", "nvidia-caps/*", "kfd", "dri/*", "dxg", "accel*", "accel/*", "neuron*", "vfio/*")
VARIABLES = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"),
    *("CUDA_MPS_PIPE_DIRECTORY", "CUDA_LAUNCH_BLOCKING", "CUDA_HOME", "LD_LIBRARY_PATH", "LD_PRELOAD"),
    *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HSA_OVERRIDE_GFX_VERSION"),
    *("ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR", "JAX_PLATFORMS", "JAX_PLATFORM_NAME", "XLA_FLAGS"),
    *("XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION", "TF_FORCE_GPU_ALLOW_GROWTH"),
    *("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_ENABLE_MPS_FALLBACK", "KERAS_BACKEND"),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY", "TPU_VISIBLE_CHIPS"),
    *("COLAB_RELEASE_TAG", "COLAB_GPU", "KAGGLE_KERNEL_RUN_TYPE"),
)
VIRTUAL = ("QEMU", "KVM", "VMware", "VirtualBox", "Virtual Machine", "Google Compute", "Amazon EC2", "OpenStack", "Xen")


def look_at_surroundings(
    dev: Path = Path("/dev"),
    proc: Path = Path("/proc"),
    sys: Path = Path("/sys"),
    environment: Mapping[str, str] = os.environ,
    container: str | None = None,
    *,
    folders: Sequence[Path] = (),
) -> Surroundings:
    return Surroundings(
        nodes=tuple(node for place in _places(dev) if (node := _node(place)) is not None),
        variables={name: environment[name] for name in VARIABLES if name in environment},
        shared_memory_bytes=_shared_memory(dev / "shm"),
        container=container,
        virtual=find_virtual(proc, sys),
        filesystems={str(each): kind for each in folders if isinstance(kind := find_filesystem(each, proc), str)},
    )


def find_virtual(proc: Path, sys: Path) -> str | None:
    """Name what this system runs in: WSL by its kernel's version, a virtual machine by what its firmware tells."""
    if "microsoft" in read_word(proc / "version").lower():
        return "wsl"
    hypervisor = read_word(sys / "hypervisor" / "type")
    if hypervisor:
        return hypervisor
    told = (read_word(sys / "class" / "dmi" / "id" / each) for each in ("sys_vendor", "product_name"))
    firmware = " ".join(filter(None, told))
    if firmware:
        return firmware if any(word in firmware for word in VIRTUAL) else None
    flags = next((line for line in _lines(proc / "cpuinfo") if line.startswith("flags")), "")
    return "a hypervisor" if "hypervisor" in flags.split() else None


def _places(dev: Path) -> list[Path]:
    found = (place for pattern in NODES for place in sorted(dev.glob(pattern)))
    return list(dict.fromkeys(found))


def _node(place: Path) -> DeviceNode | None:
    """Describe a node; folders beside them are none."""
    try:
        told = place.stat()
    except OSError:
        return None
    if stat.S_ISDIR(told.st_mode):
        return None
    may_open = os.access(place, os.R_OK | os.W_OK)
    return DeviceNode(str(place), f"{stat.S_IMODE(told.st_mode):04o}", _owner(told), _group(told), may_open)


def _owner(told: os.stat_result) -> str:
    try:
        return pwd.getpwuid(told.st_uid).pw_name
    except KeyError:
        return str(told.st_uid)


def _group(told: os.stat_result) -> str:
    try:
        return grp.getgrgid(told.st_gid).gr_name
    except KeyError:
        return str(told.st_gid)


def _shared_memory(place: Path) -> int | Missing:
    """A loader's workers hand their batches over through it; Docker gives 64 MB unless it is told otherwise."""
    try:
        return shutil.disk_usage(place).total
    except OSError as error:
        return Missing(f"{place}: {error.strerror}")


def _lines(place: Path) -> list[str]:
    try:
        return place.read_text(errors="replace").splitlines()
    except OSError:
        return []
