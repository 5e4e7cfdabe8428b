"""Drivers and builds of a framework that cannot use a card: missing, of another version, for other cards."""

from __future__ import annotations

import re

from laptime.model.missing import Missing
from laptime.questions.doctor.nouns import Problem
from laptime.questions.doctor.visibility import UnusedCard

# Kernel modules with which a card computes. Any other module that holds the card blocks them.
COMPUTING = {"NVIDIA": ("nvidia",), "AMD": ("amdgpu",), "Intel": ("i915", "xe")}
STANDS_IN = {"nouveau": "the free driver for displays", "vfio-pci": "kept for a virtual machine"}
INSTALL = {
    "NVIDIA": "sudo apt-get install nvidia-driver && sudo reboot",
    "AMD": "sudo modprobe amdgpu",
    "Intel": "sudo modprobe i915",
}
MISMATCH = ("two versions", "mismatch")
LOST = ("lost", "reset", "gone", "fallen off")
FULL = 0.9
LOOKS = {"NVIDIA": "nvidia-smi", "AMD": "rocminfo", "Intel": "clinfo", "Apple": "system_profiler SPDisplaysDataType"}
FOR_CARDS = {"NVIDIA": "CUDA", "AMD": "ROCm"}
NUMBER = re.compile(r"\d+(?:\.\d+)?")
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
    told = unused.machine.absent.get("NVIDIA")
    if unused.maker != "NVIDIA" or told is None or not any(word in told.missing for word in MISMATCH):
        return None
    says = "the driver's library and its kernel module are of two versions"
    return unused.problem("driver mismatch", says, "sudo reboot", nvml=told.missing)


def lost(unused: UnusedCard) -> Problem | None:
    """The card no longer answers."""
    card = unused.card
    if card is None or card.reason is None or not any(word in card.reason for word in LOST):
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
    who = ", ".join(str(each.pid) for each in card.processes)
    if "busy or unavailable" in unused.reason.lower() or "exclusive" in unused.reason.lower():
        says = f"the card is in exclusive mode, and process {who} has it"
        return unused.problem("exclusive", says, f"sudo nvidia-smi{unused.smi_place} -c DEFAULT", processes=who)
    used, there = card.memory_used_bytes, card.memory_bytes
    if isinstance(used, Missing) or isinstance(there, Missing) or used < FULL * there:
        return None
    says = f"process {who} holds {used / 1e9:.1f} of the card's {there / 1e9:.1f} GB"
    return unused.problem("memory held", says, f"kill {who.replace(',', '')}", processes=who, used_bytes=used)


def built_for_processors(unused: UnusedCard) -> Problem | None:
    """The installed wheel has no code for cards."""
    seen = unused.seen
    if unused.maker == "Intel" and seen is None:
        says = f"this {unused.engine} shows no XPU: its usual build is for processors and NVIDIA's cards"
        return unused.problem("cpu build", says, _install_words(unused))
    if seen is None or "build" in seen.details or unused.maker not in FOR_CARDS:
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
    card, needs = unused.card, _first(unused.framework.versions.get("cuda", ""))
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
    told = unused.seen.details.get("architectures", "") if unused.seen is not None else ""
    built = sorted({(int(major), int(minor)) for major, minor in ARCHITECTURE.findall(told)})
    if card is None or isinstance(card.capability, Missing) or not built:
        return None
    major, _, minor = card.capability.partition(".")
    this = (int(major), int(minor or 0))
    runs = any(each[0] == this[0] and each <= this for each in built)
    if runs or ("compute_" in told and this >= built[0]):
        return None
    newer = this > built[-1]
    (least, least_minor), (most, most_minor) = built[0], built[-1]
    code = f"this {unused.engine} has code for cards of {least}.{least_minor} to {most}.{most_minor}"
    says = f"{code}, and this card is {'newer' if newer else 'older'}: {card.capability}"
    command = f"pip install --upgrade {unused.engine}" if newer else _older_words(unused, None)
    return unused.problem("card too new" if newer else "card too old", says, command, architectures=told)


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
    seen = unused.seen
    if seen is None or "build" not in seen.details or not unused.engine_row.falls_back:
        return None
    says = f"{unused.engine} is built for cards, finds none, and goes on with the processor without a word"
    return unused.problem("fell back", says, _install_words(unused), told=unused.reason)


def of_unknown_cause(unused: UnusedCard) -> Problem:
    """Report the framework's own reason, and where to look."""
    says = f"{unused.framework.name} does not use this card: {unused.reason or 'it gives no reason'}"
    return unused.problem("unknown", says, LOOKS.get(unused.maker, "dmesg"))


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
    found = NUMBER.search(words)
    return float(found[0]) if found else None
