"""Items that Python makes, prepared by Accelerate, without workers."""

import torch
from accelerate import Accelerator
from loop import epochs
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Counted(Dataset):
    def __len__(self) -> int:
        return 2048

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        words = [(index * 31 + place * 7) % 64 for place in range(3000)]
        counts = [words.count(word) for word in range(8)]
        return torch.tensor(counts, dtype=torch.float32) / 100, index % 4


if __name__ == "__main__":
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    loader = DataLoader(Counted(), batch_size=16, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(epochs()):
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
