"""Files -> batches of pixels, for any framework: the authors' loaders, and ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from laptime.engine.pipelines.decode import OneByOneLoader, QueuedLoader, read_plain, read_smoothed
from laptime.engine.pipelines.fast import open_fast, open_read_by_workers
from laptime.engine.pipelines.job import LoaderJob, Way, make_job
from laptime.engine.pipelines.making import bytes_to_hold
from laptime.model.workload import LoaderKind, Workload

__all__ = ["LoaderJob", "Pipeline", "make_job", "open_fast_pipeline", "open_published_pipeline", "read_plain"]

LOADER_WAYS: dict[LoaderKind, Way] = {"threads": "smoothed", "one by one": "smoothed", "dataloader": "plain"}


class Pipeline(Protocol):
    """An endless supply of (images, labels) as numpy arrays, images as (item, row, column, channel).

    Our loader returns bytes, 0 to 255, valid until the next call. The authors' loaders return floats, 0 to 1.
    """

    ready_batches: int
    holds: bool
    """Whether decoded images are kept in memory, so that none is decoded twice."""

    def __call__(self) -> tuple[Any, Any]: ...

    def repeat(self) -> None:
        """From now on return only batches that were returned before. Called if images are held."""

    def notes(self) -> tuple[str, ...]:
        """Return notes on what was left out or done differently."""

    def close(self) -> None: ...


def open_published_pipeline(workload: Workload, job: LoaderJob, first: int, workers: int = 0) -> Pipeline:
    """Return the authors' loader. If that was PyTorch's DataLoader, return one that treats each image in the same way.

    With workers, each worker makes whole batches in this way, and the training's own process makes none.
    """
    if workers:
        return open_read_by_workers(replace(job, way=LOADER_WAYS[workload.loader]), workers, first)
    if workload.loader == "threads":
        return QueuedLoader(job, first)
    return OneByOneLoader(job, first, read_plain if workload.loader == "dataloader" else read_smoothed)


def open_fast_pipeline(job: LoaderJob, workers: int, first: int) -> Pipeline:
    """Return our loader. It keeps decoded images if there is enough memory."""
    held = bytes_to_hold(job.paths, job.height, job.width, shrunk=not job.turned)
    return open_fast(replace(job, held_bytes=held), workers, first)
