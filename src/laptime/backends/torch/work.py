"""What one step asks for, counted on the lane's own network: operations of its products, and bytes of its tensors.

PyTorch's counter knows products and convolutions. The bytes are those of every operator's tensor arguments and results,
each read or written once: what a cache keeps, or a compiler fuses, moves less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from laptime.model.limits import StepWork

HOW = (
    "one eager step: torch.utils.flop_counter for products and convolutions, and the bytes of every operator's tensor "
    "arguments and results, views not counted"
)
WRITES_ONLY = ("copy_", "fill_", "zero_", "random_", "bernoulli_", "normal_", "uniform_", "exponential_")
UNCOUNTED = 2
MAKES_ONLY = ("_like", "new_zeros", "new_ones", "new_full")  # arguments whose shape is read, and nothing else
MOVES_NOTHING = (
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided",
    "_unsafe_view", "set_", "resize_",
)  # fmt: skip


def count_work(step: Callable[[], object]) -> StepWork:
    """Take one step and count it, after two that are not: an optimizer makes what it keeps in its first one."""
    for _ in range(UNCOUNTED):
        step()
    counter, weighed = FlopCounterMode(display=False), BytesMode()
    with counter, weighed:
        step()
    return StepWork(float(counter.get_total_flops()), float(weighed.total_bytes), HOW)


class BytesMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up what each operator reads and writes, as it is called."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        told = func(*args, **(kwargs or {}))
        self.total_bytes += moved_bytes(func, args, kwargs or {}, told)
        return told


def moved_bytes(func: Any, args: Any, kwargs: Any, told: Any) -> int:
    """Give the bytes of one call. What is written in place is read too, but by operators that only write."""
    name = func._schema.name.rpartition("::")[2]  # noqa: SLF001  there is no other way to its schema
    if name in MOVES_NOTHING or is_view(func):
        return 0
    read = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
    written = {id(each): each for each in tree_leaves(told) if isinstance(each, Tensor)}
    for each in _written_in_place(func, args, kwargs):
        written[id(each)] = each
    if name in WRITES_ONLY:
        read = read[1:]
    elif name.endswith(MAKES_ONLY):
        read = []
    return sum(map(size_bytes, read)) + sum(map(size_bytes, written.values()))


def is_view(func: Any) -> bool:
    """Tell whether a result shares its arguments' memory and nothing is written."""
    told = [each.alias_info for each in func._schema.returns]  # noqa: SLF001
    return any(told) and not any(each is not None and each.is_write for each in told)


def size_bytes(tensor: Tensor) -> int:
    """Give what lies in memory of a tensor: one that is spread over a shape lies there once."""
    whole = tensor.numel() * tensor.element_size()
    try:
        return min(whole, tensor.untyped_storage().nbytes())
    except (NotImplementedError, RuntimeError):
        return whole  # sparse and oneDNN's own kinds have no such storage


def _written_in_place(func: Any, args: Any, kwargs: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for place, argument in enumerate(func._schema.arguments):  # noqa: SLF001
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        given = args[place] if place < len(args) else kwargs.get(argument.name)
        found += [each for each in tree_leaves(given) if isinstance(each, Tensor)]
    return found
