"""What a lane sets for its whole process: its device, threads, denormal numbers, precision and seed."""

from __future__ import annotations

import torch

from laptime.backends.torch.precision import LanePrecision, flush_denormals
from laptime.model.lane import Settings
from laptime.model.plan import HeatOrder


def take_device(order: HeatOrder) -> None:
    _take_threads(order.lane.settings)
    if order.lane.settings.denormals == "flush":
        flush_denormals()
    if order.lane.settings.value_of("onednn") == "off":
        torch.backends.mkldnn.enabled = False  # type: ignore[assignment]  # it is a property of the module
    if order.lane.device.kind == "cuda":
        torch.cuda.set_device(order.lane.device.name)


def set_up(settings: Settings, precision: LanePrecision, seed: int) -> None:
    """Set threads, precision and seed again: a user's function and the proof may have changed them."""
    _take_threads(settings)
    precision.apply()
    torch.manual_seed(seed)
    torch.backends.cudnn.benchmark |= settings.value_of("cudnn") == "search"


def _take_threads(settings: Settings) -> None:
    """Set the lane's number of threads again, in case the user's own code changed it."""
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
