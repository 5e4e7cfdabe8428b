"""Files -> batches of pixels, for any framework: the authors' loaders, and ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from laptime.model.workload import Loader, Workload
from laptime.pipelines.fast import open_fast, open_read_by_workers
from laptime.pipelines.held import bytes_to_hold
from laptime.pipelines.job import Job, Way, make_job
from laptime.pipelines.published import OneByOne, QueuedThreads, read_plain, read_smoothed

__all__ = ["Job", "Pipeline", "make_job", "open_fast_pipeline", "open_published_pipeline", "read_plain"]

WAYS: dict[Loader, Way] = {"threads": "smoothed", "one by one": "smoothed", "dataloader": "plain"}


class Pipeline(Protocol):
    """An endless supply of (images, labels) in numpy, images as (item, row, column, channel).

    Ours gives bytes, 0 to 255, which last until the next batch is asked for; the authors' give floats, 0 to 1.
    """

    ready_batches: int
    holds: bool
    """Whether decoded pictures are kept in memory, so that none is decoded twice."""

    def __call__(self) -> tuple[Any, Any]: ...

    def repeat(self) -> None:
        """Give only batches that were given before; called where pictures are held."""

    def notes(self) -> tuple[str, ...]:
        """Say what had to be left out, or done in another way."""

    def close(self) -> None: ...


def open_published_pipeline(workload: Workload, job: Job, first: int, workers: int = 0) -> Pipeline:
    """Give the authors' loader, where it was not a framework's own; for one that was, what it does to each image.

    With workers, each of them makes whole batches so, and the training's own process none.
    """
    if workers:
        return open_read_by_workers(replace(job, way=WAYS[workload.loader]), workers, first)
    if workload.loader == "threads":
        return QueuedThreads(job, first)
    return OneByOne(job, first, read_plain if workload.loader == "dataloader" else read_smoothed)


def open_fast_pipeline(job: Job, workers: int, first: int) -> Pipeline:
    """Give ours, with decoded pictures kept where memory allows."""
    held = bytes_to_hold(job.paths, job.height, job.width, shrunk=not job.turned)
    return open_fast(replace(job, held_bytes=held), workers, first)
