"""What JAX sees of this machine, for this room and for Keras's."""

from __future__ import annotations

import os
import pkgutil
from importlib import metadata, util
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else it takes three quarters of the card at once

import jax
import jaxlib

from laptime.backends.cuda import ask_driver, identify_card
from laptime.model.machine import Device, DeviceKind
from laptime.model.missing import Missing

KINDS: dict[str, DeviceKind] = {"gpu": "cuda", "cuda": "cuda", "rocm": "cuda", "tpu": "tpu"}
NOT_TOLD = Missing("JAX tells only what it may take of it")
ABSENT = "this JAX is built for processors only: no CUDA plugin is installed"
BLIND = "JAX's plugin {} is installed and finds no card or driver: it computes on the processor"
# Left alone, JAX takes TF32 on NVIDIA cards. Where bf16 is cast to, there is nothing to say.
PRODUCTS = {"fp32": "float32", "fp64": "float32", "tf32": "tensorfloat32"}


def list_versions() -> dict[str, str]:
    return {"jax": jax.__version__, "jaxlib": jaxlib.__version__}


def list_cards() -> tuple[Device, ...]:
    """Give every accelerator, or the one that is not there, with the reason."""
    found = [each for each in jax.devices() if each.platform in KINDS]
    return tuple(map(_describe, found)) if found else (_absent(),)


def _absent() -> Device:
    """JAX without a plugin, and JAX whose plugin fails, go on with the processor alike."""
    plugin = next((each for each in list_plugins() if "cuda" in each or "rocm" in each), None)
    if plugin is None:
        return Device("cuda", "cuda", "-", usable=False, reason=ABSENT)
    build = {"build": "ROCm" if "rocm" in plugin else "CUDA"}
    return Device("cuda", "cuda", "-", usable=False, reason=BLIND.format(plugin), details=build)


def list_plugins() -> list[str]:
    """Give the plugins that JAX finds: in the folder that they share, and by their own word."""
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
    """Give JAX's own device of a name such as cpu or cuda:1."""
    kind, _, number = name.partition(":")
    return jax.devices("gpu" if kind == "cuda" else kind)[int(number or 0)]


def set_precision(precision: str) -> None:
    """Say what float32 products mean from here on."""
    jax.config.update("jax_default_matmul_precision", PRODUCTS.get(precision))


def peak_bytes(name: str) -> int | Missing:
    if name == "cpu":
        return Missing("the processor's memory is the process's own")
    told = find_device(name).memory_stats() or {}
    return int(told["peak_bytes_in_use"]) if "peak_bytes_in_use" in told else Missing("JAX does not tell")
