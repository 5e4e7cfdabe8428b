"""JAX as Keras's engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from laptime.engine.backends.jax.backend import (  # before JAX itself
    JaxExercises,
    JaxProfiler,
    compile_counter,
    find_devices,
    list_cards,
    list_versions,
    open_profiler,
    peak_bytes,
    set_precision,
)
from laptime.engine.backends.keras.engines import LACKS, card_features, processor
from laptime.model.machine import Device
from laptime.model.quantities import Missing

import jax  # isort: skip  the import above limits the memory of a card that JAX takes


class DataParallel:
    """Keras's DataParallel: XLA computes each part of a batch on its device, and what one device would of the whole."""

    several_at_once = True

    def __init__(self, numbers: Sequence[int], first: str) -> None:
        import keras  # its engine is chosen by now

        kind = first.partition(":")[0]
        self._device = partial(keras.device, first)
        self._shared = keras.distribution.DataParallel(devices=[f"{kind}:{number}" for number in numbers])

    @contextmanager
    def scope(self) -> Iterator[None]:
        with self._device(), self._shared.scope():
            yield

    def take(self, model: Any, batch: Sequence[Any]) -> dict[str, Any]:
        means: dict[str, Any] = model.train_on_batch(*batch, return_dict=True)
        return means

    def problem(self, _model: Any) -> None:
        """Return None: batch norm, too, sees the whole batch."""
        return


class JaxEngine:
    marks_are_steps = False  # it computes asynchronously, on a processor too

    def versions(self) -> dict[str, str]:
        return list_versions()

    def devices(self) -> tuple[Device, ...]:
        cards = [
            replace(
                card,
                features=card_features(card.details.get("capability", "")),
                details={**LACKS, **card.details},
            )
            if card.usable
            else card
            for card in list_cards()
        ]
        return (processor(), *cards)

    def take_threads(self, _threads: int) -> None:
        """Do nothing: XLA has one thread per core that the process may use; the planner refuses other numbers."""

    def threads(self) -> Missing:
        return Missing("XLA does not tell how many threads it takes")

    def name_device(self, device: str) -> str:
        kind, _, number = device.partition(":")
        return f"{'gpu' if kind == 'cuda' else kind}:{number or 0}"

    def share_out(self, devices: Sequence[str]) -> DataParallel:
        return DataParallel([device.id for device in find_devices(devices)], self.name_device(devices[0]))

    def set_precision(self, precision: str) -> None:
        set_precision(precision)

    def read_precision(self) -> Any:
        return jax.config.jax_default_matmul_precision

    def restore_precision(self, left: Any) -> None:
        jax.config.update("jax_default_matmul_precision", left)

    def await_model(self, model: Any) -> None:
        """Wait for the state: during `fit` it is held next to the model, otherwise in its variables.

        Keras puts what is set on a model into its own kinds of dict and list, in which JAX finds nothing to wait for.
        """
        state = getattr(model, "_jax_state", None)
        if state and not model._jax_state_synced:  # noqa: SLF001  Keras has no public name for it
            held = [array for part in state.values() for array in part]
        else:
            held = [variable.value for variable in model.variables]
        jax.block_until_ready(held)

    def epochs(self, data: dict[str, Any], at_once: int) -> Any:
        from keras.src.backend.jax.trainer import JAXEpochIterator

        return JAXEpochIterator(**data, steps_per_execution=at_once)

    def census(self, _model: Any) -> Missing:
        return Missing("JAX treats denormal numbers as 0")

    def flush_denormals(self) -> None:
        """Do nothing: XLA flushes them by default."""

    def compiled(self) -> int:
        return compile_counter().times

    def allow_float64(self) -> None:
        jax.config.update("jax_enable_x64", True)

    def profiler(self, device: str, scratch: Path) -> JaxProfiler | Missing:
        return open_profiler(device, scratch)

    def peak_bytes(self, device: str) -> int | Missing:
        return peak_bytes(device)

    def exercises(self, device: Device) -> JaxExercises:
        return JaxExercises(device)


def open_engine() -> JaxEngine:
    return JaxEngine()
