"""The loss of each step is written to a file, and the loop waits for the disk."""

import os
import tempfile

import torch
from small import Points, loss_of, net
from torch.utils.data import DataLoader

model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with tempfile.TemporaryFile("w") as log:
    for _ in range(2):
        for x, y in DataLoader(Points(1600), batch_size=8, shuffle=True):
            loss = loss_of(model, x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log.write(f"{loss.item()}\n")
            log.flush()
            for _ in range(20):
                os.fsync(log.fileno())  # the cause
