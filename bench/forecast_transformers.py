"""Transformers as lists of operators: each is built as its authors' code or Hugging Face's builds it, and one step is
counted as that of anybody's training is, on tensors that have shapes alone.

A network of one layer and one of two are counted: what the second has more is a layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import transformers
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from laptime.attach.operators import counting
from laptime.model.hardware import StepOperator
from laptime.questions.forecast.lane import scale_operators
from laptime.trainings.workloads.shapes import CAST_BYTES, UPDATE_PASSES, as_operators
from transformers_torch import Transformer

VALUE_BYTES = {"fp32": 4, "tf32": 4, "amp": 2, "fp16": 2, "bf16": 2}
FLOAT_BYTES = 4
FORWARD_ALONE, UNFUSED = "forward", "unfused"
# An optimizer that is written line by line: its passes over the weights, and its operators for each array of them.
UNFUSED_PASSES, UNFUSED_CALLS = 30, 12
Counted = Counter[tuple[str, float, float, tuple[int, ...]]]


@dataclass(frozen=True)
class Network:
    """A transformer: its layers, and how it is made with N layers for N words."""

    layers: int
    make: Callable[[int, int], nn.Module]


def bert(width: int, heads: int, *, head: str) -> Callable[[int, int], nn.Module]:
    def make(layers: int, _rows: int) -> nn.Module:
        config = transformers.BertConfig(
            hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width,
            attn_implementation="eager",
        )  # fmt: skip
        model: nn.Module = getattr(transformers, head)(config)
        return model

    return make


def gpt(width: int, heads: int) -> Callable[[int, int], nn.Module]:
    def make(layers: int, rows: int) -> nn.Module:
        return transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                n_embd=width, n_layer=layers, n_head=heads, n_positions=rows, attn_implementation="eager"
            )
        )

    return make


def opt(layers: int, rows: int) -> nn.Module:
    config = transformers.OPTConfig(
        hidden_size=2048, num_hidden_layers=layers, num_attention_heads=32, ffn_dim=8192, word_embed_proj_dim=2048,
        max_position_embeddings=rows, dropout=0.1, attention_dropout=0.0, layerdrop=0.0, attn_implementation="eager",
    )  # fmt: skip
    return transformers.OPTForCausalLM(config)


def plain(width: int, heads: int, *, known: int, answers: int) -> Callable[[int, int], nn.Module]:
    """One with attention in one pass, as bench/transformers_torch.py builds it."""
    return lambda layers, rows: Transformer(layers, width, heads, rows, known=known, answers=answers)


MPT_WORDS = 50_368
NETWORKS = {
    "bert_base": Network(12, bert(768, 12, head="BertForQuestionAnswering")),
    "bert_large": Network(24, bert(1024, 16, head="BertForPreTraining")),
    "bert_large_qa": Network(24, bert(1024, 16, head="BertForQuestionAnswering")),
    "bert_large_classifier": Network(24, bert(1024, 16, head="BertForSequenceClassification")),
    "gpt2_large": Network(36, gpt(1280, 20)),
    "gpt3_xl": Network(24, gpt(3072, 24)),
    "gpt3_27": Network(32, gpt(2560, 32)),
    "opt_13": Network(24, opt),
    "mpt_125m": Network(12, plain(768, 12, known=MPT_WORDS, answers=MPT_WORDS)),
    "mpt_350m": Network(24, plain(1024, 16, known=MPT_WORDS, answers=MPT_WORDS)),
    "mpt_760m": Network(24, plain(1536, 12, known=MPT_WORDS, answers=MPT_WORDS)),
    "mpt_1b": Network(24, plain(2048, 16, known=MPT_WORDS, answers=MPT_WORDS)),
    "mpt_3b": Network(32, plain(2560, 20, known=MPT_WORDS, answers=MPT_WORDS)),
    "characters": Network(6, plain(384, 6, known=65, answers=65)),
    "encoder": Network(12, plain(768, 12, known=30_528, answers=2)),
}


def count_transformer(name: str, batch: int, rows: int, precision: str, update: str) -> tuple[StepOperator, ...]:
    """Return the operators of a step. `update` is the optimizer's, "none", or "forward" where nothing is learned."""
    counted, weights, arrays = _count_all(name, batch, rows, learns=update != FORWARD_ALONE)
    found = scale_operators(as_operators(counted), 1.0, VALUE_BYTES[precision] / FLOAT_BYTES)
    calls = UNFUSED_CALLS * arrays if update == UNFUSED else 1
    moved = FLOAT_BYTES * weights * (UNFUSED_PASSES if update == UNFUSED else UPDATE_PASSES.get(update, 0))
    updates = [StepOperator("update", 0.0, moved / calls, calls)] if moved else []
    if VALUE_BYTES[precision] < FLOAT_BYTES:
        updates.append(StepOperator("update", 0.0, float(CAST_BYTES * weights)))
    return (*found, *updates)


@cache
def _count_all(name: str, batch: int, rows: int, *, learns: bool) -> tuple[Counted, int, int]:
    """Return the operators of a step without its update, the weights, and in how many arrays they are."""
    network = NETWORKS[name]
    (one, first), (two, second) = (_count(network.make, layers, batch, rows, learns=learns) for layers in (1, 2))
    layer, more = Counter(two), network.layers - 1
    layer.subtract(one)
    whole = Counter({each: one[each] + more * layer[each] for each in {*one, *two}})
    assert min(whole.values()) >= 0, f"{name}: the layers differ"
    weights = sum(first) + more * (sum(second) - sum(first))
    return +whole, weights, len(first) + more * (len(second) - len(first))


def _count(
    make: Callable[[int, int], nn.Module], layers: int, batch: int, rows: int, *, learns: bool
) -> tuple[Counted, list[int]]:
    """Return the operators, and the size of each array of weights."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = make(layers, rows).train(learns)
        words = torch.zeros(batch, rows, dtype=torch.int64)

        def step() -> None:
            answers = _answers_of(model(words))
            if learns:
                labels = torch.zeros(answers.numel() // answers.shape[-1], dtype=torch.int64)
                loss = nn.functional.cross_entropy(answers.reshape(-1, answers.shape[-1]), labels)
                loss.backward()  # type: ignore[no-untyped-call]

        with torch.set_grad_enabled(learns):
            step()
            model.zero_grad(set_to_none=True)
            with counting() as mode:
                step()
        return mode.found, [each.numel() for each in model.parameters()]


def _answers_of(found: object) -> Tensor:
    for name in ("prediction_logits", "logits", "start_logits"):
        answers = getattr(found, name, None)
        if answers is not None:
            return answers if isinstance(answers, Tensor) else answers[0]
    assert isinstance(found, Tensor)
    return found
