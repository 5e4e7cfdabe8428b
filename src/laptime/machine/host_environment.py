"""What is between programs and devices here: device nodes, variables, shared memory, containers, WSL, file systems."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from laptime.model.host_environment import DeviceNode, HostEnvironment
from laptime.model.missing import Missing
from laptime.sensors.files import read_lines, read_word

# NVIDIA, AMD computing, drawing and computing of all makers, WSL, accelerators (TPUs and others), Neuron, VFIO.
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


def find_filesystem(folder: Path, proc: Path = Path("/proc")) -> str | Missing:
    """Return the type of the innermost mount that holds the folder, as the kernel names it: ext4, nfs4, fuse.sshfs."""
    try:
        lines = (proc / "self" / "mountinfo").read_text(errors="replace").splitlines()
    except OSError as error:
        return Missing(f"{proc}/self/mountinfo: {error.strerror}")
    mounts = [_read_mount(line) for line in lines if " - " in line]
    holding = [(place, kind) for place, kind in mounts if _holds(place, folder.resolve())]
    if not holding:
        return Missing("no mount holds it")
    return max(reversed(holding), key=lambda each: len(each[0].parts))[1]  # the later of two mounts is visible


def _read_mount(line: str) -> tuple[Path, str]:
    before, _, after = line.partition(" - ")
    return Path(before.split()[4].encode().decode("unicode_escape")), after.split()[0]


def _holds(place: Path, folder: Path) -> bool:
    return place == folder or place in folder.parents


def read_host_environment(
    dev: Path = Path("/dev"),
    proc: Path = Path("/proc"),
    sys: Path = Path("/sys"),
    environment: Mapping[str, str] = os.environ,
    container: str | None = None,
    *,
    folders: Sequence[Path] = (),
) -> HostEnvironment:
    return HostEnvironment(
        nodes=tuple(node for place in _places(dev) if (node := _node(place)) is not None),
        variables={name: environment[name] for name in VARIABLES if name in environment},
        shared_memory_bytes=_shared_memory(dev / "shm"),
        container=container,
        virtual=find_virtual(proc, sys),
        filesystems={str(each): kind for each in folders if isinstance(kind := find_filesystem(each, proc), str)},
    )


def find_virtual(proc: Path, sys: Path) -> str | None:
    """Return what this system runs in: "wsl", or a hypervisor as the kernel, firmware or processor flags report it."""
    if "microsoft" in read_word(proc / "version").lower():
        return "wsl"
    hypervisor = read_word(sys / "hypervisor" / "type")
    if hypervisor:
        return hypervisor
    told = (read_word(sys / "class" / "dmi" / "id" / each) for each in ("sys_vendor", "product_name"))
    firmware = " ".join(filter(None, told))
    if firmware:
        return firmware if any(word in firmware for word in VIRTUAL) else None
    flags = next((line for line in read_lines(proc / "cpuinfo") if line.startswith("flags")), "")
    return "a hypervisor" if "hypervisor" in flags.split() else None


def _places(dev: Path) -> list[Path]:
    found = (place for pattern in NODES for place in sorted(dev.glob(pattern)))
    return list(dict.fromkeys(found))


def _node(place: Path) -> DeviceNode | None:
    """Describe a device node; None for a folder."""
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
    """Return the size of /dev/shm, through which a loader's workers pass batches; Docker's default is 64 MB."""
    try:
        return shutil.disk_usage(place).total
    except OSError as error:
        return Missing(f"{place}: {error.strerror}")
