"""The weights are written after each step."""

import io

import torch
from small import Points, loss_of, net
from torch.utils.data import DataLoader


def keep(model):
    torch.save([model.state_dict()] * 5, io.BytesIO())  # the cause


def main():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for x, y in DataLoader(Points(1600), batch_size=8, shuffle=True):
            optimizer.zero_grad()
            loss_of(model, x, y).backward()
            optimizer.step()
            keep(model)


main()
