"""A convolution of many channels, in PyTorch's usual layout, over pictures that are in memory."""

import torch
from loop import train
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    torch.manual_seed(0)
    pictures = torch.linspace(0, 1, 1024 * 256).reshape(1024, 1, 16, 16)
    layers = nn.Conv2d(1, 64, 5), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten()
    model = nn.Sequential(*layers, nn.Linear(64 * 10 * 10, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    train(model, optimizer, DataLoader(TensorDataset(pictures, torch.arange(1024) % 4), 32, shuffle=True))
