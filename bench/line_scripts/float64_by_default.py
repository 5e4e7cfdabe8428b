"""All new weights are float64."""

import torch

torch.set_default_dtype(torch.float64)  # the cause

from small import loss_of, net

model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(512, 64), torch.randint(0, 10, (512,))
for _ in range(400):
    optimizer.zero_grad()
    loss_of(model, x, y).backward()
    optimizer.step()
