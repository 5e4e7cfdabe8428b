"""A script whose loader finds its number of workers while it trains: `laptime.auto` is one line.

    python examples/auto_loader.py

It prints how long each lap took, and what was found in the first one.
"""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import laptime

ITEMS, BATCH, LAPS = 4_000, 16, 3
ITEM_S = 0.001  # that a storage takes for an item


class Stored(Dataset):
    """Items that stand for files on a slow disk."""

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(ITEM_S)
        return torch.full((64,), index / ITEMS), index % 5


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = laptime.auto(DataLoader(Stored(), batch_size=BATCH, shuffle=True))
    for lap in range(LAPS):
        begun = time.perf_counter()
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
        print(f"lap {lap + 1}: {time.perf_counter() - begun:.1f} s")
    print(loader.chosen)


if __name__ == "__main__":
    main()
