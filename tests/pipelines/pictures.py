"""Small pictures as files, sound ones and broken ones, for the tests of the loaders."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from laptime.engine.pipelines.job import LoaderJob

CLASSES = 4


def smooth(seed: int, height: int = 60, width: int = 80) -> np.ndarray:
    rng = np.random.default_rng(seed)
    coarse = (80 + rng.random((4, 5, 3)) * 100).astype(np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


def encoded(pixels: np.ndarray, kind: str = "JPEG", mode: str | None = None, **options: object) -> bytes:
    held = io.BytesIO()
    picture = Image.fromarray(pixels)
    (picture.convert(mode) if mode else picture).save(held, kind, **options)
    return held.getvalue()


def write_pictures(folder: Path, count: int, **shape: int) -> tuple[str, ...]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(count):
        path = folder / f"{number:03}.jpg"
        path.write_bytes(encoded(smooth(number, **shape), quality=95))
        paths.append(str(path))
    return tuple(paths)


def job_of(paths: tuple[str, ...], **changed: object) -> LoaderJob:
    given = {
        "paths": paths,
        "labels": tuple((number % CLASSES,) for number in range(len(paths))),
        "height": 24,
        "width": 32,
        "batch": 4,
        "seed": 7,
        "turned": False,
    }
    return LoaderJob(**{**given, **changed})
