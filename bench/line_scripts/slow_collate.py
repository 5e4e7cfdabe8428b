"""What puts items together to a batch takes most of the time."""

from hashlib import pbkdf2_hmac

import torch
from small import Points, loss_of, net
from torch.utils.data import DataLoader, default_collate


def padded(items):
    batch = default_collate(items)
    pbkdf2_hmac("sha256", b"", b"", 7500)  # the cause
    return batch


def train(model, optimizer, loader):
    for x, y in loader:
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        optimizer.step()


model = net()
train(
    model,
    torch.optim.Adam(model.parameters()),
    DataLoader(Points(3200), batch_size=8, shuffle=True, collate_fn=padded),
)
