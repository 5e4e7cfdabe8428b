"""What slows trainings whatever they compute on: too little shared memory, quotas, threads, disks, clocks."""

from __future__ import annotations

from collections.abc import Callable

from laptime.model.checkup import Complaint
from laptime.model.machine import Machine
from laptime.model.missing import Missing

SHARED = "/dev/shm"  # noqa: S108  it is named, not written to
LEAST_SHARED_BYTES = 1 << 30
SWAPPED_BYTES = 256 << 20
NETWORKED = ("nfs", "cifs", "smb", "fuse.", "9p", "ceph", "lustre", "glusterfs", "beegfs", "gpfs", "afs", "drvfs")
SAVING = {"powersave", "conservative"}
Rule = Callable[[Machine], "Complaint | None"]


def little_shared_memory(machine: Machine) -> Complaint | None:
    """Loaders' processes hand batches over in /dev/shm; docker gives 64 MB of it."""
    around = machine.surroundings
    if around is None or isinstance(around.shared_memory_bytes, Missing):
        return None
    size = around.shared_memory_bytes
    if size >= LEAST_SHARED_BYTES:
        return None
    command = "docker run --shm-size=8g ..." if machine.container else "sudo mount -o remount,size=8G " + SHARED
    says = f"{SHARED} holds {size / 1e6:,.0f} MB: loaders with worker processes hand their batches over there"
    return Complaint("the host", "shared memory", says, command, {"bytes": str(size)})


def quota_below_cores(machine: Machine) -> Complaint | None:
    """Programs take a thread for each core that they see, and the container's quota stops them."""
    chip = machine.processor
    if isinstance(chip.quota_cores, Missing) or chip.quota_cores >= chip.cores_visible:
        return None
    whole = max(1, int(chip.quota_cores))
    says = f"{chip.cores_visible} cores are visible, and the container may use {chip.quota_cores:g} of them"
    return Complaint("the processor", "quota", says, f"export OMP_NUM_THREADS={whole}",
                     {"visible": str(chip.cores_visible), "quota": f"{chip.quota_cores:g}"})  # fmt: skip


def threads_by_variable(machine: Machine) -> Complaint | None:
    """A variable that was set for another program gives a training fewer threads than there are cores, or more."""
    variables, cores = (machine.surroundings.variables if machine.surroundings else {}), machine.processor.cores_usable
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        value = variables.get(name, "").split(",")[0]
        if value.isdecimal() and int(value) != cores:
            how = "fewer" if int(value) < cores else "more"
            says = f"{name}={value}: {how} threads than the {cores} cores that may be used"
            return Complaint("the processor", "threads", says, f"unset {name}", {name: value})
    return None


def data_on_network(machine: Machine) -> Complaint | None:
    """Every small file is a question over the network."""
    around = machine.surroundings
    for path, kind in (around.filesystems if around else {}).items():
        if kind.startswith(NETWORKED):
            says = f"{path} lies on a network file system ({kind}): small files are slow to read there"
            command = f"cp -r {path} $HOME/  # or to any disk of this computer"
            return Complaint("the host", "network file system", says, command, {path: kind})
    return None


def swap_in_use(machine: Machine) -> Complaint | None:
    swapped = machine.use.swap_used_bytes if machine.use is not None else Missing("not looked at")
    if isinstance(swapped, Missing) or swapped < SWAPPED_BYTES:
        return None
    says = f"{swapped / 1e9:.1f} GB of memory lie in swap on a disk"
    return Complaint("the host", "swap", says, "ps aux --sort=-rss | head", {"bytes": str(swapped)})


def saving_power(machine: Machine) -> Complaint | None:
    """A governor that saves power lets cores speed up late, or never."""
    governors = machine.use.governors if machine.use is not None else Missing("not looked at")
    slow = [] if isinstance(governors, Missing) else [each for each in governors if _saves(each)]
    if not slow:
        return None
    says = f"the processor's clock is governed by {', '.join(slow)}: it saves power"
    return Complaint("the processor", "governor", says, "sudo cpupower frequency-set -g performance",
                     {"governors": ", ".join(slow)})  # fmt: skip


def _saves(governor: str) -> bool:
    return governor in SAVING or governor.endswith(("preferring power", "preferring balance_power"))


RULES: tuple[Rule, ...] = (
    little_shared_memory,
    quota_below_cores,
    threads_by_variable,
    data_on_network,
    swap_in_use,
    saving_power,
)


def find_around(machine: Machine) -> tuple[Complaint, ...]:
    found = (rule(machine) for rule in RULES)
    return tuple(each for each in found if each is not None)
