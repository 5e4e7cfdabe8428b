"""A small transformer on characters, which draws its batches itself."""

import torch
from loop import epochs
from torch import nn


class Characters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(65, 96)
        layer = nn.TransformerEncoderLayer(96, 4, 384, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(96, 65)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.layers(self.embedding(tokens), mask=mask, is_causal=True))


if __name__ == "__main__":
    torch.manual_seed(0)
    model, text = Characters(), torch.arange(20_000) * 7 % 65
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for epoch in range(epochs()):
        for _ in range(20):
            begins = torch.randint(len(text) - 65, (8,)).tolist()
            tokens = torch.stack([text[begin : begin + 65] for begin in begins])
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
