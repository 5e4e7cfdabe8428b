"""The weights are updated by hand, without an optimizer, and each item has a transform that takes its time."""

import hashlib

import torch
from small import Points, loss_of, net
from torch.utils.data import DataLoader


class Transformed(Points):
    def __getitem__(self, place):
        x, y = super().__getitem__(place)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 600)  # the cause
        return x, y


def main():
    model = net()
    for _ in range(2):
        for x, y in DataLoader(Transformed(1600), batch_size=8):
            loss_of(model, x, y).backward()
            with torch.no_grad():
                for weight in model.parameters():
                    weight.sub_(0.1 * weight.grad)
            model.zero_grad()


main()
