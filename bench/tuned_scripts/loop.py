"""What the scripts of this folder share: laps over a loader, and the loss of each."""

from __future__ import annotations

import argparse

import torch
from torch import nn


def epochs() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    return parser.parse_args().epochs


def train(model: nn.Module, optimizer: torch.optim.Optimizer, loader: torch.utils.data.DataLoader) -> None:
    for epoch in range(epochs()):
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
