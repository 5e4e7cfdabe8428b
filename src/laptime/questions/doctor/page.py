"""The page of the doctor: can each framework use each device, what was tried, and each problem with its command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict

from laptime.model.frameworks import find_framework, install_command
from laptime.model.hardware import COPY_EXERCISE, NOT_MEASURED, DeviceKey, DevicePeaks
from laptime.model.machine import Card, Device, Framework, Machine, match_card
from laptime.model.quantities import Missing, number, size
from laptime.questions.doctor.nouns import Checkup, DeviceTest
from laptime.show.pages.layout import Cell, Column, clean, lay_out_table, painted, table_or_sentences, wrap, wrap_all
from laptime.show.pages.listing import Fact, fact_lines
from laptime.show.pages.words import (
    BYTES_UNIT,
    FLOPS_UNIT,
    chip_words,
    joined,
    machine_words,
    memory_words,
    processor_words,
    rates,
    whole_size,
)

ALL_WELL = "Every device that is here can be used by every framework that is installed."
ALL_ASKED_WELL = "Every device that is here can be used by what was asked."


def render_checkup(checkup: Checkup, width: int, *, color: bool) -> str:
    """Return the page of the doctor: whether all can be used, what was tried, and each problem with its command."""
    # The answer in a sentence
    if not checkup.trials:
        verdict = f"{NO_FRAMEWORK}, so nothing can be tried: {install_command('torch')}"
    elif checkup.is_well:
        well = ALL_ASKED_WELL if _not_asked(checkup) else ALL_WELL
        verdict = well if not checkup.around else f"{well} What is named below can slow them."
    else:
        failed = [f"{trial.framework}/{trial.device}" for trial in checkup.trials if trial.product is None]
        unused = [problem.about for problem in checkup.unused]
        verdict = f"Not every device can be used: {'; '.join([*unused, *failed])}."
    lines = painted(verdict, width, "strong", color=color)
    columns: list[Column[DeviceTest]] = [
        Column("framework", lambda trial: trial.framework),
        Column("device", lambda trial: trial.device),
        Column("what it is", lambda trial: trial.label, least=12),
        Column("a product of matrices", _outcome, least=24),
    ]
    tried = table_or_sentences(columns, checkup.trials, width, color=color) if checkup.trials else []
    lines += [*wrap(machine_words(checkup.machine), width, "  "), *tried]
    unknown = {trial.share.missing for trial in checkup.trials if trial.product and isinstance(trial.share, Missing)}
    lines += wrap_all((f"- (share of the peak: {reason})" for reason in sorted(unknown)), width)
    busy = [trial.others_cores for trial in checkup.trials if trial.is_slowed]
    took_cores = [cores for cores in busy if not isinstance(cores, Missing)]
    if not took_cores:
        slowed = ""
    else:
        cores = checkup.machine.processor.cores_usable
        slowed = f"Other processes took up to {max(took_cores):.1f} of {cores} cores meanwhile"
        slowed += ": rates on busy cores are too low."
    lines += wrap(slowed, width, "  ") if slowed else []
    for problem in (*checkup.unused, *checkup.around):
        # The command has a line of its own, unbroken, so that it can be copied.
        lines += ["", *wrap(f"{problem.about}: {problem.says}.", width, "  "), f"    {clean(problem.command)}"]
    if checkup.trials and (others := _not_asked(checkup)):
        lines += wrap(f"Not asked: {', '.join(others)}.", width, "  ")
    return "\n".join(lines) + "\n"


def _not_asked(checkup: Checkup) -> list[str]:
    """Return the frameworks that were not asked. One that was asked has a processor at least, or a problem."""
    return [
        framework.name
        for framework in checkup.machine.frameworks
        if not framework.devices and framework.problem is None
    ]


def _outcome(trial: DeviceTest) -> Cell:
    if trial.product is None:
        return Cell(f"failed: {trial.reason or 'no reason given'}", "bad")
    rate = f"{number(trial.product.best_per_s / 1e9)} GFLOP/s{' on busy cores' if trial.is_slowed else ''}"
    if isinstance(trial.share, Missing):
        return Cell(f"works, {rate}", "good")
    return Cell(f"works, {rate}, {100 * trial.share:.0f} % of its measured peak", "good")


# Processors and cards: what each can do and does now, which framework can use it, and its peaks.

DeviceFacts = dict[str, object]
UNUSED = "no framework here uses it"
DRAWS = "it only brings a picture to a screen"
SHARED_MEMORY_SMALL = 1e9  # a loader's workers hand whole batches through shared memory
MEASURE_HINT = "What each can do at most: laptime devices --measure"
NO_FRAMEWORK = "No framework is installed"


def hardware(machine: Machine, width: int) -> list[str]:
    """Return lines for processor, memory and every card, each with its current load. Each reason appears once."""
    use = machine.use
    around = machine.surroundings
    words = [memory_words(machine)]
    if use is not None and not isinstance(use.memory_available_bytes, Missing):
        words.append(f"{size(use.memory_available_bytes)} available")
    if use is not None and not isinstance(use.swap_used_bytes, Missing) and use.swap_used_bytes:
        words.append(f"{size(use.swap_used_bytes)} swapped out")
    shared = None if around is None else around.shared_memory_bytes
    if shared is not None and not isinstance(shared, Missing) and shared < SHARED_MEMORY_SMALL:
        words.append(f"only {size(shared)} shared (/dev/shm)")
    facts: list[Fact] = []
    if use is not None:
        figures = [] if isinstance(use.busy_percent, Missing) else [f"{use.busy_percent:.0f} % busy"]
        figures += [] if isinstance(use.load_1m, Missing) else [f"load {use.load_1m:.2f}"]
        figures += [] if isinstance(use.frequency_mhz, Missing) else [f"{number(use.frequency_mhz)} MHz"]
        figures += [] if isinstance(use.governors, Missing) else [f"governor {' and '.join(use.governors)}"]
        now = ("  now", ", ".join(figures))
        facts = [("processor", processor_words(machine)), now, ("memory", ", ".join(words))]
    # The version of each driver once, not for every card
    versions: dict[str, str] = {}
    for card in machine.cards:
        if not isinstance(card.driver, Missing):
            cuda = "" if isinstance(card.cuda, Missing) else f", CUDA up to {card.cuda}"
            versions.setdefault(f"{card.maker} driver", f"{card.driver}{cuda}")
    facts += list(versions.items())
    facts += [fact for card in machine.cards for fact in _card(card, machine)]
    # Why no card is known, or why the NVIDIA driver failed although other cards are known
    if not machine.cards:
        reasons = [why.missing for name in ("PCI", "NVIDIA") if (why := machine.absent.get(name)) is not None]
        no_cards = [("cards", f"none: {'; '.join(reasons)}")] if reasons else []
    else:
        nvidia = machine.absent.get("NVIDIA")
        silent = nvidia is None or not any(card.maker == "NVIDIA" for card in machine.cards)
        is_named = any(nvidia is not None and card.reason == nvidia.missing for card in machine.cards)
        no_cards = [] if silent or is_named or nvidia is None else [("NVIDIA driver", nvidia.missing)]
    facts += no_cards
    return fact_lines([*facts, *_around(machine)], width)


def hardware_rows(machine: Machine) -> list[DeviceFacts]:
    """Return rows for the processor and the cards, of the same form as those of the frameworks' devices."""
    use = None if machine.use is None else asdict(machine.use)
    around = None if machine.surroundings is None else asdict(machine.surroundings)
    memory = {"memory_bytes": machine.memory_bytes, "memory_limit_bytes": machine.memory_limit_bytes}
    processor = {**_row_of("processor"), **asdict(machine.processor), **memory, "usable": True, "reason": None}
    here = {"use": use, "surroundings": around, "absent": machine.absent, "container": machine.container}
    return [{**processor, **here}, *(_card_row(card, machine) for card in machine.cards)]


def card_behind(device: Device, machine: Machine) -> DeviceFacts | Missing | None:
    """Return the card that a framework's device is, or None for a processor and for a device that is not there."""
    if device.kind == "cpu" or not (device.usable or {"uuid", "bus"} & device.details.keys()):
        return None
    card = match_card(device, machine.cards)
    return card if isinstance(card, Missing) else {"name": _name(card), "uuid": card.uuid, "bus": card.bus}


def users_of(card: Card, machine: Machine) -> list[str]:
    """Return the names of the usable framework devices that are this card."""
    return [f"{name} {device.name}" for name, device in _devices(machine) if match_card(device, machine.cards) == card]


def _devices(machine: Machine) -> Iterator[tuple[str, Device]]:
    for framework in machine.frameworks:
        yield from ((framework.name, device) for device in framework.devices if device.usable and device.kind != "cpu")


def _row_of(kind: str) -> DeviceFacts:
    """Return the fields that all rows have. Hardware belongs to no framework."""
    return {"framework": None, "version": None, "notes": (), "kind": kind}


def _card_row(card: Card, machine: Machine) -> DeviceFacts:
    users = users_of(card, machine)
    reason = None if users else card.reason or (UNUSED if card.computes else DRAWS)
    return {
        **_row_of("card"),
        **asdict(card),
        "name": _name(card),
        "usable": bool(users),
        "reason": reason,
        "users": users,
    }


def _card(card: Card, machine: Machine) -> list[Fact]:
    bus = "" if isinstance(card.bus, Missing) else f" {card.bus}"
    label = f"card{bus}" if card.parent is None else "  instance"
    abilities = [] if isinstance(card.capability, Missing) else [f"capability {card.capability}"]
    abilities += [_link(card)] if _link(card) else []
    abilities += [] if isinstance(card.power_limit_mw, Missing) else [f"at most {number(card.power_limit_mw / 1e3)} W"]
    abilities += [] if isinstance(card.ecc, Missing) else [f"ECC {'on' if card.ecc else 'off'}"]
    abilities = [*abilities, "split into instances (MIG)"] if card.mig is True else abilities
    total = card.memory_bytes
    used = card.memory_used_bytes
    busy = card.busy_percent
    held = card.processes
    now: list[str] = []
    if not isinstance(total, Missing):
        in_use = "" if isinstance(used, Missing) else f", {size(used) if used else 'none'} of it in use"
        now = [f"{whole_size(total)}{in_use}"]
    now += [] if isinstance(busy, Missing) else [f"{busy:.0f} % busy"]
    if not isinstance(held, Missing) and held:
        now.append(f"{len(held)} process{'es' * (len(held) != 1)} on it")
    words = [_name(card), *abilities, *now]
    users = users_of(card, machine)
    if users:
        whose = f"used by {', '.join(users)}"
    elif card.reason is not None:
        whose = f"{UNUSED}: {card.reason}"
    elif not card.computes:
        whose = DRAWS
    else:
        whose = UNUSED if _is_unused(card, machine) else "used by its instances"
    return [(label, ", ".join(words)), ("", whose)]


def _name(card: Card) -> str:
    return f"{card.maker} card" if isinstance(card.name, Missing) else card.name


def _link(card: Card) -> str:
    """Return the PCIe link as it is now and, if it is slower than its maximum, that maximum too."""
    now = _lanes(card.pcie_generation, card.pcie_width)
    most = _lanes(card.pcie_generation_most, card.pcie_width_most)
    if not now:
        return f"PCIe up to {most}" if most else ""
    return f"PCIe {now}" if now == most or not most else f"PCIe {now} now of {most}"


def _lanes(generation: int | Missing, width: int | Missing) -> str:
    parts = [] if isinstance(generation, Missing) else [str(generation)]
    return " ".join([*parts, *([] if isinstance(width, Missing) else [f"x{width}"])])


def _is_unused(card: Card, machine: Machine) -> bool:
    """Whether no framework uses a card, or one of the instances into which it is cut."""
    if users_of(card, machine):
        return False
    parts = [part for part in machine.cards if part.parent is not None and part.parent == card.uuid]
    return card.reason is not None or not any(users_of(part, machine) for part in parts)


def _around(machine: Machine) -> list[Fact]:
    """Return what may hide or slow a device: variables that are set, device files that may not be opened."""
    around = machine.surroundings
    if around is None:
        return []
    facts = [("set here", ", ".join(f"{name}={value}" for name, value in around.variables.items()))]
    closed = [f"{node.path} ({node.mode} {node.owner} {node.group})" for node in around.nodes if not node.may_open]
    facts += [("not allowed", ", ".join(closed)), ("runs in", around.virtual or "")]
    return [(name, says) for name, says in facts if says]


FrameworkDevice = tuple[Framework, "Device | None"]
ShownLimits = Sequence["tuple[DeviceKey, DevicePeaks | Missing]"]


def peak_lines(limits: ShownLimits, width: int) -> list[str]:
    """Return the table of all measured devices, then a line for each unknown peak with the reason."""
    measured = [peaks for _, peaks in limits if isinstance(peaks, DevicePeaks)]
    rows = [row for device_peaks in measured for row in _peak_rows(device_peaks)]
    columns: list[Column[tuple[str, ...]]] = [
        Column("at most", lambda row: row[0], least=12),
        Column("what", lambda row: row[1]),
        Column("best", lambda row: row[2], right=True),
        Column("middle", lambda row: row[3], right=True),
        Column("by", lambda row: row[4], least=16),
    ]
    lines = (lay_out_table(columns, rows, width) or list(_sentences(rows, width))) if rows else []
    lines += wrap_all(_reasons(limits), width)
    if any(peaks == NOT_MEASURED for _, peaks in limits):
        lines += wrap(MEASURE_HINT, width, "  ")
    return lines


def rate_with_prefix(value: float, unit: str) -> str:
    """Return a rate with the prefix that fits: `235 GFLOP/s`."""
    return rates((value,), unit)


def _peak_rows(peaks: DevicePeaks) -> Iterator[tuple[str, ...]]:
    name = chip_words(peaks.label)
    for limit, peak in peaks.peaks.items():
        unit = BYTES_UNIT if limit == COPY_EXERCISE else FLOPS_UNIT
        what = COPY_EXERCISE if limit == COPY_EXERCISE else f"{limit} product"
        yield (
            name,
            what,
            rate_with_prefix(peak.best_per_s, unit),
            rate_with_prefix(peak.median_per_s, unit),
            f"{peak.by}, {peak.of}",
        )
        name = ""


def _sentences(rows: Iterable[tuple[str, ...]], width: int) -> Iterator[str]:
    for device, what, best, middle, by in rows:
        words = f"{what} at most {best} (middle {middle}), by {by}"
        yield from wrap(f"{device}: {words}" if device else f"  {words}", width, "  ")


def _reasons(limits: ShownLimits) -> Iterator[str]:
    for key, peaks in limits:
        name = chip_words(key.label)
        if isinstance(peaks, DevicePeaks):
            yield from (f"- ({name}, {limit}: {why.missing})" for limit, why in peaks.absent.items())
            yield f"{name}: measured {peaks.measured[:10]}"
        elif peaks != NOT_MEASURED:
            yield f"- ({name}: {peaks.missing})"


def render_devices(machine: Machine, width: int) -> str:
    """Return what can be trained on, the hardware, and what each installed framework can use, or why it cannot."""
    container = [f"container {machine.container}"] if machine.container else []
    about = ", ".join([machine.system, f"Python {machine.python}", *container])
    head = [*wrap_all([_answer(machine), machine_words(machine), about], width), *hardware(machine, width)]
    devices: list[FrameworkDevice] = []
    for framework in machine.frameworks:
        devices += [(framework, device) for device in (() if framework.problem else framework.devices)] or [
            (framework, None)
        ]
    memory = _told(lambda device: "-" if isinstance(device.memory_bytes, Missing) else whole_size(device.memory_bytes))
    columns: list[Column[FrameworkDevice]] = [
        Column("framework", lambda pair: f"{pair[0].name} {pair[0].version}", least=10),
        Column("device", _told(lambda device: device.name)),
        Column("what it is", _told(_label), least=14),
        Column("memory", memory, right=True),
        Column("usable", _told(_usable), least=20),
    ]
    table = table_or_sentences(columns, devices, width, failed=_why_no_device)
    notes = list(dict.fromkeys(note for framework in machine.frameworks for note in framework.notes))
    if all(find_framework(framework.name).is_opaque for framework in machine.frameworks):
        notes.append(f"{NO_FRAMEWORK}. {install_command('torch')}")
    return "\n".join([*head, *table, *wrap_all(notes, width)]) + "\n"


def _answer(machine: Machine) -> str:
    """Return a sentence on what a training can run on, cards first, and on cards that nothing uses."""
    users: dict[str, list[str]] = {}
    for framework in machine.frameworks:
        for device in framework.devices if framework.problem is None else ():
            if device.usable:
                name = device.name if device.kind == "cpu" else f"{device.name} {device.label}"
                users.setdefault(name, []).append(framework.name)
    found = [f"{name} ({', '.join(names)})" for name, names in sorted(users.items(), key=lambda pair: pair[0] == "cpu")]
    sentences = [f"You can train on {joined(found)}." if found else "No framework here can train."]
    idle = sum(card.computes and _is_unused(card, machine) for card in machine.cards)
    if idle:
        sentences.append(f"{idle} card{'s are' if idle > 1 else ' is'} not used: laptime devices --check.")
    elif not machine.cards and users.keys() <= {"cpu"}:
        sentences.append("There is no card.")
    return " ".join(sentences)


def _why_no_device(pair: FrameworkDevice) -> str:
    framework, device = pair
    if device is not None:
        return ""
    return f"cannot run: {framework.problem}" if framework.problem else "not asked yet for its devices"


def _told(words: Callable[[Device], str]) -> Callable[[FrameworkDevice], str]:
    return lambda pair: "" if pair[1] is None else words(pair[1])


def _label(device: Device) -> str:
    capability = device.details.get("capability")
    return device.label if capability is None else f"{device.label}, capability {capability}"


def _usable(device: Device) -> str:
    if not device.usable:
        return f"no: {device.reason or 'no reason given'}"
    return f"yes: {', '.join(device.features)}" if device.features else "yes"
