"""Where a workload's items lie on disk: the parent finds or makes them, the child reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DataLayout = Literal["archive", "folders", "plates"]
Part = Literal["train", "test"]


@dataclass(frozen=True, slots=True)
class DataSource:
    """One set of items on disk, found sound.

    `layout` is CIFAR-10's own python archive, a folder a class, or plates named by their text. `classes` are in the
    order of the label numbers. Where the folder itself has no `train` and `test`, `split_seed` says which item
    goes where. `digest` stands for names and sizes, so that another folder, or a changed one, has another.
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
