"""A perceptron whose batches need large arrays, which the system hands out again in each step."""

import torch
from loop import train
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    torch.manual_seed(0)
    rows = TensorDataset(torch.linspace(0, 1, 8192 * 64).reshape(8192, 64), torch.arange(8192) % 4)
    model = nn.Sequential(nn.Linear(64, 1024), nn.GELU(), nn.LayerNorm(1024), nn.Linear(1024, 4))
    train(model, torch.optim.SGD(model.parameters(), lr=1e-5), DataLoader(rows, 2048))
