"""Builds of a framework that cannot use this card: for processors only, for another driver, for other cards."""

from __future__ import annotations

import re

from laptime.diagnosis.placement.patient import Patient
from laptime.model.checkup import Complaint
from laptime.model.missing import Missing

LOOKS = {"NVIDIA": "nvidia-smi", "AMD": "rocminfo", "Intel": "clinfo", "Apple": "system_profiler SPDisplaysDataType"}
FOR_CARDS = {"NVIDIA": "CUDA", "AMD": "ROCm"}
FOR_AMD = {
    "torch": "pip install --force-reinstall torch  # the ROCm build: see pytorch.org/get-started",
    "jax": "pip install --upgrade jax-rocm7-pjrt jax-rocm7-plugin",
    "tensorflow": "pip uninstall -y tensorflow tensorflow-cpu && pip install tensorflow-rocm",
}
NUMBER = re.compile(r"\d+(?:\.\d+)?")
ARCHITECTURE = re.compile(r"(?:sm|compute)_(\d+?)(\d)[af]?\b")
SHADOWED = re.compile(r"libcu|libnv|libnccl|cudnn|undefined symbol|cannot load|could not load|dlopen", re.IGNORECASE)


def built_for_processors(patient: Patient) -> Complaint | None:
    """The wheel that is installed has no code for cards."""
    seen = patient.seen
    if patient.maker == "Intel":
        if seen is not None:
            return None
        says = f"this {patient.engine} shows no XPU: its usual build is for processors and NVIDIA's cards"
        return patient.complain("cpu build", says, _install_words(patient))
    if seen is None or "build" in seen.details or patient.maker not in FOR_CARDS:
        return None
    version = f"{patient.engine} {patient.framework.versions.get(patient.engine, patient.framework.version)}"
    says = f"{version} is a build for processors only"
    return patient.complain("cpu build", says, _install_words(patient), told=seen.reason or "")


def built_for_another_maker(patient: Patient) -> Complaint | None:
    """A build for CUDA on a card of AMD's, or one for ROCm on NVIDIA's."""
    build = patient.seen.details.get("build", "") if patient.seen is not None else ""
    fits = FOR_CARDS.get(patient.maker)
    if not build or fits is None or build == fits:
        return None
    says = f"this {patient.engine} is a build for {build}, and the card is {patient.maker}'s"
    return patient.complain("other build", says, _install_words(patient), build=build)


def driver_too_old(patient: Patient) -> Complaint | None:
    """CUDA runs on drivers of its own main version or newer ones."""
    card, needs = patient.card, _first(patient.framework.versions.get("cuda", ""))
    if card is None or isinstance(card.cuda, Missing) or needs is None:
        return None
    has = _first(card.cuda)
    if has is None or int(has) >= int(needs):
        return None
    driver = "" if isinstance(card.driver, Missing) else f" {card.driver}"
    says = f"this {patient.engine} is built for CUDA {needs:g}, and the driver{driver} knows CUDA up to {card.cuda}"
    return patient.complain("driver too old", says, "sudo apt-get install --only-upgrade nvidia-driver && sudo reboot",
                            otherwise=_older_words(patient, int(has)), build=needs, driver=card.cuda)  # fmt: skip


def card_of_another_age(patient: Patient) -> Complaint | None:
    """The build has code for some generations of cards: this one is newer than all of them, or older."""
    card = patient.card
    told = patient.seen.details.get("architectures", "") if patient.seen is not None else ""
    built = sorted({(int(major), int(minor)) for major, minor in ARCHITECTURE.findall(told)})
    if card is None or isinstance(card.capability, Missing) or not built:
        return None
    major, _, minor = card.capability.partition(".")
    this = (int(major), int(minor or 0))
    runs = any(each[0] == this[0] and each <= this for each in built)
    if runs or ("compute_" in told and this >= built[0]):
        return None
    newer = this > built[-1]
    says = (
        f"this {patient.engine} has code for cards of {_name(built[0])} to {_name(built[-1])}, "
        f"and this card is {'newer' if newer else 'older'}: {card.capability}"
    )
    command = f"pip install --upgrade {patient.engine}" if newer else _older_words(patient, None)
    return patient.complain("card too new" if newer else "card too old", says, command, architectures=told)


def shadowed_library(patient: Patient) -> Complaint | None:
    """A library of another version lies on the path before the one that the framework brought."""
    path = patient.variable("LD_LIBRARY_PATH")
    told = patient.seen.reason or "" if patient.seen is not None else ""
    cudnn = patient.framework.versions.get("cudnn", "")
    words = cudnn if cudnn.startswith("not usable") else told
    if not path or not SHADOWED.search(words):
        return None
    says = f"a library on LD_LIBRARY_PATH stands before {patient.engine}'s own: {words}"
    return patient.complain("library shadowed", says, "unset LD_LIBRARY_PATH", LD_LIBRARY_PATH=path)


def fell_back(patient: Patient) -> Complaint | None:
    """JAX and TensorFlow go on with the processor and say nothing; what they lack is most often a package."""
    seen = patient.seen
    if seen is None or "build" not in seen.details or patient.engine == "torch":
        return None
    says = f"{patient.engine} is built for cards, finds none, and goes on with the processor without a word"
    return patient.complain("fell back", says, _install_words(patient), told=seen.reason or "")


def of_unknown_cause(patient: Patient) -> Complaint:
    """Say what the framework says, and where to look."""
    told = patient.seen.reason if patient.seen is not None else None
    says = f"{patient.framework.name} does not use this card: {told or 'it gives no reason'}"
    looks = {
        "NVIDIA": "nvidia-smi",
        "AMD": "rocminfo",
        "Intel": "clinfo",
        "Apple": "system_profiler SPDisplaysDataType",
    }
    return patient.complain("unknown", says, looks.get(patient.maker, "dmesg"))


def _install_words(patient: Patient) -> str:
    engine, cuda = patient.engine, _driver_cuda(patient)
    if patient.maker == "AMD":
        return FOR_AMD[engine]
    if patient.maker == "Intel":
        return "pip install --force-reinstall torch  # the XPU build: see pytorch.org/get-started"
    if engine == "jax":
        return f'pip install --upgrade "jax[cuda{13 if cuda is not None and cuda >= 13 else 12}]"'
    if engine == "tensorflow":
        return 'pip uninstall -y tensorflow-cpu && pip install --upgrade "tensorflow[and-cuda]"'
    return "pip uninstall -y torch && pip install torch  # on Linux the default build is for CUDA"


def _older_words(patient: Patient, cuda: int | None) -> str:
    """Say how to get a build for an older driver or card."""
    if patient.engine == "jax" and cuda is not None:
        return f'pip install "jax[cuda{cuda}]"'
    built = f" built for CUDA {cuda}" if cuda is not None else ""
    return f"pip install '{patient.engine}<{_major_minor(patient)}'  # an older one{built}"


def _major_minor(patient: Patient) -> str:
    version = patient.framework.versions.get(patient.engine, patient.framework.version)
    return ".".join(version.split("+")[0].split(".")[:2])


def _driver_cuda(patient: Patient) -> float | None:
    card = patient.card
    return None if card is None or isinstance(card.cuda, Missing) else _first(card.cuda)


def _first(words: str) -> float | None:
    found = NUMBER.search(words)
    return float(found[0]) if found else None


def _name(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
