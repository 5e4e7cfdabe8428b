"""A training loop that takes its batches apart and puts them together again, row by row; the patch takes them at once.

laptime verdict examples/row_loop.py examples/row_loop.patch cpu -- --epochs 9999
"""

import argparse

import torch
from torch import nn

ROWS, WIDTH, BATCH = 9600, 16, 320


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    epochs = parser.parse_args().epochs
    torch.manual_seed(0)
    rows = torch.randn(ROWS, WIDTH)
    labels = rows[:, :4].argmax(-1)
    model = nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(epochs):
        for drawn in torch.randperm(ROWS).split(BATCH):
            optimizer.zero_grad()
            batch = torch.stack([rows[each] for each in drawn])
            loss = nn.functional.cross_entropy(model(batch), labels[drawn])
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
