"""Read lanes as users write them, name them as records do, and spread them over a grid of batches and rates."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.frameworks import DEFAULT_FRAMEWORK, all_frameworks, find_framework, frameworks_of
from laptime.model.machine import Device, Framework, Machine
from laptime.model.plan import Subject
from laptime.model.process import AS_WRITTEN, Lane, Preset
from laptime.planner.groups import BETWEEN, COUNTED_DEVICES
from laptime.planner.settings import PRESETS, SETTINGS, find_setting, list_settings

Overrides = tuple[tuple[str, str], ...]

GPU = "gpu"  # the first accelerator that a framework can use, of whatever kind
DEVICE_WORD = re.compile(r"gpu|(cpu|cuda|mps|xpu|tpu)(?::(0|[1-9][0-9]{0,2}))?", re.ASCII)
DEVICE_EXAMPLES = ("cpu", "gpu", "cuda", "cuda:1", "mps", "xpu", "tpu", "2xcuda", "4xcpu", "cuda:0+cuda:1")
SYNTAX = "a lane is [framework/]device[/setting+setting...], such as torch/cuda:0/bf16+compile"


def parse_lane(text: str) -> Lane:
    """Parse one lane. A UsageError names the part that is wrong and what is allowed there."""
    parts = text.split("/")
    framework = DEFAULT_FRAMEWORK
    if parts[0] in all_frameworks():
        framework = parts.pop(0)
    if not parts:
        return Lane(framework, None)
    named, settings = _split_device(parts[0])
    if not _is_device(named):
        names = [row.name for row in all_frameworks().values() if not row.switch]
        raise UsageError(
            f"lane '{text}': '{named}' is neither a framework nor a device{_near(named, (*names, *DEVICE_EXAMPLES))}",
            f"frameworks: {', '.join(names)}; devices: {', '.join(DEVICE_EXAMPLES)}; {SYNTAX}",
        )
    # Each of cpu/best+fused, cpu/best/fused and cpu+best+fused says what was meant.
    words = [word for part in (*settings, *parts[1:]) for word in part.split("+")]
    preset: Preset | None = None
    overrides: dict[str, str] = {}
    for word in words:
        if word in PRESETS:
            if preset is not None:
                raise UsageError(f"lane '{text}': two presets, '{preset}' and '{word}'", "name one of them")
            preset = next(literal for literal in PRESETS if literal == word)
            continue
        key, value = _read_setting(text, word)
        if key in overrides:
            raise UsageError(f"lane '{text}': {key} is set twice, '{overrides[key]}' and '{value}'", "keep one")
        overrides[key] = value
    return Lane(framework, named, preset or AS_WRITTEN, tuple(overrides.items()))


def _split_device(part: str) -> tuple[str, list[str]]:
    """Split off the settings that follow a device without a slash; several devices are joined by a plus, too."""
    first, *others = part.split(BETWEEN)
    while others and _is_device(others[0]):
        first = f"{first}{BETWEEN}{others.pop(0)}"
    return first, others


def names_a_lane(word: str) -> bool:
    """Whether a word is a lane rather than a workload or file: `race torch/cpu cpu/best` names no workload."""
    first = word.split("/", 1)[0]
    return first in all_frameworks() or _is_device(_split_device(first)[0])


def name_lane(framework: str, device: str, preset: Preset, overrides: Overrides) -> str:
    """Return a lane's name, as records have it."""
    words: list[str] = [preset] if preset != AS_WRITTEN or not overrides else []
    words += [SETTINGS[key].written(value) for key, value in overrides]
    return f"{framework}/{device}/{'+'.join(words)}"


def _is_device(part: str) -> bool:
    return COUNTED_DEVICES.fullmatch(part) is not None or all(map(DEVICE_WORD.fullmatch, part.split(BETWEEN)))


def _read_setting(text: str, word: str) -> tuple[str, str]:
    found = find_setting(word)
    if found is None:
        words = [*PRESETS, *(row.written(value) for row in SETTINGS.values() for value in row.listed)]
        says = f"lane '{text}': '{word}' is not a setting{_near(word, words)}"
        raise UsageError(says, f"settings: {list_settings()}")
    row, value = found
    if not row.can_be(value):
        raise UsageError(f"lane '{text}': {word} cannot be", f"{row.name} takes {row.takes}")
    return row.name, value


def _near(word: str, words: Iterable[str]) -> str:
    """Return a question after the word that was probably meant, where one is near.

    The value of a setting may stand alone where its name is missing: `cached` for `input=cached`.
    """
    known = list(words)
    whole = [written for written in known if word and written.partition("=")[2] == word]
    near = whole or difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def spread_lanes(lanes: list[Lane], ask: Ask) -> list[Lane]:
    """Return each lane once for every pair of a requested batch and learning rate, sorted by batch first."""
    wanted = ask.batches if ask.full is None else ask.full.batches
    batches: list[Overrides] = [(("batch", str(batch)),) for batch in wanted] or [()]
    rates: list[Overrides] = [(("lr", f"{rate:g}"),) for rate in (ask.full.learning_rates if ask.full else ())] or [()]
    spread: list[Lane] = []
    for lane, batch, rate in product(lanes, batches, rates):
        for key, value in (*batch, *rate):
            if key in dict(lane.overrides):
                says = f"--{key}: the lane {lane.device} names {key} itself"
                raise UsageError(says, f"leave --{key} {value} or it out")
        spread.append(replace(lane, overrides=(*lane.overrides, *batch, *rate)))
    return spread


# Which frameworks a race uses: those that its lanes name, else those that can run what is trained.


def frameworks_asked(ask: Ask, machine: Machine, subject: Subject) -> tuple[str, ...]:
    """Return the frameworks to scout: those that the lanes name, in order, or all that can run the subject."""
    if ask.every:
        return able_frameworks(machine, subject)
    lanes = [parse_lane(text) for text in ask.lanes]
    return tuple(dict.fromkeys(lane.framework for lane in lanes)) or (default_framework(machine, subject),)


def able_frameworks(machine: Machine, subject: Subject) -> tuple[str, ...]:
    """Return the installed frameworks that can run this. A built-in workload has no form as a step function."""
    installed = [find_framework(framework.name) for framework in machine.frameworks]
    if subject.file is None:
        return tuple(row.name for row in installed if not row.takes_steps_only)
    if subject.written_for is None:
        return tuple(row.name for row in installed if not row.is_opaque)  # an opaque framework takes only a step
    return tuple(row.name for row in installed if row.runs_own_code and row.family == subject.written_for)


def default_framework(machine: Machine, subject: Subject) -> str:
    """Return PyTorch, or what a user's file is written for; for Keras, with the engine that Keras itself would use."""
    if subject.written_for is None:
        return DEFAULT_FRAMEWORK
    rows = frameworks_of(subject.written_for)
    for row in rows:
        if row.engine.name == os.environ.get("KERAS_BACKEND"):
            return row.name
    for row in rows:
        if machine.framework(row.name):
            return row.name
    return rows[0].name


def devices_to_race(framework: Framework) -> list[Device]:
    """Return the usable devices. A card that no framework has tried is left out: the user has to name it."""
    tries_cards = not find_framework(framework.name).is_opaque
    return [device for device in framework.devices if device.usable and (device.kind == "cpu" or tries_cards)]
