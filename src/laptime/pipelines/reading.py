"""Read decoded items into memory: from an archive's arrays, or from a shuffled choice of files."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from laptime.data import read_arrays
from laptime.model.dataset import DataSource, Part
from laptime.model.workload import Workload
from laptime.pipelines.decode import DamagedImages
from laptime.pipelines.job import make_job
from laptime.pipelines.making import BatchMaker
from laptime.sensors.cgroup import usable_cores
from laptime.workloads.data import Items

CHUNK = 64
CHOICE_SEED = 0


def read_items(workload: Workload, source: DataSource, part: Part, count: int | None) -> Items:
    """Return the first `count` items of one part, or all, as floats from 0 to 1.

    An archive's items keep their order. Files are sorted by class, so they are shuffled first, always in the same way.
    """
    if source.layout == "archive":
        arrays = read_arrays(source, part)
        return Items(arrays.images[:count].astype(np.float32) / np.float32(255), arrays.labels[:count])
    chunks = list(read_batches(workload, source, part, count, CHUNK))
    return Items(np.concatenate([each.images for each in chunks]), np.concatenate([each.labels for each in chunks]))


def read_batches(workload: Workload, source: DataSource, part: Part, count: int | None, batch: int) -> Iterator[Items]:
    """Yield the same items of files in batches, so that a large test set need not fit in memory."""
    job = make_job(workload, source, part, batch, CHOICE_SEED)
    wanted = min(count or len(job.paths), len(job.paths))
    order = np.random.default_rng(CHOICE_SEED).permutation(len(job.paths)).tolist()
    job = replace(
        job,
        paths=tuple(job.paths[place] for place in order),
        labels=tuple(job.labels[place] for place in order),
        turned=False,
        shuffled=False,
        batch=min(batch, wanted),
    )
    images = np.empty((job.batch, job.height, job.width, 3), np.uint8)
    labels = np.empty((job.batch, job.label_width), np.int64)
    damaged = DamagedImages(len(job.paths))
    with ThreadPoolExecutor(usable_cores(), "decode") as pool:
        make = BatchMaker(job, spread=pool.map)
        for number, begin in enumerate(range(0, wanted, job.batch)):
            for path, reason in make(number, images, labels):
                damaged.add(path, reason)
            taken = min(job.batch, wanted - begin)
            some = labels[:taken].copy()
            floats = np.multiply(images[:taken], np.float32(1 / 255), dtype=np.float32)
            yield Items(floats, some if len(workload.outputs) > 1 else some[:, 0])
