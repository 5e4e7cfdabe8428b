"""The catalogue's networks as PyTorch modules: layers, weights, loss, and a fast dropout for processors.

Dropout: on a processor, PyTorch draws one number per value on a single thread. That takes 5.8 ms for the 819,200 values
of cifar-cnn, a seventh of its step in bf16. `WordDropout` gives each value the same chance with 16-bit numbers drawn
four at a time: 1.4 ms (two EPYC cores, PyTorch 2.13.0, 2026-11-20). Rates are exact to 1/65,536.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from laptime.errors import LaneError
from laptime.model import network as layers
from laptime.model.workload import Workload
from laptime.workloads.shapes import WeightSpec, list_weights, output_shape

STEPS = 1 << 16
WORD_VALUES = 4
LEAST_WORD = -(1 << 63)


class SwapLastAxes(nn.Module):
    """Exchange the last two axes."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.transpose(-1, -2)


class DenseLayer(nn.Module):
    """One layer of a dense block: norm, relu, 1x1, norm, relu, 3x3, on all earlier outputs concatenated."""

    def __init__(self, channels: int, block: layers.DenseBlock) -> None:
        super().__init__()
        middle = block.bottleneck * block.growth
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, middle, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(middle)
        self.conv2 = nn.Conv2d(middle, block.growth, 3, padding=1, bias=False)

    def forward(self, joined: Tensor) -> Tensor:
        narrow = self.conv1(nn.functional.relu(self.norm1(joined), inplace=True))
        new: Tensor = self.conv2(nn.functional.relu(self.norm2(narrow), inplace=True))
        return new


class TorchDenseBlock(nn.Module):
    """DenseNet's block: the output of each layer is concatenated to all earlier ones."""

    def __init__(self, channels: int, block: layers.DenseBlock) -> None:
        super().__init__()
        widths = (channels + index * block.growth for index in range(block.layers))
        self.layers = nn.ModuleList(DenseLayer(width, block) for width in widths)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = [inputs]
        for layer in self.layers:
            outputs.append(layer(torch.cat(outputs, 1)))
        return torch.cat(outputs, 1)


def build_network(workload: Workload) -> nn.Sequential:
    """Build the network with PyTorch's own starting weights; `load_weights` loads the canonical ones."""
    modules: list[nn.Module] = []
    shape: tuple[int, ...] = workload.image_shape
    for layer in workload.layers:
        modules.extend(_modules_for(layer, shape))
        shape = output_shape(layer, shape)
    return nn.Sequential(*modules)


def load_weights(network: nn.Module, workload: Workload, weights: Sequence[npt.NDArray[np.float32]]) -> None:
    """Copy the canonical weights into the network, converted to PyTorch's layouts."""
    specs = list_weights(workload)
    parameters = list(network.parameters())
    if len(parameters) != len(specs):
        raise LaneError(f"{workload.name}: {len(parameters)} arrays in the network, {len(specs)} in the catalogue")
    with torch.no_grad():
        for parameter, spec, array in zip(parameters, specs, weights, strict=True):
            parameter.copy_(torch.from_numpy(to_torch_layout(array, spec)))


def to_torch_layout(array: npt.NDArray[np.float32], spec: WeightSpec) -> npt.NDArray[np.float32]:
    """Convert one canonical array to the layout of PyTorch's layer."""
    if spec.kind == "conv":
        return np.ascontiguousarray(array.transpose(3, 2, 0, 1))
    if spec.kind == "dense" and spec.flattened_from is not None:
        height, width, channels = spec.flattened_from
        places = array.reshape(height, width, channels, -1).transpose(3, 2, 0, 1)
        return np.ascontiguousarray(places.reshape(places.shape[0], -1))
    if spec.kind == "dense":
        return np.ascontiguousarray(array.T)
    return array


def load_pretrained(network: nn.Module, workload: Workload) -> str:
    """Load the weights of torchvision's pre-trained DenseNet121, except the head, and return their name."""
    if workload.name != "pets-densenet":
        raise LaneError(f"--pretrained: there are no pre-trained weights for {workload.name}, only for pets-densenet")
    try:
        from torchvision.models import DenseNet121_Weights, densenet121
    except ImportError:
        raise LaneError(
            "--pretrained: torchvision is not installed, and the pre-trained weights come with it",
            "pip install torchvision, or leave out --pretrained",
        ) from None
    donor = densenet121(weights=DenseNet121_Weights.IMAGENET1K_V1)
    ours, theirs = dict(network.named_parameters()), dict(donor.named_parameters())
    with torch.no_grad():
        for mine, given in list(zip(ours.values(), theirs.values(), strict=True))[:-2]:
            mine.copy_(given)
        for kept, given in zip(network.buffers(), donor.buffers(), strict=True):
            kept.copy_(given)
    return str(DenseNet121_Weights.IMAGENET1K_V1)


def make_loss(workload: Workload) -> Any:
    """Return the loss as a function of outputs and class numbers."""
    return _sigmoid_crossentropy if workload.loss == "sigmoid_crossentropy" else _softmax_crossentropy


def _softmax_crossentropy(outputs: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs.flatten(0, -2), labels.flatten())


def _sigmoid_crossentropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """Categorical cross-entropy of sigmoid outputs as Keras has it: scaled to sum 1, clipped at 1e-7."""
    likely = outputs.sigmoid()
    shares = likely / likely.sum(-1, keepdim=True)
    chosen = shares.gather(-1, labels.unsqueeze(-1)).clamp(1e-7, 1 - 1e-7)
    return -chosen.log().mean()


def _modules_for(layer: layers.Layer, shape: tuple[int, ...]) -> Iterator[nn.Module]:  # noqa: PLR0912  one case a layer
    match layer:
        case layers.Conv():
            yield nn.Conv2d(
                shape[-1], layer.filters, layer.kernel, layer.stride, padding=layer.padding, bias=layer.bias
            )
            yield from _activation(layer.activation)
        case layers.Dense():
            yield nn.Linear(shape[-1], layer.units)
            yield from _activation(layer.activation)
        case layers.MaxPool():
            yield nn.MaxPool2d(layer.size, layer.stride, layer.padding)
        case layers.AveragePool():
            yield nn.AvgPool2d(layer.size)
        case layers.GlobalAveragePool():
            yield nn.AdaptiveAvgPool2d(1)
            yield nn.Flatten()
        case layers.BatchNorm():
            yield nn.BatchNorm2d(shape[-1], layer.epsilon, layer.momentum)
        case layers.Relu():
            yield nn.ReLU(inplace=True)
        case layers.Flatten():
            yield nn.Flatten()
        case layers.Dropout():
            yield nn.Dropout(layer.rate)
        case layers.Reshape():
            yield nn.Unflatten(1, layer.shape)
        case layers.SwapAxes():
            yield SwapLastAxes()
        case layers.DenseBlock():
            yield TorchDenseBlock(shape[-1], layer)
        case layers.Transition():
            yield nn.BatchNorm2d(shape[-1])
            yield nn.ReLU(inplace=True)
            yield nn.Conv2d(shape[-1], shape[-1] // 2, 1, bias=False)
            yield nn.AvgPool2d(2)


def _activation(name: layers.Activation) -> Iterator[nn.Module]:
    if name == "relu":
        yield nn.ReLU()


class WordDropout(nn.Dropout):
    """Dropout whose mask comes from whole random words."""

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return inputs
        mask = self._mask(inputs)
        return inputs.mul_(mask) if self.inplace else inputs * mask

    def _mask(self, inputs: Tensor) -> Tensor:
        if self.p == 1.0:  # nothing is kept, and no factor could compensate
            return torch.zeros_like(inputs)
        count = inputs.numel()
        words = torch.empty(-(-count // WORD_VALUES), dtype=torch.int64).random_(LEAST_WORD, None)
        threshold = STEPS // 2 - round((1 - self.p) * STEPS)
        kept = words.view(torch.int16)[:count].view(inputs.shape) >= threshold
        return kept.to(inputs.dtype) * (1 / (1 - self.p))


def speed_up_dropout(network: nn.Module) -> bool:
    """Replace every plain dropout layer; return whether there was any."""
    found = False
    for module in network.modules():
        if type(module) is nn.Dropout:
            module.__class__ = WordDropout
            found = True
    return found
