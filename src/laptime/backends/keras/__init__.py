"""The back end for Keras. The engine is chosen before Keras is imported, and Keras cannot change it later."""

from __future__ import annotations

from laptime.backends.base import Backend


def open_room(framework: str) -> Backend:
    from laptime.backends.keras.engines import open_engine

    engine = open_engine(framework)
    from laptime.backends.keras.backend import KerasBackend

    return KerasBackend(framework, engine)
