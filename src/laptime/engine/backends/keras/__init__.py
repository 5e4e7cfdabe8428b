"""The back end for Keras. The engine is chosen before Keras is imported, and Keras cannot change it later."""

from __future__ import annotations

from laptime.engine.backends.base import Backend


def open_room(framework: str) -> Backend:
    from laptime.engine.backends.keras.engines import open_engine

    engine = open_engine(framework)
    from laptime.engine.backends.keras.backend import KerasBackend

    return KerasBackend(framework, engine)
