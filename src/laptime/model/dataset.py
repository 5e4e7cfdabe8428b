"""Where a workload's items are on disk: the parent finds or makes them, the child reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DataLayout = Literal["archive", "folders", "plates"]
SetState = Literal["whole", "half-written", "other version"]
Part = Literal["train", "test"]


@dataclass(frozen=True, slots=True)
class DataSource:
    """One set of items on disk, checked.

    `layout` is CIFAR-10's own Python archive, one folder per class, or plates named by their text. `classes` are in the
    order of the label numbers. Where the folder itself has no `train` and `test`, `split_seed` decides which item goes
    where. `digest` is made of names and sizes, so another folder, or a changed one, has another digest.
    """

    folder: str
    layout: DataLayout
    made: bool
    train_items: int
    test_items: int
    classes: tuple[str, ...]
    digest: str
    split_seed: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MadeSet:
    """A set of items that laptime made."""

    name: str
    folder: str
    workload: str
    train_items: int
    test_items: int
    bytes: int
    state: SetState
