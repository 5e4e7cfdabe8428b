"""A logger waits in each step until somebody else has taken its message."""

import time

import torch
from small import Points, loss_of, net
from torch.utils.data import DataLoader


class Tracker:
    def __init__(self):
        self.sent = 0

    def log(self, step, loss):
        message = f"{step} {loss}"
        time.sleep(0.005)  # the cause
        self.sent += len(message)


model, tracker = net(), Tracker()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    for step, (x, y) in enumerate(DataLoader(Points(1600), batch_size=8, shuffle=True)):
        loss = loss_of(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tracker.log(step, loss.item())
