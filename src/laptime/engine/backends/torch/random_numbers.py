"""Random numbers of a proof: the same in float32, float64 and bf16, on a processor and on a card.

From one seed, each dtype, device and layout draws different numbers. In a proof, laptime draws them itself: with
PyTorch's own generator on the processor, in one order of values and one precision. Then it copies them to where they
are needed. Code that saves and restores this generator's state, as activation checkpointing does, gets the same numbers
again.

docs/decisions/0018-random-draws-are-made-alike.md explains why.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from laptime.engine.backends.arrays import STEPS_A_SEED, read_globals, restored_globals, seed_globals
from laptime.engine.backends.torch.symptoms import count_compiled


class SameRandomNumbers(TorchDispatchMode):
    """While entered, draws the numbers of all random operators of PyTorch.

    `drew` is true if any step drew numbers, also by NumPy's global generator or by `random`. `first_log` lists what
    PyTorch drew in the first step. `beyond` names an operator that draws inside its own kernel, where draws cannot be
    made the same.
    """

    supports_higher_order_operators = True

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seed = seed
        self._known: dict[Any, DrawNumbers | None] = {}
        self.numbers = RandomNumbers()
        self.first_log: list[tuple[str, tuple[int, ...]]] = []
        self.drew = False
        self.beyond: str | None = None

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Return True: under other modes PyTorch compiles nothing, and runs the step uncompiled without a warning."""
        return True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True: the same, under the name in later versions."""
        return True

    def seed(self) -> None:
        seed_all(self._seed)

    @contextlib.contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Seed what this step's code may draw from, and draw for it."""
        seed_all(self._seed * STEPS_A_SEED + number)
        self.numbers.log = []
        before = read_globals()
        with self:
            yield
        self.drew |= bool(self.numbers.log) or self.beyond is not None or before != read_globals()
        if number == 0:
            self.first_log = self.numbers.log

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in self._known:
            self._known[func] = find_draw(func)
        draw = self._known[func]
        if draw is None or _is_traced(args, kwargs):
            return func(*args, **kwargs)
        given = bind(func, args, kwargs)
        if draw is not beyond:
            return draw(self.numbers, given)
        # It draws inside its own kernel, unless its dropout chance is 0.
        chances = [given[key] for key in ("dropout_p", "dropout") if key in given]
        if not chances or any(chances):
            self.beyond = operator_name(func)
        return func(*args, **kwargs)


@contextlib.contextmanager
def restored_generators() -> Iterator[None]:
    """Restore on exit the generators that a user's training shares with a proof."""
    state = torch.get_rng_state()
    with restored_globals():
        try:
            yield
        finally:
            torch.set_rng_state(state)


@contextlib.contextmanager
def draws_left_to_kernels() -> Iterator[None]:
    """Make compiled code call PyTorch's operators for random numbers, in the order of the source code.

    What was compiled in this way is discarded at the end: the timed steps are compiled as usual.
    """
    compiler = sys.modules.get("torch._inductor.config")
    tracer = sys.modules.get("torch._dynamo.config")
    if compiler is None or tracer is None:
        yield
        return
    wanted = {"fallback_random": True, "reorder_for_peak_memory": False}
    known = {key: value for key, value in wanted.items() if hasattr(compiler, key)}
    before = count_compiled()
    try:
        with compiler.patch(known), tracer.patch(use_numpy_random_stream=True):
            yield
    finally:
        if count_compiled() != before:
            torch.compiler.reset()


def seed_all(seed: int) -> None:
    """Seed all generators that code draws from by default."""
    torch.manual_seed(seed)
    seed_globals(seed)


def _is_traced(args: Any, kwargs: Given) -> bool:
    """Whether nothing is computed: a compiler only needs the shape of an operator's result."""
    if str(kwargs.get("device")) == "meta":
        return True
    held = (leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor))
    return any(tensor.device.type == "meta" or isinstance(tensor, FakeTensor) for tensor in held)


# How PyTorch's random operators draw in a proof: each in one way, for any precision, device and layout.
#
# Values are drawn in float64 on the processor. The formulas are those into which PyTorch's compiler decomposes
# operators, so compiled code and plain code draw the same values.

UNIFORM_BITS = 23
# How many bits a number between 0 and 1 keeps in these types, so that none is rounded to 1.
FEWER_BITS = {torch.float16: 10, torch.bfloat16: 7}
# Without bounds, `random_` draws up to the largest value below which the type has every whole number. Float64 uses the
# limit of float32.
LARGEST_WHOLES = {torch.float16: 1 << 11, torch.bfloat16: 1 << 8, torch.bool: 2}
FLOAT_MOST = 1 << 24
Given = dict[str, Any]
DrawNumbers = Callable[["RandomNumbers", Given], Any]


class RandomNumbers:
    """Draws from PyTorch's own generator on the processor; `log` lists the draws.

    `depends` is set by draws whose outcome can change by rounding: those with chances that the network computed.
    """

    def __init__(self) -> None:
        self.log: list[tuple[str, tuple[int, ...]]] = []
        self.depends = False

    def uniform(self, shape: Any, dtype: torch.dtype = torch.float32) -> Tensor:
        """Draw numbers between 0 and 1, never 0 or 1 itself, that have the same value in float32 and float64."""
        whole = self.whole(0, 1 << UNIFORM_BITS, shape, "uniform")
        bits = FEWER_BITS.get(dtype, UNIFORM_BITS)
        return (2.0 * (whole >> (UNIFORM_BITS - bits)).double() + 1) / (2 << bits)

    def normal(self, shape: Any, dtype: torch.dtype = torch.float32) -> Tensor:
        """Draw numbers in float64 and round them to float32, so that both have the same values."""
        self.log.append(("normal", tuple(shape)))
        if dtype.is_complex:
            return torch.randn(shape, dtype=torch.complex128).to(torch.complex64)
        return torch.randn(shape, dtype=torch.float64).float().double()

    def whole(self, low: int, high: int, shape: Any, kind: str = "whole") -> Tensor:
        self.log.append((kind, tuple(shape)))
        return torch.randint(low, high, tuple(shape), dtype=torch.int64)

    def order(self, count: int) -> Tensor:
        self.log.append(("order", (count,)))
        return torch.randperm(count)

    def by_value(self, draw: Callable[..., Tensor], *values: Any) -> Tensor:
        """Let PyTorch draw in float64, where the number of draws depends on the values given."""
        self.depends = True
        self.log.append((str(draw), tuple(values[0].shape)))
        return draw(*map(_exact, values))


def find_draw(func: Any) -> DrawNumbers | None:
    """Return the function that draws an operator's numbers here; None where it draws none."""
    if getattr(func, "namespace", None) != "aten":
        return None
    name = operator_name(func)
    values = DRAWN_VALUES.get(name.removesuffix("_").removesuffix("_like").removesuffix("_functional"))
    if name in WHOLE_OPERATORS:
        return WHOLE_OPERATORS[name]
    if values is not None:
        return lambda draws, given: _placed(values(draws, given), name, given)
    return beyond if torch.Tag.nondeterministic_seeded in func.tags else None


def beyond(_draws: RandomNumbers, _given: Given) -> None:
    """Marks an operator that draws inside its own kernel."""


def operator_name(func: Any) -> str:
    return str(_schema(func).name).removeprefix("aten::")


def bind(func: Any, args: tuple[Any, ...], kwargs: Given) -> Given:
    """Return an operator's arguments by name, with defaults. That of `dtype`, a number for int64, is left out."""
    arguments = _schema(func).arguments
    given = {argument.name: argument.default_value for argument in arguments if argument.has_default_value()}
    given.pop("dtype", None)
    given.update(zip((argument.name for argument in arguments), args, strict=False))
    return {**given, **kwargs}


def _schema(func: Any) -> Any:
    return func._schema  # noqa: SLF001  only this attribute names an operator's arguments


def _exact(value: Any) -> Any:
    return value.detach().cpu().double() if isinstance(value, Tensor) else value


def _shape(given: Given) -> Any:
    if "size" in given:
        return given["size"]
    if isinstance(given.get("self"), Tensor):
        return given["self"].shape
    held = [tensor.shape for tensor in (given.get("mean"), given.get("std")) if isinstance(tensor, Tensor)]
    return torch.broadcast_shapes(*held)  # type: ignore[no-untyped-call]


def _dtype(given: Given) -> torch.dtype:
    for tensor in (given.get("out"), given.get("self")):
        if isinstance(tensor, Tensor):
            return given.get("dtype") or tensor.dtype
    return given.get("dtype") or torch.get_default_dtype()


def _placed(values: Tensor, name: str, given: Given) -> Tensor:
    """Copy the drawn values to where the operator would put them, in the order of values, not of memory."""
    out = given.get("out")
    like = given.get("self")
    if out is not None:
        return out.resize_(values.shape).copy_(values)  # type: ignore[no-any-return]
    if name.endswith("_"):
        return like.copy_(values)  # type: ignore[union-attr,no-any-return]
    several = [tensor for tensor in (like, given.get("mean"), given.get("std")) if isinstance(tensor, Tensor)]
    if not several:
        usual = values.dtype if values.dtype == torch.int64 else torch.get_default_dtype()
        return values.to(given.get("device") or "cpu", given.get("dtype") or usual)
    held = several[0]
    if name == "multinomial" or held.shape != values.shape:
        return values.to(held.device, values.dtype if name == "multinomial" else held.dtype)
    made = torch.empty_like(
        held,
        dtype=given.get("dtype") or held.dtype,
        device=given.get("device") or held.device,
        memory_format=given.get("memory_format") or torch.preserve_format,
    )
    return made.copy_(values)


def _draw_bounded(draws: RandomNumbers, given: Given) -> Tensor:
    low: Any = given.get("from", given.get("low", 0))
    high: Any = given.get("to", given.get("high"))
    if high is None:
        dtype = _dtype(given)
        most = torch.iinfo(dtype).max if not dtype.is_floating_point and dtype is not torch.bool else FLOAT_MOST
        high = LARGEST_WHOLES.get(dtype, most)
    return draws.whole(int(low), int(high), _shape(given))


def _draw_normal(draws: RandomNumbers, given: Given) -> Tensor:
    drawn = draws.normal(_shape(given), _dtype(given))
    return _exact(given.get("mean", 0.0)) + _exact(given.get("std", 1.0)) * drawn  # type: ignore[no-any-return]


def _draw_uniform(draws: RandomNumbers, given: Given) -> Tensor:
    low = given.get("from", 0.0)
    high = given.get("to", 1.0)
    return low + (high - low) * draws.uniform(_shape(given), _dtype(given))  # type: ignore[no-any-return]


def _draw_chance(draws: RandomNumbers, given: Given) -> Tensor:
    chance = given.get("p", given["self"])
    if isinstance(chance, Tensor):
        # Rounding may have changed these; a single float32 number for all is a constant in the code.
        draws.depends |= chance.dtype in FEWER_BITS or bool((chance != chance.flatten()[:1]).any())
    kept: Tensor = draws.uniform(_shape(given)) < _exact(chance)
    return kept.double()


def _drop(draws: RandomNumbers, given: Given) -> tuple[Tensor, Tensor]:
    """Return the result and the mask in one, as cards do in one kernel, and as compiled code does everywhere."""
    value = given["input"]
    chance = given["p"]
    if given["train"] is False or chance == 0:
        return value.clone(), torch.ones_like(value, dtype=torch.bool)
    kept = _mask(draws, value, 1 - chance)
    return value * kept * (0.0 if chance == 1 else 1 / (1 - chance)), kept


def _drop_fused(draws: RandomNumbers, given: Given) -> tuple[Tensor, Tensor]:
    value = given["self"]
    chance = given["p"]
    kept = _mask(draws, value, chance)
    return value * kept * (1 / chance), kept.to(torch.uint8)


def _mask(draws: RandomNumbers, value: Tensor, chance: float) -> Tensor:
    return torch.empty_like(value, dtype=torch.bool).copy_(draws.uniform(value.shape) < chance)


def _slope(draws: RandomNumbers, given: Given) -> tuple[Tensor, Tensor]:
    """Draw the slope of each negative value; return the result and the factor of each value."""
    value = given["self"]
    lower = given["lower"]
    upper = given["upper"]
    if not given["training"]:
        return torch.nn.functional.leaky_relu(value, (lower + upper) / 2), given["noise"]
    drawn = torch.empty_like(value).copy_(lower + (upper - lower) * draws.uniform(value.shape))
    slopes = torch.where(value <= 0, drawn, torch.ones_like(drawn))
    return value * slopes, slopes


def _slope_noted(draws: RandomNumbers, given: Given) -> Tensor:
    result, slopes = _slope(draws, given)
    given["noise"].copy_(slopes)
    return result


OPS: Any = torch.ops.aten
# By an operator's name without suffixes for where its values go: `normal` is normal_, normal_functional and normal.
DRAWN_VALUES: dict[str, Callable[[RandomNumbers, Given], Tensor]] = {
    "rand": _draw_uniform,
    "uniform": _draw_uniform,
    "bernoulli": _draw_chance,
    "exponential": lambda draws, given: -torch.log(draws.uniform(_shape(given))) / given["lambd"],
    "cauchy": lambda draws, given: (
        given["median"] + given["sigma"] * torch.tan(math.pi * (draws.uniform(_shape(given)) - 0.5))
    ),
    "geometric": lambda draws, given: (
        torch.floor(torch.log1p(-draws.uniform(_shape(given))) / math.log1p(-given["p"])) + 1
    ),
    "randn": _draw_normal,
    "normal": _draw_normal,
    "log_normal": lambda draws, given: torch.exp(_draw_normal(draws, given)),
    "randint": _draw_bounded,
    "random": _draw_bounded,
    "randperm": lambda draws, given: draws.order(given["n"]),
    "multinomial": lambda draws, given: draws.by_value(
        OPS.multinomial.default, given["self"], given["num_samples"], given["replacement"]
    ),
    "poisson": lambda draws, given: draws.by_value(OPS.poisson.default, given["self"]),
    "binomial": lambda draws, given: draws.by_value(OPS.binomial.default, given["count"], given["prob"]),
    "_standard_gamma": lambda draws, given: draws.by_value(OPS._standard_gamma.default, given["self"]),  # noqa: SLF001
    "_sample_dirichlet": lambda draws, given: draws.by_value(OPS._sample_dirichlet.default, given["self"]),  # noqa: SLF001
}
# Operators that return or write more than the drawn values.
WHOLE_OPERATORS: dict[str, DrawNumbers] = {
    "native_dropout": _drop,
    "_fused_dropout": _drop_fused,
    "rrelu_with_noise": _slope_noted,
    "rrelu_with_noise_": lambda draws, given: given["self"].copy_(_slope_noted(draws, given)),
    "rrelu_with_noise_functional": _slope,
}
