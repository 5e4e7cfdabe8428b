"""Denormal numbers: too small for full precision, and on many processors a hundred times as slow as others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from laptime.errors import LaneError

ROWS, SMALL, SMALLER = 256, 1e-30, 1e-10  # a product that is denormal throughout, and of which each thread gets rows
MANY = 1 << 20
CHUNK = 1 << 22
# A number is denormal where all bits of its exponent are nought, and not all of its fraction.
BITS: dict[torch.dtype, tuple[torch.dtype, int, int]] = {
    torch.float32: (torch.int32, 0x7F800000, 0x007FFFFF),
    torch.float64: (torch.int64, 0x7FF0000000000000, 0x000FFFFFFFFFFFFF),
    torch.bfloat16: (torch.int16, 0x7F80, 0x007F),
    torch.float16: (torch.int16, 0x7C00, 0x03FF),
}


def flush_denormals() -> None:
    """Have all threads take denormal numbers for nought.

    The switch is a thread's own, and a thread takes it over from who started it: so it is thrown before PyTorch's
    threads are there. Whether it reached them all is tried.
    """
    if not torch.set_flush_denormal(True):
        raise LaneError("denormals=flush: PyTorch has no such switch on this processor", "leave it out")
    if keeps_denormals():
        raise LaneError(
            "denormals=flush did not reach all threads of PyTorch, some were there before",
            "keep the file's own products inside of its function, or call torch.set_flush_denormal(True) in it",
        )


def keeps_denormals() -> bool:
    """Tell whether any thread still computes with denormal numbers: products may have threads of their own."""
    product = torch.full((ROWS, ROWS), SMALL) @ torch.full((ROWS, ROWS), SMALLER)
    scaled = torch.full((MANY,), SMALL) * SMALLER
    return any(bool(each.view(torch.int32).any()) for each in (product, scaled))


def count(values: Tensor) -> Tensor:
    """Count the denormal numbers, as bits: where they are flushed a comparison does not see them either.

    A part at a time, so that the memory that it takes is not the training's largest.
    """
    kind, exponent, fraction = BITS[values.dtype]
    bits = _in_a_row(values.detach()).view(kind)
    found = torch.zeros((), dtype=torch.int64, device=values.device)
    for start in range(0, bits.numel(), CHUNK):
        part = bits[start : start + CHUNK]
        found += ((part & exponent == 0) & (part & fraction != 0)).sum()
    return found


def _in_a_row(values: Tensor) -> Tensor:
    if values.dim() == 4 and values.is_contiguous(memory_format=torch.channels_last):
        values = values.permute(0, 2, 3, 1)
    return values.reshape(-1)


class Census:
    """How many of some numbers are denormal, summed up where they are."""

    def __init__(self) -> None:
        self._found: dict[str, list[Tensor]] = {}
        self._all: dict[str, int] = {}

    def take(self, kind: str, tensors: Iterable[Tensor]) -> None:
        for each in tensors:
            if each.dtype in BITS and each.layout == torch.strided and each.numel():
                self._found.setdefault(kind, []).append(count(each))
                self._all[kind] = self._all.get(kind, 0) + each.numel()

    def worst(self) -> tuple[float, str]:
        """Give the largest share among all kinds, and whose it is."""
        shares = {kind: sum(int(each) for each in found) / self._all[kind] for kind, found in self._found.items()}
        kind = max(shares, key=lambda each: shares[each], default="")
        return shares.get(kind, 0.0), kind


def take_census(network: nn.Module, optimizer: torch.optim.Optimizer, census: Census) -> None:
    """Count among all that a step leaves behind."""
    weights = list(network.parameters())
    census.take("weights", weights)
    census.take("gradients", (each.grad for each in weights if each.grad is not None))
    census.take("the optimizer's sums", _tensors(optimizer.state))
    census.take("running statistics", network.buffers())


def _tensors(held: Any) -> Iterator[Tensor]:
    if isinstance(held, Tensor):
        yield held
    elif isinstance(held, dict):
        for each in held.values():
            yield from _tensors(each)
