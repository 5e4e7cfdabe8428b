"""What a network answered, as a few plain numbers that a proof can hold against others."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from laptime.backends.torch.carrying import mapped
from laptime.errors import LaneError
from laptime.model.inference import AnswerRun

MOST_VALUES = 512
CHANCE = 1e-5  # two float32 runs of one network part by less, another random mask parts them by far more


def read_answers(precision: str, answers: Any) -> AnswerRun:
    """Give values spread evenly over all answers, and the length of all; nothing, where there are no numbers."""
    found: list[Tensor] = []
    mapped(answers, lambda each: found.append(each) if each.is_floating_point() else None)
    if not found:
        return AnswerRun(precision, (), 0.0, 0)
    flat = torch.cat([each.detach().cpu().double().flatten() for each in found])
    length = float(torch.linalg.vector_norm(flat))
    if not math.isfinite(length):
        raise LaneError(f"its answers are no finite numbers in {precision}", "such a network answers nothing")
    places = torch.linspace(0, len(flat) - 1, min(len(flat), MOST_VALUES), dtype=torch.float64).round().long()
    return AnswerRun(precision, tuple(flat[places].tolist()), length, len(flat))


def part(one: AnswerRun, other: AnswerRun) -> float:
    """Give how far two answers are apart, as a share of the second."""
    size = math.hypot(*other.values) or 1e-30
    return math.dist(one.values, other.values) / size if len(one.values) == len(other.values) else math.inf


def doubled(value: Any) -> Any:
    return mapped(value, lambda each: each.double() if each.is_floating_point() else each)
