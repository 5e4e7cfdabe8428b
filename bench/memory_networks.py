"""Networks whose peak memory on a card was published, as their authors' code builds them, each with its batch and loss.

Only what decides how much memory a step takes is as it is there. They are built on tensors without values.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from transformers.initialization import no_init_weights

from transformers_torch import Transformer

Step = Callable[[nn.Module], Tensor]  # makes the loss of a batch


@dataclass(frozen=True)
class Network:
    """How a network is made, and how its loss is computed for a batch of a size."""

    make: Callable[[], nn.Module]
    loss_of: Callable[[nn.Module, int, int], Tensor]


class VisionBlock(nn.Module):
    """A layer of torchvision's vision transformers."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, given: Tensor) -> Tensor:
        normed = self.before(given)
        given = self.attention(normed, normed, normed, need_weights=False)[0] + given
        return cast("Tensor", given + self.dense(self.between(given)))


class VisionTransformer(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, answers: int, *, patch: int = 16, side: int = 224) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(VisionBlock(width, heads) for _ in range(layers)))
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, answers)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patches(images).flatten(2).permute(0, 2, 1)
        whole = torch.cat((self.first.expand(len(images), -1, -1), patches), 1) + self.places
        return cast("Tensor", self.last(self.norm(self.blocks(whole))[:, 0]))


class LowRank(nn.Module):
    """A frozen product for queries, keys and values, with learned products of rank 8 for the first and the last."""

    def __init__(self, width: int, *, bias: bool, rank: int = 8) -> None:
        super().__init__()
        self.whole = nn.Linear(width, 3 * width, bias=bias)
        self.down = nn.Parameter(torch.zeros(2 * rank, width))
        self.up = nn.Parameter(torch.zeros(2 * width, rank, 1))
        self.width = width

    def forward(self, given: Tensor) -> Tensor:
        low = F.linear(F.dropout(given, 0.05, self.training), self.down)
        high = F.conv1d(low.transpose(1, 2), self.up, groups=2).transpose(1, 2).transpose(0, 1)
        padded = high.new_zeros((*high.shape[:-1], 3 * self.width)).view(-1, 3 * self.width)
        places = torch.zeros(2 * self.width, dtype=torch.int64)
        padded = padded.index_copy(1, places, high.reshape(-1, 2 * self.width))
        lora = padded.view(*high.shape[:-1], 3 * self.width).transpose(0, 1) * 2.0
        return cast("Tensor", self.whole(given) + lora)


class SquareNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, given: Tensor) -> Tensor:
        mean = torch.mean(given * given, dim=-1, keepdim=True)
        return self.weight * (given * torch.rsqrt(mean + 1e-5))


@dataclass(frozen=True)
class Decoder:
    """What decides the size of a model of LitGPT."""

    layers: int
    width: int
    known: int
    rotated: float
    inner: int
    bias: bool = True
    last_bias: bool = False
    is_llama: bool = False
    shares_norm: bool = False
    heads: int = 32


class GatedMlp(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.last = nn.Linear(inner, width, bias=False)

    def forward(self, given: Tensor) -> Tensor:
        one, two = self.one(given), self.two(given)
        return cast("Tensor", self.last(F.silu(one) * two))


class DecoderBlock(nn.Module):
    def __init__(self, of: Decoder) -> None:
        super().__init__()
        norm = SquareNorm if of.is_llama else nn.LayerNorm
        self.of, self.before = of, norm(of.width)
        self.between = None if of.shares_norm else norm(of.width)
        self.asked, self.mixed = LowRank(of.width, bias=of.bias), nn.Linear(of.width, of.width, bias=of.bias)
        dense = nn.Sequential(nn.Linear(of.width, of.inner), nn.GELU(), nn.Linear(of.inner, of.width))
        self.dense = GatedMlp(of.width, of.inner) if of.is_llama else dense

    def forward(self, given: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        normed = self.before(given)
        seen = self._attend(normed, cos, sin)
        if self.of.is_llama:
            assert self.between is not None
            given = given + seen
            return cast("Tensor", given + self.dense(self.between(given)))
        return cast("Tensor", given + seen + self.dense(normed if self.between is None else self.between(given)))

    def _attend(self, given: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, rows, width = given.shape
        head, heads = width // self.of.heads, self.of.heads
        asked = self.asked(given).view(batch, rows, heads, 3, head).permute(0, 2, 3, 1, 4)
        query, key, value = (each.reshape(batch, -1, rows, head) for each in asked.split((1, 1, 1), dim=2))
        rotated = int(self.of.rotated * head)
        query, key = (
            torch.cat((_rotate(each[..., :rotated], cos, sin), each[..., rotated:]), dim=-1) for each in (query, key)
        )
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return cast("Tensor", self.mixed(seen.transpose(1, 2).reshape(batch, rows, width)))


def _rotate(given: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    one, two = given.chunk(2, dim=-1)
    return (given * cos) + (torch.cat((-two, one), dim=-1) * sin)


class Decoding(nn.Module):
    """A model of LitGPT with LoRA: only its products of low rank learn."""

    def __init__(self, of: Decoder) -> None:
        super().__init__()
        self.of, self.embedding = of, nn.Embedding(of.known, of.width)
        self.blocks = nn.ModuleList(DecoderBlock(of) for _ in range(of.layers))
        self.norm = SquareNorm(of.width) if of.is_llama else nn.LayerNorm(of.width)
        self.last = nn.Linear(of.width, of.known, bias=of.last_bias)
        for name, weight in self.named_parameters():
            weight.requires_grad_(name.endswith((".down", ".up")))

    def forward(self, words: Tensor) -> list[Tensor]:
        held = self.embedding(words)
        rotated = int(self.of.rotated * self.of.width / self.of.heads)
        cos, sin = (torch.zeros(words.shape[1], rotated, dtype=held.dtype) for _ in range(2))
        for block in self.blocks:
            held = block(held, cos, sin)
        return [self.last(part) for part in self.norm(held).split(128, dim=1)]


class Residual(nn.Module):
    """A layer of a ResNet that keeps its resolution from its third stage on, by dilation."""

    def __init__(self, given: int, inner: int, made: int, stride: int, dilation: int) -> None:
        super().__init__()
        if made == inner:  # of two convolutions
            layers = [*_convolved(given, inner, 3, stride, dilation), nn.ReLU(inplace=True)]
            layers += _convolved(inner, made, 3, 1, dilation)
        else:
            layers = [*_convolved(given, inner, 1), nn.ReLU(inplace=True)]
            layers += [*_convolved(inner, inner, 3, stride, dilation), nn.ReLU(inplace=True)]
            layers += _convolved(inner, made, 1)
        self.whole, self.last = nn.Sequential(*layers), nn.ReLU(inplace=True)
        self.beside = nn.Sequential(*_convolved(given, made, 1, stride)) if given != made or stride > 1 else None

    def forward(self, given: Tensor) -> Tensor:
        whole = self.whole(given)
        whole += given if self.beside is None else self.beside(given)
        return cast("Tensor", self.last(whole))


def _convolved(given: int, made: int, kernel: int, stride: int = 1, dilation: int = 1) -> list[nn.Module]:
    around = dilation * (kernel // 2)
    return [nn.Conv2d(given, made, kernel, stride, around, dilation, bias=False), nn.BatchNorm2d(made)]


class FullyConvolutional(nn.Module):
    """FCN of MMSegmentation, on a ResNet of type c, with an auxiliary head."""

    def __init__(self, layers: tuple[int, ...], wider: int) -> None:
        super().__init__()
        stem: list[nn.Module] = []
        for given, made, stride in ((3, 32, 2), (32, 32, 1), (32, 64, 1)):
            stem += [*_convolved(given, made, 3, stride), nn.ReLU(inplace=True)]
        self.stem = nn.Sequential(*stem, nn.MaxPool2d(3, 2, 1))
        self.stages, given = nn.ModuleList(), 64
        for count, inner, stride, dilation in zip(layers, (64, 128, 256, 512), (1, 2, 1, 1), (1, 1, 2, 4), strict=True):
            stage = []
            for number in range(count):
                first = number == 0
                wide = max(1, dilation // 2) if first and dilation > 1 else dilation
                stage.append(Residual(given, inner, wider * inner, stride if first else 1, wide))
                given = wider * inner
            self.stages.append(nn.Sequential(*stage))
        inner = given // 4
        self.convs = nn.Sequential(*_head(given, inner), *_head(inner, inner))
        self.joined, self.answer = nn.Sequential(*_head(given + inner, inner)), nn.Conv2d(inner, 19, 1)
        self.beside, self.more = nn.Sequential(*_head(given // 2, given // 8)), nn.Conv2d(given // 8, 19, 1)

    def forward(self, images: Tensor) -> list[Tensor]:
        held, found = self.stem(images), []
        for stage in self.stages:
            held = stage(held)
            found.append(held)
        whole = self.answer(F.dropout2d(self.joined(torch.cat((held, self.convs(held)), 1)), 0.1, self.training))
        return [whole, self.more(F.dropout2d(self.beside(found[2]), 0.1, self.training))]


def _head(given: int, made: int) -> list[nn.Module]:
    return [*_convolved(given, made, 3), nn.ReLU(inplace=True)]


class Joined(nn.Module):
    """A layer of a DenseNet: it reads what all before it made."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.whole = nn.Sequential(
            nn.BatchNorm2d(given), nn.ReLU(inplace=True), nn.Conv2d(given, 4 * made, 1, bias=False),
            nn.BatchNorm2d(4 * made), nn.ReLU(inplace=True), nn.Conv2d(4 * made, made, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, given: Tensor) -> Tensor:
        return torch.cat((given, self.whole(given)), 1)


class Unet(nn.Module):
    """The simplified U-Net of torchgpipe's benchmarks."""

    def __init__(self, convs: int, width: int, depth: int = 5) -> None:
        super().__init__()
        of = [width * 2**level for level in range(depth)]
        self.down = nn.ModuleList(
            _stack(3 if level == 0 else of[level - 1], of[level], of[level], convs) for level in range(depth)
        )
        self.middle = _stack(of[-1], 2 * of[-1], of[-1], convs)
        self.up = nn.ModuleList(_stack(2 * each, each // 2, each // 2, convs) for each in reversed(of))
        self.last = nn.Conv2d(of[0] // 2, 1, 1, bias=False)

    def forward(self, given: Tensor) -> Tensor:
        kept = []
        for stack in self.down:
            given = stack(given)
            kept.append(given)
            given = F.max_pool2d(given, 2, 2)
        given = self.middle(given)
        for stack in self.up:
            given = stack(torch.cat((F.interpolate(given, scale_factor=2), kept.pop()), 1))
        return cast("Tensor", self.last(given))


def _stack(given: int, inner: int, made: int, convs: int) -> nn.Sequential:
    sizes = [given, *[inner] * (convs - 1), made]
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.Dropout2d(0.1)]
        layers += [nn.InstanceNorm2d(after), nn.LeakyReLU(0.01)]
    return nn.Sequential(*layers)


# How the loss of a batch is computed. `size` is the side of its images or the words of its sequences.


def _classes(model: nn.Module, batch: int, size: int) -> Tensor:
    answers = model(torch.empty(batch, 3, size, size, dtype=_type_of(model)))
    answers = getattr(answers, "logits", answers)
    return F.cross_entropy(answers, torch.zeros(batch, dtype=torch.int64))


def _places(model: nn.Module, batch: int, size: int) -> Tensor:
    high, wide = (512, 1024) if size == WIDE else (size, size)
    labels = torch.zeros(batch, high, wide, dtype=torch.int64)
    losses = []
    for share, answers in zip((1.0, 0.4), model(torch.empty(batch, 3, high, wide)), strict=True):
        whole = F.interpolate(answers, (high, wide), mode="bilinear", align_corners=False)
        losses.append(share * F.cross_entropy(whole, labels, reduction="none").mean())
        whole.topk(1, dim=1)
    return sum(losses[1:], losses[0])


def _mask(model: nn.Module, batch: int, size: int) -> Tensor:
    answers = model(torch.empty(batch, 3, size, size))
    return F.binary_cross_entropy_with_logits(answers, torch.empty(batch, 1, size, size))


def _pieces(model: nn.Module, batch: int, size: int) -> Tensor:
    """The loss of LitGPT: in pieces of 128 words, which Lightning Fabric returns in float32."""
    labels = torch.zeros(batch, size, dtype=torch.int64)
    pieces: Iterable[Tensor] = [each.float() for each in model(torch.zeros(batch, size, dtype=torch.int64))]
    parts = zip(pieces, labels.split(128, dim=1), strict=True)
    losses = [F.cross_entropy(each.reshape(-1, each.shape[-1]), to.reshape(-1), reduction="none") for each, to in parts]
    return torch.cat(losses).sum() / batch


def _answer(model: nn.Module, batch: int, size: int) -> Tensor:
    words = torch.zeros(batch, size, dtype=torch.int64)
    return cast("Tensor", model(input_ids=words, labels=torch.zeros(batch, dtype=torch.int64)).loss)


def _words(model: nn.Module, batch: int, size: int) -> Tensor:
    words = torch.zeros(batch, size, dtype=torch.int64)
    return cast("Tensor", model(input_ids=words, labels=torch.zeros_like(words)).loss)


def _next_word(model: nn.Module, batch: int, size: int) -> Tensor:
    answers = model(torch.zeros(batch, size, dtype=torch.int64))
    return F.cross_entropy(answers.flatten(0, 1), torch.zeros(batch * size, dtype=torch.int64))


def _type_of(model: nn.Module) -> torch.dtype:
    return next(model.parameters()).dtype


def _rows(model: nn.Module, batch: int, _size: int) -> Tensor:
    return F.cross_entropy(model(torch.empty(batch, 784)), torch.zeros(batch, dtype=torch.int64))


def _translated(model: nn.Module, batch: int, size: int) -> Tensor:
    words = torch.zeros(batch, size, dtype=torch.int64)
    return cast("Tensor", model(input_ids=words, labels=torch.zeros(batch, size // 2, dtype=torch.int64)).loss)


WIDE = 1024  # of an image that is half as high


def _bert(layers: int, width: int, heads: int, head: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        config = transformers.BertConfig(
            hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width,
            attn_implementation="eager",
        )  # fmt: skip
        return cast("nn.Module", getattr(transformers, head)(config))

    return make


def _gpt2(layers: int, width: int, heads: int) -> Callable[[], nn.Module]:
    config: dict[str, Any] = {"n_layer": layers, "n_embd": width, "n_head": heads, "attn_implementation": "eager"}
    return lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**config))


def _vit_of_transformers() -> nn.Module:
    with no_init_weights():  # its draw depends on values
        return transformers.ViTForImageClassification(
            transformers.ViTConfig(num_labels=1000, attn_implementation="eager")
        )


def _t5() -> nn.Module:
    return transformers.T5ForConditionalGeneration(transformers.T5Config(decoder_start_token_id=0))


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 1000), nn.ReLU(), nn.Dropout(0.2), nn.Linear(1000, 1000), nn.Linear(1000, 10))


def _cnn() -> nn.Module:
    layers: list[nn.Module] = []
    for given, made in ((3, 32), (32, 64), (64, 128)):
        layers += [*_convolved(given, made, 3), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def _densenet() -> nn.Module:
    joined = [Joined(24 + 12 * number, 12) for number in range(8)]
    return nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1, bias=False), *joined, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(120, 10)
    )


PHI = Decoder(24, 2048, 51_200, 0.5, 8192, last_bias=True, shares_norm=True)
STABLE = Decoder(16, 4096, 50_688, 0.25, 16_384)
LLAMA = Decoder(32, 4096, 32_000, 1.0, 11_008, bias=False, is_llama=True)
NETWORKS = {
    "mlp": Network(_mlp, _rows),
    "cnn": Network(_cnn, _classes),
    "densenet": Network(_densenet, _classes),
    "t5": Network(
        lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(decoder_start_token_id=0)), _translated
    ),
    "vit_l_16": Network(lambda: VisionTransformer(24, 1024, 16, 10), _classes),
    "vit_base": Network(_vit_of_transformers, _classes),
    "bert_large": Network(_bert(24, 1024, 16, "BertForSequenceClassification"), _answer),
    "bert_base": Network(_bert(12, 768, 12, "BertForMaskedLM"), _words),
    "gpt2": Network(_gpt2(12, 768, 12), _words),
    "gpt2_medium": Network(_gpt2(24, 1024, 16), _words),
    "phi_1_5": Network(lambda: Decoding(PHI), _pieces),
    "stablelm_3b": Network(lambda: Decoding(STABLE), _pieces),
    "llama2_7b": Network(lambda: Decoding(LLAMA), _pieces),
    "fcn_r18": Network(lambda: FullyConvolutional((2, 2, 2, 2), 1), _places),
    "fcn_r50": Network(lambda: FullyConvolutional((3, 4, 6, 3), 4), _places),
    "fcn_r101": Network(lambda: FullyConvolutional((3, 4, 23, 3), 4), _places),
    "unet_6_72": Network(lambda: Unet(6, 72), _mask),
    "characters": Network(lambda: Transformer(6, 384, 6, 256, known=65, answers=65), _next_word),
}
