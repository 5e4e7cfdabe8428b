"""Nothing is wrong with this loop: its batches are there, and it computes."""

import torch
from small import loss_of, net


def main():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(256, 64), torch.randint(0, 10, (256,))
    last = []
    for step in range(2000):
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            last.append(loss.item())


main()
