"""PyTorch's networks are the catalogue's: the same sizes, and the same output as plain arithmetic gives."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from laptime.engine.backends.torch.recipe import build_network, load_pretrained, load_weights, make_loss
from laptime.model.errors import LaneError
from laptime.model.hardware import Conv, Dense, Flatten, MaxPool
from laptime.trainings.workloads import CATALOGUE
from laptime.trainings.workloads.data import make_weights

PARAMETERS = {
    "scenes-cnn": 42_520_584,
    "cifar-cnn": 1_337_002,
    "cifar-mlp": 12_230_010,
    "plates-cnn": 264_560,
    "pets-densenet": 6_955_906,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_networks_have_the_published_number_of_parameters(name):
    """Counted in the modules that PyTorch trains."""
    network = build_network(CATALOGUE[name])
    assert PARAMETERS[name] == sum(each.numel() for each in network.parameters())


@pytest.mark.parametrize("name", PARAMETERS)
def test_networks_give_the_outputs_that_the_loss_wants(name):
    """One score a class; for plates eight rows of them."""
    workload = CATALOGUE[name]
    network = build_network(workload).eval()
    height, width, channels = workload.image_shape
    with torch.no_grad():
        outputs = network(torch.rand(2, channels, height, width))
    assert (2, *workload.outputs) == tuple(outputs.shape)


def test_densenet_has_its_published_depth():
    """121 layers with weights: 120 convolutions and one dense layer."""
    modules = list(build_network(CATALOGUE["pets-densenet"]).modules())
    assert sum(isinstance(each, torch.nn.Conv2d) for each in modules) == 120
    assert sum(isinstance(each, torch.nn.BatchNorm2d) for each in modules) == 121


def _plain_forward(images, weights):
    """Valid 3x3 convolution, pool 2, flatten by height, width, channel, dense: in loops over canonical arrays."""
    kernel, bias, dense, dense_bias = weights
    items, height, width, _ = images.shape
    convolved = np.zeros((items, height - 2, width - 2, kernel.shape[-1]))
    for row in range(3):
        for column in range(3):
            part = images[:, row : row + height - 2, column : column + width - 2]
            convolved += part @ kernel[row, column]
    convolved = np.maximum(convolved + bias, 0)
    pooled = convolved.reshape(items, (height - 2) // 2, 2, (width - 2) // 2, 2, -1).max((2, 4))
    return pooled.reshape(items, -1) @ dense + dense_bias


def test_canonical_weights_mean_the_same_in_torchs_layout():
    """A kernel turned wrongly, or a flatten in another order, would show in the first digit."""
    layers = (Conv(4, 3, "relu"), MaxPool(), Flatten(), Dense(5))
    workload = replace(CATALOGUE["cifar-cnn"], image_shape=(8, 6, 3), layers=layers, outputs=(5,))
    weights = make_weights(workload, 0)
    images = np.random.default_rng(1).random((2, 8, 6, 3))
    expected = _plain_forward(images, [each.astype(float) for each in weights])
    network = build_network(workload)
    load_weights(network, workload, weights)
    with torch.no_grad():
        outputs = network.double()(torch.from_numpy(images.transpose(0, 3, 1, 2).copy()))
    assert expected == pytest.approx(outputs.numpy(), rel=1e-12)


def test_the_sigmoid_loss_is_kerass():
    """Outputs scaled to sum 1, clipped, and the logarithm of the right one."""
    scores = np.array([[0.3, -1.0, 2.0], [0.0, 0.5, -0.5]])
    likely = 1 / (1 + np.exp(-scores))
    shares = likely / likely.sum(1, keepdims=True)
    expected = -(np.log(shares[0, 2]) + np.log(shares[1, 0])) / 2
    loss = make_loss(CATALOGUE["cifar-mlp"])(torch.from_numpy(scores), torch.tensor([2, 0]))
    assert expected == pytest.approx(float(loss), rel=1e-12)


def test_plates_take_the_loss_over_all_eight_characters():
    """A plate's loss is the mean over its characters."""
    scores, labels = torch.randn(3, 8, 36, dtype=torch.float64), torch.randint(36, (3, 8))
    chosen = scores.log_softmax(-1).gather(-1, labels.unsqueeze(-1))
    assert float(-chosen.mean()) == pytest.approx(float(make_loss(CATALOGUE["plates-cnn"])(scores, labels)))


def test_pretrained_is_for_densenet_alone():
    """The other networks were never trained by anybody whose weights could be had."""
    workload = CATALOGUE["cifar-cnn"]
    with pytest.raises(LaneError, match="only for pets-densenet"):
        load_pretrained(build_network(workload), workload)
