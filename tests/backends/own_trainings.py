"""Trainings of users, sound and unsound, for the tests of `file.py:function`."""

import torch
from torch import nn

import laptime

ROWS = [(torch.randn(64, 8), torch.zeros(64, dtype=torch.long)) for _ in range(6)]


def _model():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))


def sound():
    model = _model()
    optimizer = torch.optim.AdamW(
        [{"params": model[0].parameters(), "lr": 0.01}, {"params": model[3].parameters()}], lr=0.001
    )
    return laptime.Training(model, nn.functional.cross_entropy, optimizer, ROWS)


def by_factory():
    return laptime.Training(
        _model(), nn.functional.cross_entropy, lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9), ROWS
    )


def with_batch_norm():
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
    return laptime.Training(model, nn.functional.cross_entropy, torch.optim.AdamW(model.parameters()), ROWS)


def with_loader():
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.randn(256, 8), torch.zeros(256, dtype=torch.long)), batch_size=32
    )
    return laptime.Training(_model(), nn.functional.cross_entropy, torch.optim.Adam, loader)


class Chancy(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(8, 3)

    def forward(self, rows):
        return nn.functional.dropout(self.dense(rows), 0.5)


def chancy():
    model = Chancy()
    return laptime.Training(model, nn.functional.cross_entropy, torch.optim.Adam(model.parameters()), ROWS)


def raises():
    raise ValueError("no such data set")


def returns_three():
    return 3


def iterated_once():
    model = _model()
    return laptime.Training(model, nn.functional.cross_entropy, torch.optim.Adam(model.parameters()), iter(ROWS))


class Spent:
    """Gives its batches in the first lap only."""

    def __init__(self):
        self.batches = list(ROWS)

    def __iter__(self):
        while self.batches:
            yield self.batches.pop()


def soon_spent():
    model = _model()
    return laptime.Training(model, nn.functional.cross_entropy, torch.optim.Adam(model.parameters()), Spent())


def strangers_optimizer():
    return laptime.Training(_model(), nn.functional.cross_entropy, torch.optim.Adam(_model().parameters()), ROWS)


def with_tf32():
    torch.backends.cuda.matmul.allow_tf32 = True
    return laptime.Training(_model(), _noting_loss, torch.optim.SGD, ROWS)


SEEN = []


def _noting_loss(outputs, targets):
    SEEN.append(torch.backends.cuda.matmul.allow_tf32)
    return nn.functional.cross_entropy(outputs, targets)
