"""A training loop that knows nothing of laptime.

    laptime watch python examples/plain_loop.py
    laptime race examples/plain_loop.py -- --epochs 99
    laptime why examples/plain_loop.py -- --epochs 99

Its data set takes longer to make a batch than the network takes to learn from it.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ITEMS, BATCH = 2048, 32


class Drawings(Dataset):
    """Pictures of a bright square somewhere, drawn again each time; the label is its row."""

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        row, column = index % 4, index // 4 % 4
        picture = torch.randn(1, 32, 32)
        for y in range(8):
            for x in range(8):
                picture[0, 8 * row + y, 8 * column + x] += 1
        return picture, row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    epochs = parser.parse_args().epochs
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 5), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 28 * 28, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(Drawings(), batch_size=BATCH, shuffle=True)
    for epoch in range(epochs):
        for pictures, rows in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(pictures), rows)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
