"""Describe the machine: processor and its load, memory, container, and which frameworks are installed."""

from __future__ import annotations

import csv
import grp
import mmap
import os
import platform
import pwd
import shutil
import stat
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata, util
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from laptime.machine.cards import Cards
from laptime.machine.core_score import measure_core
from laptime.machine.sensors import cgroup
from laptime.machine.sensors.base import read_lines, read_word
from laptime.machine.sensors.cgroup import usable_cores
from laptime.machine.sensors.host import mean_frequency
from laptime.machine.sensors.host.sensor import NoiseReader
from laptime.model.frameworks import FrameworkRow, Package, all_frameworks
from laptime.model.machine import DeviceNode, Framework, HostEnvironment, Machine, Processor, Use
from laptime.model.quantities import Missing


def look_at_machine() -> Machine:
    """Describe this computer; scouts ask later what the frameworks see."""
    installed = tuple(
        _framework(row)
        for row in all_frameworks().values()
        if (not row.switch or os.environ.get(row.switch)) and all(map(util.find_spec, row.modules))
    )
    try:
        memory_bytes = int(psutil.virtual_memory().total)
    except (OSError, RuntimeError):  # psutil has no /proc to read
        memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    container: str | None
    if Path("/.dockerenv").exists():
        container = "docker"
    elif Path("/run/.containerenv").exists():
        container = "podman"
    else:
        container = os.environ.get("container")  # systemd-nspawn, LXC and others set it  # noqa: SIM112
    return Machine(
        processor=look_at_processor(),
        memory_bytes=memory_bytes,
        memory_limit_bytes=cgroup.memory_limit_bytes(),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        container=container,
        frameworks=installed,
        page_bytes=mmap.PAGESIZE,
    )


def time_core(machine: Machine) -> Machine:
    """Time one core. Of several moments the fastest counts: what is busy with other work now may not be later."""
    before = machine.processor.core_score or 0.0
    return replace(machine, processor=replace(machine.processor, core_score=max(before, measure_core())))


def look_around(machine: Machine, folders: Sequence[Path] = ()) -> Machine:
    """Add what is only needed for some questions.

    That is the current load, what hides devices, and the file systems of some folders.
    """
    around = read_host_environment(container=machine.container, folders=folders)
    return replace(machine, use=read_use(), surroundings=around)


def add_cards(machine: Machine, found: Cards) -> Machine:
    """Add cards, and if any of them computes, what may be between them and a program."""
    around = machine.surroundings
    if around is None and any(card.computes for card in found.cards):
        around = read_host_environment(container=machine.container)
    return replace(machine, cards=found.cards, absent=found.absent, surroundings=around)


def _framework(row: FrameworkRow) -> Framework:
    """Describe an installed framework; one without packages is always installed."""
    if not row.packages:
        return Framework(row.name, platform.python_version() if row.is_opaque else "1")
    package = row.packages[0]
    version = _version(package.name)
    notes = tuple(filter(None, map(find_duplicate_installs, row.packages)))
    if _numbers(version) and _numbers(version) < _numbers(package.least):
        problem = f"{package.name} {version} is too old: laptime needs {package.least} or newer"
        return Framework(row.name, version, problem=problem, notes=notes)
    return Framework(row.name, version, notes=notes)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version; nothing where it is unknown."""
    return tuple(int(number) for number in version.split(".")[:2] if number.isdecimal())


def _version(module: str) -> str:
    try:
        return metadata.version(module)
    except metadata.PackageNotFoundError:
        return "unknown"


# What is between programs and devices here: device nodes, variables, shared memory, containers, WSL, file systems.

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
    folder = folder.resolve()
    depth = 0
    innermost: str | Missing = Missing("no mount holds it")
    for line in lines:
        before, is_mount, after = line.partition(" - ")
        if not is_mount:
            continue
        place = Path(before.split()[4].encode().decode("unicode_escape"))
        # The later of two mounts at one place is visible.
        if (place == folder or place in folder.parents) and len(place.parts) >= depth:
            depth = len(place.parts)
            innermost = after.split()[0]
    return innermost


def read_host_environment(
    dev: Path = Path("/dev"),
    proc: Path = Path("/proc"),
    sys: Path = Path("/sys"),
    environment: Mapping[str, str] = os.environ,
    container: str | None = None,
    *,
    folders: Sequence[Path] = (),
) -> HostEnvironment:
    found = (place for pattern in NODES for place in sorted(dev.glob(pattern)))
    places = list(dict.fromkeys(found))
    # Through it a loader's workers pass batches; Docker's default is 64 MB.
    shared = dev / "shm"
    try:
        shared_memory_bytes: int | Missing = shutil.disk_usage(shared).total
    except OSError as error:
        shared_memory_bytes = Missing(f"{shared}: {error.strerror}")
    return HostEnvironment(
        nodes=tuple(node for place in places if (node := _node(place)) is not None),
        variables={name: environment[name] for name in VARIABLES if name in environment},
        shared_memory_bytes=shared_memory_bytes,
        container=container,
        virtual=find_virtual(proc, sys),
        filesystems={str(folder): kind for folder in folders if isinstance(kind := find_filesystem(folder, proc), str)},
    )


def find_virtual(proc: Path, sys: Path) -> str | None:
    """Return what this system runs in: "wsl", or a hypervisor as the kernel, firmware or processor flags report it."""
    if "microsoft" in read_word(proc / "version").lower():
        return "wsl"
    hypervisor = read_word(sys / "hypervisor" / "type")
    if hypervisor:
        return hypervisor
    names = (read_word(sys / "class" / "dmi" / "id" / literal) for literal in ("sys_vendor", "product_name"))
    firmware = " ".join(filter(None, names))
    if firmware:
        return firmware if any(word in firmware for word in VIRTUAL) else None
    flags = next((line for line in read_lines(proc / "cpuinfo") if line.startswith("flags")), "")
    return "a hypervisor" if "hypervisor" in flags.split() else None


def _node(place: Path) -> DeviceNode | None:
    """Describe a device node; None for a folder."""
    try:
        status = place.stat()
    except OSError:
        return None
    if stat.S_ISDIR(status.st_mode):
        return None
    may_open = os.access(place, os.R_OK | os.W_OK)
    try:
        owner = pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        owner = str(status.st_uid)
    try:
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        group = str(status.st_gid)
    return DeviceNode(str(place), f"{stat.S_IMODE(status.st_mode):04o}", owner, group, may_open)


# A module that several distributions have installed: whose files are imported, and what to do. Nothing is imported.

FILES_COMPARED = 200


@dataclass(frozen=True, slots=True)
class InstalledCopy:
    """A distribution that lists a module's files as its own; `sizes` are the file sizes that it recorded."""

    name: str
    version: str
    folder: Path
    sizes: dict[str, str]

    @property
    def words(self) -> str:
        return f"{self.name} {self.version}"


def find_duplicate_installs(package: Package) -> str:
    """Report which distributions brought a module, if there are several, which one is imported, and what to do."""
    module = package.name
    found = [
        (name, distribution) for name in (module, *package.also) for distribution in metadata.distributions(name=name)
    ]
    if len(found) < 2:
        return ""
    copies = list({(copy.folder, copy.words): copy for copy in _copies(found, module)}.values())
    if len(copies) < 2:
        return ""
    spec = util.find_spec(module)
    home = Path(spec.origin).resolve().parents[1] if spec and spec.origin else None
    here = [copy for copy in copies if copy.folder == home]
    away = [copy for copy in copies if copy.folder != home]
    parts = [_tell_mixed(here)] if len(here) > 1 else [f"{copy.words} in {copy.folder} is imported" for copy in here]
    parts += [f"{copy.words} in {copy.folder} is not" for copy in away]
    both = " ".join(dict.fromkeys(copy.name for copy in copies))
    way_out = f"pip uninstall {both}, and install the one that is meant"
    path = ", or take the other's folder off PYTHONPATH" if away else ""
    times = "twice" if len(copies) == 2 else f"{len(copies)} times"
    return f"{module} is installed {times}: {', '.join(parts)} ({way_out}{path})"


def _copies(found: Iterable[tuple[str, metadata.Distribution]], module: str) -> Iterator[InstalledCopy]:
    """Skip distributions that only have the name: some contain nothing but their dependencies."""
    for name, distribution in found:
        folder = Path(str(distribution.locate_file(""))).resolve()
        record = distribution.read_text("RECORD")  # the operating system's own packages often have none
        rows = csv.reader((record or "").splitlines())
        sizes = {row[0]: row[2] for row in rows if len(row) == 3 and row[0].startswith(f"{module}/")}
        if sizes or (record is None and (folder / module).is_dir()):
            yield InstalledCopy(name, distribution.version, folder, sizes)


def _tell_mixed(copies: Sequence[InstalledCopy]) -> str:
    """Report whose files are in a folder into which several were installed; the last one overwrote the others."""
    votes: Counter[str] = Counter()
    first, *others = copies
    differing = [name for name, size in first.sizes.items() if any(other.sizes.get(name) != size for other in others)]
    for name in differing[:FILES_COMPARED]:
        file = first.folder / name
        size = str(file.stat().st_size) if file.exists() else ""
        votes.update(copy.words for copy in copies if copy.sizes.get(name) == size)
    all_ = " and ".join(copy.words for copy in copies)
    whose = f"most files are those of {votes.most_common(1)[0][0]}" if votes else "nobody can tell whose files are left"
    return f"{all_} have written over each other in {first.folder}, and {whose}"


# How many cores do other processes fill while laptime prepares a question? It scouts for some seconds anyway.

LEAST_S = 0.5  # the kernel counts in ticks of 10 ms, and what ran for a moment is no neighbour
STAYS_S = 6.0  # a process that fills a core now and then is no reason to leave it that core for the whole question
CORE_NEARLY = 0.7  # of a core: the rest of it is of no use to a thread that the others wait for


class CoresTaken:
    """Counts from its making on. The process `own` (by default this one) and its children are not among the others."""

    def __init__(self, own: int | None = None) -> None:
        self._reader = NoiseReader()
        self._is_known = self._reader.probe() is None
        if self._is_known:
            self._reader.open(os.getpid() if own is None else own)
            self._began = self._reader.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._reader.close()

    def count(self) -> int:
        """Return how many cores others fill for six seconds; 0 where that cannot be read.

        Where nobody fills one so far, or there is only one to compute on, that is the answer. Else it is watched until
        the six seconds are over.
        """
        taken = self._count_so_far()
        if not taken or cgroup.usable_cores() == 1:
            return taken
        time.sleep(max(0.0, STAYS_S - (time.monotonic_ns() - self._began.at_ns) / 1e9))
        return self._count_so_far()

    def _count_so_far(self) -> int:
        """Return how many cores were filled; 0 where that cannot be read, or was read for less than half a second."""
        others = self.others()
        return 0 if isinstance(others, Missing) else max(0, int(others + 1 - CORE_NEARLY))

    def others(self) -> float | Missing:
        """Return how many cores others took so far, on average."""
        if not self._is_known:
            return Missing("what other processes take cannot be read here")
        began = self._began
        now = self._reader.read()
        passed_s = (now.at_ns - began.at_ns) / 1e9
        if (
            passed_s < LEAST_S
            or isinstance(began.busy_s, Missing)
            or isinstance(now.busy_s, Missing)
            or isinstance(began.tree_s, Missing)
            or isinstance(now.tree_s, Missing)
        ):
            return Missing("it was read for less than half a second")
        return max(0.0, ((now.busy_s - began.busy_s) - (now.tree_s - began.tree_s)) / passed_s)


# The processor as this process may use it, and the current load on processor and memory.

# The features that decide how fast a training can run; a processor's other flags matter little here.
PROCESSOR_FEATURES = {
    "avx2",
    "avx512f",
    "avx512_bf16",
    "avx512_fp16",
    "avx512_vnni",
    "amx_bf16",
    "amx_fp16",
    "amx_tile",
    "asimd",
    "asimdhp",
    "bf16",
    "fma",
    "sve",
    "sve_bf16",
}
CHOOSES_ITSELF = {"intel_pstate", "amd-pstate-epp"}
WATCHED_S = 0.3
NO_LOAD = Missing("this system reports no load")


def look_at_processor() -> Processor:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        name, flags = _from_cpuinfo(cpuinfo.read_text(errors="replace"))
    elif platform.system() == "Darwin":
        asked = subprocess.run(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
                               capture_output=True, text=True, check=False)  # fmt: skip
        name = asked.stdout.strip() or platform.processor()
        flags = set()
    else:
        name = platform.processor() or platform.machine()
        flags = set()
    return Processor(
        name=name,
        architecture=platform.machine(),
        cores_visible=os.cpu_count() or 1,
        cores_usable=usable_cores(),
        quota_cores=cgroup.quota_cores(),
        features=tuple(sorted(PROCESSOR_FEATURES & flags)),
    )


def _from_cpuinfo(text: str) -> tuple[str, set[str]]:
    first = text.split("\n\n", 1)[0]
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    name = fields.get("model name") or fields.get("Hardware") or fields.get("CPU part") or platform.machine()
    return name, set((fields.get("flags") or fields.get("Features") or "").split())


def read_use(sys: Path = Path("/sys"), watched_s: float = WATCHED_S) -> Use:
    """Watch the cores for a moment, and read the other figures."""
    try:
        busy_percent: float | Missing = float(psutil.cpu_percent(interval=watched_s))
    except (OSError, RuntimeError) as error:
        busy_percent = Missing(f"this system reports no processor times: {error}")
    try:
        swap_used_bytes: int | Missing = int(psutil.swap_memory().used)
    except (OSError, RuntimeError) as error:
        swap_used_bytes = Missing(f"this system reports no swap: {error}")
    return Use(
        over_s=watched_s,
        busy_percent=busy_percent,
        load_1m=os.getloadavg()[0] if hasattr(os, "getloadavg") else NO_LOAD,
        frequency_mhz=mean_frequency(sys),
        governors=_governors(sys),
        memory_available_bytes=available_memory_bytes(),
        swap_used_bytes=swap_used_bytes,
    )


def _governors(sys: Path) -> tuple[str, ...] | Missing:
    """Return the governors of the cores' clocks; most often all cores have the same.

    A driver that chooses the clock on its own is named, too: it has its own "powersave", which is its usual mode, and a
    preference as well.
    """
    found: list[str] = []
    for place in sorted((sys / "devices" / "system" / "cpu").glob("cpu[0-9]*/cpufreq")):
        governor = read_word(place / "scaling_governor")
        driver = read_word(place / "scaling_driver")
        if governor and driver in CHOOSES_ITSELF:
            prefers = read_word(place / "energy_performance_preference")
            governor = f"{governor} of {driver}" + (f", preferring {prefers}" if prefers else "")
        if governor and governor not in found:
            found.append(governor)
    if found:
        return tuple(found)
    return Missing("no core reports a governor under /sys/devices/system/cpu, as in most virtual machines")


def available_memory_bytes() -> int | Missing:
    """Return the memory that is available; a container may be allowed less than the machine has left."""
    try:
        left = int(psutil.virtual_memory().available)
    except (OSError, RuntimeError) as error:
        return Missing(f"this system reports no memory: {error}")
    allowed = cgroup.memory_left_bytes()
    return left if isinstance(allowed, Missing) else min(left, allowed)
