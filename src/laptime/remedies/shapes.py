"""Pad batches to a few shapes: each new shape makes frameworks compile, search for kernels or allocate again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from laptime.model.errors import UsageError

Fill = float | Mapping[str, float]
Last = Literal["drop", "pad", "keep"]
IGNORED = -100  # the target that PyTorch's cross_entropy ignores by default


def same_shapes(
    batches: Iterable[Any],
    axis: int = 1,
    *,
    sizes: Sequence[int] | None = None,
    fill: Fill = 0,
    target_axis: int | None = None,
    target_fill: float = IGNORED,
    last: Last = "drop",
    weights: bool = False,
) -> SameShapes:
    """Pad batches along one axis up to the next of a few sizes, so that they have only a few shapes.

        batches = laptime.same_shapes(loader, axis=1, sizes=(64, 128, 256), target_axis=1)

    A batch is an array, a dict of arrays, or a tuple (inputs, targets). NumPy arrays and PyTorch tensors keep their
    type; other arrays become NumPy's. Without `sizes`, the sizes are the powers of two. A batch that is longer than the
    largest size is padded to its next multiple; nothing is cut. `fill` is the value in the padding of inputs, by name
    if they are a dict. `target_axis` is the axis of the targets that is padded along with it; by default targets are
    not padded. `last` says what happens to a batch with fewer items than the first: it is dropped, padded with items
    that hold only `fill`, or kept.

    Padding changes a loss that is the mean over all places, because it counts the padded ones too. Leave them out:
    PyTorch's `cross_entropy` ignores targets of -100, the default of `target_fill`. `weights=True` adds a third part,
    1 for real places and 0 for padding. Keras's `fit` takes it as `sample_weight`; multiply your own loss by it, sum,
    and divide by the sum of the weights. In a network that looks along the axis (attention, recurrence, batch norm)
    padding also needs the network's own mask. What the loader's own collation has padded counts as real here.
    """
    if last not in {"drop", "pad", "keep"}:
        raise UsageError(f"last={last!r}: expected drop, pad or keep", "drop leaves a short last batch out")
    if axis < 1 or (target_axis is not None and target_axis < 1):
        raise UsageError(f"axis={axis}, target_axis={target_axis}: axis 0 is the batch's own",
                         "name the axis that changes, from 1 on; last= is for the number of items")  # fmt: skip
    if sizes is not None and (not sizes or min(sizes) < 1):
        raise UsageError(f"sizes={sizes!r}: expected one or more sizes of 1 or more", "leave it out for powers of two")
    return SameShapes(
        batches=batches,
        axis=axis,
        sizes=tuple(sorted(sizes)) if sizes else None,
        fill=fill,
        target_axis=target_axis,
        target_fill=target_fill,
        last=last,
        weights=weights,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SameShapes:
    """Batches, padded as they are iterated. It can be iterated as often as what it wraps."""

    batches: Iterable[Any]
    axis: int
    sizes: tuple[int, ...] | None
    fill: Fill
    target_axis: int | None
    target_fill: float
    last: Last
    weights: bool

    def __iter__(self) -> Iterator[Any]:
        full: int | None = None
        for number, batch in enumerate(self.batches, 1):
            items = _length(_inputs(batch), 0, number)
            full = full or items
            if items > full and self.last != "keep":
                raise UsageError(f"batch {number} has {items} items, and the first had {full}",
                                 'name last="keep" where batches differ in their number of items')  # fmt: skip
            if items < full and self.last == "drop":
                continue
            yield self._padded(batch, full if self.last == "pad" else items, number)

    def __len__(self) -> int:
        """Return the number of batches. Raise TypeError if it cannot be known in advance."""
        count = len(self.batches)  # type: ignore[arg-type]
        if self.last != "drop" or not count:
            return count
        if isinstance(self.batches, list | tuple):
            full = _length(_inputs(self.batches[0]), 0, 1)
            return sum(_length(_inputs(batch), 0, number) == full for number, batch in enumerate(self.batches, 1))
        dataset = getattr(self.batches, "dataset", None)
        size = getattr(self.batches, "batch_size", None)
        if dataset is None or not isinstance(size, int):
            raise TypeError("how many batches are whole is known only after they came")
        return max(1, len(dataset) // size)

    def _padded(self, batch: Any, rows: int, number: int) -> Any:
        inputs, *others = batch if isinstance(batch, tuple | list) else (batch,)
        along = {0: rows, self.axis: self._size(_length(inputs, self.axis, number))}
        made = [_pad(inputs, along, self.fill)]
        real: tuple[int, ...] = (_length(inputs, 0, number),)
        wanted: tuple[int, ...] = (rows,)
        if self.target_axis is not None and others:
            length = _length(others[0], self.target_axis, number)
            real = (*real, length)
            wanted = (*wanted, self._size(length))
        of_targets = {0: rows} | ({} if self.target_axis is None else {self.target_axis: wanted[-1]})
        made += [_pad(part, of_targets, self.target_fill) for part in others]
        if self.weights:
            if len(others) > 1:
                raise UsageError(f"batch {number} has {len(made)} parts, so weights of its own",
                                 "leave weights= out, and give inputs and targets alone")  # fmt: skip
            # 1 for real places and 0 for padding, as an array of the inputs' kind
            make = getattr(next(_leaves(inputs)), "new_zeros", None)
            weights = make(wanted).float() if make else np.zeros(wanted, np.float32)
            weights[tuple(slice(side) for side in real)] = 1
            made.append(weights)
        return made[0] if len(made) == 1 and not isinstance(batch, tuple | list) else tuple(made)

    def _size(self, length: int) -> int:
        if self.sizes is None:
            return 1 << max(0, length - 1).bit_length()
        largest = self.sizes[-1]
        return next((size for size in self.sizes if size >= length), -(-length // largest) * largest)


def _pad(tree: Any, to: Mapping[int, int], fill: Any, name: str | None = None) -> Any:
    """Pad every array in a dict, a list or a tuple. An array with fewer axes is padded along those that it has."""
    if isinstance(tree, Mapping):
        return {key: _pad(part, to, fill, key) for key, part in tree.items()}
    if isinstance(tree, tuple | list):
        return type(tree)([_pad(part, to, fill, name) for part in tree])
    shape = tuple(np.shape(tree))
    wanted = tuple(max(to.get(axis, side), side) for axis, side in enumerate(shape))
    if wanted == shape:
        return tree
    value = fill.get(name, 0) if isinstance(fill, Mapping) else fill
    make: Callable[..., Any] | None = getattr(tree, "new_full", None)  # PyTorch's tensors have it
    tree = tree if make else np.asarray(tree)
    made = make(wanted, value) if make else np.full(wanted, value, tree.dtype)
    made[tuple(slice(side) for side in shape)] = tree
    return made


def _length(part: Any, axis: int, number: int) -> int:
    """Return the length of the longest array along an axis, in one part of a batch."""
    sides = [np.shape(leaf)[axis] for leaf in _leaves(part) if len(np.shape(leaf)) > axis]
    if not sides:
        raise UsageError(f"batch {number} has no array with an axis {axis} in its inputs, or targets",
                         "give batches of arrays, and the axis that changes")  # fmt: skip
    return int(max(sides))


def _inputs(batch: Any) -> Any:
    return batch[0] if isinstance(batch, tuple | list) and batch else batch


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, Mapping):
        tree = tuple(tree.values())
    if isinstance(tree, tuple | list):
        for part in tree:
            yield from _leaves(part)
    else:
        yield tree
