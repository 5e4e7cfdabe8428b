"""A loop without a DataLoader, whose logger waits in each step until somebody has taken its message."""

import time

import torch
from small import loss_of, net


class Tracker:
    def __init__(self):
        self.sent = 0

    def log(self, step, loss):
        message = f"{step} {loss}"
        time.sleep(0.005)  # the cause
        self.sent += len(message)


tracker = Tracker()
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(4096, 64), torch.randint(0, 10, (4096,))
for step in range(800):
    batch_x, batch_y = x[:256], y[:256]
    loss = loss_of(model, batch_x, batch_y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    tracker.log(step, loss.item())
