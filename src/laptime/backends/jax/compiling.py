"""How often XLA has compiled in this process, as JAX tells whoever listens."""

from __future__ import annotations

import functools
from typing import Any

COMPILED = "/jax/core/compile/backend_compile_duration"


class Compiler:
    """Counts what it hears; JAX lets nobody go who listens, so there is one."""

    def __init__(self) -> None:
        self.times = 0

    def hear(self, event: str, _seconds: float, **_words: Any) -> None:
        self.times += event == COMPILED


@functools.cache
def compiler() -> Compiler:
    import jax  # whoever asks has said by now how much of a card it may take

    made = Compiler()
    jax.monitoring.register_event_duration_secs_listener(made.hear)
    return made
