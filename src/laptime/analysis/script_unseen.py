"""Why no training of a script was seen, and what lets laptime see it: the same words where it is watched and raced."""

from __future__ import annotations

from collections.abc import Iterable

GO_THROUGH = "let its loop go through laptime.steps(batches)"


def why_unseen(versions: Iterable[str]) -> str:
    """Return the reason, by the packages that those of its Python processes had imported that reported."""
    known = sorted(set(versions))
    if "jax" in known and not {"torch", "keras"} & set(known):
        only = "a JAX loop of your own calls no function that laptime can see; only compilations are known"
        return f"{only}: {GO_THROUGH}"
    tools = " or ".join(known) or "PyTorch or Keras"
    return f"no training with {tools} was seen in it; for a loop of your own: {GO_THROUGH}"
