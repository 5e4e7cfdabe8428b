"""Devices that a forecast knows: facts from devices.toml next to this file, and from a file of your own.

What devices reach of their peaks is in efficiencies.toml, which bench/forecast_devices.py writes.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, get_args

from laptime.model.errors import UsageError
from laptime.model.hardware import Efficiencies, KnownDevice
from laptime.model.machine import DeviceKind

DEVICE_KEYS = tuple(field.name for field in fields(KnownDevice))
NEEDED = ("name", "short", "kind", "architecture")
LISTED_KEYS = ("aliases", "sources")
FLAGS = ("halved_sums", "doubled_fp32")
TEXT_KEYS = (*NEEDED, "capability", "released", "vector", "host", "price_provider", "price_date", "price_note")
NEAREST = 3
LARGEST_FACT = 1e12
DEVICES_FILE = Path(__file__).with_name("devices.toml")
EFFICIENCIES_FILE = Path(__file__).with_name("efficiencies.toml")


@cache
def known_devices() -> tuple[KnownDevice, ...]:
    """Return the devices that laptime ships."""
    return _read(DEVICES_FILE.read_text(encoding="utf-8"), DEVICES_FILE.name)


@cache
def known_efficiencies() -> Efficiencies:
    """Return what devices reach of their peaks."""
    return Efficiencies(**tomllib.loads(EFFICIENCIES_FILE.read_text(encoding="utf-8")))


def read_devices(place: Path) -> tuple[KnownDevice, ...]:
    """Return the devices of a user's own file, and those that laptime ships unless the file names them again."""
    try:
        text = place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--device-file {place} cannot be read: {error}", "give a TOML file of devices") from None
    own = _read(text, f"--device-file {place}")
    named = {device.short for device in own}
    return (*own, *(device for device in known_devices() if device.short not in named))


def find_device(word: str, devices: Sequence[KnownDevice]) -> KnownDevice:
    """Return the device that a word names, or refuse it with the nearest names."""
    found = match_label(word, devices)
    if found is not None:
        return found
    near = difflib.get_close_matches(
        bare_name(word), [bare_name(device.short) for device in devices], n=NEAREST, cutoff=0.4
    )
    shorts = [device.short for device in devices if bare_name(device.short) in near]
    says = f"no device '{word}' is known"
    raise UsageError(says, f"did you mean {' or '.join(shorts)}?" if shorts else "laptime forecast --all shows all")


def match_label(label: str, devices: Sequence[KnownDevice]) -> KnownDevice | None:
    """Return the known device of this short name, name or alias, such as a driver's `NVIDIA GeForce RTX 3090`."""
    wanted = bare_name(label)
    for device in devices:
        if wanted in map(bare_name, (device.short, device.name, *device.aliases)):
            return device
    # A processor adds marks, `CPU` and its clock to its name.
    words = set(wanted.split())
    for device in devices:
        model = bare_name(device.name.partition("(")[0]).split()
        if device.kind == "cpu" and len(model) > 1 and set(model) <= words:
            return device
    return None


def bare_name(word: str) -> str:
    """Return a name without what only some write: the maker, the family, marks and case."""
    words = re.findall("[a-z0-9]+", word.lower())
    return " ".join(part for part in words if part not in {"nvidia", "geforce", "tesla", "quadro", "amd", "intel", "r"})


def _read(text: str, place: str) -> tuple[KnownDevice, ...]:
    try:
        rows = tomllib.loads(text).get("device", [])
    except (ValueError, RecursionError) as error:  # also for a number of thousands of digits, and brackets in brackets
        raise UsageError(f"{place}: it is no TOML: {error}", "a table [[device]] for each device") from None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{place}: it has no [[device]]", "a table [[device]] for each device")
    devices = tuple(_as_device(row, place) for row in rows)
    shorts = [device.short for device in devices]
    if len(set(shorts)) < len(shorts):
        twice = next(short for short in shorts if shorts.count(short) > 1)
        raise UsageError(f"{place}: {twice} is there twice", "name each device once")
    return devices


def _as_device(row: dict[str, Any], place: str) -> KnownDevice:
    """Check a row's keys and values, and return its device."""
    name = row.get("short", row.get("name", "a device"))
    if lacks := [key for key in NEEDED if key not in row]:
        raise UsageError(f"{place}: {name} has no {lacks[0]}", f"needed: {', '.join(NEEDED)}")
    if unknown := sorted(set(row) - set(DEVICE_KEYS)):
        raise UsageError(f"{place}: {name} has an unknown key {unknown[0]}", f"keys: {', '.join(DEVICE_KEYS)}")
    for key, value in row.items():
        where = f"{place}: {key} of {name}"
        if key in LISTED_KEYS:
            if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
                raise UsageError(f"{where}: expected a list of texts", 'such as ["RTX 3090"]')
        elif key in FLAGS:
            if not isinstance(value, bool):
                raise UsageError(f"{where}: expected true or false", f"such as {key} = true")
        elif key in TEXT_KEYS:
            if not isinstance(value, str):
                raise UsageError(f"{where}: expected a text", f'such as {key} = "..."')
        elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST_FACT:
            says = f"{where}: expected a number above 0 and up to {LARGEST_FACT:g}"
            raise UsageError(says, "leave the key out where it is not known")
    if row["kind"] not in get_args(DeviceKind):
        raise UsageError(f"{place}: kind of {name} is {row['kind']}", f"expected {', '.join(get_args(DeviceKind))}")
    given: dict[str, Any] = {key: tuple(value) if key in LISTED_KEYS else value for key, value in row.items()}
    return KnownDevice(**given)
