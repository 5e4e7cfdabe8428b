"""What float32 means: PyTorch's switches that let float32 products and convolutions use TF32 or bf16.

PyTorch has two APIs for the same switches, and raises an error when one reads what the other has set. The processor's
switch for denormal numbers is here too: they are too small for full precision, and often 100 times as slow.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch

from laptime.errors import LaneError
from laptime.model.lane import Settings
from laptime.model.machine import Device

HAS_NEW_WORDS = hasattr(torch.backends.cuda.matmul, "fp32_precision")  # from PyTorch 2.9 on
EXACT, TF32 = "ieee", "tf32"
ROWS, SMALL, SMALLER = 256, 1e-30, 1e-10  # a product of denormal numbers only, of which each thread gets rows
MANY = 1 << 20


@dataclass(frozen=True, slots=True)
class Switches:
    """The state of the switches: TF32 in products and convolutions by the old API, and each place of the new API."""

    old: tuple[bool, bool] | None
    new: tuple[str, ...]

    def take_tf32(self) -> bool:
        """Whether products or convolutions would use TF32 on a card that supports it."""
        return TF32 in self.new[1:5] or (self.old is not None and any(self.old))


def read_switches() -> Switches:
    """Return the state of the switches: PyTorch's defaults, or what a user's code has set."""
    old = None
    with contextlib.suppress(RuntimeError):
        old = (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
    return Switches(old, tuple(place.fp32_precision for place in _places()))


def set_switches(wanted: Switches) -> None:
    """Restore the switches, general ones before specific ones."""
    if wanted.old is not None:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = wanted.old
    for place, word in zip(_places(), wanted.new, strict=True):
        place.fp32_precision = word


def set_precision(precision: str) -> None:
    """Set what float32 means: by default, PyTorch's convolutions use TF32 on NVIDIA GPUs."""
    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    for place in _places()[1:]:
        place.fp32_precision = TF32 if tf32 and place not in _of_processor() else EXACT
    if HAS_NEW_WORDS and precision == "bf16":
        _of_processor()[1].fp32_precision = "bf16"


class LanePrecision:
    """Sets the switches for a lane's training: by its settings, or in a user's own float32 as the user set them."""

    def __init__(self, settings: Settings, *, is_own: bool) -> None:
        self._precision = settings.precision
        self._left = read_switches() if is_own and settings.precision == "fp32" else None

    def apply(self) -> None:
        """Set the switches again: the proof has changed them."""
        if self._left is None:
            set_precision(self._precision)
        else:
            set_switches(self._left)

    def notes(self, device: Device) -> tuple[str, ...]:
        """Return a note where float32 means TF32, since the proof is taken without it."""
        if self._left is None or TF32 not in device.features or not self._left.take_tf32():
            return ()
        return ("float32 in TF32 where PyTorch and this code have it so; its proof is taken in float32 proper",)


def _places() -> list[Any]:
    """Return the places of the switches: for all, for products and convolutions on cards, and for the processor."""
    if not HAS_NEW_WORDS:
        return []
    said: Any = torch.backends
    return [said, said.cuda.matmul, said.cudnn, said.cudnn.conv, said.cudnn.rnn, *_of_processor()]


def _of_processor() -> list[Any]:
    said: Any = torch.backends.mkldnn
    return [said, said.matmul, said.conv, said.rnn]


def flush_denormals() -> None:
    """Make all threads treat denormal numbers as 0.

    The switch belongs to a thread, and a new thread inherits it from the thread that starts it. So it is set before
    PyTorch starts its threads; then a test shows whether it reached them all.
    """
    if not torch.set_flush_denormal(True):
        raise LaneError("denormals=flush: PyTorch has no such switch on this processor", "leave it out")
    if keeps_denormals():
        raise LaneError(
            "denormals=flush did not reach all threads of PyTorch, some were there before",
            "keep the file's own products inside of its function, or call torch.set_flush_denormal(True) in it",
        )


def keeps_denormals() -> bool:
    """Whether any thread still computes with denormal numbers: products may have their own threads."""
    product = torch.full((ROWS, ROWS), SMALL) @ torch.full((ROWS, ROWS), SMALLER)
    scaled = torch.full((MANY,), SMALL) * SMALLER
    return any(bool(each.view(torch.int32).any()) for each in (product, scaled))
