"""Random numbers of a proof: the same in float32, float64 and bf16, on a processor and on a card.

From one seed, each dtype, device and layout draws different numbers. In a proof, laptime draws them itself: with
PyTorch's own generator on the processor, in one order of values and one precision. Then it copies them to where they
are needed. Code that saves and restores this generator's state, as activation checkpointing does, gets the same numbers
again.

docs/decisions/0018-random-draws-are-made-alike.md explains why.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from laptime.backends.fingerprint import STEPS_A_SEED, read_globals, restored_globals, seed_globals
from laptime.backends.torch.random_operators import Draw, Given, RandomNumbers, beyond, bind, find_draw, name_of
from laptime.backends.torch.sync_detector import count_compiled


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
        self._known: dict[Any, Draw | None] = {}
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
        self.numbers.log, before = [], read_globals()
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
        self._note_beyond(name_of(func), given)
        return func(*args, **kwargs)

    def _note_beyond(self, name: str, given: Given) -> None:
        """Note an operator that draws inside its own kernel, unless its dropout chance is 0."""
        chances = [given[key] for key in ("dropout_p", "dropout") if key in given]
        if not chances or any(chances):
            self.beyond = name


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
    held = (each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor))
    return any(each.device.type == "meta" or isinstance(each, FakeTensor) for each in held)
