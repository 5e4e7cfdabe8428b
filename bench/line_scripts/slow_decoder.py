"""An item is decoded by a loop of Python, in a function of its own."""

import torch
from small import Points, loss_of, net
from torch.utils.data import DataLoader

LETTERS = "".join(chr(65 + place % 26) for place in range(2000))


def decode(text):
    values = []
    for letter in text:
        values.append((ord(letter) - 65) / 26)  # the cause
    return torch.tensor(values[:64])


class Texts(Points):
    def __getitem__(self, place):
        return decode(LETTERS), self.y[place]


def main():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for x, y in DataLoader(Texts(1600), batch_size=8):
            optimizer.zero_grad()
            loss_of(model, x, y).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
