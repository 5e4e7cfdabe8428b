"""JAX as Keras's engine."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else it takes three quarters of the card at once

import jax
import jaxlib

from laptime.backends.keras.engines import LACKS, card_features, processor
from laptime.model.machine import Device
from laptime.model.missing import Missing

NOT_TOLD = Missing("JAX tells only what it may take of it")
# Left alone, JAX takes TF32 on NVIDIA cards. Where Keras casts to bf16, there is nothing to say.
PRODUCTS = {"fp32": "float32", "fp64": "float32", "tf32": "tensorfloat32"}
KINDS = {"gpu": "cuda", "cuda": "cuda", "rocm": "cuda", "tpu": "tpu"}


class Jax:
    marks_are_steps = False  # it computes behind the host's back, on a processor too

    def versions(self) -> dict[str, str]:
        return {"jax": jax.__version__, "jaxlib": jaxlib.__version__}

    def devices(self) -> tuple[Device, ...]:
        others = [each for each in jax.devices() if each.platform in KINDS]
        if not others:
            why = "this JAX sees no accelerator: its CUDA plugin is not installed, or finds no driver"
            return (processor(), Device("cuda", "cuda", "-", usable=False, reason=why))
        return (processor(), *map(self._device, others))

    def _device(self, device: Any) -> Device:
        kind: Any = KINDS[device.platform]
        name = kind if kind == "tpu" else f"{kind}:{device.local_hardware_id or 0}"
        capability = str(getattr(device, "compute_capability", ""))
        return Device(
            name,
            kind,
            device.device_kind,
            usable=True,
            memory_bytes=NOT_TOLD,
            features=card_features(capability),
            details={**LACKS, **({"capability": capability} if capability else {})},
        )

    def take_threads(self, _threads: int) -> None:
        """XLA's pool is as large as the cores that the process may use; the planner refuses other numbers."""

    def name_device(self, device: str) -> str:
        kind, _, number = device.partition(":")
        return f"{'gpu' if kind == 'cuda' else kind}:{number or 0}"

    def set_precision(self, precision: str) -> None:
        jax.config.update("jax_default_matmul_precision", PRODUCTS.get(precision))

    def await_model(self, model: Any) -> None:
        """Within `fit` the state lies beside the model, elsewhere in its variables.

        What is set on a model Keras puts into dicts and lists of its own kind, in which JAX sees nothing to wait for.
        """
        state = getattr(model, "_jax_state", None)
        if state and not model._jax_state_synced:  # noqa: SLF001  Keras has no other word for it
            held = [each for part in state.values() for each in part]
        else:
            held = [each.value for each in model.variables]
        jax.block_until_ready(held)

    def allow_float64(self) -> None:
        jax.config.update("jax_enable_x64", True)

    def peak_bytes(self, device: str) -> int | Missing:
        if device == "cpu":
            return Missing("the processor's memory is the process's own")
        told = jax.devices()[int(device.partition(":")[2] or 0)].memory_stats() or {}
        return int(told["peak_bytes_in_use"]) if "peak_bytes_in_use" in told else Missing("JAX does not tell")


def open_engine() -> Jax:
    return Jax()
