"""Back ends, replaceable and loaded only in the child: each one steps and fences one framework, and nothing else."""

from __future__ import annotations

import importlib

from laptime.engine.backends.base import Backend
from laptime.model.errors import LaneError
from laptime.model.frameworks import all_frameworks, find_framework


def open_backend(framework: str) -> Backend:
    """Import the back end of a framework, and with it the framework."""
    room = find_framework(framework).backend
    if not room:
        raise LaneError(f"no back end for '{framework}'; there are: {', '.join(all_frameworks())}")
    backend: Backend = importlib.import_module(room).open_room(framework)
    return backend
