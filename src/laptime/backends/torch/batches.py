"""What a batch holds: tensors in dicts, tuples, dataclasses and everything else that PyTorch's tree mapping knows.

The batches of a proof are kept in a file: drawn once, read by every lane. The file begins with a mark and the length of
the header. The header describes each batch as JSON. The bytes of the tensors follow. No code is ever loaded from it.
The containers of the tensors are not in the file: a lane takes them from the first batch of its own loader.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree

KEPT_MOST_BYTES = 512 << 20
BATCHES_MARK = b"laptime batches 1\n"
HEADER_MOST_BYTES = 16 << 20
TYPE_NAMES = {str(each): each for each in vars(torch).values() if isinstance(each, torch.dtype)}
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
    return sum(part.nbytes for each in tensors(value) for part in open_sparse(each) if part.layout == torch.strided)


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
    return next((opened(value) for is_one, opened in CONTAINERS if is_one(value)), None)


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
    parts, spec = _pytree.tree_flatten(value, is_leaf=lambda each: each is not value)
    return Container(spec.context, parts, lambda made: _pytree.tree_unflatten(made, spec))


def _open_fields(value: Any) -> Container:
    return Container(value._fields, list(value), lambda parts: type(value)(*parts))


def _open_dataclass(value: Any) -> Container:
    names = [each.name for each in dataclasses.fields(value)]

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
    return any(isinstance(each, Tensor) for each in held.values())


def _has_fields(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _is_dataclass(value: Any) -> bool:
    """Whether it is one, and no dict too: that would keep its values twice."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type | MutableMapping)


# The first match counts. Plain types come first, since every step's batch passes here; packed sequences are tuples.
CONTAINERS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Container]], ...] = (
    (lambda value: type(value) is dict, _open_dict),
    (lambda value: type(value) in {list, tuple}, _open_row),
    (lambda value: isinstance(value, PackedSequence), _open_packed),
    (lambda value: type(value) in _pytree.SUPPORTED_NODES, _open_known),
    (_has_fields, _open_fields),
    (_is_dataclass, _open_dataclass),
    (lambda value: isinstance(value, MutableMapping), _open_mapping),
    (lambda value: isinstance(value, list | tuple), _open_row),
    (_has_tensors, _open_object),
)


def keep_batches(path: Path, batches: list[Any]) -> str | None:
    """Write the batches; return the reason if that failed."""
    if (size := sum(map(count_bytes, batches))) > KEPT_MOST_BYTES:
        return f"they take {size >> 20} MB, and up to {KEPT_MOST_BYTES >> 20} MB are kept"
    strange = next((each for batch in batches for each in leaves(batch) if not _is_kept(each)), None)
    if strange is not None:
        return f"they hold {type(strange).__name__}"
    try:
        path.unlink(missing_ok=True)  # a process that was killed may have left it
        with path.open("xb") as file:
            _write(file, batches)
    except OSError as error:
        path.unlink(missing_ok=True)
        return f"{error.strerror or error}"
    return None


def load_batches(path: Path, pattern: Any) -> tuple[list[Any], str] | None:
    """Read the batches into containers like those of `pattern`, with their digest; None if they do not match."""
    try:
        with path.open("rb") as file:
            if file.read(len(BATCHES_MARK)) != BATCHES_MARK:
                return None
            header = json.loads(file.read(min(int.from_bytes(file.read(8), "little"), HEADER_MOST_BYTES)))
            if any(each["holds"] != describe(pattern) for each in header["batches"]):
                return None
            types = [type(each) for each in leaves(pattern)]
            batches = [filled(pattern, _read_leaves(file, told["leaves"], types)) for told in header["batches"]]
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
    return mapped(batch, lambda each: torch.empty(0).as_subclass(type(each)))


def _is_kept(leaf: Any) -> bool:
    if not isinstance(leaf, Tensor):
        return isinstance(leaf, PLAIN_TYPES)
    return leaf.layout == torch.strided and not leaf.is_nested and not leaf.is_quantized


def _write(file: IO[bytes], batches: list[Any]) -> None:
    told = [{"holds": describe(batch), "leaves": [_tell(each) for each in leaves(batch)]} for batch in batches]
    header = json.dumps({"digest": digest_batches(batches), "batches": told}).encode()
    file.write(BATCHES_MARK + len(header).to_bytes(8, "little") + header)
    for batch in batches:
        for leaf in leaves(batch):
            if isinstance(leaf, Tensor):
                file.write(_bytes(leaf))


def _tell(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return {"type": str(leaf.dtype), "shape": list(leaf.shape)}
    return [leaf]


def _bytes(leaf: Tensor) -> memoryview:
    flat = leaf.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy().data) if flat.numel() else memoryview(bytearray())


def _read_leaves(file: IO[bytes], told: list[Any], types: list[type]) -> Iterator[Any]:
    for each, kind in zip(told, types, strict=True):
        if isinstance(each, list):
            yield each[0]
            continue
        dtype, shape = TYPE_NAMES[each["type"]], each["shape"]
        if math.prod(shape) * dtype.itemsize > KEPT_MOST_BYTES:
            raise ValueError
        made = torch.empty(shape, dtype=dtype)
        if file.readinto(_bytes(made)) != made.nbytes:  # type: ignore[attr-defined]
            raise ValueError
        yield made if kind is Tensor else made.as_subclass(kind)
