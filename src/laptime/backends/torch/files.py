"""Batches that come from files: pixels of a pipeline in numpy -> tensors on the device, as floats from 0 to 1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from laptime.backends.torch.recipe import Batch
from laptime.backends.torch.turning import Turning
from laptime.errors import LaneError
from laptime.model.dataset import DataSource
from laptime.model.lane import Settings
from laptime.model.workload import Workload
from laptime.pipelines import Job, Pipeline, make_job, open_fast_pipeline, open_published_pipeline, read_plain
from laptime.pipelines.decode import SpoiltImageError
from laptime.pipelines.numbering import Numbering
from laptime.pipelines.room import workers_for
from laptime.pipelines.spoilt import Spoilt

STAGES = 3


class FileSource:
    """A pipeline's batches, brought to the device."""

    def __init__(
        self, pipeline: Pipeline, device: torch.device, *, channels_last: bool, turning: Turning | None = None
    ) -> None:
        self._pipeline, self._turning = pipeline, turning
        self.ready_batches, self.holds = pipeline.ready_batches, pipeline.holds
        self._device, self._channels_last = device, channels_last
        self._stage = Stage(device) if device.type == "cuda" else None

    def __call__(self) -> Batch:
        return self.move(self.fetch())

    def fetch(self) -> Any:
        return self._pipeline()

    def move(self, batch: Any) -> Batch:
        images, labels = batch
        placed = self._images(torch.from_numpy(images))
        return placed if self._turning is None else self._turning(placed), self._labels(labels)

    def repeat(self) -> None:
        self._pipeline.repeat()

    def notes(self) -> tuple[str, ...]:
        return self._pipeline.notes()

    def close(self) -> None:
        self._pipeline.close()

    def _images(self, images: Tensor) -> Tensor:
        moved = self._stage(images) if self._stage is not None else images.to(self._device)
        turned = moved.permute(0, 3, 1, 2)
        wanted = torch.channels_last if self._channels_last else torch.contiguous_format
        if moved.dtype == torch.uint8:
            # One pass: bytes to floats in the wanted layout, then scaled in place. The pipeline may now reuse its slot.
            floats = turned.to(torch.float32, memory_format=wanted, copy=True)
            return floats.mul_(1 / 255)
        return turned.contiguous(memory_format=wanted)

    def _labels(self, labels: Any) -> Tensor:
        held = torch.from_numpy(np.array(labels, np.int64))  # a copy: the pipeline's own place is filled again
        if held.dim() == 2 and held.shape[1] == 1:
            held = held[:, 0]
        return held.to(self._device, non_blocking=True)


class Stage:
    """Pinned buffers, filled in turn, from which the device copies while the host goes on."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._buffers: list[Tensor | None] = [None] * STAGES
        self._copied: list[Any] = [None] * STAGES
        self._turn = 0

    def __call__(self, images: Tensor) -> Tensor:
        turn, self._turn = self._turn, (self._turn + 1) % STAGES
        buffer = self._buffers[turn]
        if buffer is None or buffer.shape != images.shape:
            buffer = self._buffers[turn] = torch.empty_like(images, pin_memory=True)
        if self._copied[turn] is not None:
            self._copied[turn].synchronize()  # the device has long taken what lay here
        buffer.copy_(images)
        moved = buffer.to(self._device, non_blocking=True)
        copied: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        copied.record()
        self._copied[turn] = copied
        return moved


class Files(Dataset[tuple[Tensor, Tensor]]):
    """The authors' data set of pets-densenet: one file decoded whole, resized and scaled when it is asked for."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.spoilt = Spoilt(len(job.paths))

    def __len__(self) -> int:
        return len(self._job.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        job = self._job
        for each in range(index, index + len(job.paths)):
            place = each % len(job.paths)
            try:
                image = read_plain(job.paths[place], job.height, job.width)
            except SpoiltImageError as error:
                self.spoilt.add(job.paths[place], str(error))
                continue
            return torch.from_numpy(image), torch.tensor(job.labels[place])
        raise LaneError("no image could be read")


class Loader:
    """PyTorch's DataLoader with what it does unasked: no worker, so that each batch is read when it is due."""

    ready_batches = 0
    holds = False

    def __init__(self, job: Job, first: int) -> None:
        self._files = Files(job)
        self._order = Numbering(len(job.paths), job.batch, job.seed)
        self._a_lap = max(1, len(job.paths) // job.batch)
        self._number = first
        self._batches = self._lap()

    def __call__(self) -> tuple[Any, Any]:
        batch = next(self._batches, None)
        if batch is None:
            self._batches = self._lap()
            batch = next(self._batches)
        self._number += 1
        return batch[0].numpy(), batch[1].numpy()

    def repeat(self) -> None:
        """Nothing is held, so that a batch costs the same again."""

    def notes(self) -> tuple[str, ...]:
        return self._files.spoilt.notes()

    def close(self) -> None:
        """Nothing is held but memory."""

    def _lap(self) -> Any:
        left = self._a_lap - self._number % self._a_lap
        order = [self._order(number).tolist() for number in range(self._number, self._number + left)]
        return iter(DataLoader(self._files, batch_sampler=order))


def open_files(
    workload: Workload, data: DataSource, settings: Settings, device: torch.device, *, seed: int, first: int
) -> FileSource:
    """Give the loader that the lane's settings name: the authors', or ours."""
    job = make_job(workload, data, "train", settings.batch or workload.batch, seed)
    channels_last = settings.layout == "channels_last"
    if is_published(settings):
        workers = settings.workers or 0
        if workload.loader == "dataloader" and not workers:
            return FileSource(Loader(job, first), device, channels_last=channels_last)
        pipeline = open_published_pipeline(workload, job, first, workers)
        return FileSource(pipeline, device, channels_last=channels_last)
    turning = Turning(seed, first) if job.turned and device.type == "cuda" else None
    job = replace(job, turned=job.turned and turning is None)
    pipeline = open_fast_pipeline(job, workers_for(settings, device.type), first)
    return FileSource(pipeline, device, channels_last=channels_last, turning=turning)


def is_published(settings: Settings) -> bool:
    """Tell which loader is meant; where it runs alone, the preset says so."""
    if settings.input == "only":
        return settings.preset == "as-written"
    return settings.input == "published"
