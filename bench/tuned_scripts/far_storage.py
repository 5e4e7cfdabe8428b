"""Each item is waited for 12 ms, as from storage that is far away: more workers than cores help."""

import time

import torch
from loop import train
from torch import nn
from torch.utils.data import DataLoader, Dataset


class FarAway(Dataset):
    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.012)
        return torch.full((64,), index / 512), index % 4


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    train(model, optimizer, DataLoader(FarAway(), 8, shuffle=True))
