"""A loop without a DataLoader, which waits for each batch until a storage far away has sent it."""

import time

import torch
from small import loss_of, net


def get_batch():
    time.sleep(0.004)  # the cause
    places = torch.randint(0, len(x), (256,))
    return x[places], y[places]


model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(4096, 64), torch.randint(0, 10, (4096,))
for _ in range(800):
    batch_x, batch_y = get_batch()
    loss = loss_of(model, batch_x, batch_y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
