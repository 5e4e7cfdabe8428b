"""A training loop whose data set waits for a disk, and which asks for no workers.

    laptime tune examples/slow_disk.py -- --epochs 99
    laptime tune examples/slow_disk.py --apply -- --epochs 99

How many workers are best on this machine? The answer is a diff of this file. Its items are the same each time, so its
losses prove that the work is the same with any number of workers.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ITEMS, BATCH, DISK_S = 1024, 16, 0.002


class OnDisk(Dataset):
    """Pictures of stripes: each takes as long as a read from a disk that is not fast."""

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(DISK_S)
        kind = index % 4
        picture = torch.arange(256.0).reshape(1, 16, 16).remainder(kind + 2) + index / ITEMS
        return picture, kind


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    epochs = parser.parse_args().epochs
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 5), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 12 * 12, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    loader = DataLoader(OnDisk(), BATCH, shuffle=True)
    for epoch in range(epochs):
        for pictures, kinds in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(pictures), kinds)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
