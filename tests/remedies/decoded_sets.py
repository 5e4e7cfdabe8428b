"""Datasets that write down each item that they decode, for tests in several processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset


class Ledger:
    """A file to which every process adds a line for each item; short lines are added whole."""

    def __init__(self, place: Path) -> None:
        self.place = str(place)

    def write(self, index: int) -> None:
        descriptor = os.open(self.place, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{index} {os.getpid()}\n".encode())
        os.close(descriptor)

    def read(self) -> list[tuple[int, int]]:
        """Return the number of each item that was decoded, and by which process."""
        place = Path(self.place)
        lines = place.read_text().splitlines() if place.exists() else []
        return [(int(index), int(pid)) for index, pid in (line.split() for line in lines)]

    def decoded(self) -> list[int]:
        return sorted(index for index, _ in self.read())


class Images(Dataset):
    """Items that tell their number in every value; their shapes differ."""

    def __init__(self, ledger: Ledger, items: int = 12) -> None:
        self.ledger, self.items, self.classes = ledger, items, ("cat", "dog")

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[each] for each in range(self.items)[index]]
        if not -self.items <= index < self.items:
            raise IndexError(f"there is no image {index}")
        number = index % self.items
        self.ledger.write(number)
        return torch.full((3, 4, 5), float(number)), np.full(7, number, np.int16), number % 2


class Huge(Dataset):
    """Items that take a while to copy, for a process that is killed while it does."""

    def __init__(self, items: int, size: int) -> None:
        self.items, self.size = items, size

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index):
        return np.full(self.size, index + 1, np.uint8)


class Stream(IterableDataset):
    """Can only be iterated; its length does not help."""

    def __len__(self) -> int:
        return 3

    def __iter__(self):
        return iter(range(3))


def read_all(dataset, said) -> None:
    """Be a process that reads each item once, and says whether each was what it should be."""
    rows = [dataset[index] for index in range(len(dataset))]
    said.send([(float(image[0, 0, 0]), image.dtype, int(row[0]), label) for image, row, label in rows])


def store_all(dataset, said) -> None:
    """Be a process that stores until it is killed."""
    said.send("begun")
    for index in range(len(dataset)):
        dataset[index]
    said.send("done")
    time.sleep(600)


def die_holding_the_turn(store, said) -> None:
    """Be a process that is killed while it alone may take room."""
    with store._alone():
        said.send("mine")
        time.sleep(600)
