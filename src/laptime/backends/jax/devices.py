"""The devices that JAX sees, for this back end and for Keras's, and its products and copies for measuring limits."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Sequence
from importlib import metadata, util
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else it allocates 3/4 of the card at once

import jax
import jaxlib
import numpy as np
from jax import numpy as jnp

from laptime.backends.base import IN_PLACE, PRODUCT, Exercise, copy_work, product_work
from laptime.backends.cuda import ask_driver, identify_card
from laptime.errors import LaneError
from laptime.model.machine import Device, DeviceKind
from laptime.model.missing import Missing
from laptime.pipelines.job import free_memory_bytes

KINDS: dict[str, DeviceKind] = {"gpu": "cuda", "cuda": "cuda", "rocm": "cuda", "tpu": "tpu"}
NOT_TOLD = Missing("JAX reports only how much of it it may take")
ABSENT = "this JAX is built for processors only: no CUDA plugin is installed"
BLIND = "JAX's plugin {} is installed and finds no card or driver: it computes on the processor"
# By default, JAX uses TF32 on NVIDIA cards. For bf16, inputs are cast and need no setting.
PRODUCTS = {"fp32": "float32", "fp64": "float32", "tf32": "tensorfloat32"}
TYPES = {"fp32": jnp.float32, "tf32": jnp.float32, "bf16": jnp.bfloat16, "fp16": jnp.float16}


def list_versions() -> dict[str, str]:
    return {"jax": jax.__version__, "jaxlib": jaxlib.__version__}


def list_cards() -> tuple[Device, ...]:
    """Return every accelerator, or one that is absent, with the reason."""
    found = [each for each in jax.devices() if each.platform in KINDS]
    return tuple(map(_describe, found)) if found else (_absent(),)


def _absent() -> Device:
    """Return the absent card with its reason: JAX uses the processor both without a plugin and with one that fails."""
    plugin = next((each for each in list_plugins() if "cuda" in each or "rocm" in each), None)
    if plugin is None:
        return Device("cuda", "cuda", "-", usable=False, reason=ABSENT)
    build = {"build": "ROCm" if "rocm" in plugin else "CUDA"}
    return Device("cuda", "cuda", "-", usable=False, reason=BLIND.format(plugin), details=build)


def list_plugins() -> list[str]:
    """Return the plugins that JAX finds: in the shared folder, and by entry points."""
    spec = util.find_spec("jax_plugins")
    shared = pkgutil.iter_modules(spec.submodule_search_locations or ()) if spec else ()
    told = metadata.entry_points(group="jax_plugins")
    return sorted({each.name for each in shared} | {each.name for each in told})


def _describe(device: Any) -> Device:
    kind = KINDS[device.platform]
    number = device.local_hardware_id or 0
    name = kind if kind == "tpu" else f"{kind}:{number}"
    capability = str(getattr(device, "compute_capability", ""))
    details = {"capability": capability} if capability else {}
    details |= {} if kind == "tpu" else {**identify_card(number), **ask_driver()}
    return Device(name, kind, device.device_kind, usable=True, memory_bytes=NOT_TOLD, details=details)


def find_device(name: str) -> Any:
    """Return JAX's own device for a name such as cpu or cuda:1."""
    kind, _, number = name.partition(":")
    return jax.devices("gpu" if kind == "cuda" else kind)[int(number or 0)]


def find_devices(names: Sequence[str]) -> list[Any]:
    """Return JAX's own devices for the names of a group, in which the processor may come several times."""
    if names[0] != "cpu":
        return [find_device(each) for each in names]
    found: list[Any] = jax.devices("cpu")[: len(names)]
    if len(found) < len(names):
        raise LaneError(
            f"JAX makes {len(found)} of the processor, expected {len(names)} devices",
            "leave jax_num_cpu_devices out of its code, and start no JAX before laptime does",
        )
    return found


def set_precision(precision: str) -> None:
    """Set what float32 products mean from here on."""
    jax.config.update("jax_default_matmul_precision", PRODUCTS.get(precision))


def peak_bytes(name: str) -> int | Missing:
    if name == "cpu":
        return Missing("the processor's memory is the process's own")
    told = find_device(name).memory_stats() or {}
    return int(told["peak_bytes_in_use"]) if "peak_bytes_in_use" in told else Missing("JAX does not tell")


class JaxExercises:
    products = (PRODUCT,)
    copies = (IN_PLACE,)

    def __init__(self, device: Device) -> None:
        self.by = f"jax {jax.__version__}"
        self._device = find_device(device.name)

    @property
    def free_bytes(self) -> int | Missing:
        if self._device.platform == "cpu":
            return free_memory_bytes()
        told = self._device.memory_stats() or {}
        if "bytes_limit" not in told:
            return Missing("JAX does not tell")
        return int(told["bytes_limit"] - told.get("bytes_in_use", 0))

    def product(self, precision: str, way: str, rows: int) -> Exercise:  # noqa: ARG002  there is only one
        """Return the product: JAX makes a new matrix each time, and the fence waits for the last one."""
        set_precision(precision)
        random = np.random.default_rng(0)
        drawn = (random.standard_normal((rows, rows), np.float32) for _ in range(2))
        left, right = (jax.device_put(each, self._device).astype(TYPES[precision]) for each in drawn)
        multiply = jax.jit(jnp.matmul)
        last = left

        def once() -> Any:
            nonlocal last
            last = multiply(left, right)
            return last

        return Exercise(once, lambda: jax.block_until_ready(last), product_work(rows))

    def copy(self, way: str, size_bytes: int) -> Exercise:  # noqa: ARG002  as above
        """Donate the array each time, so that its result is in the same place."""
        held = jax.device_put(jnp.ones(size_bytes // 4, jnp.float32, device=self._device), self._device)
        turn = jax.jit(jnp.negative, donate_argnums=0)

        def once() -> Any:
            nonlocal held
            held = turn(held)
            return held

        return Exercise(once, lambda: jax.block_until_ready(held), copy_work(held.nbytes))
