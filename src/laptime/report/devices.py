"""Processors and cards as they are, with what they have to do now, and which framework sees which of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from laptime.model.card import Card, match_card
from laptime.model.machine import Device, Machine, Use
from laptime.model.missing import Missing
from laptime.report.figures import number, size, whole_size
from laptime.report.layers import fact_lines

Fact = tuple[str, str]
Row = dict[str, object]
UNUSED = "no framework here uses it"
DRAWS = "it only brings a picture to a screen"
SMALL_BYTES = 1e9  # a loader's workers hand whole batches through shared memory


def hardware(machine: Machine, width: int) -> list[str]:
    """Give processor, memory and every card, each with what it has to do now; reasons once."""
    facts = [*_processor(machine), *_memory(machine)] if machine.use is not None else []
    facts += _drivers(machine)
    facts += [fact for card in machine.cards for fact in _card(card, machine)]
    facts += _no_cards(machine)
    return fact_lines([*facts, *_around(machine)], width)


def hardware_rows(machine: Machine) -> list[Row]:
    """Give processor and cards as objects, beside those of the frameworks' devices."""
    use = None if machine.use is None else asdict(machine.use)
    around = None if machine.surroundings is None else asdict(machine.surroundings)
    memory = {"memory_bytes": machine.memory_bytes, "memory_limit_bytes": machine.memory_limit_bytes}
    processor = {**_row("processor"), **asdict(machine.processor), **memory, "usable": True, "reason": None}
    here = {"use": use, "surroundings": around, "absent": machine.absent, "container": machine.container}
    return [{**processor, **here}, *(_card_row(card, machine) for card in machine.cards)]


def card_of(device: Device, machine: Machine) -> Row | Missing | None:
    """Name the card that a framework's device is; a processor is none, and neither is one that is only missed."""
    if device.kind == "cpu" or not (device.usable or {"uuid", "bus"} & device.details.keys()):
        return None
    card = match_card(device, machine.cards)
    return card if isinstance(card, Missing) else {"name": _name(card), "uuid": card.uuid, "bus": card.bus}


def users_of(card: Card, machine: Machine) -> list[str]:
    """Name the frameworks' devices that are this card and can be used."""
    return [f"{name} {device.name}" for name, device in _devices(machine) if match_card(device, machine.cards) == card]


def _devices(machine: Machine) -> Iterator[tuple[str, Device]]:
    for framework in machine.frameworks:
        yield from ((framework.name, each) for each in framework.devices if each.usable and each.kind != "cpu")


def _row(kind: str) -> Row:
    """The frameworks' rows have these; hardware belongs to none."""
    return {"framework": None, "version": None, "notes": (), "kind": kind}


def _card_row(card: Card, machine: Machine) -> Row:
    users = users_of(card, machine)
    reason = None if users else card.reason or (UNUSED if card.computes else DRAWS)
    return {
        **_row("card"),
        **asdict(card),
        "name": _name(card),
        "usable": bool(users),
        "reason": reason,
        "users": users,
    }


def _processor(machine: Machine) -> list[Fact]:
    chip = machine.processor
    quota = "" if isinstance(chip.quota_cores, Missing) else f" (quota {chip.quota_cores:g})"
    cores = f"{chip.cores_usable} of {chip.cores_visible} cores usable{quota}"
    told = [chip.name, chip.architecture, cores, " ".join(chip.features)]
    now = [] if machine.use is None else [("  now", ", ".join(_now(machine.use)))]
    return [("processor", ", ".join(filter(None, told))), *now]


def _now(use: Use) -> list[str]:
    """Tell work and clocks; a virtual machine tells neither clocks nor governors, and that is nothing to go after."""
    told = [] if isinstance(use.busy_percent, Missing) else [f"{use.busy_percent:.0f} % busy"]
    told += [] if isinstance(use.load_1m, Missing) else [f"load {use.load_1m:.2f}"]
    told += [] if isinstance(use.frequency_mhz, Missing) else [f"{number(use.frequency_mhz)} MHz"]
    told += [] if isinstance(use.governors, Missing) else [f"governor {' and '.join(use.governors)}"]
    return told


def _memory(machine: Machine) -> list[Fact]:
    limit, use, around = machine.memory_limit_bytes, machine.use, machine.surroundings
    told = [whole_size(machine.memory_bytes)]
    if not isinstance(limit, Missing) and limit < machine.memory_bytes:
        told.append(f"of which {whole_size(limit)} may be used")
    if use is not None and not isinstance(use.memory_available_bytes, Missing):
        told.append(f"{size(use.memory_available_bytes)} available")
    if use is not None and not isinstance(use.swap_used_bytes, Missing) and use.swap_used_bytes:
        told.append(f"{size(use.swap_used_bytes)} swapped out")
    shared = None if around is None else around.shared_memory_bytes
    if shared is not None and not isinstance(shared, Missing) and shared < SMALL_BYTES:
        told.append(f"only {size(shared)} shared (/dev/shm)")
    return [("memory", ", ".join(told))]


def _drivers(machine: Machine) -> list[Fact]:
    """Tell a driver's version once, and not with each card."""
    told: dict[str, str] = {}
    for card in machine.cards:
        if not isinstance(card.driver, Missing):
            cuda = "" if isinstance(card.cuda, Missing) else f", CUDA up to {card.cuda}"
            told.setdefault(f"{card.maker} driver", f"{card.driver}{cuda}")
    return list(told.items())


def _card(card: Card, machine: Machine) -> list[Fact]:
    bus = "" if isinstance(card.bus, Missing) else f" {card.bus}"
    label = f"card{bus}" if card.parent is None else "  instance"
    told = [_name(card), *_abilities(card), *_card_now(card)]
    return [(label, ", ".join(told)), ("", _whose(card, machine))]


def _name(card: Card) -> str:
    return f"{card.maker} card" if isinstance(card.name, Missing) else card.name


def _abilities(card: Card) -> list[str]:
    told = [] if isinstance(card.capability, Missing) else [f"capability {card.capability}"]
    told += [_link(card)] if _link(card) else []
    told += [] if isinstance(card.power_limit_mw, Missing) else [f"at most {number(card.power_limit_mw / 1e3)} W"]
    told += [] if isinstance(card.ecc, Missing) else [f"ECC {'on' if card.ecc else 'off'}"]
    return [*told, "split into instances (MIG)"] if card.mig is True else told


def _link(card: Card) -> str:
    """Tell the link as it is, and where it is idle or narrow what both ends agreed on."""
    now, most = _lanes(card.pcie_generation, card.pcie_width), _lanes(card.pcie_generation_most, card.pcie_width_most)
    if not now:
        return f"PCIe up to {most}" if most else ""
    return f"PCIe {now}" if now == most or not most else f"PCIe {now} now of {most}"


def _lanes(generation: int | Missing, width: int | Missing) -> str:
    parts = [] if isinstance(generation, Missing) else [str(generation)]
    return " ".join([*parts, *([] if isinstance(width, Missing) else [f"x{width}"])])


def _card_now(card: Card) -> list[str]:
    total, used, busy, held = card.memory_bytes, card.memory_used_bytes, card.busy_percent, card.processes
    told: list[str] = []
    if not isinstance(total, Missing):
        in_use = "" if isinstance(used, Missing) else f", {size(used) if used else 'none'} of it in use"
        told = [f"{whole_size(total)}{in_use}"]
    told += [] if isinstance(busy, Missing) else [f"{busy:.0f} % busy"]
    if not isinstance(held, Missing) and held:
        told.append(f"{len(held)} process{'es' * (len(held) != 1)} on it")
    return told


def _whose(card: Card, machine: Machine) -> str:
    users = users_of(card, machine)
    if users:
        return f"used by {', '.join(users)}"
    if card.reason is not None:
        return f"{UNUSED}: {card.reason}"
    if not card.computes:
        return DRAWS
    parts = [each for each in machine.cards if each.parent is not None and each.parent == card.uuid]
    return "used by its instances" if any(users_of(each, machine) for each in parts) else UNUSED


def _no_cards(machine: Machine) -> list[Fact]:
    """Say once why nothing beside the processor is known; of a driver that failed, also where other cards are."""
    if not machine.cards:
        reasons = [why.missing for name in ("PCI", "NVIDIA") if (why := machine.absent.get(name)) is not None]
        return [("cards", f"none: {'; '.join(reasons)}")] if reasons else []
    nvidia = machine.absent.get("NVIDIA")
    silent = nvidia is None or not any(each.maker == "NVIDIA" for each in machine.cards)
    told = any(nvidia is not None and each.reason == nvidia.missing for each in machine.cards)
    return [] if silent or told or nvidia is None else [("NVIDIA driver", nvidia.missing)]


def _around(machine: Machine) -> list[Fact]:
    """Tell what may hide or slow down a device: variables that are set, nodes that may not be opened."""
    around = machine.surroundings
    if around is None:
        return []
    told = [("set here", ", ".join(f"{name}={value}" for name, value in around.variables.items()))]
    closed = [f"{each.path} ({each.mode} {each.owner} {each.group})" for each in around.nodes if not each.may_open]
    told += [("not allowed", ", ".join(closed)), ("runs in", around.virtual or "")]
    return [(name, says) for name, says in told if says]
