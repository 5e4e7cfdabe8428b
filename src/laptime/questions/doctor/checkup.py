"""What keeps cards from being used, with one cause each, and what slows trainings on any device."""

from __future__ import annotations

from collections.abc import Callable

from laptime.model.frameworks import find_framework
from laptime.model.machine import Machine
from laptime.model.missing import Missing
from laptime.model.record import Finding
from laptime.questions.doctor import drivers, visibility
from laptime.questions.doctor.nouns import CARD_NOT_SEEN, Problem
from laptime.questions.doctor.visibility import HIDDEN, UnusedCard, find_unused_cards

SHARED = "/dev/shm"  # noqa: S108  only named, not written to
LEAST_SHARED_BYTES = 1 << 30
SWAPPED_BYTES = 256 << 20
NETWORKED = ("nfs", "cifs", "smb", "fuse.", "9p", "ceph", "lustre", "glusterfs", "beegfs", "gpfs", "afs", "drvfs")
SAVING = {"powersave", "conservative"}
# The first rule that fits names the cause. Rules that are farthest from the framework come first: even the right build
# cannot use a card that has no driver.
CARD_RULES: tuple[Callable[[UnusedCard], Problem | None], ...] = (
    visibility.hosted_without_card,
    drivers.not_in_wsl,
    drivers.lost,
    visibility.not_in_container,
    drivers.without_driver,
    drivers.driver_of_two_versions,
    visibility.not_permitted,
    drivers.instances_missing,
    drivers.built_for_processors,
    drivers.built_for_another_maker,
    visibility.hidden_by_variable,
    drivers.driver_too_old,
    drivers.card_of_another_age,
    drivers.shadowed_library,
    drivers.held_by_others,
    drivers.fell_back,
)


def find_card_problems(machine: Machine) -> tuple[Problem, ...]:
    """Return one cause for each card that a framework could use but does not, and for each broken framework."""
    broken = (
        Problem(each.name, "broken", each.problem, f"pip install --force-reinstall {_packages(each.name)}")
        for each in machine.frameworks
        if each.problem is not None
    )
    return (*broken, *map(_judge, find_unused_cards(machine)))


def find_unseen_cards(machine: Machine) -> tuple[Finding, ...]:
    """Return the same as findings of a race, with one finding for all cards with the same cause.

    Only frameworks that race were asked. A user who has one card and hides another by a variable chose to do so: that
    is not a finding.
    """
    alike: dict[tuple[str, str, str], list[tuple[UnusedCard, Problem]]] = {}
    for unused in find_unused_cards(machine):
        found = _judge(unused)
        if found.cause != HIDDEN or not unused.has_another:
            alike.setdefault((unused.framework.name, found.cause, found.says), []).append((unused, found))
    return tuple(_as_finding(*each[0], len(each)) for each in alike.values())


def _as_finding(unused: UnusedCard, found: Problem, cards: int) -> Finding:
    more = f" and {cards - 1} more" if cards > 1 else ""
    are = "are" if cards > 1 else "is"
    says = f"{unused.label}{more} {are} not used in {unused.framework.name}: {found.says}."
    return Finding(CARD_NOT_SEEN, says, dict(found.evidence), found.command, "likely")


def _judge(unused: UnusedCard) -> Problem:
    found = (rule(unused) for rule in CARD_RULES)
    return next((each for each in found if each is not None), None) or drivers.of_unknown_cause(unused)


def _packages(framework: str) -> str:
    return " ".join(each.name for each in find_framework(framework).packages) or framework


def little_shared_memory(machine: Machine) -> Problem | None:
    """Worker processes of loaders pass batches through /dev/shm; Docker's default size is 64 MB."""
    around = machine.surroundings
    if around is None or isinstance(around.shared_memory_bytes, Missing):
        return None
    size = around.shared_memory_bytes
    if size >= LEAST_SHARED_BYTES:
        return None
    command = "docker run --shm-size=8g ..." if machine.container else "sudo mount -o remount,size=8G " + SHARED
    says = f"{SHARED} holds {size / 1e6:,.0f} MB: loaders with worker processes hand their batches over there"
    return Problem("the host", "shared memory", says, command, {"bytes": str(size)})


def quota_below_cores(machine: Machine) -> Problem | None:
    """Programs start a thread for each core that they see, and the container's quota stops them."""
    chip = machine.processor
    if isinstance(chip.quota_cores, Missing) or chip.quota_cores >= chip.cores_visible:
        return None
    says = f"{chip.cores_visible} cores are visible, and the container may use {chip.quota_cores:g} of them"
    return Problem("the processor", "quota", says, f"export OMP_NUM_THREADS={chip.cores_usable}",
                     {"visible": str(chip.cores_visible), "quota": f"{chip.quota_cores:g}"})  # fmt: skip


def threads_by_variable(machine: Machine) -> Problem | None:
    """A variable that was set for another program changes the number of threads."""
    variables, cores = (machine.surroundings.variables if machine.surroundings else {}), machine.processor.cores_usable
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        value = variables.get(name, "").split(",")[0]
        if value.isdecimal() and int(value) != cores:
            how = "fewer" if int(value) < cores else "more"
            says = f"{name}={value}: {how} threads than the {cores} cores that may be used"
            return Problem("the processor", "threads", says, f"unset {name}", {name: value})
    return None


def data_on_network(machine: Machine) -> Problem | None:
    """Every small file is a request over the network."""
    around = machine.surroundings
    for path, kind in (around.filesystems if around else {}).items():
        if kind.startswith(NETWORKED):
            says = f"{path} is on a network file system ({kind}): small files are slow to read there"
            command = f"cp -r {path} $HOME/  # or to any disk of this computer"
            return Problem("the host", "network file system", says, command, {path: kind})
    return None


def swap_in_use(machine: Machine) -> Problem | None:
    swapped = machine.use.swap_used_bytes if machine.use is not None else Missing("not looked at")
    if isinstance(swapped, Missing) or swapped < SWAPPED_BYTES:
        return None
    says = f"{swapped / 1e9:.1f} GB of memory lie in swap on a disk"
    return Problem("the host", "swap", says, "ps aux --sort=-rss | head", {"bytes": str(swapped)})


def saving_power(machine: Machine) -> Problem | None:
    """A governor that saves power raises the clock late, or never."""
    governors = machine.use.governors if machine.use is not None else Missing("not looked at")
    slow = [] if isinstance(governors, Missing) else [each for each in governors if _saves(each)]
    if not slow:
        return None
    says = f"the processor's clock is governed by {', '.join(slow)}: it saves power"
    return Problem("the processor", "governor", says, "sudo cpupower frequency-set -g performance",
                     {"governors": ", ".join(slow)})  # fmt: skip


def _saves(governor: str) -> bool:
    return governor in SAVING or governor.endswith(("preferring power", "preferring balance_power"))


HOST_RULES: tuple[Callable[[Machine], Problem | None], ...] = (
    little_shared_memory,
    quota_below_cores,
    threads_by_variable,
    data_on_network,
    swap_in_use,
    saving_power,
)


def find_host_problems(machine: Machine) -> tuple[Problem, ...]:
    found = (rule(machine) for rule in HOST_RULES)
    return tuple(each for each in found if each is not None)
