"""Small sets of image files, in the layout that a workload reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from laptime.trainings.workloads import find_workload

CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def write_set(folder: Path, what: str, each: int = 3) -> Path:
    """Write a few images a class (or plates), train and test, one color a class."""
    workload = find_workload(what)
    rng = np.random.default_rng(0)
    for part in ("train", "test"):
        for number in range(each * (len(workload.classes) if workload.data_layout == "folders" else 8)):
            if workload.data_layout == "folders":
                name = workload.classes[number % len(workload.classes)]
                place = folder / part / name / f"{number}.jpg"
                color = 10 + 25 * (number % len(workload.classes))
            else:
                text = "".join(rng.choice(list(CHARACTERS), 8))
                place, color = folder / part / f"{text}.jpg", 100
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((90, 160, 3), color, np.uint8)).save(place, quality=95)
    return folder
