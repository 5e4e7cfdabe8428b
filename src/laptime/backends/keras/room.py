"""The way into the room: the engine is chosen before Keras is imported, and Keras keeps it for good."""

from __future__ import annotations

from laptime.backends.base import Backend
from laptime.backends.keras.engines import open_engine


def open_room(framework: str) -> Backend:
    engine = open_engine(framework)
    from laptime.backends.keras.backend import KerasBackend

    return KerasBackend(framework, engine)
