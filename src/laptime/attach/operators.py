"""What one iteration computes and moves, counted operator by operator as PyTorch calls them, eagerly.

Products and convolutions are counted by their shapes. Bytes are those of an operator's tensor arguments and results,
each read or written once; caches and fusing compilers move fewer. A script that is raced uses it, and laptime's back
end; it is imported once PyTorch is there.

A card computes some things in one operator where a processor calls several: what is counted is as on a card.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from importlib import import_module
from math import prod

from .step_memory import HeldTensors, optimizers, tensors_in, torch

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    # What an operator is: its kind, operations and bytes; of a convolution its stride, channels, groups and kernel.
    Called = tuple[str, float, float, tuple[int, ...]]

flop_counter: Any = import_module("torch.utils.flop_counter")
DispatchMode: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode

WRITES_ONLY = ("copy_", "fill_", "zero_", "random_", "bernoulli_", "normal_", "uniform_", "exponential_")
MAKES_ONLY = ("_like", "new_zeros", "new_ones", "new_full")  # of their arguments, only the shape is read
MOVES_NOTHING = (
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided",
    "_unsafe_view", "set_", "resize_",
)  # fmt: skip
GATHERS = ("embedding", "index_select", "gather", "index")  # of their first argument, only what is chosen is read
COUNTED_OURS = ("aten", "prims")  # what has other names is an operator of another library
ASKS_ONLY = "prim"  # on which device a tensor is, and the like
COMPUTES_UNSEEN = ("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward", "_cudnn_rnn", "_cudnn_rnn_backward")
# A norm reads its values once for their mean, and once more to use it.
PASSES_MORE = {
    "native_batch_norm": 3 / 2, "_native_batch_norm_legit": 3 / 2, "native_batch_norm_backward": 5 / 3,
    "native_layer_norm": 3 / 2, "native_layer_norm_backward": 5 / 3,
    "native_group_norm": 3 / 2, "native_group_norm_backward": 5 / 3,
}  # fmt: skip
# What torch.utils.flop_counter counts by the shapes of the first arguments, and knows by a card's names alone.
ON_THE_PROCESSOR = {
    "_scaled_dot_product_flash_attention_for_cpu": ("sdpa_flop_count", 3),
    "_scaled_dot_product_flash_attention_for_cpu_backward": ("sdpa_backward_flop_count", 4),
}
ATTENTION = "_scaled_dot_product"  # attention that never writes its scores
CONVOLUTION_FORWARD = "convolution"
CONVOLUTION_BACKWARD = "convolution_backward"
SIXTEEN_BITS = 2  # of a value of 16 bits
CONVOLVES = "convolution"


class CountingMode(DispatchMode):  # type: ignore[misc]
    """Adds up what each operator computes, reads and writes, as it is called, and lists the operators.

    `narrow` are the operations of products of 16 bits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0.0
        self.narrow = 0.0
        self.bytes = 0
        self.found: Counter = Counter()
        self.memory = HeldTensors()
        self._updates = 0
        self._joined: list[dict] = []  # groups of weights whose update is as on a card, for now

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # An optimizer may call a closure: its forward and backward are no update.
        in_backward = torch._C._current_graph_task_id() != -1  # autograd's own way to know
        is_update = self._updates > 0 and not torch.is_grad_enabled() and not in_backward
        self.memory.is_update = is_update
        read = tensors_in((args, kwargs))
        self.memory.read(read)
        result = func(*args, **(kwargs or {}))
        made = tensors_in(result)
        self.memory.made(made)
        operators = list(list_calls(func, args, kwargs or {}, result))
        flops = sum(flops for _, flops, _, _ in operators)
        self.memory.flow(name_of(func), read, made, is_product=flops > 0)
        self.flops += flops
        if flops and made and made[0].element_size() == SIXTEEN_BITS:
            self.narrow += flops
        self.bytes += moved_bytes(func, args, kwargs or {}, result)
        if not is_update:
            self.found.update(operators)
        return result

    @contextmanager
    def noting_updates(self) -> Iterator[None]:
        """List an optimizer's update as one operator, as a fused one is: eagerly, each array has several."""
        begins = optimizers.register_optimizer_step_pre_hook(self._begin_update)
        ends = optimizers.register_optimizer_step_post_hook(self._end_update)
        try:
            yield
        finally:
            begins.remove()
            ends.remove()
            self._part_updates()

    def _begin_update(self, optimizer: Any, *_arguments: Any) -> None:
        self._updates += 1
        self.memory.begin_update()
        for group in optimizer.param_groups:
            if updates_at_once_on_a_card(group):
                group["foreach"] = True
                self._joined.append(group)

    def _end_update(self, optimizer: Any, *_arguments: Any) -> None:
        self._updates -= 1
        self._part_updates()
        self.found[("update", 0.0, float(update_bytes(optimizer)), ())] += 1

    def _part_updates(self) -> None:
        while self._joined:
            self._joined.pop()["foreach"] = None


@contextmanager
def counting() -> Iterator[CountingMode]:
    """Count all that is called within, as a card computes it."""
    with ExitStack() as stack:
        stack.enter_context(as_a_card_computes())
        mode = CountingMode()
        mode.memory.look()
        stack.enter_context(mode)
        stack.enter_context(mode.noting_updates())
        stack.callback(mode.memory.close)
        yield mode


@contextmanager
def as_a_card_computes() -> Iterator[None]:
    """Call dropout and attention as one operator each, where a processor calls several that a card does not."""
    functional = torch.nn.functional
    dropout = functional.dropout
    attention = functional.scaled_dot_product_attention

    def dropped(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:  # noqa: A002, FBT001, FBT002
        if training and 0 < p < 1 and not inplace:
            return torch.native_dropout(input, p, True)[0]
        return dropout(input, p, training, inplace)

    def attended(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *more: Any, **named: Any
    ):
        # With dropout, a processor writes all scores; a card drops them on the way.
        kept = dropout_p if query.device.type == "cuda" else 0.0
        return attention(query, key, value, attn_mask, kept, *more, **named)

    functional.dropout = dropped
    functional.scaled_dot_product_attention = attended
    try:
        yield
    finally:
        functional.dropout = dropout
        functional.scaled_dot_product_attention = attention


def list_calls(func: Any, args: Any, kwargs: Any, result: Any) -> Iterator[Called]:
    """Yield the operators of one call: none for a view, two for a convolution's gradients, else one."""
    name = name_of(func)
    if func.namespace == ASKS_ONLY:
        return
    if name in (CONVOLUTION_FORWARD, CONVOLUTION_BACKWARD):
        yield from _convolutions(name, args, result)
        return
    moved = float(moved_bytes(func, args, kwargs, result)) * PASSES_MORE.get(name, 1.0)
    if name in ON_THE_PROCESSOR:
        count, first = ON_THE_PROCESSOR[name]
        flops = float(getattr(flop_counter, count)(*(arg.shape for arg in args[:first])))
    else:
        formula = flop_counter.flop_registry.get(func.overloadpacket)
        flops = 0.0 if formula is None else float(formula(*args, **kwargs, out_val=result))
    is_flash = name.startswith(ATTENTION)
    if is_flash and _given(func, "is_causal", args, kwargs):
        flops /= 2  # what comes later in a sequence is skipped, and so half of the scores
    if flops:
        yield ("flash" if is_flash else "attention" if "bmm" in name else "product", flops, moved, ())
    elif moved:
        is_known = func.namespace in COUNTED_OURS and name not in COMPUTES_UNSEEN
        yield ("move" if is_known else "unknown", 0.0, moved, ())


def _convolutions(name: str, args: Sequence[Any], result: Any) -> Iterator[Called]:
    """Yield a convolution's forward, or its gradients of inputs and of weights, which take as many operations each."""
    if name == CONVOLUTION_FORWARD:
        inputs, weights, _, stride, _, _, transposed, _, groups = args[:9]
        outputs = result
        moves = [(inputs, weights, outputs)]
    else:
        outputs, inputs, weights, _, stride, _, _, transposed, _, groups = args[:10]
        moves = [(outputs, other, made) for other, made in zip((weights, inputs), result) if made is not None]  # noqa: B905
    places = inputs if transposed else outputs
    flops = 2.0 * places.shape[0] * prod(places.shape[2:]) * weights.numel()
    shape = (max(stride), inputs.shape[1], groups, *weights.shape[2:])
    for moved in moves:
        yield (CONVOLVES, flops, float(sum(map(size_bytes, moved))), tuple(map(int, shape)))


def update_bytes(optimizer: Any) -> int:
    """Return what a fused update reads and writes: gradients are read, weights and the optimizer's sums both.

    Of a weight with a sparse gradient, only the rows that have one.
    """
    moved = 0
    for group in optimizer.param_groups:
        for weight in group["params"]:
            if weight.grad is None:
                continue
            sums = [held for held in tensors_in(optimizer.state.get(weight)) if held.dim()]
            touched = 1.0
            if weight.grad.is_sparse:
                touched = min(1.0, weight.grad._values().numel() / max(1, weight.numel()))
            held_bytes = size_bytes(weight) + sum(map(size_bytes, sums))
            moved += size_bytes(weight.grad) + round(2 * touched * held_bytes)
    return moved


def updates_at_once_on_a_card(group: dict) -> bool:
    """Whether PyTorch updates all arrays of a group at once where they are on a card, which copies some of them."""
    plain = (torch.Tensor, torch.nn.Parameter)
    return (
        group.get("foreach", False) is None
        and not group.get("fused")
        and not group.get("differentiable")
        and all(type(weight) in plain for weight in group["params"])
    )


def moved_bytes(func: Any, args: Any, kwargs: Any, result: Any) -> int:
    """Return the bytes of one call. Memory written in place counts as read too, except by operators that only write."""
    name = name_of(func)
    if name in MOVES_NOTHING or is_view(func):
        return 0
    read = tensors_in((args, kwargs))
    written = {id(leaf): leaf for leaf in tensors_in(result)}
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[place] if place < len(args) else kwargs.get(argument.name)
            written.update({id(leaf): leaf for leaf in tensors_in(given)})
    chosen = 0
    if name in WRITES_ONLY:
        read = read[1:]
    elif name in GATHERS:
        read = read[1:]
        chosen = sum(map(size_bytes, written.values()))
    elif name.endswith(MAKES_ONLY):
        read = []
    return sum(map(size_bytes, read)) + sum(map(size_bytes, written.values())) + chosen


def name_of(func: Any) -> str:
    return str(func._schema.name.rpartition("::")[2])  # the only way to its schema


def is_view(func: Any) -> bool:
    """Whether a result shares its arguments' memory and nothing is written."""
    aliases = [argument.alias_info for argument in func._schema.returns]
    return any(aliases) and not any(alias is not None and alias.is_write for alias in aliases)


def size_bytes(tensor: Any) -> int:
    """Return the bytes of a tensor in memory: an expanded tensor is there only once, a sparse one by its rows."""
    if tensor.is_sparse:
        return sum(part.numel() * part.element_size() for part in (tensor._indices(), tensor._values()))
    whole = tensor.numel() * tensor.element_size()
    try:
        return min(whole, tensor.untyped_storage().nbytes())
    except (NotImplementedError, RuntimeError):
        return whole  # a oneDNN tensor has no such storage


def as_facts(counted: CountingMode) -> dict:
    """Return what was counted, as a message to the parent has it."""
    operators = [
        [kind, flops, moved, list(shape), calls] for (kind, flops, moved, shape), calls in counted.found.items()
    ]
    return {
        "flops": counted.flops,
        "narrow": counted.narrow,
        "bytes": counted.bytes,
        "memory": {**counted.memory.parts(), "kept": counted.memory.kept_bytes()},
        "operators": operators,
    }


def _given(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    for place, argument in enumerate(func._schema.arguments):
        if argument.name == name:
            return args[place] if place < len(args) else kwargs.get(name)
    return None
