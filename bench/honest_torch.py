"""PyTorch trainings that are none of the built-in five, and what is planted in one: read by `bench/honest.py`.

A row of TRAININGS is a network, an optimizer and a loss; a row of PLANTED is a training with one thing changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import laptime

Words = dict[str, Any]
Row = tuple[str, Words, tuple[str, Words], Words]
RNG = np.random.default_rng(7)
STEPS, BATCH = 5, 16
ITEMS = STEPS * BATCH
ROWS = torch.from_numpy(RNG.standard_normal((ITEMS, 100)).astype(np.float32))
SHORT = torch.from_numpy(RNG.standard_normal((ITEMS, 7, 6)).astype(np.float32))
PICTURES = torch.from_numpy(RNG.random((ITEMS, 3, 12, 12)).astype(np.float32))
TOKENS = torch.from_numpy(RNG.integers(0, 40, (ITEMS, 9)))
CLASSES = torch.from_numpy(RNG.integers(0, 5, ITEMS))
NUMBERS = torch.from_numpy(RNG.standard_normal((ITEMS, 1)).astype(np.float32))


class Lambda(nn.Module):
    def __init__(self, change: Callable[[Any], Any]) -> None:
        super().__init__()
        self.change = change

    def forward(self, given: Any) -> Any:
        return self.change(given)


def mlp(activation: str = "ReLU", width: int = 256, *, frozen: bool = False, gain: float = 1.0) -> Any:
    first = nn.Linear(100, width)
    with torch.no_grad():
        first.weight *= gain
    first.requires_grad_(not frozen)
    return nn.Sequential(first, getattr(nn, activation)(), nn.Linear(width, 5)), ROWS, CLASSES


def normed(kind: str = "BatchNorm1d", epsilon: float = 1e-5) -> Any:
    def norm() -> Any:
        return nn.GroupNorm(8, 64, epsilon) if kind == "GroupNorm" else getattr(nn, kind)(64, eps=epsilon)

    inner = [nn.Linear(100, 64), norm(), nn.ReLU(), nn.Linear(64, 64), norm(), nn.ReLU(), nn.Dropout(0.3)]
    return nn.Sequential(*inner, nn.Linear(64, 5)), ROWS, CLASSES


def recurrent(kind: str = "LSTM", layers: int = 1, *, both: bool = False) -> Any:
    read = getattr(nn, kind)(6, 24, layers, batch_first=True, bidirectional=both)
    last = Lambda(lambda given: given[0][:, -1])
    return nn.Sequential(read, last, nn.Linear(48 if both else 24, 5)), SHORT, CLASSES


def words(kind: str = "mean") -> Any:
    read = [Lambda(lambda given: given.mean(1))]
    if kind != "mean":
        read = [getattr(nn, kind)(12, 12, batch_first=True), Lambda(lambda given: given[0][:, -1])]
    return nn.Sequential(nn.Embedding(40, 12), *read, nn.Linear(12, 5)), TOKENS, CLASSES


def attention(*, norm_first: bool = False, epsilon: float = 1e-5) -> Any:
    inner = nn.TransformerEncoderLayer(16, 2, 32, 0.1, "gelu", epsilon, batch_first=True, norm_first=norm_first)
    mean = Lambda(lambda given: given.mean(1))
    return nn.Sequential(nn.Embedding(40, 16), inner, mean, nn.Linear(16, 5)), TOKENS, CLASSES


class Tied(nn.Module):
    """An embedding whose weights read the answer out, too."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.table, self.inner, self.last = nn.Embedding(40, 12), nn.Linear(12, 12), nn.Linear(12, 40)
        self.last.weight = self.table.weight
        self.temperature = temperature

    def forward(self, tokens: Tensor) -> Any:
        return self.last(torch.tanh(self.inner(self.table(tokens).mean(1)))) / self.temperature


def tied(temperature: float = 1.0) -> Any:
    return Tied(temperature), TOKENS, TOKENS[:, 0]


def conv(padding: int = 0, pool: str = "MaxPool2d", groups: int = 1) -> Any:
    inner = [nn.Conv2d(3, 12, 3, padding=padding), nn.ReLU(), getattr(nn, pool)(2)]
    inner += [nn.Conv2d(12, 12, 3, groups=groups), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
    return nn.Sequential(*inner, nn.Linear(48, 5)), PICTURES, CLASSES


class Residual(nn.Module):
    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8, epsilon) for _ in range(2))
        self.convs = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(2))
        self.last = nn.Linear(8, 5)

    def forward(self, pictures: Tensor) -> Any:
        seen = self.first(pictures)
        for norm, inner in zip(self.norms, self.convs, strict=True):
            seen = seen + inner(torch.relu(norm(seen)))
        return self.last(seen.mean((2, 3)))


def residual(epsilon: float = 1e-5) -> Any:
    return Residual(epsilon), PICTURES, CLASSES


def regression(activation: str = "SiLU") -> Any:
    return nn.Sequential(nn.Linear(100, 32), getattr(nn, activation)(), nn.Linear(32, 1)), ROWS, NUMBERS


def coder(activation: str = "ELU") -> Any:
    return nn.Sequential(nn.Linear(100, 24), getattr(nn, activation)(), nn.Linear(24, 100)), ROWS, ROWS


class Lion(torch.optim.Optimizer):
    """Of a user's own: steps of one size, by the sign of what is remembered."""

    def __init__(
        self, params: Any, lr: float = 1e-4, beta1: float = 0.9, beta2: float = 0.99, decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "beta1": beta1, "beta2": beta2, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:  # noqa: ARG002
        for group in self.param_groups:
            for each in group["params"]:
                if each.grad is None:
                    continue
                held = self.state[each].setdefault("held", torch.zeros_like(each))
                each.mul_(1 - group["lr"] * group["decay"])
                each.add_(torch.sign(torch.lerp(each.grad, held, group["beta1"])), alpha=-group["lr"])
                held.lerp_(each.grad, 1 - group["beta2"])


class ClippedSgd(torch.optim.SGD):
    """Of a user's own: it clips all gradients together before it steps."""

    def __init__(self, params: Any, most: float = 0.5, **given: Any) -> None:
        super().__init__(params, **given)
        for group in self.param_groups:
            group.setdefault("most", most)
        self.defaults["most"] = most

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            nn.utils.clip_grad_norm_(group["params"], group["most"])
        return super().step(closure)


NETWORKS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (mlp, normed, recurrent, words, attention, tied, conv, residual, regression, coder)
}
OWN = {"Lion": Lion, "ClippedSgd": ClippedSgd}
CROSS = {"name": "CrossEntropyLoss"}
MSE = {"name": "MSELoss"}
GRU, LN = {"kind": "GRU"}, {"kind": "LayerNorm"}
NESTEROV = {"lr": 0.01, "momentum": 0.9, "nesterov": True}

# network, its words, optimizer and its words, loss
TRAININGS: dict[str, Row] = {
    "mlp adam": ("mlp", {}, ("Adam", {}), CROSS),
    "mlp adam, l2": ("mlp", {}, ("Adam", {"weight_decay": 1e-3}), CROSS),
    "mlp adam, rate 1e-5": ("mlp", {}, ("Adam", {"lr": 1e-5}), CROSS),
    "mlp amsgrad": ("mlp", {}, ("Adam", {"amsgrad": True}), CROSS),
    "mlp adamw": ("mlp", {}, ("AdamW", {}), CROSS),
    "mlp adamw, decay 1e-4": ("mlp", {}, ("AdamW", {"weight_decay": 1e-4}), CROSS),
    "mlp adamw, rate 2e-5": ("mlp", {}, ("AdamW", {"lr": 2e-5}), CROSS),
    "mlp sgd": ("mlp", {}, ("SGD", {"lr": 0.01}), CROSS),
    "mlp sgd, l2": ("mlp", {}, ("SGD", {"lr": 0.01, "weight_decay": 1e-4}), CROSS),
    "mlp sgd, rate 1e-5": ("mlp", {}, ("SGD", {"lr": 1e-5}), CROSS),
    "mlp momentum": ("mlp", {}, ("SGD", {"lr": 0.01, "momentum": 0.9}), CROSS),
    "mlp nesterov": ("mlp", {}, ("SGD", NESTEROV), CROSS),
    "mlp sgd, clipped": ("mlp", {}, ("ClippedSgd", {"lr": 0.1}), CROSS),
    "mlp rmsprop": ("mlp", {}, ("RMSprop", {}), CROSS),
    "mlp adagrad": ("mlp", {}, ("Adagrad", {}), CROSS),
    "mlp adadelta": ("mlp", {}, ("Adadelta", {}), CROSS),
    "mlp adamax": ("mlp", {}, ("Adamax", {}), CROSS),
    "mlp nadam": ("mlp", {}, ("NAdam", {}), CROSS),
    "mlp radam": ("mlp", {}, ("RAdam", {}), CROSS),
    "mlp adafactor": ("mlp", {}, ("Adafactor", {}), CROSS),
    "mlp lion": ("mlp", {}, ("Lion", {"decay": 0.1}), CROSS),
    "batch norm adam": ("normed", {}, ("Adam", {}), CROSS),
    "batch norm adamw": ("normed", {}, ("AdamW", {}), CROSS),
    "batch norm rmsprop": ("normed", {}, ("RMSprop", {}), CROSS),
    "batch norm nesterov": ("normed", {}, ("SGD", NESTEROV), CROSS),
    "batch norm lion": ("normed", {}, ("Lion", {}), CROSS),
    "layer norm adamw": ("normed", LN, ("AdamW", {}), CROSS),
    "layer norm lion": ("normed", LN, ("Lion", {}), CROSS),
    "group norm nadam": ("normed", {"kind": "GroupNorm"}, ("NAdam", {}), CROSS),
    "lstm adam": ("recurrent", {}, ("Adam", {}), CROSS),
    "lstm rmsprop": ("recurrent", {}, ("RMSprop", {}), CROSS),
    "lstm adamw": ("recurrent", {}, ("AdamW", {}), CROSS),
    "gru adam": ("recurrent", GRU, ("Adam", {}), CROSS),
    "gru clipped": ("recurrent", GRU, ("ClippedSgd", {"lr": 0.1, "most": 0.1}), CROSS),
    "two lstms, both ways": ("recurrent", {"layers": 2, "both": True}, ("Adam", {}), CROSS),
    "embedding adam": ("words", {}, ("Adam", {}), CROSS),
    "embedding rmsprop": ("words", {}, ("RMSprop", {}), CROSS),
    "embedding lstm adamw": ("words", {"kind": "LSTM"}, ("AdamW", {}), CROSS),
    "attention adam": ("attention", {}, ("Adam", {}), CROSS),
    "attention adamw": ("attention", {"norm_first": True}, ("AdamW", {}), CROSS),
    "attention rmsprop": ("attention", {}, ("RMSprop", {}), CROSS),
    "attention lion": ("attention", {}, ("Lion", {}), CROSS),
    "tied adam": ("tied", {}, ("Adam", {}), CROSS),
    "tied adamw": ("tied", {}, ("AdamW", {}), CROSS),
    "conv adam": ("conv", {}, ("Adam", {}), CROSS),
    "conv nesterov": ("conv", {}, ("SGD", NESTEROV), CROSS),
    "conv in groups adamw": ("conv", {"groups": 3}, ("AdamW", {}), CROSS),
    "residual adam": ("residual", {}, ("Adam", {}), CROSS),
    "residual adamw": ("residual", {}, ("AdamW", {}), CROSS),
    "residual rmsprop": ("residual", {}, ("RMSprop", {}), CROSS),
    "regression adam": ("regression", {}, ("Adam", {}), MSE),
    "coder adamw": ("coder", {}, ("AdamW", {}), {"name": "L1Loss"}),
}  # fmt: skip

# a training, and what one lane has otherwise: in its network's words, its optimizer's, its loss's
PLANTED: dict[str, tuple[str, Words, Words, Words]] = {
    f"{name}: {what}": (name, *changes)
    for name, what, *changes in (
        ("mlp adam", "rate +1 %", {}, {"lr": 1.01e-3}, {}),
        ("mlp adam", "epsilon 1e-7", {}, {"eps": 1e-7}, {}),
        ("mlp adam", "beta1 0.89", {}, {"betas": (0.89, 0.999)}, {}),
        ("mlp adam", "beta2 0.99", {}, {"betas": (0.9, 0.99)}, {}),
        ("mlp adam", "l2 1e-4", {}, {"weight_decay": 1e-4}, {}),
        ("mlp adam", "first layer frozen", {"frozen": True}, {}, {}),
        ("mlp adam", "leaky", {"activation": "LeakyReLU"}, {}, {}),
        ("mlp adam", "start 1 % larger", {"gain": 1.01}, {}, {}),
        ("mlp adam", "labels smoothed", {}, {}, {"label_smoothing": 0.01}),
        ("mlp adam", "loss summed", {}, {}, {"reduction": "sum"}),
        ("mlp adam, l2", "no l2", {}, {"weight_decay": 0.0}, {}),
        ("mlp adam, l2", "l2 doubled", {}, {"weight_decay": 2e-3}, {}),
        ("mlp adam, l2", "decoupled", {}, {"decoupled_weight_decay": True}, {}),
        ("mlp adam, rate 1e-5", "rate +1 %", {}, {"lr": 1.01e-5}, {}),
        ("mlp adamw", "no decay", {}, {"weight_decay": 0.0}, {}),
        ("mlp adamw", "decay doubled", {}, {"weight_decay": 0.02}, {}),
        ("mlp adamw, decay 1e-4", "no decay", {}, {"weight_decay": 0.0}, {}),
        ("mlp adamw, decay 1e-4", "decay doubled", {}, {"weight_decay": 2e-4}, {}),
        ("mlp adamw, rate 2e-5", "decay doubled", {}, {"weight_decay": 0.02}, {}),
        ("mlp sgd, l2", "no l2", {}, {"weight_decay": 0.0}, {}),
        ("mlp sgd, l2", "l2 doubled", {}, {"weight_decay": 2e-4}, {}),
        ("mlp sgd, rate 1e-5", "rate +1 %", {}, {"lr": 1.01e-5}, {}),
        ("mlp momentum", "momentum 0.89", {}, {"momentum": 0.89}, {}),
        ("mlp momentum", "dampening 0.1", {}, {"dampening": 0.1}, {}),
        ("mlp nesterov", "not nesterov", {}, {"nesterov": False}, {}),
        ("mlp sgd, clipped", "clipped at 0.6", {}, {"most": 0.6}, {}),
        ("mlp sgd, clipped", "not clipped", {}, {"most": 1e9}, {}),
        ("mlp rmsprop", "alpha 0.98", {}, {"alpha": 0.98}, {}),
        ("mlp rmsprop", "centered", {}, {"centered": True}, {}),
        ("mlp adagrad", "sums begin at 0.1", {}, {"initial_accumulator_value": 0.1}, {}),
        ("mlp adagrad", "rate decays", {}, {"lr_decay": 0.01}, {}),
        ("mlp adadelta", "rho 0.95", {}, {"rho": 0.95}, {}),
        ("mlp nadam", "momentum decays by 8e-3", {}, {"momentum_decay": 8e-3}, {}),
        ("mlp adafactor", "rate +1 %", {}, {"lr": 1.01e-2}, {}),
        ("mlp lion", "no decay", {}, {"decay": 0.0}, {}),
        ("mlp lion", "beta1 0.8", {}, {"beta1": 0.8}, {}),
        ("batch norm adam", "norm's epsilon 1e-3", {"epsilon": 1e-3}, {}, {}),
        ("batch norm rmsprop", "alpha 0.98", {}, {"alpha": 0.98}, {}),
        ("lstm adam", "beta2 0.99", {}, {"betas": (0.9, 0.99)}, {}),
        ("lstm rmsprop", "epsilon 1e-7", {}, {"eps": 1e-7}, {}),
        ("lstm adamw", "no decay", {}, {"weight_decay": 0.0}, {}),
        ("gru clipped", "clipped at 0.11", {}, {"most": 0.11}, {}),
        ("embedding rmsprop", "alpha 0.98", {}, {"alpha": 0.98}, {}),
        ("attention adamw", "norm last", {"norm_first": False}, {}, {}),
        ("attention adamw", "decay doubled", {}, {"weight_decay": 0.02}, {}),
        ("attention lion", "rate +1 %", {}, {"lr": 1.01e-4}, {}),
        ("tied adam", "temperature 1.01", {"temperature": 1.01}, {}, {}),
        ("conv adam", "padding", {"padding": 1}, {}, {}),
        ("conv nesterov", "mean pooling", {"pool": "AvgPool2d"}, {}, {}),
        ("residual adamw", "no decay", {}, {"weight_decay": 0.0}, {}),
        ("coder adamw", "mean squared error", {}, {}, {"name": "MSELoss"}),
    )
}  # fmt: skip


def build(row: Row) -> laptime.Training:
    """Return a training, as a user's function would."""
    network, shape, (kind, chosen), loss = row
    model, inputs, targets = NETWORKS[network](**shape)
    made = OWN.get(kind) or getattr(torch.optim, kind)
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    criterion = getattr(nn, loss["name"])(**{key: value for key, value in loss.items() if key != "name"})
    batches = [(inputs[start : start + BATCH], targets[start : start + BATCH]) for start in range(0, ITEMS, BATCH)]
    return laptime.Training(model=model, loss=criterion, optimizer=made(wanted, **chosen), data=batches)


def changed(name: str) -> Row:
    """Return a training with what is planted under this name."""
    base, shape, optimizer, loss = PLANTED[name]
    network, shaped, (kind, chosen), lost = TRAININGS[base]
    return network, {**shaped, **shape}, (kind, {**chosen, **optimizer}), {**lost, **loss}


def __getattr__(name: str) -> Callable[[], Any]:
    if name in TRAININGS:
        return lambda: build(TRAININGS[name])
    if name in PLANTED:
        return lambda: build(changed(name))
    raise AttributeError(name)
