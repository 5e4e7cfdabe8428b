"""Replaceable rooms, alive only in the child: each teaches one framework to step and to fence, and nothing else."""

from __future__ import annotations

import importlib

from laptime.backends.base import Backend
from laptime.errors import LaneError

ROOMS = {
    "fake": "laptime.backends.fake",
    "torch": "laptime.backends.torch.backend",
    "jax": "laptime.backends.jax.backend",
    "keras-tf": "laptime.backends.keras.room",
    "keras-jax": "laptime.backends.keras.room",
    "keras-torch": "laptime.backends.keras.room",
    "python": "laptime.backends.python.backend",
}


def open_backend(framework: str) -> Backend:
    """Import the room of a framework, and with it the framework."""
    if framework not in ROOMS:
        raise LaneError(f"no back end for '{framework}'; there are: {', '.join(ROOMS)}")
    backend: Backend = importlib.import_module(ROOMS[framework]).open_room(framework)
    return backend
