"""How the devices of a lane share a step in JAX: the state is on each of them, and a batch is cut into equal parts.

XLA then computes each part on its device, and what a single device would compute of the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from laptime.backends.jax.devices import find_devices  # before JAX itself
from laptime.backends.steps import count_items
from laptime.errors import LaneError
from laptime.model.plan import PlannedLane

import jax  # isort: skip  the import above limits the memory of a card that JAX takes
import numpy as np
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "batch"
NUMBERS = "biufcV"  # V: the types that NumPy does not know, such as bfloat16


class Placement:
    """The lane's device, where JAX itself puts what is not on a device."""

    def check_items(self, items: int) -> None:
        """Refuse a batch of this many items, if the devices cannot share it."""

    def put_state(self, leaf: Any) -> Any:
        """Put an array of the state on each device."""
        return jax.device_put(leaf)

    def put_batch(self, batch: Any) -> Any:
        """Put a batch on the devices, each of which takes an equal part."""
        return jax.tree.map(jax.device_put, batch)

    def spread(self, step: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """Return the user's step as it runs on these devices."""
        return step


class ShardedPlacement(Placement):
    """Several devices, over which each batch is shared out in the step, as a user's loop would do it."""

    def __init__(self, lane: PlannedLane) -> None:
        self._name = lane.name
        found = find_devices([each.name for each in lane.devices])
        self._count = len(found)
        mesh = Mesh(np.array(found), (AXIS,))
        self._whole, self._parts = (NamedSharding(mesh, spec) for spec in (PartitionSpec(), PartitionSpec(AXIS)))

    def check_items(self, items: int) -> None:
        if items % self._count:
            raise LaneError(
                f"{self._name}: a batch of {items} cannot be shared out to {self._count} devices",
                "give batches whose length is a multiple of their number",
            )

    def put_state(self, leaf: Any) -> Any:
        return jax.device_put(leaf, self._whole)

    def put_batch(self, batch: Any) -> Any:
        """Cut what has a row for each item; the rest, such as a random key, is put on each device."""
        items = count_items(jax.tree.leaves(batch))
        self.check_items(items)
        return jax.tree.map(partial(self._put, items), batch)

    def spread(self, step: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda state, batch: step(state, self.put_batch(batch))

    def _put(self, items: int, leaf: Any) -> Any:
        wanted = self._parts if np.shape(leaf)[:1] == (items,) else self._whole
        if isinstance(leaf, jax.Array):
            return leaf if leaf.sharding == wanted else jax.device_put(leaf, wanted)
        if not hasattr(leaf, "shape"):  # a plain number
            return leaf
        array = np.asarray(leaf)
        return jax.device_put(array, wanted) if array.dtype.kind in NUMBERS else leaf


def open_placement(lane: PlannedLane) -> Placement:
    return ShardedPlacement(lane) if lane.devices else Placement()


def join(batches: Sequence[Any]) -> Any:
    """Return one batch of several, all of whose arrays have a row for each item."""
    for batch in batches:
        leaves = jax.tree.leaves(batch)
        items = count_items(leaves)
        odd = next((leaf for leaf in leaves if np.shape(leaf)[:1] != (items,)), None)
        if odd is not None:
            raise LaneError(
                f"weak: a batch holds {type(odd).__name__} of shape {np.shape(odd)}, expected a row for each of "
                f"{items} items: such batches cannot be joined",
                "name strong: each batch is shared out",
            )
    return jax.tree.map(_concatenate, *batches)


def _concatenate(*parts: Any) -> Any:
    kind = jnp if any(isinstance(each, jax.Array) for each in parts) else np
    return kind.concatenate([each if isinstance(each, jax.Array) else np.asarray(each) for each in parts])
