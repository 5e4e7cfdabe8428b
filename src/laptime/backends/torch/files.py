"""Batches from files: a pipeline's pixels in NumPy become tensors on the device, as floats from 0 to 1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from laptime.backends.torch.recipe import Batch
from laptime.errors import LaneError
from laptime.model.dataset import DataSource
from laptime.model.lane import Settings
from laptime.model.workload import Workload
from laptime.pipelines import LoaderJob, Pipeline, make_job, open_fast_pipeline, open_published_pipeline, read_plain
from laptime.pipelines.decode import DamagedImageError, DamagedImages
from laptime.pipelines.job import BatchOrder, rng_of, workers_for
from laptime.pipelines.transforms import Matrix, draw_turns, matrix_of

STAGES = 3


class FileBatchSource:
    """A pipeline's batches, moved to the device."""

    def __init__(
        self, pipeline: Pipeline, device: torch.device, *, channels_last: bool, warp: BatchWarp | None = None
    ) -> None:
        self._pipeline, self._warp = pipeline, warp
        self.ready_batches, self.holds = pipeline.ready_batches, pipeline.holds
        self._device, self._channels_last = device, channels_last
        self._pinned = PinnedBuffers(device) if device.type == "cuda" else None

    def __call__(self) -> Batch:
        return self.move(self.fetch())

    def fetch(self) -> Any:
        return self._pipeline()

    def move(self, batch: Any) -> Batch:
        images, labels = batch
        placed = self._images(torch.from_numpy(images))
        return placed if self._warp is None else self._warp(placed), self._labels(labels)

    def repeat(self) -> None:
        self._pipeline.repeat()

    def notes(self) -> tuple[str, ...]:
        return self._pipeline.notes()

    def close(self) -> None:
        self._pipeline.close()

    def _images(self, images: Tensor) -> Tensor:
        moved = self._pinned(images) if self._pinned is not None else images.to(self._device)
        turned = moved.permute(0, 3, 1, 2)
        wanted = torch.channels_last if self._channels_last else torch.contiguous_format
        if moved.dtype == torch.uint8:
            # One pass: bytes to floats in the wanted layout, then scaled in place. The pipeline may now reuse its slot.
            floats = turned.to(torch.float32, memory_format=wanted, copy=True)
            return floats.mul_(1 / 255)
        return turned.contiguous(memory_format=wanted)

    def _labels(self, labels: Any) -> Tensor:
        held = torch.from_numpy(np.array(labels, np.int64))  # a copy: the pipeline reuses its own memory
        if held.dim() == 2 and held.shape[1] == 1:
            held = held[:, 0]
        return held.to(self._device, non_blocking=True)


class PinnedBuffers:
    """Pinned buffers, filled in turn; the device copies from them while the host continues."""

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
            self._copied[turn].synchronize()  # wait until the device has copied what was here
        buffer.copy_(images)
        moved = buffer.to(self._device, non_blocking=True)
        copied: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        copied.record()
        self._copied[turn] = copied
        return moved


class Files(Dataset[tuple[Tensor, Tensor]]):
    """The authors' data set of pets-densenet: each file is decoded whole, resized and scaled when requested."""

    def __init__(self, job: LoaderJob) -> None:
        self._job = job
        self.damaged = DamagedImages(len(job.paths))

    def __len__(self) -> int:
        return len(self._job.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        job = self._job
        for each in range(index, index + len(job.paths)):
            place = each % len(job.paths)
            try:
                image = read_plain(job.paths[place], job.height, job.width)
            except DamagedImageError as error:
                self.damaged.add(job.paths[place], str(error))
                continue
            return torch.from_numpy(image), torch.tensor(job.labels[place])
        raise LaneError("no image could be read")


class Loader:
    """PyTorch's DataLoader with its defaults: no worker, so each batch is read when it is needed."""

    ready_batches = 0
    holds = False

    def __init__(self, job: LoaderJob, first: int) -> None:
        self._files = Files(job)
        self._order = BatchOrder(len(job.paths), job.batch, job.seed)
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
        """Do nothing: nothing is held, so a batch costs the same again."""

    def notes(self) -> tuple[str, ...]:
        return self._files.damaged.notes()

    def close(self) -> None:
        """Do nothing: only memory is held."""

    def _lap(self) -> Any:
        left = self._a_lap - self._number % self._a_lap
        order = [self._order(number).tolist() for number in range(self._number, self._number + left)]
        return iter(DataLoader(self._files, batch_sampler=order))


def open_files(
    workload: Workload,
    data: DataSource,
    settings: Settings,
    device: torch.device,
    *,
    seed: int,
    first: int,
    share: tuple[int, int] = (0, 1),
) -> FileBatchSource:
    """Return the loader that the lane's settings name: the authors', or ours. Rank 1 of 2 reads every second file."""
    rank, of = share
    job = make_job(workload, data, "train", settings.batch or workload.batch, seed)
    job = replace(job, paths=job.paths[rank::of], labels=job.labels[rank::of])
    channels_last = settings.layout == "channels_last"
    if is_published(settings):
        workers = settings.workers or 0
        if workload.loader == "dataloader" and not workers:
            return FileBatchSource(Loader(job, first), device, channels_last=channels_last)
        pipeline = open_published_pipeline(workload, job, first, workers)
        return FileBatchSource(pipeline, device, channels_last=channels_last)
    warp = BatchWarp(seed, first) if job.turned and _turns_on_device(settings, device) else None
    job = replace(job, turned=job.turned and warp is None)
    pipeline = open_fast_pipeline(job, workers_for(settings, device.type), first)
    return FileBatchSource(pipeline, device, channels_last=channels_last, warp=warp)


def _turns_on_device(settings: Settings, device: torch.device) -> bool:
    """Whether images are turned in whole batches by the device: by default where that is a card."""
    where: str = settings.value_of("augment") or ("device" if device.type == "cuda" else "host")
    return where == "device"


def is_published(settings: Settings) -> bool:
    """Whether the authors' loader is meant; where the loader runs alone, the preset decides."""
    if settings.input == "only":
        return settings.preset == "as-written"
    return settings.input == "published"


class BatchWarp:
    """Turns one batch after another, by angles drawn from the seed and the batch's number."""

    def __init__(self, seed: int, first: int) -> None:
        self._seed, self._number = seed, first

    def __call__(self, images: Tensor) -> Tensor:
        """Return the images turned; they are floats as (item, channel, row, column)."""
        turns = draw_turns(rng_of(self._seed, self._number), len(images))
        self._number += 1
        return warp_images(images, [matrix_of(turn) for turn in turns])


def warp_images(images: Tensor, matrices: list[Matrix]) -> Tensor:
    """Map each image by its own matrix, from the output's (row, column) to the input's."""
    height, width = images.shape[2:]
    # The sampler's coordinates go from -1 to 1 on both axes, column first.
    rows = [[[d, c * height / width, 0.0], [b * width / height, a, 0.0]] for (a, b), (c, d) in matrices]
    maps = torch.tensor(rows, dtype=images.dtype).to(images.device, non_blocking=True)
    grid = nn.functional.affine_grid(maps, list(images.shape), align_corners=False)
    turned: Tensor = nn.functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
    return turned
