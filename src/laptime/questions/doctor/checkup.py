"""What keeps cards from being used, with one cause each, and what slows trainings on any device."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from laptime.model.frameworks import EngineRow, find_framework
from laptime.model.machine import Card, Device, DeviceNode, Framework, Machine, match_card, plain_uuid
from laptime.model.quantities import Missing
from laptime.model.record import Finding
from laptime.questions.doctor.nouns import CARD_NOT_SEEN, Problem

# Drivers and builds of a framework that cannot use a card: missing, of another version, for other cards.

# Kernel modules with which a card computes. Any other module that holds the card blocks them.
COMPUTING = {"NVIDIA": ("nvidia",), "AMD": ("amdgpu",), "Intel": ("i915", "xe")}
STANDS_IN = {"nouveau": "the free driver for displays", "vfio-pci": "kept for a virtual machine"}
INSTALL = {
    "NVIDIA": "sudo apt-get install nvidia-driver && sudo reboot",
    "AMD": "sudo modprobe amdgpu",
    "Intel": "sudo modprobe i915",
}
MISMATCH = ("two versions", "mismatch")
LOST_WORDS = ("lost", "reset", "gone", "fallen off")
DISK_FULL = 0.9
LOOK_COMMANDS = {
    "NVIDIA": "nvidia-smi",
    "AMD": "rocminfo",
    "Intel": "clinfo",
    "Apple": "system_profiler SPDisplaysDataType",
}
FOR_CARDS = {"NVIDIA": "CUDA", "AMD": "ROCm"}
NUMBER_IN_TEXT = re.compile(r"\d+(?:\.\d+)?")
ARCHITECTURE = re.compile(r"(?:sm|compute)_(\d+?)(\d)[af]?\b")
SHADOWED = re.compile(r"libcu|libnv|libnccl|cudnn|undefined symbol|cannot load|could not load|dlopen", re.IGNORECASE)


def not_in_wsl(unused: UnusedCard) -> Problem | None:
    """Under WSL the driver is that of Windows. Linux must not install another one."""
    around = unused.machine.surroundings
    if around is None or around.virtual != "wsl" or unused.maker != "NVIDIA":
        return None
    if not unused.nodes("/dev/dxg"):
        says = "WSL shows no card to Linux: there is no /dev/dxg, as under WSL 1 or without a driver in Windows"
        command = "in Windows: install NVIDIA's driver there, then: wsl --update && wsl --shutdown"
        return unused.problem("wsl", says, command)
    if "/usr/lib/wsl/lib" not in (unused.variable("LD_LIBRARY_PATH") or "") and "NVIDIA" in unused.machine.absent:
        says = "WSL's own driver library is not found: it is in /usr/lib/wsl/lib"
        return unused.problem("wsl", says, "export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH")
    return None


def without_driver(unused: UnusedCard) -> Problem | None:
    """The card is on the bus, but no kernel module of its maker drives it."""
    card = unused.card
    if card is None or unused.maker not in COMPUTING:
        return None
    module = card.module
    if isinstance(module, Missing):
        if not isinstance(card.driver, Missing) or card.reason is None:
            return None
        return unused.problem("no driver", "no driver holds this card", INSTALL[unused.maker], reason=card.reason)
    if module in COMPUTING[unused.maker]:
        return None
    what = STANDS_IN.get(module, "another driver")
    return unused.problem("no driver", f"{module} holds this card: {what}", INSTALL[unused.maker], module=module)


def driver_of_two_versions(unused: UnusedCard) -> Problem | None:
    """The library was upgraded, but the kernel module was not reloaded."""
    reason = unused.machine.absent.get("NVIDIA")
    if unused.maker != "NVIDIA" or reason is None or not any(word in reason.missing for word in MISMATCH):
        return None
    says = "the driver's library and its kernel module are of two versions"
    return unused.problem("driver mismatch", says, "sudo reboot", nvml=reason.missing)


def lost(unused: UnusedCard) -> Problem | None:
    """The card no longer answers."""
    card = unused.card
    if card is None or card.reason is None or not any(word in card.reason for word in LOST_WORDS):
        return None
    command = f"sudo nvidia-smi --gpu-reset{unused.smi_place}" if unused.maker == "NVIDIA" else "sudo reboot"
    return unused.problem("card lost", f"the card does not answer: {card.reason}", command, reason=card.reason)


def instances_missing(unused: UnusedCard) -> Problem | None:
    """A card in MIG mode only computes in its instances."""
    card = unused.card
    if card is None or card.mig is not True or card.parent is not None:
        return None
    says = "this card is in MIG mode and has no instance: it computes in instances only"
    command = f"sudo nvidia-smi mig{unused.smi_place} -cgi 0 -C"
    return unused.problem("mig", says, command, otherwise=f"sudo nvidia-smi{unused.smi_place} -mig 0")


def held_by_others(unused: UnusedCard) -> Problem | None:
    """Another process holds the card in exclusive mode, or nearly all of its memory."""
    card = unused.card
    if card is None or isinstance(card.processes, Missing) or not card.processes:
        return None
    who = ", ".join(str(process.pid) for process in card.processes)
    if "busy or unavailable" in unused.reason.lower() or "exclusive" in unused.reason.lower():
        says = f"the card is in exclusive mode, and process {who} has it"
        return unused.problem("exclusive", says, f"sudo nvidia-smi{unused.smi_place} -c DEFAULT", processes=who)
    used = card.memory_used_bytes
    there = card.memory_bytes
    if isinstance(used, Missing) or isinstance(there, Missing) or used < DISK_FULL * there:
        return None
    says = f"process {who} holds {used / 1e9:.1f} of the card's {there / 1e9:.1f} GB"
    return unused.problem("memory held", says, f"kill {who.replace(',', '')}", processes=who, used_bytes=used)


def built_for_processors(unused: UnusedCard) -> Problem | None:
    """The installed wheel has no code for cards."""
    device = unused.seen
    if unused.maker == "Intel" and device is None:
        says = f"this {unused.engine} shows no XPU: its usual build is for processors and NVIDIA's cards"
        return unused.problem("cpu build", says, _install_words(unused))
    if device is None or "build" in device.details or unused.maker not in FOR_CARDS:
        return None
    version = f"{unused.engine} {unused.framework.versions.get(unused.engine, unused.framework.version)}"
    says = f"{version} is a build for processors only"
    return unused.problem("cpu build", says, _install_words(unused), told=unused.reason)


def built_for_another_maker(unused: UnusedCard) -> Problem | None:
    """A build for CUDA on an AMD card, or one for ROCm on an NVIDIA card."""
    build = unused.seen.details.get("build", "") if unused.seen is not None else ""
    fits = FOR_CARDS.get(unused.maker)
    if not build or fits is None or build == fits:
        return None
    says = f"this {unused.engine} is a build for {build}, and the card is {unused.maker}'s"
    return unused.problem("other build", says, _install_words(unused), build=build)


def driver_too_old(unused: UnusedCard) -> Problem | None:
    """CUDA needs a driver of its own major version or a newer one."""
    card = unused.card
    needs = _first(unused.framework.versions.get("cuda", ""))
    if card is None or isinstance(card.cuda, Missing) or needs is None:
        return None
    has = _first(card.cuda)
    if has is None or int(has) >= int(needs):
        return None
    driver = "" if isinstance(card.driver, Missing) else f" {card.driver}"
    says = f"this {unused.engine} is built for CUDA {needs:g}, and the driver{driver} knows CUDA up to {card.cuda}"
    return unused.problem("driver too old", says, "sudo apt-get install --only-upgrade nvidia-driver && sudo reboot",
                            otherwise=_older_words(unused, int(has)), build=needs, driver=card.cuda)  # fmt: skip


def card_of_another_age(unused: UnusedCard) -> Problem | None:
    """The build has code for some generations of cards. This card is newer or older than all of them."""
    card = unused.card
    architectures = unused.seen.details.get("architectures", "") if unused.seen is not None else ""
    built = sorted({(int(major), int(minor)) for major, minor in ARCHITECTURE.findall(architectures)})
    if card is None or isinstance(card.capability, Missing) or not built:
        return None
    major, _, minor = card.capability.partition(".")
    this = (int(major), int(minor or 0))
    runs = any(version[0] == this[0] and version <= this for version in built)
    if runs or ("compute_" in architectures and this >= built[0]):
        return None
    newer = this > built[-1]
    (least, least_minor), (most, most_minor) = built[0], built[-1]
    code = f"this {unused.engine} has code for cards of {least}.{least_minor} to {most}.{most_minor}"
    says = f"{code}, and this card is {'newer' if newer else 'older'}: {card.capability}"
    command = f"pip install --upgrade {unused.engine}" if newer else _older_words(unused, None)
    return unused.problem("card too new" if newer else "card too old", says, command, architectures=architectures)


def shadowed_library(unused: UnusedCard) -> Problem | None:
    """A library of another version comes before the framework's own on the search path."""
    path = unused.variable("LD_LIBRARY_PATH")
    cudnn = unused.framework.versions.get("cudnn", "")
    words = cudnn if cudnn.startswith("not usable") else unused.reason
    if not path or not SHADOWED.search(words):
        return None
    says = f"a library on LD_LIBRARY_PATH comes before {unused.engine}'s own: {words}"
    return unused.problem("library shadowed", says, "unset LD_LIBRARY_PATH", LD_LIBRARY_PATH=path)


def fell_back(unused: UnusedCard) -> Problem | None:
    """JAX and TensorFlow fall back to the processor without a message. Most often a package is missing."""
    device = unused.seen
    if device is None or "build" not in device.details or not unused.engine_row.falls_back:
        return None
    says = f"{unused.engine} is built for cards, finds none, and goes on with the processor without a word"
    return unused.problem("fell back", says, _install_words(unused), told=unused.reason)


def of_unknown_cause(unused: UnusedCard) -> Problem:
    """Report the framework's own reason, and where to look."""
    says = f"{unused.framework.name} does not use this card: {unused.reason or 'it gives no reason'}"
    return unused.problem("unknown", says, LOOK_COMMANDS.get(unused.maker, "dmesg"))


def _install_words(unused: UnusedCard) -> str:
    cuda = None if unused.card is None or isinstance(unused.card.cuda, Missing) else _first(unused.card.cuda)
    return unused.engine_row.builds[unused.maker].format(cuda=13 if cuda is not None and cuda >= 13 else 12)


def _older_words(unused: UnusedCard, cuda: int | None) -> str:
    """Return the command that installs a build for an older driver or card."""
    if unused.engine_row.older and cuda is not None:
        return unused.engine_row.older.format(cuda=cuda)
    built = f" built for CUDA {cuda}" if cuda is not None else ""
    version = unused.framework.versions.get(unused.engine, unused.framework.version)
    major_minor = ".".join(version.split("+")[0].split(".")[:2])
    return f"pip install '{unused.engine}<{major_minor}'  # an older one{built}"


def _first(words: str) -> float | None:
    found = NUMBER_IN_TEXT.search(words)
    return float(found[0]) if found else None


# Cards that a framework does not use, and what hides a card from a program: variables, containers, permissions.

# The kind of device that a maker's card would be.
MAKER_KINDS = {"NVIDIA": "cuda", "AMD": "cuda", "Intel": "xpu", "Apple": "mps"}
# The makers whose cards each variable selects. Only JAX reads its own variables.
CHOOSERS = {
    "CUDA_VISIBLE_DEVICES": ("NVIDIA", "AMD"),
    "HIP_VISIBLE_DEVICES": ("AMD",),
    "ROCR_VISIBLE_DEVICES": ("AMD",),
    "ZE_AFFINITY_MASK": ("Intel",),
    "JAX_PLATFORMS": ("NVIDIA", "AMD"),
    "JAX_PLATFORM_NAME": ("NVIDIA", "AMD"),
}
# The nodes that a container needs for a maker's card, their name in a message, and the option that adds them.
CONTAINER_NODES = {
    "NVIDIA": (("/dev/nvidia", "/dev/dxg"), "/dev/nvidia*", "--gpus all"),
    "AMD": (("/dev/kfd",), "/dev/kfd", "--device /dev/kfd --device /dev/dri --group-add video"),
    "Intel": (("/dev/dri",), "/dev/dri", "--device /dev/dri"),
}
HIDDEN_CAUSE = "hidden"
NOBODY = {"", "-1", "none", "void", "NoDevFiles"}
ACCELERATED = {"cuda", "gpu", "rocm"}


@dataclass(frozen=True, slots=True)
class UnusedCard:
    """A card that a framework does not use. `card` is None if the framework has no card and the machine shows none."""

    machine: Machine
    framework: Framework
    card: Card | None

    @property
    def engine(self) -> str:
        """What computes: torch, jax or tensorflow."""
        return self.engine_row.name

    @property
    def engine_row(self) -> EngineRow:
        return find_framework(self.framework.name).engine

    @property
    def maker(self) -> str:
        return self.card.maker if self.card is not None else "NVIDIA"

    @property
    def label(self) -> str:
        if self.card is None:
            return "a card"
        name = self.maker if isinstance(self.card.name, Missing) else self.card.name
        return name if isinstance(self.card.bus, Missing) else f"{name} ({self.card.bus})"

    @property
    def seen(self) -> Device | None:
        """The device that the framework lists but cannot use, if it lists one."""
        kind = MAKER_KINDS.get(self.maker)
        return next((device for device in self.framework.devices if device.kind == kind and not device.usable), None)

    @property
    def reason(self) -> str:
        """Why the framework cannot use that device, in its own words."""
        return (self.seen.reason or "") if self.seen is not None else ""

    @property
    def smi_place(self) -> str:
        """The option that selects this card in nvidia-smi."""
        return "" if self.card is None or isinstance(self.card.bus, Missing) else f" -i {self.card.bus}"

    @property
    def has_another(self) -> bool:
        """Whether the framework computes on another card."""
        return any(device.usable and device.kind != "cpu" for device in self.framework.devices)

    def variable(self, name: str) -> str | None:
        around = self.machine.surroundings
        return None if around is None else around.variables.get(name)

    def nodes(self, *beginnings: str) -> tuple[DeviceNode, ...]:
        around = self.machine.surroundings
        return tuple(node for node in (around.nodes if around else ()) if node.path.startswith(beginnings))

    def problem(self, cause: str, says: str, command: str, **evidence: object) -> Problem:
        about = f"{self.label} in {self.framework.name}"
        return Problem(about, cause, says, command, {name: str(value) for name, value in evidence.items()})


def find_unused_cards(machine: Machine) -> tuple[UnusedCard, ...]:
    """Return every pair of a card that could compute and a framework that could use it but does not.

    Of a card that is divided into instances, only the instances can be used. A framework that cannot run at all has a
    cause of its own, whatever cards there are. A hosted notebook can provide cards: a runtime without any counts too.
    """
    frameworks = [framework for framework in machine.frameworks if framework.problem is None and framework.devices]
    if not machine.cards and find_notebook(machine):
        return tuple(UnusedCard(machine, framework, None) for framework in frameworks if "NVIDIA" in _makers(framework))
    cut = {card.parent for card in machine.cards if card.parent is not None}
    cards = [
        card for card in machine.cards if card.computes and (isinstance(card.uuid, Missing) or card.uuid not in cut)
    ]
    return tuple(
        UnusedCard(machine, framework, card)
        for framework in frameworks
        for card in cards
        if card.maker in _makers(framework) and not uses(framework, card, machine)
    )


def _makers(framework: Framework) -> tuple[str, ...]:
    """Return the makers for whose cards a framework has builds."""
    return tuple(find_framework(framework.name).engine.builds)


def find_notebook(machine: Machine) -> str | None:
    """Return the name of the service that provides this machine as a notebook, or None."""
    variables = machine.surroundings.variables if machine.surroundings else {}
    if "COLAB_RELEASE_TAG" in variables or "COLAB_GPU" in variables:
        return "Colab"
    return "Kaggle" if "KAGGLE_KERNEL_RUN_TYPE" in variables else None


def uses(framework: Framework, card: Card, machine: Machine) -> bool:
    """Whether one of the framework's usable devices is this card.

    A framework may not report which card its device is. It is then assumed to use the first cards of its kind.
    """
    kind = MAKER_KINDS.get(card.maker)
    devices = [device for device in framework.devices if device.usable and device.kind == kind]
    matched = [match_card(device, machine.cards) for device in devices]
    if any(found == card for found in matched):
        return True
    unknown = sum(isinstance(found, Missing) for found in matched)
    same_kind = [
        other
        for other in machine.cards
        if other.computes and MAKER_KINDS.get(other.maker) == kind and other not in matched
    ]
    return unknown > 0 and card in same_kind[:unknown]


def hidden_by_variable(unused: UnusedCard) -> Problem | None:
    """A variable is set that excludes this card."""
    for name, makers in CHOOSERS.items():
        value = unused.variable(name)
        if value is None or unused.maker not in makers or (name.startswith("JAX_") and unused.engine != "jax"):
            continue
        if name.startswith("JAX_"):
            wanted = {word.strip() for word in value.split(",") if word.strip()}
            why = "" if not wanted or wanted & ACCELERATED else "keeps JAX to other platforms"
        else:
            why = _why_hidden(unused, value)
        if why:
            return unused.problem(HIDDEN_CAUSE, f"{name}={value!r} {why}", f"unset {name}", variable=f"{name}={value}")
    return None


def not_in_container(unused: UnusedCard) -> Problem | None:
    """The computer has the card, but the container was started without it."""
    around = unused.machine.surroundings
    if around is None or around.container is None or unused.card is None:
        return None
    if not isinstance(unused.card.driver, Missing):  # a program that can reach the driver has the card
        return None
    beginnings, lacks, given = CONTAINER_NODES.get(unused.maker, ((), "", ""))
    if not beginnings or unused.nodes(*beginnings):
        return None
    says = f"this container was started without the card: there is no {lacks}"
    return unused.problem("container", says, _start_words(around.container, given), nodes="none")


def not_permitted(unused: UnusedCard) -> Problem | None:
    """The driver's device node exists, but this user may not open it."""
    beginnings = {"NVIDIA": ("/dev/nvidia",), "AMD": ("/dev/kfd", "/dev/dri/renderD"), "Intel": ("/dev/dri/renderD",)}
    shut = [node for node in unused.nodes(*beginnings.get(unused.maker, ("-",))) if not node.may_open]
    if not shut:
        return None
    first = shut[0]
    says = f"this user may not open {first.path} (mode {first.mode}, owner {first.owner}, group {first.group})"
    groups = ",".join(dict.fromkeys(device_node.group for device_node in shut if device_node.group != "root"))
    command = (
        f"sudo usermod -aG {groups} $USER && newgrp {groups.split(',')[0]}"
        if groups
        else f"sudo chmod a+rw {first.path}"
    )
    return unused.problem("permission", says, command, nodes=", ".join(device_node.path for device_node in shut))


def hosted_without_card(unused: UnusedCard) -> Problem | None:
    """A hosted notebook can provide cards, but its runtime started without one."""
    service = find_notebook(unused.machine)
    if service is None or unused.card is not None:
        return None
    ways = {
        "Colab": "in the menu: Runtime > Change runtime type > T4 GPU",
        "Kaggle": "in the side bar: Session options > Accelerator > GPU",
    }
    return unused.problem("notebook", f"this {service} runtime has no card", ways[service], service=service)


def _why_hidden(unused: UnusedCard, value: str) -> str:
    """Return how a variable hides a card. CUDA counts the names up to the first that is not a card."""
    named = [word.strip() for word in value.split(",")]
    if named[0] in NOBODY:
        return "hides every card"
    there = [card for card in unused.machine.cards if card.maker == unused.maker and card.computes]
    whole = [card for card in there if card.parent is None]
    for place, name in enumerate(named):
        if re.fullmatch(r"\d+", name):
            if int(name) >= len(whole):
                rest = ", and hides those behind it" if place + 1 < len(named) else ""
                return f"names card {name}, and there are {len(whole)}, counted from 0{rest}"
        elif name in NOBODY:
            return f"ends with its place {place + 1}, and this card is not among those before"
        elif not any(  # a name is a UUID, or its first characters
            not isinstance(card.uuid, Missing) and plain_uuid(card.uuid).startswith(plain_uuid(name)) for card in there
        ):
            return f"names {name}, which is no card here"
    return "does not name this card" if len(named) < len(whole) or len(there) != len(whole) else ""


def _start_words(container: str, given: str) -> str:
    if container == "podman" and given == "--gpus all":
        given = "--device nvidia.com/gpu=all"
    program = "podman" if container == "podman" else "docker"
    return f"{program} run {given} ..."


SHARED_MEMORY = "/dev/shm"  # noqa: S108  only named, not written to
LEAST_SHARED_BYTES = 1 << 30
HOST_SWAPPED_BYTES = 256 << 20
NETWORKED = ("nfs", "cifs", "smb", "fuse.", "9p", "ceph", "lustre", "glusterfs", "beegfs", "gpfs", "afs", "drvfs")
SAVING = {"powersave", "conservative"}
# The first rule that fits names the cause. Rules that are farthest from the framework come first: even the right build
# cannot use a card that has no driver.
CARD_RULES: tuple[Callable[[UnusedCard], Problem | None], ...] = (
    hosted_without_card,
    not_in_wsl,
    lost,
    not_in_container,
    without_driver,
    driver_of_two_versions,
    not_permitted,
    instances_missing,
    built_for_processors,
    built_for_another_maker,
    hidden_by_variable,
    driver_too_old,
    card_of_another_age,
    shadowed_library,
    held_by_others,
    fell_back,
)


def find_card_problems(machine: Machine) -> tuple[Problem, ...]:
    """Return one cause for each card that a framework could use but does not, and for each broken framework."""
    broken: list[Problem] = []
    for framework in machine.frameworks:
        if framework.problem is not None:
            packages = " ".join(package.name for package in find_framework(framework.name).packages) or framework.name
            again = f"pip install --force-reinstall {packages}"
            broken.append(Problem(framework.name, "broken", framework.problem, again))
    return (*broken, *map(_judge, find_unused_cards(machine)))


def find_unseen_cards(machine: Machine) -> tuple[Finding, ...]:
    """Return the same as findings of a race, with one finding for all cards with the same cause.

    Only frameworks that race were asked. A user who has one card and hides another by a variable chose to do so: that
    is not a finding.
    """
    alike: dict[tuple[str, str, str], list[tuple[UnusedCard, Problem]]] = {}
    for unused in find_unused_cards(machine):
        found = _judge(unused)
        if found.cause != HIDDEN_CAUSE or not unused.has_another:
            alike.setdefault((unused.framework.name, found.cause, found.says), []).append((unused, found))
    return tuple(_as_finding(*group[0], len(group)) for group in alike.values())


def _as_finding(unused: UnusedCard, found: Problem, cards: int) -> Finding:
    more = f" and {cards - 1} more" if cards > 1 else ""
    are = "are" if cards > 1 else "is"
    says = f"{unused.label}{more} {are} not used in {unused.framework.name}: {found.says}."
    return Finding(CARD_NOT_SEEN, says, dict(found.evidence), found.command, "likely")


def _judge(unused: UnusedCard) -> Problem:
    found = (rule(unused) for rule in CARD_RULES)
    return next((problem for problem in found if problem is not None), None) or of_unknown_cause(unused)


def little_shared_memory(machine: Machine) -> Problem | None:
    """Worker processes of loaders pass batches through /dev/shm; Docker's default size is 64 MB."""
    around = machine.surroundings
    if around is None or isinstance(around.shared_memory_bytes, Missing):
        return None
    size = around.shared_memory_bytes
    if size >= LEAST_SHARED_BYTES:
        return None
    command = "docker run --shm-size=8g ..." if machine.container else "sudo mount -o remount,size=8G " + SHARED_MEMORY
    says = f"{SHARED_MEMORY} holds {size / 1e6:,.0f} MB: loaders with worker processes hand their batches over there"
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
    variables = machine.surroundings.variables if machine.surroundings else {}
    cores = machine.processor.cores_usable
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
    if isinstance(swapped, Missing) or swapped < HOST_SWAPPED_BYTES:
        return None
    says = f"{swapped / 1e9:.1f} GB of memory lie in swap on a disk"
    return Problem("the host", "swap", says, "ps aux --sort=-rss | head", {"bytes": str(swapped)})


def saving_power(machine: Machine) -> Problem | None:
    """A governor that saves power raises the clock late, or never."""
    governors = machine.use.governors if machine.use is not None else Missing("not looked at")
    if isinstance(governors, Missing):
        return None
    slow = [
        governor
        for governor in governors
        if governor in SAVING or governor.endswith(("preferring power", "preferring balance_power"))
    ]
    if not slow:
        return None
    says = f"the processor's clock is governed by {', '.join(slow)}: it saves power"
    return Problem("the processor", "governor", says, "sudo cpupower frequency-set -g performance",
                     {"governors": ", ".join(slow)})  # fmt: skip


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
    return tuple(problem for problem in found if problem is not None)
