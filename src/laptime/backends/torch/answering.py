"""What a network of PyTorch's answered, taken out of whatever holds it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from laptime.backends.answers import make_answers
from laptime.backends.torch.carrying import mapped
from laptime.model.inference import AnswerRun

CHANCE = 1e-5  # two float32 runs of one network part by less, another random mask parts them by far more


def read_answers(precision: str, answers: Any) -> AnswerRun:
    """Give the floating-point numbers of all tensors, one after another, as a proof takes them."""
    found: list[Tensor] = [torch.empty(0, dtype=torch.float64)]
    mapped(answers, lambda each: found.append(each) if each.is_floating_point() else None)
    return make_answers(precision, torch.cat([each.detach().cpu().double().flatten() for each in found]).numpy())


def part(one: AnswerRun, other: AnswerRun) -> float:
    """Give how far two answers are apart, as a share of the second."""
    size = math.hypot(*other.values) or 1e-30
    return math.dist(one.values, other.values) / size if len(one.values) == len(other.values) else math.inf


def doubled(value: Any) -> Any:
    return mapped(value, lambda each: each.double() if each.is_floating_point() else each)
