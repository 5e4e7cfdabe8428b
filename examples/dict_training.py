"""Dict batches, and a model that computes its loss, for laptime: `laptime race examples/dict_training.py:training`.

As with models of Hugging Face: the model is called as model(**batch), and what it returns has a `.loss`. So there is no
loss to give.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import laptime

WORDS, WIDTH, LENGTH = 1_000, 64, 32


@dataclass
class Output:
    """What the model returns: its loss, and a score for each word."""

    loss: Tensor
    logits: Tensor


class NextWord(nn.Module):
    """Predict the next word from the words so far."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.memory = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.score = nn.Linear(WIDTH, WORDS)

    def forward(self, input_ids: Tensor, labels: Tensor) -> Output:
        hidden, _ = self.memory(self.embedding(input_ids))
        logits = self.score(hidden)
        return Output(nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits)


def training() -> laptime.Training:
    """Return a small language model on made text: 1,024 rows of 32 words, 32 rows a batch."""
    text = torch.randint(0, WORDS, (1_024, LENGTH + 1))
    rows = [{"input_ids": row[:-1], "labels": row[1:]} for row in text]
    model = NextWord()
    return laptime.Training(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
        data=DataLoader(rows, batch_size=32, shuffle=True),
    )
