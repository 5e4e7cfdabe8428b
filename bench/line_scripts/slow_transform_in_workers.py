"""A transform takes most of the time, in two worker processes."""

from hashlib import pbkdf2_hmac

import torch
from small import Points, loss_of, net
from torch.utils.data import DataLoader


class Pictures(Points):
    def __getitem__(self, place):
        x, y = super().__getitem__(place)
        return self.turned(x), y

    def turned(self, x):
        x = x.flip(0)
        pbkdf2_hmac("sha256", b"", b"", 3000)  # the cause
        return x


model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    for x, y in DataLoader(Pictures(1600), batch_size=16, num_workers=2):
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        optimizer.step()
