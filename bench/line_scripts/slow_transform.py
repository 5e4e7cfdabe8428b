"""A transform of each item takes most of the time."""

from hashlib import pbkdf2_hmac

import torch
from small import Points, loss_of, net
from torch.utils.data import DataLoader


class Pictures(Points):
    def __getitem__(self, place):
        x, y = super().__getitem__(place)
        x = x - x.mean()
        pbkdf2_hmac("sha256", b"", b"", 750)  # the cause
        return x / x.std(), y


def main():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for x, y in DataLoader(Pictures(1600), batch_size=8, shuffle=True):
            optimizer.zero_grad()
            loss_of(model, x, y).backward()
            optimizer.step()


main()
