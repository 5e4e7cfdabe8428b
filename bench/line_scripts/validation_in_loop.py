"""The loop validates in every fifth iteration."""

import torch
from small import Points, loss_of, net
from torch.utils.data import DataLoader

held_x, held_y = torch.randn(20_000, 64), torch.randint(0, 10, (20_000,))


def main():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for step, (x, y) in enumerate(DataLoader(Points(1600), batch_size=8, shuffle=True)):
            optimizer.zero_grad()
            loss_of(model, x, y).backward()
            optimizer.step()
            if step % 5 == 0:
                with torch.no_grad():  # the cause
                    loss_of(model, held_x, held_y)


main()
