"""Two transformers as trainings of your own: a small language model, and an encoder of BERT's size.

    laptime race bench/transformers_torch.py:characters torch/cuda torch/cuda/best torch/cuda/bf16
    laptime race bench/transformers_torch.py:encoder torch/cuda torch/cuda/tf32 torch/cuda/bf16

`characters` has the shape of nanoGPT's model of characters (6 layers of 384, 6 heads, 256 characters, 65 of them
known), with batches of 32. `encoder` has that of BERT base (12 layers of 768, 12 heads), with 32 sequences of 128
words and two answers a sequence. Both learn made-up words, have no dropout, and take AdamW.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import laptime

BATCH, BATCHES = 32, 16


class Block(nn.Module):
    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.asked, self.mixed = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, given: Tensor) -> Tensor:
        batch, words, width = given.shape
        asked = self.asked(self.before(given)).view(batch, words, 3, self.heads, width // self.heads)
        query, key, value = asked.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        given = given + self.mixed(seen.transpose(1, 2).reshape(batch, words, width))
        answer: Tensor = given + self.dense(self.between(given))
        return answer


class Transformer(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, words: int, *, known: int, answers: int) -> None:
        super().__init__()
        self.causal = answers == known
        self.embedding, self.place = nn.Embedding(known, width), nn.Embedding(words, width)
        self.blocks = nn.Sequential(*(Block(width, heads, causal=self.causal) for _ in range(layers)))
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, answers)

    def forward(self, given: Tensor) -> Tensor:
        places = torch.arange(given.shape[1], device=given.device)
        held = self.norm(self.blocks(self.embedding(given) + self.place(places)))
        answer: Tensor = self.last(held if self.causal else held.mean(1))
        return answer


def loss(answers: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(answers.flatten(0, -2), labels.flatten())


def characters() -> laptime.Training:
    torch.manual_seed(0)
    model = Transformer(6, 384, 6, 256, known=65, answers=65)
    text = torch.randint(0, 65, (BATCHES, BATCH, 1)).add(torch.arange(257) * 3).remainder(65)
    data = [(each[:, :-1].contiguous(), each[:, 1:].contiguous()) for each in text]
    return laptime.Training(model, loss, torch.optim.AdamW(model.parameters(), lr=3e-4), data)


def encoder() -> laptime.Training:
    torch.manual_seed(0)
    model = Transformer(12, 768, 12, 128, known=30_528, answers=2)
    words = torch.randint(0, 30_528, (BATCHES, BATCH, 128))
    data = [(word, word[:, 0] % 2) for word in words]
    return laptime.Training(model, loss, torch.optim.AdamW(model.parameters(), lr=3e-5), data)
