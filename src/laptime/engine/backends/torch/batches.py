"""What a batch holds (tensors in dicts, tuples, dataclasses and everything else that PyTorch's tree mapping knows), and
another batch for a user's own data.

The batches of a proof are kept in a file: drawn once, read by every lane. The file begins with a mark and the length of
the header. The header describes each batch as JSON. The bytes of the tensors follow. No code is ever loaded from it.
The containers of the tensors are not in the file: a lane takes them from the first batch of its own loader.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import inspect
import json
import math
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import torch
from torch import Tensor, nn, optim
from torch.nn.utils.rnn import PackedSequence
from torch.optim.lr_scheduler import LRScheduler
from torch.utils import _pytree
from torch.utils.data import DataLoader, IterableDataset

from laptime.engine.backends.own import length_of
from laptime.model.errors import TrainingError
from laptime.model.plan import OwnBatches
from laptime.model.workload import Training

KEPT_MOST_BYTES = 512 << 20
BATCHES_MARK = b"laptime batches 1\n"
HEADER_MOST_BYTES = 16 << 20
TYPE_NAMES = {str(var): var for var in vars(torch).values() if isinstance(var, torch.dtype)}
PLAIN_TYPES = (bool, int, float, str, type(None))


class Container(NamedTuple):
    """A value that holds others: their names if any, the values, and a function that makes one with other values.

    One that `moves_itself` has a way of its own to another device.
    """

    names: Any
    parts: list[Any]
    make: Callable[[list[Any]], Any]
    moves_itself: bool = False


def mapped(
    value: Any, change: Callable[[Tensor], Any], other: Callable[[Any], Any] = lambda leaf: leaf, *, moves: bool = False
) -> Any:
    """Change every tensor that a value holds; pass every other leaf through `other`.

    To one that `moves`, a container that moves itself is a leaf.
    """
    if isinstance(value, Tensor):
        return change(value)
    container = open_container(value)
    if container is None or (moves and container.moves_itself):
        return other(value)
    return container.make([mapped(part, change, other, moves=moves) for part in container.parts])


def leaves(value: Any) -> Iterator[Any]:
    """Yield the leaves of a value in a fixed order: tensors, numbers, strings."""
    container = open_container(value)
    if container is None:
        yield value
    else:
        for part in container.parts:
            yield from leaves(part)


def tensors(value: Any) -> Iterator[Tensor]:
    return (leaf for leaf in leaves(value) if isinstance(leaf, Tensor))


def move_leaf(leaf: Any, device: torch.device) -> Any:
    """Move what holds tensors in a way of its own; anything else is the same on every device."""
    return leaf.to(device) if callable(getattr(leaf, "to", None)) else leaf


def count_bytes(value: Any) -> int:
    return sum(part.nbytes for tensor in tensors(value) for part in open_sparse(tensor) if part.layout == torch.strided)


def open_sparse(value: Tensor) -> list[Tensor]:
    """Return the plain tensors that a sparse one consists of; any other tensor alone."""
    if value.layout == torch.sparse_coo:
        return [value._indices(), value._values()]  # noqa: SLF001  the public ones want it coalesced
    if value.layout in {torch.sparse_csr, torch.sparse_bsr}:
        return [value.crow_indices(), value.col_indices(), value.values()]
    if value.layout in {torch.sparse_csc, torch.sparse_bsc}:
        return [value.ccol_indices(), value.row_indices(), value.values()]
    return [value]


def in_layout(value: Tensor, *, channels_last: bool) -> Tensor:
    """Return a tensor in the lane's layout; one that is not plain (sparse, nested) as it is."""
    if value.layout != torch.strided or value.is_nested:
        return value
    wanted = torch.channels_last if channels_last and value.dim() == 4 else torch.contiguous_format
    return value.contiguous(memory_format=wanted)


def describe(value: Any) -> str:
    """Return a description of the structure that is the same in another process."""
    container = open_container(value)
    if container is None:
        return "tensor" if isinstance(value, Tensor) else type(value).__name__
    return f"{type(value).__name__} {container.names or ''}({', '.join(map(describe, container.parts))})"


def filled(value: Any, others: Iterator[Any]) -> Any:
    """Return the same containers with other leaves in them, in the order of `leaves`."""
    container = open_container(value)
    if container is None:
        return next(others)
    return container.make([filled(part, others) for part in container.parts])


def open_container(value: Any) -> Container | None:
    """Return what a value holds; None for a leaf."""
    if isinstance(value, Tensor):
        return None
    for is_one, opened in CONTAINERS:
        if is_one(value):
            return opened(value)
    return None


def _open_dict(value: dict[Any, Any]) -> Container:
    keys = list(value)
    return Container(keys, list(value.values()), lambda parts: dict(zip(keys, parts, strict=True)))


def _open_row(value: list[Any] | tuple[Any, ...]) -> Container:
    return Container(None, list(value), type(value))


def _open_packed(value: PackedSequence) -> Container:
    """Leave the batch sizes as they are: they stay on the processor even if the data moves."""

    def make(parts: list[Any]) -> PackedSequence:
        return PackedSequence(parts[0], value.batch_sizes, parts[1], parts[2])

    return Container(None, [value.data, value.sorted_indices, value.unsorted_indices], make)


def _open_known(value: Any) -> Container:
    parts, spec = _pytree.tree_flatten(value, is_leaf=lambda part: part is not value)
    return Container(spec.context, parts, lambda made: _pytree.tree_unflatten(made, spec))


def _open_dataclass(value: Any) -> Container:
    names = [field.name for field in dataclasses.fields(value)]

    def make(parts: list[Any]) -> Any:
        twin = copy.copy(value)
        for name, part in zip(names, parts, strict=True):
            object.__setattr__(twin, name, part)  # it may be frozen
        return twin

    return Container(names, [getattr(value, name) for name in names], make)


def _open_mapping(value: MutableMapping[Any, Any]) -> Container:
    keys = list(value)

    def make(parts: list[Any]) -> Any:
        twin = copy.copy(value)
        for key, part in zip(keys, parts, strict=True):
            twin[key] = part
        return twin

    return Container(keys, [value[key] for key in keys], make)


def _open_object(value: Any) -> Container:
    names = list(vars(value))

    def make(parts: list[Any]) -> Any:
        twin = copy.copy(value)
        vars(twin).update(zip(names, parts, strict=True))
        return twin

    return Container(names, [vars(value)[name] for name in names], make, moves_itself=hasattr(value, "to"))


def _has_tensors(value: Any) -> bool:
    """Whether an object has tensors as attributes."""
    held = getattr(value, "__dict__", None)
    if not isinstance(held, dict) or isinstance(value, type):
        return False
    return any(isinstance(attribute, Tensor) for attribute in held.values())


# The first match counts. Plain types come first, since every step's batch passes here; packed sequences are tuples.
CONTAINERS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Container]], ...] = (
    (lambda value: type(value) is dict, _open_dict),
    (lambda value: type(value) in {list, tuple}, _open_row),
    (lambda value: isinstance(value, PackedSequence), _open_packed),
    (lambda value: type(value) in _pytree.SUPPORTED_NODES, _open_known),
    (
        lambda value: isinstance(value, tuple) and hasattr(value, "_fields"),
        lambda value: Container(value._fields, list(value), lambda parts: type(value)(*parts)),
    ),
    (  # a dataclass that is a dict too would keep its values twice
        lambda value: dataclasses.is_dataclass(value) and not isinstance(value, type | MutableMapping),
        _open_dataclass,
    ),
    (lambda value: isinstance(value, MutableMapping), _open_mapping),
    (lambda value: isinstance(value, list | tuple), _open_row),
    (_has_tensors, _open_object),
)


def keep_batches(path: Path, batches: list[Any]) -> str | None:
    """Write the batches; return the reason if that failed."""
    if (size := sum(map(count_bytes, batches))) > KEPT_MOST_BYTES:
        return f"they take {size >> 20} MB, and up to {KEPT_MOST_BYTES >> 20} MB are kept"
    strange = [leaf for batch in batches for leaf in leaves(batch) if not _is_kept(leaf)]
    if strange:
        return f"they hold {type(strange[0]).__name__}"
    try:
        # A process that was killed may have left the file; where this one is judged, it is made.
        with path.open("wb") as file:
            described = [
                {"holds": describe(batch), "leaves": [_tell(leaf) for leaf in leaves(batch)]} for batch in batches
            ]
            header = json.dumps({"digest": digest_batches(batches), "batches": described}).encode()
            file.write(BATCHES_MARK + len(header).to_bytes(8, "little") + header)
            for tensor in tensors(batches):
                file.write(_bytes(tensor))
    except OSError as error:
        with contextlib.suppress(OSError):
            path.write_bytes(b"")
        return f"{error.strerror or error}"
    return None


def load_batches(path: Path, pattern: Any) -> tuple[list[Any], str] | None:
    """Read the batches into containers like those of `pattern`, with their digest; None if they do not match."""
    try:
        with path.open("rb") as file:
            if file.read(len(BATCHES_MARK)) != BATCHES_MARK:
                return None
            header = json.loads(file.read(min(int.from_bytes(file.read(8), "little"), HEADER_MOST_BYTES)))
            if any(batch["holds"] != describe(pattern) for batch in header["batches"]):
                return None
            types = [type(leaf) for leaf in leaves(pattern)]
            batches = [filled(pattern, _read_leaves(file, batch["leaves"], types)) for batch in header["batches"]]
            return batches, str(header["digest"])
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, RecursionError):
        return None


def digest_batches(batches: list[Any]) -> str:
    """Return a digest by which other batches are recognized."""
    found = hashlib.blake2b(digest_size=16)
    for batch in batches:
        found.update(describe(batch).encode())
        for leaf in leaves(batch):
            if not isinstance(leaf, Tensor):
                found.update(repr(leaf).encode())
                continue
            for part in open_sparse(leaf):
                found.update(f"{leaf.layout} {part.dtype} {tuple(leaf.shape)}".encode())
                found.update(_bytes(part) if _is_kept(part) else repr(part).encode())
    return found.hexdigest()


def hollow(batch: Any) -> Any:
    """Return the containers of a batch with empty tensors, to be filled later."""
    return mapped(batch, lambda tensor: torch.empty(0).as_subclass(type(tensor)))


def _is_kept(leaf: Any) -> bool:
    if not isinstance(leaf, Tensor):
        return isinstance(leaf, PLAIN_TYPES)
    return leaf.layout == torch.strided and not leaf.is_nested and not leaf.is_quantized


def _tell(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return {"type": str(leaf.dtype), "shape": list(leaf.shape)}
    return [leaf]


def _bytes(leaf: Tensor) -> memoryview:
    flat = leaf.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy().data) if flat.numel() else memoryview(bytearray())


def _read_leaves(file: IO[bytes], described: list[Any], types: list[type]) -> Iterator[Any]:
    for leaf, kind in zip(described, types, strict=True):
        if isinstance(leaf, list):
            yield leaf[0]
            continue
        dtype = TYPE_NAMES[leaf["type"]]
        shape = leaf["shape"]
        if math.prod(shape) * dtype.itemsize > KEPT_MOST_BYTES:
            raise ValueError
        made = torch.empty(shape, dtype=dtype)
        if file.readinto(_bytes(made)) != made.nbytes:  # type: ignore[attr-defined]
            raise ValueError
        yield made if kind is Tensor else made.as_subclass(kind)


# Another batch for a user's own data: a DataLoader is made again, and a list of batches is cut into other ones.

KEPT_ARGUMENTS = (
    *("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn"),
    *("multiprocessing_context", "generator", "prefetch_factor", "persistent_workers"),
)


def look_at_batches(data: Any) -> OwnBatches:
    """Return the batch of a user's data and the items of a lap, or why another batch cannot be had."""
    if isinstance(data, DataLoader):
        if type(data) is not DataLoader:
            return OwnBatches(f"{type(data).__name__} is a DataLoader with ways of its own")
        if data.batch_size is None:
            return OwnBatches("its DataLoader does not make its batches itself: batch_size is None")
        is_walked = isinstance(data.dataset, IterableDataset)
        return OwnBatches("", data.batch_size, None if is_walked else length_of(data.sampler))
    if isinstance(data, list | tuple) and data:
        why = _why_uncut(data)
        return OwnBatches(why) if why else OwnBatches("", _length(data[0]), sum(map(_length, data)))
    return OwnBatches("its data are no DataLoader and no list of batches (batch=2x joins them)")


def with_batch(training: Training, batch: int | None, name: str) -> Training:
    """Return the training with another batch. A lap has whole batches only, and leaves out what is left over."""
    if batch is None:
        return training
    given = training.data
    known = look_at_batches(given)
    why = known.why_not(batch)
    if why is not None or known.batch is None:
        raise TrainingError(*OwnBatches.refusal(str(batch), name, why or ""))
    data: Any
    if isinstance(given, DataLoader):
        words: dict[str, Any] = {word: getattr(given, word) for word in KEPT_ARGUMENTS}
        if not isinstance(given.dataset, IterableDataset):
            words["sampler"] = given.sampler
        data = DataLoader(given.dataset, batch_size=batch, drop_last=True, **words)
    else:
        # Join all batches along their first axis, and cut them into batches of another size, in the same order.
        columns = zip(*map(leaves, given), strict=True)
        whole = [None if column[0] is None else torch.cat(column) for column in columns]
        count = min(len(tensor) for tensor in whole if tensor is not None) // batch
        cuts = [slice(start * batch, (start + 1) * batch) for start in range(count)]
        data = [filled(given[0], iter([None if tensor is None else tensor[cut] for tensor in whole])) for cut in cuts]
    steps = training.steps_per_lap
    if steps is not None:
        steps = max(1, round(steps * known.batch / batch))
    return replace(training, data=data, steps_per_lap=steps)


def _why_uncut(given: Sequence[Any]) -> str:
    """Return why batches are not plain tensors with one row an item; empty if they are."""
    if len(set(map(describe, given))) > 1:
        return "they do not hold the same"
    columns = [column for column in zip(*map(leaves, given), strict=True) if column[0] is not None]
    every = [leaf for column in columns for leaf in column]
    others = [leaf for leaf in every if not isinstance(leaf, Tensor)]
    if others:
        return f"{type(others[0]).__name__} is no tensor"
    if any(tensor.layout != torch.strided or tensor.is_nested for tensor in every):
        return "they hold sparse or nested tensors"
    if not every or not all(tensor.dim() and len(tensor) for tensor in every):
        return "one holds a single number, or nothing"
    if any(len({(tensor.shape[1:], tensor.dtype, tensor.device) for tensor in column}) > 1 for column in columns):
        return "their tensors have other shapes or types from batch to batch"
    if any(len(set(map(len, batch))) > 1 for batch in zip(*columns, strict=True)):
        return "the tensors of a batch have different lengths, and which axis counts the items is not known"
    return ""


def _length(batch: Any) -> int:
    return len(next(leaf for leaf in leaves(batch) if leaf is not None))


# A user's optimizer, made again on a copy of the model, with the options of a lane.

IN_A_STEP = "put it into a step of your own: laptime.Training(step=..., state=..., data=...)"
GIVE_ONE = "give a torch.optim.Optimizer on the model's parameters, or a function that takes them and returns one"
# These add weight decay to the gradient by default, then divide both by statistics of the gradient.
COUPLED = (optim.Adam, optim.NAdam, optim.RAdam, optim.Adamax, optim.Adagrad, optim.Adadelta, optim.RMSprop)


class OwnOptimizer:
    """`needs_closure` says that each step computes the loss several times, `unfused` names one without a fused form."""

    def __init__(self, name: str, given: Any, model: nn.Module) -> None:
        self._name = name
        self._given = given
        self._model = model
        kind = type(given).__name__
        if isinstance(given, LRScheduler):
            says = f"optimizer is {kind}, a schedule of learning rates"
            raise TrainingError(f"{name}: {says}", f"give its optimizer; or {IN_A_STEP}")
        if isinstance(given, tuple | list | dict):
            raise TrainingError(f"{name}: optimizer is a {kind}, expected one optimizer", IN_A_STEP)
        if given is None:
            raise TrainingError(f"{name}: gives no optimizer", GIVE_ONE)
        if not isinstance(given, optim.Optimizer) and not callable(given):
            raise TrainingError(f"{name}: optimizer is {kind}", GIVE_ONE)
        probe = given if isinstance(given, optim.Optimizer) else self._call(model)
        # A step that cannot do without a function that computes the loss again, as that of LBFGS.
        closure = inspect.signature(type(probe).step).parameters.get("closure")
        self.needs_closure = closure is not None and closure.default is inspect.Parameter.empty
        # The gradient size below which the optimizer stops normalising; 1 for one that never normalises.
        epsilon = probe.defaults.get("eps")
        self.epsilon = float(epsilon) if isinstance(epsilon, float | int) else 1.0
        if isinstance(epsilon, float | int) and isinstance(probe, optim.Adadelta):
            self.epsilon = math.sqrt(epsilon)
        self.unfused = None if "fused" in probe.defaults else type(probe).__name__

    def make(self, network: nn.Module, options: dict[str, Any]) -> optim.Optimizer:
        """Return a fresh optimizer on the network's parameters."""
        is_made = not isinstance(self._given, optim.Optimizer)
        given = self._call(network) if is_made else self._given
        wanted = {key: value for key, value in options.items() if key in given.defaults}
        if is_made and not wanted:
            return given
        if "fused" in wanted:
            wanted["foreach"] = None
        groups = [{**group, **wanted} for group in (given.param_groups if is_made else self._groups_on(network))]
        taken = inspect.signature(type(given)).parameters  # AdamW's defaults have a key that its own class refuses
        defaults = {key: value for key, value in given.defaults.items() if key in taken}
        try:
            return type(given)(groups, **{**defaults, **wanted})
        except (TypeError, ValueError) as error:
            raise TrainingError(
                f"{self._name}: its {type(given).__name__} cannot be made again on a copy of the model: {error}",
                "give a function that takes the model's parameters and returns it",
            ) from error

    def _call(self, network: nn.Module) -> optim.Optimizer:
        made = self._given(network.parameters())
        if not isinstance(made, optim.Optimizer):
            raise TrainingError(f"{self._name}: optimizer returned {type(made).__name__}, not an optimizer", GIVE_ONE)
        return made

    def _groups_on(self, network: nn.Module) -> list[dict[str, Any]]:
        """Replace the parameters in the user's parameter groups by those of the copy."""
        twins = dict(zip(map(id, self._model.parameters()), network.parameters(), strict=True))
        groups: list[dict[str, Any]] = []
        for group in self._given.param_groups:
            if any(id(parameter) not in twins for parameter in group["params"]):
                raise TrainingError(
                    f"{self._name}: the optimizer holds parameters that the model does not have",
                    "make them a part of the model, or take a step of your own: laptime.Training(step=..., state=...)",
                )
            groups.append({**group, "params": [twins[id(parameter)] for parameter in group["params"]]})
        return groups
