"""Rows that are read slowly, trained by Hugging Face's Trainer, without workers."""

import tempfile
import time

import torch
from loop import epochs
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments


class Slow(Dataset):
    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> dict:
        time.sleep(0.002)
        return {"x": torch.full((32,), index / 512), "labels": index % 4}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, x, labels):
        scores = self.layers(x)
        return {"loss": nn.functional.cross_entropy(scores, labels), "logits": scores}


if __name__ == "__main__":
    torch.manual_seed(0)
    args = TrainingArguments(
        tempfile.mkdtemp(),
        num_train_epochs=epochs(),
        per_device_train_batch_size=8,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="epoch",
        disable_tqdm=True,
    )
    trained = Trainer(Net(), args, train_dataset=Slow()).train()
    print(f"loss {trained.training_loss:.4f}")
