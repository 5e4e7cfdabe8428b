"""Ten trainings for `bench/auto.py`: what makes their items slow, and what they do with a batch, differs.

A wait is that for storage or for a card; all else is work for the processor, as it is in trainings.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Dataset, default_collate

WORDS = ("the", "small", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "many", "others", "watch", "it")


class Items(Dataset):  # type: ignore[type-arg]
    """As many items as wanted, each made by a function of its number."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make
        self.count = 1 << 20

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


@dataclass(frozen=True)
class Case:
    """One training: its items, how many a batch has, and what is done with a batch."""

    name: str
    make: Callable[[], Callable[[int], Any]]
    batch: int
    step: Callable[[], Callable[[Any], None]]
    collate: Callable[[list[Any]], Any] = default_collate


def photographs() -> Callable[[int], Any]:
    """JPEG files in memory, decoded and resized by Pillow."""
    rng = np.random.default_rng(0)
    files = []
    for _ in range(64):
        small = Image.fromarray(rng.integers(0, 255, (16, 16, 3), np.uint8))
        stream = io.BytesIO()
        small.resize((256, 256), Image.Resampling.BICUBIC).save(stream, "JPEG", quality=90)
        files.append(stream.getvalue())

    def make(index: int) -> tuple[torch.Tensor, int]:
        image = Image.open(io.BytesIO(files[index % len(files)])).convert("RGB").resize((96, 96))
        return torch.from_numpy(np.asarray(image, np.float32).transpose(2, 0, 1) / 255), index % 10

    return make


def stored(item_s: float, *, burst_s: float = 0.0, each: int = 16) -> Callable[[], Callable[[int], Any]]:
    """Small items, each of which has to be waited for; every so often one takes far longer."""

    def make(index: int) -> tuple[torch.Tensor, int]:
        time.sleep(burst_s if burst_s and index % each == 0 else item_s)
        return torch.full((3, 32, 32), float(index % 7)), index % 10

    return lambda: make


def augmented() -> Callable[[int], Any]:
    """Images in memory, turned, shifted, and given noise by NumPy."""
    images = np.random.default_rng(0).random((64, 3, 64, 64), np.float32)

    def make(index: int) -> tuple[torch.Tensor, int]:
        image = images[index % len(images)][:, :, ::-1]
        image = np.roll(image, np.random.randint(-4, 5, 2), (1, 2))  # noqa: NPY002  as trainings do it
        return torch.from_numpy(image + np.random.normal(0, 0.1, image.shape).astype(np.float32)), index % 10  # noqa: NPY002

    return make


def tiny() -> Callable[[int], Any]:
    """Rows of a table that is in memory."""
    rows = torch.randn(4096, 32)
    return lambda index: (rows[index % 4096], index % 10)


def large() -> Callable[[int], Any]:
    """Items of 600 KB, scaled: it is their way from a worker that takes its time."""
    bytes_ = np.random.default_rng(0).integers(0, 255, (16, 3, 224, 224), np.uint8)

    def make(index: int) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(bytes_[index % 16].astype(np.float32)), index % 10

    return make


def texts() -> Callable[[int], Any]:
    """Sentences that plain Python splits and looks up."""
    vocabulary = {word: number for number, word in enumerate(WORDS)}

    def make(index: int) -> tuple[torch.Tensor, int]:
        text = " ".join(WORDS[(index + place * 7) % len(WORDS)] for place in range(400))
        numbers = [vocabulary.get(word.strip().lower(), 0) for word in text.split(" ")]
        return torch.tensor(numbers[:256]), index % 10

    return make


def ragged() -> Callable[[int], Any]:
    """Sequences of different lengths, which the collation pads."""
    return lambda index: ([float(index % 5)] * (200 + index % 400), index % 10)


def pad(items: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad by lists, as people write it."""
    longest = max(len(values) for values, _ in items)
    rows = [values + [0.0] * (longest - len(values)) for values, _ in items]
    return torch.tensor(rows)[:, :32], torch.tensor([label for _, label in items])


def waits(seconds: float) -> Callable[[], Callable[[Any], None]]:
    """A card that takes so long for a batch, while the processor waits."""
    return lambda: lambda _batch: time.sleep(seconds)


def convolves(width: int) -> Callable[[], Callable[[Any], None]]:
    """A small network on the processor."""

    def make() -> Callable[[Any], None]:
        layers = nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU()
        return trains(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)))

    return make


def multiplies(features: int, width: int) -> Callable[[], Callable[[Any], None]]:
    """A perceptron on the processor."""
    return lambda: trains(nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, 10)))


def embeds() -> Callable[[Any], None]:
    return trains(nn.Sequential(nn.EmbeddingBag(64, 256), nn.Linear(256, 10)))


def trains(model: nn.Module) -> Callable[[Any], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(batch: Any) -> None:
        inputs, labels = batch
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


CASES = (
    Case("photographs, a card", photographs, 16, waits(0.012)),
    Case("photographs, on the processor", photographs, 16, convolves(16)),
    Case("storage, 2 ms an item", stored(0.002), 8, waits(0.008)),
    Case("storage that is far away", stored(0.012), 4, waits(0.02)),
    Case("bursts", stored(0.0005, burst_s=0.03, each=24), 8, waits(0.012)),
    Case("NumPy augments", augmented, 16, convolves(24)),
    Case("rows in memory", tiny, 64, multiplies(32, 64)),
    Case("large items", large, 16, waits(0.03)),
    Case("texts", texts, 32, embeds),
    Case("ragged sequences", ragged, 32, multiplies(32, 256), pad),
)
