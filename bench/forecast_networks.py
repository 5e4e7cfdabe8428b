"""Public networks as lists of operators, so that a forecast can be held against what others measured.

Each is built from its paper's or its usual implementation's table of layers. `check` compares the multiplications and
weights with those that are published.
"""

from __future__ import annotations

from collections.abc import Callable

from laptime.model.hardware import OperatorKind
from laptime.trainings.workloads.shapes import OperatorList, kind_of_convolution

MOST_OFF = 0.04  # of figures that are published with two digits
# Billions of multiplications forward, and millions of weights, as timm or torchvision list them.
PUBLISHED = {
    "alexnet": (0.714, 61.10),
    "vgg16": (15.47, 138.36),
    "vgg19": (19.63, 143.67),
    "resnet18": (1.82, 11.69),
    "resnet34": (3.67, 21.80),
    "resnet50": (4.11, 25.56),
    "resnet101": (7.83, 44.55),
    "resnet152": (11.56, 60.19),
    "inception_v3": (5.73, 23.83),
    "densenet121": (2.87, 7.98),
    "densenet161": (7.79, 28.68),
    "mobilenet_v2": (0.31, 3.50),
}


class Network:
    """A network under construction: the side and channels of what the last layer made."""

    def __init__(self, side: int, operators: OperatorList) -> None:
        self.high = self.wide = side
        self.channels = 3
        self._found = operators
        self.multiplications = self.weights = 0.0

    @property
    def values(self) -> int:
        return self.high * self.wide * self.channels

    @property
    def place(self) -> tuple[int, int, int]:
        return self.channels, self.high, self.wide

    def go_to(self, place: tuple[int, int, int]) -> None:
        """Take up the network at an earlier place: a branch begins there."""
        self.channels, self.high, self.wide = place

    def conv(
        self,
        filters: int,
        size: int,
        stride: int = 1,
        padding: int | None = None,
        *,
        across: int | None = None,
        groups: int = 1,
        norm: bool = True,
        relu: bool = True,
    ) -> None:
        """Add a convolution; without a padding, one that keeps the size."""
        across = across or size
        high = _after(self.high, size, stride, padding)
        wide = _after(self.wide, across, stride, padding)
        weights = size * across * self.channels // groups * filters
        kind: OperatorKind = "grouped" if groups > 1 else kind_of_convolution((size, across), stride, self.channels)
        self._product(kind, high * wide * weights, self.values, high * wide * filters, weights)
        self.high, self.wide, self.channels = high, wide, filters
        self._found.move("norm", self.values, 2 * filters) if norm else None
        self.weights += 2 * filters if norm else 0
        self._found.move("relu", self.values) if relu else None

    def dense(self, units: int, *, rows: int = 1, inputs: int | None = None, relu: bool = False) -> None:
        inputs = inputs or self.values
        weights = inputs * units + units
        self._product("product", rows * inputs * units, rows * inputs, rows * units, weights)
        self._found.move("relu", rows * units) if relu else None
        self.go_to((units, 1, 1))

    def pool(self, size: int, stride: int, padding: int = 0) -> None:
        before = self.values
        self.high, self.wide = (_after(each, size, stride, padding) for each in (self.high, self.wide))
        self._found.move("pool", before + self.values)

    def pool_all(self) -> None:
        self._found.move("pool", self.values + self.channels)
        self.high = self.wide = 1

    def move(self, how: str, values: float | None = None, weights: float = 0.0) -> None:
        self._found.move(how, self.values if values is None else values, weights)
        self.weights += weights

    def _product(
        self, kind: OperatorKind, multiplications: float, inputs: float, outputs: float, weights: float
    ) -> None:
        self._found.product(kind, multiplications, inputs, outputs, weights)
        self.multiplications += multiplications
        self.weights += weights


def _after(side: int, size: int, stride: int, padding: int | None) -> int:
    return -(-side // stride) if padding is None else (side + 2 * padding - size) // stride + 1


def _alexnet(net: Network, *, of_benchmarks: bool = False, grouped: bool = False) -> None:
    plain = {"norm": False}
    groups = 2 if grouped else 1
    first = (96, 256, 384, 384, 256) if grouped else (64, 192, 384, 384 if of_benchmarks else 256, 256)
    net.conv(first[0], 11, 4, 0 if of_benchmarks else 2, **plain)
    net.pool(3, 2)
    net.conv(first[1], 5, groups=groups, **plain)
    net.pool(3, 2)
    net.conv(first[2], 3, **plain)
    net.conv(first[3], 3, groups=groups, **plain)
    net.conv(first[4], 3, groups=groups, **plain)
    net.pool(3, 2)
    _classify(net, (4096, 4096, 1000))


def _classify(net: Network, units: tuple[int, ...]) -> None:
    for place, unit in enumerate(units):
        net.dense(unit, relu=place < len(units) - 1)


def _vgg(net: Network, layers: tuple[int, ...]) -> None:
    for repeats, filters in zip(layers, (64, 128, 256, 512, 512), strict=True):
        for _ in range(repeats):
            net.conv(filters, 3, norm=False)
        net.pool(2, 2)
    _classify(net, (4096, 4096, 1000))


def _resnet(net: Network, blocks: tuple[int, ...], *, bottleneck: bool, first_strides: bool = False) -> None:
    """Build a residual network; in its first version the stride is in the block's first convolution."""
    net.conv(64, 7, 2, 3)
    net.pool(3, 2, 1)
    for stage, (repeats, filters) in enumerate(zip(blocks, (64, 128, 256, 512), strict=True)):
        for block in range(repeats):
            stride = 2 if block == 0 and stage > 0 else 1
            before = net.place
            if bottleneck:
                net.conv(filters, 1, stride if first_strides else 1)
                net.conv(filters, 3, 1 if first_strides else stride)
                net.conv(4 * filters, 1, relu=False)
            else:
                net.conv(filters, 3, stride)
                net.conv(filters, 3, relu=False)
            after = net.place
            if before[0] != after[0] or stride > 1:
                net.go_to(before)
                net.conv(after[0], 1, stride, relu=False)
            net.move("add")
            net.move("relu")
    net.pool_all()
    net.dense(1000)


def _densenet(net: Network, blocks: tuple[int, ...], growth: int, first: int) -> None:
    net.conv(first, 7, 2, 3)
    net.pool(3, 2, 1)
    for stage, repeats in enumerate(blocks):
        for _ in range(repeats):
            channels = net.channels
            net.move("norm", weights=2 * channels)
            net.move("relu")
            net.conv(4 * growth, 1)
            net.conv(growth, 3, norm=False, relu=False)
            net.channels = channels + growth
            net.move("join")
        net.move("norm", weights=2 * net.channels)
        net.move("relu")
        if stage < len(blocks) - 1:
            net.conv(net.channels // 2, 1, norm=False, relu=False)
            net.pool(2, 2)
    net.pool_all()
    net.dense(1000)


def _mobilenet(net: Network) -> None:
    net.conv(32, 3, 2)
    table = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for wider, filters, repeats, stride in table:
        for block in range(repeats):
            before = net.place
            if wider > 1:
                net.conv(before[0] * wider, 1)
            net.conv(net.channels, 3, stride if block == 0 else 1, groups=net.channels)
            net.conv(filters, 1, relu=False)
            if net.place == before:
                net.move("add")
    net.conv(1280, 1)
    net.pool_all()
    net.dense(1000)


Part = tuple[int, int, int]  # filters, height, width; 0 filters are a pooling


def _branches(net: Network, *branches: tuple[Part, ...], stride: int = 1) -> None:
    """Add branches from one place, and join them. With a stride, it is that of the last part of each."""
    before, channels = net.place, 0
    for parts in branches:
        net.go_to(before)
        for place, (filters, high, wide) in enumerate(parts):
            last = stride > 1 and place == len(parts) - 1
            if not filters:
                net.pool(3, 2) if last else net.move("pool", 2 * net.values)
            else:
                net.conv(filters, high, 2 if last else 1, 0 if last else None, across=wide)
        channels += net.channels
        after = net.place
    net.go_to((channels, *after[1:]))
    net.move("join")


def _inception(net: Network) -> None:
    net.conv(32, 3, 2, 0)
    net.conv(32, 3, 1, 0)
    net.conv(64, 3)
    net.pool(3, 2)
    net.conv(80, 1)
    net.conv(192, 3, 1, 0)
    net.pool(3, 2)
    for pooled in (32, 64, 64):
        _branches(
            net,
            ((64, 1, 1),),
            ((48, 1, 1), (64, 5, 5)),
            ((64, 1, 1), (96, 3, 3), (96, 3, 3)),
            ((0, 3, 3), (pooled, 1, 1)),
        )
    _branches(net, ((384, 3, 3),), ((64, 1, 1), (96, 3, 3), (96, 3, 3)), ((0, 3, 3),), stride=2)
    for c in (128, 160, 160, 192):
        _branches(
            net,
            ((192, 1, 1),),
            ((c, 1, 1), (c, 1, 7), (192, 7, 1)),
            ((c, 1, 1), (c, 7, 1), (c, 1, 7), (c, 7, 1), (192, 1, 7)),
            ((0, 3, 3), (192, 1, 1)),
        )
    _branches(
        net, ((192, 1, 1), (320, 3, 3)), ((192, 1, 1), (192, 1, 7), (192, 7, 1), (192, 3, 3)), ((0, 3, 3),), stride=2
    )
    for _ in range(2):
        before = net.place
        net.conv(384, 1)
        net.conv(384, 1, across=3)
        net.go_to((384, *before[1:]))
        net.conv(384, 3, across=1)
        net.go_to(before)
        net.conv(448, 1)
        net.conv(384, 3)
        net.conv(384, 1, across=3)
        net.go_to((384, *before[1:]))
        net.conv(384, 3, across=1)
        net.go_to(before)
        net.conv(320, 1)
        net.go_to(before)
        net.move("pool", 2 * net.values)
        net.conv(192, 1)
        net.go_to((2048, *before[1:]))
        net.move("join")
    net.pool_all()
    net.dense(1000)


BUILDS: dict[str, tuple[int, Callable[[Network], None]]] = {
    "alexnet": (224, _alexnet),
    "alexnet_tf": (227, lambda net: _alexnet(net, of_benchmarks=True)),
    "alexnet_bvlc": (224, lambda net: _alexnet(net, grouped=True)),
    "vgg16": (224, lambda net: _vgg(net, (2, 2, 3, 3, 3))),
    "vgg19": (224, lambda net: _vgg(net, (2, 2, 4, 4, 4))),
    "resnet18": (224, lambda net: _resnet(net, (2, 2, 2, 2), bottleneck=False)),
    "resnet34": (224, lambda net: _resnet(net, (3, 4, 6, 3), bottleneck=False)),
    "resnet50": (224, lambda net: _resnet(net, (3, 4, 6, 3), bottleneck=True)),
    "resnet50_v1": (224, lambda net: _resnet(net, (3, 4, 6, 3), bottleneck=True, first_strides=True)),
    "resnet101": (224, lambda net: _resnet(net, (3, 4, 23, 3), bottleneck=True)),
    "resnet152": (224, lambda net: _resnet(net, (3, 8, 36, 3), bottleneck=True)),
    "resnet152_v1": (224, lambda net: _resnet(net, (3, 8, 36, 3), bottleneck=True, first_strides=True)),
    "densenet121": (224, lambda net: _densenet(net, (6, 12, 24, 16), 32, 64)),
    "densenet161": (224, lambda net: _densenet(net, (6, 12, 36, 24), 48, 96)),
    "mobilenet_v2": (224, _mobilenet),
    "inception_v3": (299, _inception),
}


def build(name: str, operators: OperatorList) -> Network | None:
    """Build a network into a list of operators; None where it is not here."""
    if name not in BUILDS:
        return None
    side, fill = BUILDS[name]
    net = Network(side, operators)
    fill(net)
    return net


def check() -> None:
    """Compare the multiplications and weights with the published ones."""
    for name, (billions, millions) in PUBLISHED.items():
        net = build(name, OperatorList(1, 4))
        assert net is not None
        off = net.multiplications / 1e9 / billions - 1, net.weights / 1e6 / millions - 1
        assert max(map(abs, off)) < MOST_OFF, f"{name}: {off}"


if __name__ == "__main__":
    check()
