"""What float32 means: PyTorch's switches, by which float32 products and convolutions are taken in TF32 or bf16.

PyTorch has two sets of words for the same switches, and complains when asked in one what was said in the other.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch

from laptime.model.lane import Settings
from laptime.model.machine import Device

HAS_NEW_WORDS = hasattr(torch.backends.cuda.matmul, "fp32_precision")  # from PyTorch 2.9 on
EXACT, TF32 = "ieee", "tf32"


@dataclass(frozen=True, slots=True)
class Switches:
    """How they stand: TF32 in products and convolutions by the old words, and each place by the new."""

    old: tuple[bool, bool] | None
    new: tuple[str, ...]

    def take_tf32(self) -> bool:
        """Tell whether products or convolutions would be taken in TF32 on a card that can."""
        return TF32 in self.new[1:5] or (self.old is not None and any(self.old))


def read_switches() -> Switches:
    """Remember how they stand: as PyTorch has them unasked, or as a user's code has set them."""
    old = None
    with contextlib.suppress(RuntimeError):
        old = (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
    return Switches(old, tuple(place.fp32_precision for place in _places()))


def turn_switches(wanted: Switches) -> None:
    """Put them back, the more general before the more particular."""
    if wanted.old is not None:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = wanted.old
    for place, word in zip(_places(), wanted.new, strict=True):
        place.fp32_precision = word


def set_precision(precision: str) -> None:
    """Say what float32 means: on NVIDIA GPUs PyTorch's convolutions would otherwise take TF32 unasked."""
    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    for place in _places()[1:]:
        place.fp32_precision = TF32 if tf32 and place not in _of_processor() else EXACT
    if HAS_NEW_WORDS and precision == "bf16":
        _of_processor()[1].fp32_precision = "bf16"


class Written:
    """How a lane's training has them: as its settings say; a user's own, in float32, as the user's code left them."""

    def __init__(self, settings: Settings, *, is_own: bool) -> None:
        self._precision = settings.precision
        self._left = read_switches() if is_own and settings.precision == "fp32" else None

    def turn(self) -> None:
        """Turn them so: the proof has had them otherwise."""
        if self._left is None:
            set_precision(self._precision)
        else:
            turn_switches(self._left)

    def notes(self, device: Device) -> tuple[str, ...]:
        """Say where float32 is less than that, since the proof is taken without."""
        if self._left is None or TF32 not in device.features or not self._left.take_tf32():
            return ()
        return ("float32 in TF32 where PyTorch and this code have it so; its proof is taken in float32 proper",)


def _places() -> list[Any]:
    """Give where precision can be said: for all, on cards for products and convolutions, and on the processor."""
    if not HAS_NEW_WORDS:
        return []
    said: Any = torch.backends
    return [said, said.cuda.matmul, said.cudnn, said.cudnn.conv, said.cudnn.rnn, *_of_processor()]


def _of_processor() -> list[Any]:
    said: Any = torch.backends.mkldnn
    return [said, said.matmul, said.conv, said.rnn]
