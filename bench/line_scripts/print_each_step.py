"""The loop prints a whole matrix in each step."""

import sys

import torch
from small import Points, loss_of, net
from torch.utils.data import DataLoader


def main():
    torch.set_printoptions(profile="full")
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for x, y in DataLoader(Points(1600), batch_size=8, shuffle=True):
            loss = loss_of(model, x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(loss, model[2].weight, file=sys.stderr)  # the cause


main()
