"""JAX's arrays in a training's state, to be copied and put back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax

from laptime.engine.backends.arrays import FloatArray, has_floats
from laptime.engine.backends.replay import WEIGHT_ARRAYS, WHOLE_NUMBERS


class JaxLeaf:
    """An array of JAX, which never changes: what is put back is another one. A key of random numbers stays as it is."""

    def takes(self, leaf: Any) -> bool:
        return isinstance(leaf, jax.Array)

    def arrays(self, leaf: Any) -> Iterator[tuple[str, Any]]:
        if not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            yield WEIGHT_ARRAYS if has_floats(leaf) else WHOLE_NUMBERS, leaf

    def rest(self, leaf: Any) -> None:  # noqa: ARG002  an array is nothing else
        return None

    def put(self, leaf: Any, arrays: Sequence[FloatArray], rest: Any) -> Any:  # noqa: ARG002
        return jax.device_put(arrays[0].astype(leaf.dtype), leaf.sharding) if arrays else leaf
