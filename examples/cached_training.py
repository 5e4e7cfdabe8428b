"""A training whose images are slow to decode, and the same with each image decoded once:

    laptime race examples/cached_training.py:training torch/cpu
    laptime race examples/cached_training.py:cached_training torch/cpu

What the first would gain is predicted by a lane of its own: `torch/cpu/input=cached`. Transforms that draw at random
belong around the cached dataset, not into it: what is drawn in there would be drawn once, and then kept.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import laptime

SIDE, CLASSES, ITEMS, BATCH = 96, 5, 96, 16
WAVES = 40  # an image is the sum of this many: some ten milliseconds of work, as a large photograph takes


class Photographs(Dataset):
    """Images that stand for files on a disk: each is worked out from its number whenever it is asked for."""

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        label = index % CLASSES
        rng = np.random.default_rng(index)
        rows, columns = np.mgrid[0:SIDE, 0:SIDE] / SIDE
        image = np.zeros((3, SIDE, SIDE))
        for wave in range(WAVES):
            across, down, turn = rng.normal(size=3) * (label + 1)
            image[wave % 3] += np.cos(6 * (across * rows + down * columns) + turn) / WAVES
        return torch.from_numpy(image.astype(np.float32)), label


def training() -> laptime.Training:
    """Train a small network on images that are decoded again in each lap."""
    return train_on(Photographs())


def cached_training() -> laptime.Training:
    """Train the same network on the same images, each decoded once."""
    return train_on(laptime.cached(Photographs(), memory="64 MB"))


def train_on(dataset: Dataset) -> laptime.Training:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.AvgPool2d(8), nn.Flatten(), nn.Linear(3 * (SIDE // 8) ** 2, 64), nn.ReLU(), nn.Linear(64, 5)
    )
    return laptime.Training(
        model=model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
        data=DataLoader(dataset, batch_size=BATCH),
        items="images",
    )
