"""Nothing is wrong with this loop, which updates its weights by hand: its batches are there, and it computes."""

import torch
from small import loss_of, net


def main():
    model = net()
    x, y = torch.randn(256, 64), torch.randint(0, 10, (256,))
    last = []
    for step in range(2000):
        loss = loss_of(model, x, y)
        loss.backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight.sub_(0.1 * weight.grad)
        model.zero_grad()
        if step % 50 == 0:
            last.append(loss.item())


main()
