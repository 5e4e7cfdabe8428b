"""Pictures that are read slowly, trained by Lightning, without workers."""

import time
import warnings

import lightning
import torch
from loop import epochs
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.003)
        return torch.full((3, 24, 24), index / 512), index % 4


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 22 * 22, 4))

    def training_step(self, batch, _place):
        self.loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        return self.loss

    def on_train_epoch_end(self) -> None:
        print(f"epoch {self.current_epoch + 1}: loss {self.loss.item():.4f}")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-5)

    def train_dataloader(self):
        return DataLoader(Slow(), batch_size=8, shuffle=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    trainer = lightning.Trainer(max_epochs=epochs(), accelerator="cpu", logger=False, barebones=True)
    trainer.fit(Module())
