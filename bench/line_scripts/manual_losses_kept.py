"""The weights are updated by hand, without an optimizer, and each loss is kept together with its graph."""

import torch
from small import loss_of, net


def main():
    model = net()
    x, y = torch.randn(64, 64), torch.randint(0, 10, (64,))
    losses = []
    for _ in range(600):
        loss = loss_of(model, x, y)
        losses.append(loss)  # the cause
        loss.backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight.sub_(0.1 * weight.grad)
        model.zero_grad()


main()
