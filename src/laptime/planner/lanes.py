"""Read lanes as users write them, and name them as records do."""

from __future__ import annotations

import re

from laptime.errors import UsageError
from laptime.model.lane import AS_WRITTEN, Lane, Preset

FRAMEWORKS = ("torch", "jax", "keras-tf", "keras-jax", "keras-torch", "python", "fake")
DEVICE = re.compile(r"(cpu|cuda|mps|xpu|tpu)(?::(0|[1-9][0-9]{0,2}))?", re.ASCII)
PRESETS: tuple[Preset, ...] = ("as-written", "best", "fastest")
WORDS = {
    "fp32": "precision",
    "tf32": "precision",
    "bf16": "precision",
    "fp16": "precision",
    "eager": "execution",
    "compile": "execution",
    "graph": "execution",
    "channels_last": "layout",
    "fused": "optimizer",
}
INPUTS = ("published", "fast", "cached", "resident", "only", "one", "copy")
LARGEST_COUNT = 1_000_000
LARGEST_RATE = 100.0
SYNTAX = "a lane is [framework/]device[/setting+setting...], such as torch/cuda:0/bf16+compile"


def parse_lane(text: str) -> Lane:
    """Understand one lane, or say which part of it is wrong and what may stand there."""
    parts = text.split("/")
    framework = "torch"
    if parts[0] in FRAMEWORKS:
        framework, parts = parts[0], parts[1:]
    if not parts:
        return Lane(framework, None)
    device = _read_device(text, parts[0])
    if len(parts) > 2:
        raise UsageError(f"lane '{text}': too many parts, '{'/'.join(parts[2:])}' is left over", SYNTAX)
    preset, overrides = _read_settings(text, parts[1]) if len(parts) == 2 else (AS_WRITTEN, ())
    return Lane(framework, device, preset, overrides)


def names_a_lane(word: str) -> bool:
    """Tell a lane from a workload or a file, so that `race torch/cpu cpu/best` can leave the workload out."""
    first = word.split("/", 1)[0]
    return first in FRAMEWORKS or DEVICE.fullmatch(first) is not None


def name_lane(framework: str, device: str, preset: Preset, overrides: tuple[tuple[str, str], ...]) -> str:
    """Give the one name by which a lane stands in records."""
    words: list[str] = [preset] if preset != AS_WRITTEN or not overrides else []
    words += [f"{key}={value}" if key in KEYED else value for key, value in overrides]
    return f"{framework}/{device}/{'+'.join(words)}"


def _read_device(text: str, part: str) -> str:
    if not DEVICE.fullmatch(part):
        raise UsageError(
            f"lane '{text}': '{part}' is neither a framework nor a device",
            f"frameworks: {', '.join(FRAMEWORKS[:-1])}; devices: cpu, cuda, cuda:1, mps, xpu, tpu; {SYNTAX}",
        )
    return part


def _read_settings(text: str, part: str) -> tuple[Preset, tuple[tuple[str, str], ...]]:
    preset: Preset | None = None
    overrides: dict[str, str] = {}
    for word in part.split("+"):
        if word in PRESETS:
            if preset is not None:
                raise UsageError(f"lane '{text}': two presets, '{preset}' and '{word}'", "name one of them")
            preset = next(each for each in PRESETS if each == word)
            continue
        key, value = _read_setting(text, word)
        if key in overrides:
            raise UsageError(f"lane '{text}': {key} is set twice, '{overrides[key]}' and '{value}'", "keep one")
        overrides[key] = value
    return preset or AS_WRITTEN, tuple(overrides.items())


def _read_setting(text: str, word: str) -> tuple[str, str]:
    if word in WORDS:
        return WORDS[word], word
    key, equals, value = word.partition("=")
    if not equals or key not in KEYED:
        raise UsageError(
            f"lane '{text}': '{word}' is not a setting",
            f"settings: {', '.join(PRESETS)}, {', '.join(WORDS)}, threads=N, malloc=keep, "
            f"denormals=flush, reads=deferred, input={'|'.join(INPUTS)}, workers=N, batch=N, batch=4x, batch=0.5x, "
            "lr=X, steps_per_execution=N",
        )
    allowed = KEYED[key]
    if not re.fullmatch(allowed, value) or (_is_no_rate(value) if key == "lr" else _is_absurd(value)):
        raise UsageError(f"lane '{text}': {key}={value} cannot be", f"{key} takes {TAKES[key]}")
    return key, value


def _is_no_rate(value: str) -> bool:
    try:
        return not 0 < float(value) <= LARGEST_RATE
    except ValueError:
        return True


def _is_absurd(value: str) -> bool:
    digits = value.rstrip("x")
    return digits.isdigit() and int(digits) > LARGEST_COUNT


COUNT = "[1-9][0-9]{0,6}"
KEYED = {
    "threads": COUNT,
    "malloc": r"keep|system",
    "input": "|".join(INPUTS),
    "workers": "0|" + COUNT,
    "batch": COUNT + "x?|0[.]5x",
    "denormals": r"flush|keep",
    "reads": r"deferred",
    "steps_per_execution": COUNT,
    "lr": r"[0-9]{0,3}\.?[0-9]{0,9}(e-?[0-9]{1,2})?",
}
TAKES = {
    "threads": "a whole number from 1 on",
    "malloc": "keep (freed memory stays in the process) or system",
    "input": ", ".join(INPUTS),
    "workers": "a whole number, 0 for none beside the training's own process",
    "batch": f"a whole number from 1 to {LARGEST_COUNT:,}, or a multiple such as 4x; or 0.5x, the half",
    "denormals": "flush (numbers too small for full precision count as nought) or keep",
    "reads": "deferred (a step's code is told values of an earlier step, and does not wait)",
    "steps_per_execution": "a whole number from 1 on: how many steps Keras gives its engine at once",
    "lr": "a learning rate above 0 and up to 100, such as 0.001 or 1e-3",
}
