"""Read batches of CIFAR-10's archive into arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from laptime.data.archive import AGAIN, read_batches
from laptime.data.listed import Arrays
from laptime.data.pickles import PickleRefusedError, read_batch
from laptime.errors import UsageError

PIXELS = 3 * 32 * 32
CLASSES = 10


def read_part(place: Path, names: tuple[str, ...], md5: Mapping[str, str] | None) -> Arrays:
    """Read some batches into one array; without digests nothing is compared."""
    parts = {name: _unpack(place, name, data) for name, data in read_batches(place, names, md5)}
    rows = np.concatenate([parts[name][0] for name in names])
    images = np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return Arrays(images, np.concatenate([parts[name][1] for name in names]))


def _unpack(place: Path, name: str, data: bytes) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    try:
        batch = read_batch(data)
        labels = np.array(batch["labels"], np.int64)
        rows = batch["data"].reshape(len(labels), PIXELS)
    except PickleRefusedError as error:
        raise UsageError(f"{name} in {place} is no batch of CIFAR-10: {error}", AGAIN) from None
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError):
        raise UsageError(f"{name} in {place} is no batch of CIFAR-10: pictures or labels are missing", AGAIN) from None
    if labels.ndim != 1 or not ((labels >= 0) & (labels < CLASSES)).all():
        raise UsageError(f"{name} in {place} is no batch of CIFAR-10: its labels are not {CLASSES} classes", AGAIN)
    return rows, labels
