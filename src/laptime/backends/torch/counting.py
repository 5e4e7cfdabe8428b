"""What one step computes and moves, counted operator by operator as PyTorch calls them, eagerly.

Products and convolutions are counted by their shapes. Bytes are those of an operator's tensor arguments and results,
each read or written once; caches and fusing compilers move fewer. The operators are listed as
`laptime.workloads.shapes` lists those of a built-in training, so that a forecast reads both alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils import flop_counter
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from laptime.backends.torch.runners import time_between
from laptime.model.hardware import OperatorKind, StepOperator, StepWork
from laptime.workloads.shapes import kind_of_convolution

COUNTED_HOW = (
    "one eager step: torch.utils.flop_counter for products and convolutions, and the bytes of every operator's tensor "
    "arguments and results, views not counted"
)
SMALL_OPERATOR = 0.005  # of the largest operator's bytes
WRITES_ONLY = ("copy_", "fill_", "zero_", "random_", "bernoulli_", "normal_", "uniform_", "exponential_")
MAKES_ONLY = ("_like", "new_zeros", "new_ones", "new_full")  # of their arguments, only the shape is read
MOVES_NOTHING = (
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided",
    "_unsafe_view", "set_", "resize_",
)  # fmt: skip
GATHERS = ("embedding", "index_select", "gather", "index")  # of their first argument, only what is chosen is read
COUNTED_OURS = ("aten", "prims")  # what has other names is an operator of another library
COMPUTES_UNSEEN = ("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward", "_cudnn_rnn", "_cudnn_rnn_backward")
# A norm reads its values once for their mean, and once more to use it.
PASSES_MORE = {
    "native_batch_norm": 3 / 2, "_native_batch_norm_legit": 3 / 2, "native_batch_norm_backward": 5 / 3,
    "native_layer_norm": 3 / 2, "native_layer_norm_backward": 5 / 3,
    "native_group_norm": 3 / 2, "native_group_norm_backward": 5 / 3,
}  # fmt: skip
# What torch.utils.flop_counter counts by the shapes of the first arguments, and knows by a card's names alone.
ON_THE_PROCESSOR: dict[str, tuple[Any, int]] = {
    "_scaled_dot_product_flash_attention_for_cpu": (flop_counter.sdpa_flop_count, 3),
    "_scaled_dot_product_flash_attention_for_cpu_backward": (flop_counter.sdpa_backward_flop_count, 4),
}
CONVOLUTION_FORWARD, CONVOLUTION_BACKWARD = "convolution", "convolution_backward"


def count_work(step: Callable[[Any], object], draw: Callable[[], Any]) -> StepWork:
    """Count a step after one that is not counted, in which an optimizer creates its state; and time its Python.

    Where the next batch has other shapes, a step on it is counted, too.
    """
    first, second = draw(), draw()
    step(first)
    python_s, core_score = time_between(step, first)
    work = replace(_count(step, first), python_s=python_s, core_score=core_score)
    if shapes_of(first) == shapes_of(second):
        return work
    least, most = sorted((work.flops, _count(step, second).flops))
    return replace(work, varies=most / least - 1 if least else 0.0)


def shapes_of(batch: Any) -> list[Any]:
    return [getattr(leaf, "shape", None) for leaf in tree_leaves(batch)]


def _count(step: Callable[[Any], object], batch: Any) -> StepWork:
    with CountingMode() as counted, counted.noting_updates():
        step(batch)
    operators = tuple(replace(each, calls=calls) for each, calls in counted.found.items())
    return StepWork(counted.flops, float(counted.bytes), COUNTED_HOW, fold_small(operators))


def fold_small(operators: Sequence[StepOperator]) -> tuple[StepOperator, ...]:
    """Make one of all moves that are small next to the largest operator, such as those of a loss or of a bias.

    The layers of a built-in training, by which a forecast was fitted, list none of them.
    """
    least = SMALL_OPERATOR * max((operator.bytes for operator in operators), default=0.0)
    small = [operator for operator in operators if operator.kind == "move" and operator.bytes < least]
    folded = StepOperator("move", 0.0, sum(each.calls * each.bytes for each in small))
    kept = [operator for operator in operators if operator not in small]
    return (*kept, folded) if small else tuple(kept)


class CountingMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up what each operator computes, reads and writes, as it is called, and lists the operators."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops, self.bytes = 0.0, 0
        self.found: Counter[StepOperator] = Counter()
        self._updates = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        told = func(*args, **(kwargs or {}))
        operators = list(list_calls(func, args, kwargs or {}, told))
        self.flops += sum(operator.flops for operator in operators)
        self.bytes += moved_bytes(func, args, kwargs or {}, told)
        if not self._is_update():
            self.found.update(operators)
        return told

    @contextmanager
    def noting_updates(self) -> Iterator[None]:
        """List an optimizer's update as one operator, as a fused one is: eagerly, each array has several."""
        begins = register_optimizer_step_pre_hook(self._begin_update)
        ends = register_optimizer_step_post_hook(self._end_update)
        try:
            yield
        finally:
            begins.remove()
            ends.remove()

    def _begin_update(self, *_told: Any) -> None:
        self._updates += 1

    def _end_update(self, optimizer: Any, *_told: Any) -> None:
        self._updates -= 1
        self.found[StepOperator("update", 0.0, float(update_bytes(optimizer)))] += 1

    def _is_update(self) -> bool:
        """Whether an operator is of an optimizer; a closure's forward and backward, which it calls, are not."""
        in_backward = torch._C._current_graph_task_id() != -1  # noqa: SLF001  autograd's own way to know
        return self._updates > 0 and not torch.is_grad_enabled() and not in_backward


def list_calls(func: Any, args: Any, kwargs: Any, told: Any) -> Iterator[StepOperator]:
    """Yield the operators of one call: none for a view, two for a convolution's gradients, else one."""
    name = name_of(func)
    if name in {CONVOLUTION_FORWARD, CONVOLUTION_BACKWARD}:
        yield from _convolutions(name, args, told)
        return
    moved = float(moved_bytes(func, args, kwargs, told)) * PASSES_MORE.get(name, 1.0)
    flops = float(_flops(func, name, args, kwargs, told))
    if flops:
        yield StepOperator("attention" if "attention" in name or "bmm" in name else "product", flops, moved)
    elif moved:
        is_known = func.namespace in COUNTED_OURS and name not in COMPUTES_UNSEEN
        yield StepOperator("move" if is_known else "unknown", 0.0, moved)


def _flops(func: Any, name: str, args: Any, kwargs: Any, told: Any) -> int:
    if name in ON_THE_PROCESSOR:
        count, first = ON_THE_PROCESSOR[name]
        return int(count(*(arg.shape for arg in args[:first])))
    formula = flop_counter.flop_registry.get(func.overloadpacket)
    return 0 if formula is None else int(formula(*args, **kwargs, out_val=told))


def _convolutions(name: str, args: Sequence[Any], told: Any) -> Iterator[StepOperator]:
    """Yield a convolution's forward, or its gradients of inputs and of weights, which take as many operations each."""
    if name == CONVOLUTION_FORWARD:
        inputs, weights, outputs, stride, transposed, groups = args[0], args[1], told, args[3], args[6], args[8]
        moves = [(inputs, weights, outputs)]
    else:
        outputs, inputs, weights, stride, transposed, groups = *args[:3], args[4], args[7], args[9]
        moves = [
            (outputs, other, made) for other, made in zip((weights, inputs), told, strict=False) if made is not None
        ]
    places = inputs if transposed else outputs
    flops = 2.0 * places.shape[0] * prod(places.shape[2:]) * weights.numel()
    few = kind_of_convolution(weights.shape[2:], max(stride), inputs.shape[1])
    kind: OperatorKind = "grouped" if groups > 1 else few
    for moved in moves:
        yield StepOperator(kind, flops, float(sum(map(size_bytes, moved))))


def update_bytes(optimizer: Any) -> int:
    """Return what a fused update reads and writes: gradients are read, weights and the optimizer's sums both."""
    weights = [each for group in optimizer.param_groups for each in group["params"] if each.grad is not None]
    sums = [held for weight in weights for held in tree_leaves(optimizer.state.get(weight)) if isinstance(held, Tensor)]
    return sum(size_bytes(weight.grad) + 2 * size_bytes(weight) for weight in weights) + 2 * sum(map(size_bytes, sums))


def moved_bytes(func: Any, args: Any, kwargs: Any, told: Any) -> int:
    """Return the bytes of one call. Memory written in place counts as read too, except by operators that only write."""
    name = name_of(func)
    if name in MOVES_NOTHING or is_view(func):
        return 0
    read = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    written = {id(leaf): leaf for leaf in tree_leaves(told) if isinstance(leaf, Tensor)}
    for each in _written_in_place(func, args, kwargs):
        written[id(each)] = each
    chosen = 0
    if name in WRITES_ONLY:
        read = read[1:]
    elif name in GATHERS:
        read, chosen = read[1:], sum(map(size_bytes, written.values()))
    elif name.endswith(MAKES_ONLY):
        read = []
    return sum(map(size_bytes, read)) + sum(map(size_bytes, written.values())) + chosen


def name_of(func: Any) -> str:
    return str(func._schema.name.rpartition("::")[2])  # noqa: SLF001  the only way to its schema


def is_view(func: Any) -> bool:
    """Whether a result shares its arguments' memory and nothing is written."""
    told = [each.alias_info for each in func._schema.returns]  # noqa: SLF001
    return any(told) and not any(each is not None and each.is_write for each in told)


def size_bytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor in memory: an expanded tensor is there only once."""
    whole = tensor.numel() * tensor.element_size()
    try:
        return min(whole, tensor.untyped_storage().nbytes())
    except (NotImplementedError, RuntimeError):
        return whole  # sparse and oneDNN tensors have no such storage


def _written_in_place(func: Any, args: Any, kwargs: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for place, argument in enumerate(func._schema.arguments):  # noqa: SLF001
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        given = args[place] if place < len(args) else kwargs.get(argument.name)
        found += [leaf for leaf in tree_leaves(given) if isinstance(leaf, Tensor)]
    return found
