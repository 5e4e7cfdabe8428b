"""Your own trainings for several processes: from a DataLoader, with batch norm, and with a rank that falls."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import laptime

FALLS_AT = 12


def rank():
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0


class Net(nn.Module):
    """A small network, of which rank 1 may fall in a step."""

    def __init__(self, *, falls=False):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 4))
        self.falls, self.steps = falls, 0

    def forward(self, inputs):
        self.steps += 1
        if self.falls and rank() == 1 and self.steps > FALLS_AT:
            raise ValueError("planted in rank 1")
        return self.body(inputs)


def made(net, data):
    return laptime.Training(
        model=net, loss=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(net.parameters(), lr=1e-3), data=data
    )


def batches():
    return [(torch.randn(32, 64), torch.randint(0, 4, (32,))) for _ in range(8)]


def from_loader():
    torch.manual_seed(0)
    items = TensorDataset(torch.randn(256, 64), torch.randint(0, 4, (256,)))
    return made(Net(), DataLoader(items, batch_size=32, shuffle=True))


def with_norms():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))
    return made(net, batches())


def raises():
    return made(Net(falls=True), batches())
