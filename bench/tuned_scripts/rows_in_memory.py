"""Rows of a table, for which the script asks two workers, which cost more than they load."""

import torch
from loop import train
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    torch.manual_seed(0)
    rows = TensorDataset(torch.linspace(0, 1, 8192 * 32).reshape(8192, 32), torch.arange(8192) % 4)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    train(model, optimizer, DataLoader(rows, 32, shuffle=True, num_workers=2))
