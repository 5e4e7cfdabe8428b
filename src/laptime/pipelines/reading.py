"""Decoded items in memory, as many as are wanted: of an archive's arrays, or of a shuffled choice of files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from laptime.data import read_arrays
from laptime.model.dataset import DataSource, Part
from laptime.model.workload import Workload
from laptime.pipelines.job import Job, make_job
from laptime.pipelines.making import Making
from laptime.pipelines.room import usable_cores
from laptime.pipelines.spoilt import Spoilt
from laptime.workloads.data import Items

CHUNK = 64
CHOICE_SEED = 0


def read_items(workload: Workload, source: DataSource, part: Part, count: int | None) -> Items:
    """Give the first `count` items of one part, or all, as floats from 0 to 1.

    An archive's items keep their order; of files, which lie sorted by class, a choice is taken that is always the same.
    """
    if source.layout == "archive":
        arrays = read_arrays(source, part)
        return Items(arrays.images[:count].astype(np.float32) / np.float32(255), arrays.labels[:count])
    items = _decode(make_job(workload, source, part, CHUNK, CHOICE_SEED), count)
    return items if len(workload.outputs) > 1 else Items(items.images, items.labels[:, 0])


def _decode(job: Job, count: int | None) -> Items:
    wanted = min(count or len(job.paths), len(job.paths))
    job = replace(job, turned=False, shuffled=True, batch=min(CHUNK, wanted))
    images = np.empty((wanted, job.height, job.width, 3), np.float32)
    labels = np.empty((wanted, job.label_width), np.int64)
    some_images = np.empty((job.batch, job.height, job.width, 3), np.uint8)
    some_labels = np.empty((job.batch, job.label_width), np.int64)
    spoilt = Spoilt(len(job.paths))
    with ThreadPoolExecutor(usable_cores(), "decode") as pool:
        make = Making(job, spread=pool.map)
        for number, begin in enumerate(range(0, wanted, job.batch)):
            for path, reason in make(number, some_images, some_labels):
                spoilt.add(path, reason)
            taken = min(job.batch, wanted - begin)
            np.divide(some_images[:taken], np.float32(255), out=images[begin : begin + taken], dtype=np.float32)
            labels[begin : begin + taken] = some_labels[:taken]
    return Items(images, labels)
