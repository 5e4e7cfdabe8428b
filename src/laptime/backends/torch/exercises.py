"""PyTorch's products, and its copy in a device's memory."""

from __future__ import annotations

import torch
from torch import Tensor

from laptime.backends.exercise import CONVOLUTION, ELSEWHERE, IN_PLACE, PRODUCT, Exercise, copy_work, product_work
from laptime.backends.torch.precision import set_precision
from laptime.backends.torch.runners import Clockwork
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.pipelines.room import free_memory_bytes

TYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class TorchExercises:
    copies = (ELSEWHERE, IN_PLACE)

    def __init__(self, device: Device) -> None:
        self.by = f"torch {torch.__version__}"
        self._device = torch.device(device.name)
        self._fence = Clockwork(self._device).fence

    @property
    def free_bytes(self) -> int | Missing:
        if self._device.type == "cuda":
            return int(torch.cuda.mem_get_info(self._device)[0])
        return free_memory_bytes() if self._device.type == "cpu" else Missing(f"PyTorch tells none of {self._device}")

    @property
    def products(self) -> tuple[str, ...]:
        """On a processor, oneDNN's convolutions can use wider vectors than the library behind PyTorch's products."""
        return (PRODUCT, CONVOLUTION) if self._device.type == "cpu" else (PRODUCT,)

    def product(self, precision: str, way: str, rows: int) -> Exercise:
        set_precision("tf32" if precision == "tf32" else "fp32")
        kind = TYPES[precision]
        left, right = (torch.randn(rows, rows, device=self._device).to(kind) for _ in range(2))
        if way == CONVOLUTION:
            return self._convolution(left, right, rows)
        into = torch.empty(rows, rows, dtype=kind, device=self._device)
        return Exercise(lambda: torch.mm(left, right, out=into), self._fence, product_work(rows))

    def _convolution(self, left: Tensor, right: Tensor, rows: int) -> Exercise:
        """Take the left matrix for an image of one line, whose places are its rows; the right gives the filters."""
        image = left.t().reshape(1, rows, 1, rows).to(memory_format=torch.channels_last)
        filters = right.reshape(rows, rows, 1, 1).to(memory_format=torch.channels_last)
        return Exercise(lambda: torch.conv2d(image, filters), self._fence, product_work(rows))

    def copy(self, way: str, size_bytes: int) -> Exercise:
        source = torch.ones(size_bytes // 4, device=self._device)
        if way == IN_PLACE:
            return Exercise(source.neg_, self._fence, copy_work(source.nbytes))
        into = torch.zeros_like(source)
        return Exercise(lambda: into.copy_(source), self._fence, copy_work(source.nbytes))
