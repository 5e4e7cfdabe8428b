"""What one iteration holds in tensors: weights, moments, gradients, others and what it makes, at its fullest moment.

Each tensor that is made or freed while an iteration is counted is an event. What is left over from the iteration
before, such as its gradients or its answers, counts until it is freed. The events are played again, as the first
iterations of a training would be, to find what PyTorch's allocator keeps of a card.
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from importlib import import_module

from .blocks import CachingAllocator, block_bytes

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from .blocks import CardBlock

torch: Any = import_module("torch")
optimizers: Any = import_module("torch.optim.optimizer")
pytree: Any = import_module("torch.utils._pytree")

# What autocast on a card computes in float32, forward: of some it keeps the input, of others the result.
INPUT_IN_FLOAT32 = ("native_layer_norm", "native_group_norm")
RESULT_IN_FLOAT32 = ("_softmax", "_log_softmax")
IN_FLOAT32 = (
    *INPUT_IN_FLOAT32, *RESULT_IN_FLOAT32, "nll_loss_forward", "nll_loss2d_forward", "mse_loss", "smooth_l1_loss",
    "binary_cross_entropy_with_logits", "exp", "log", "pow", "rsqrt", "sum", "prod", "cumsum", "linalg_vector_norm",
)  # fmt: skip
HELD_WEIGHTS, HELD_MOMENTS, HELD_GRADIENTS, HELD_OTHERS, HELD_MADE = HELD_PARTS = range(5)
PLAYED = 3  # iterations: from then on, the allocator finds a block for everything
MADE_NOW = 1
UPDATE_BEGINS = 0
FREED = -1


class HeldTensors:
    """The tensors of an iteration, numbered: their sizes, their parts, and when each is made and freed."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._parts: list[int] = []
        self._events: list[tuple[int, int, bool]] = []  # what happened to which number, and whether in an update
        self._numbers: dict[int, int] = {}
        self._before: dict[int, bool] = {}  # what was there, by number, and whether the iteration used it
        self._weights: list[Any] = []
        self._narrow: set[int] = set()  # what would have 16 bits if products did, and what is kept in float32
        self._wide: set[int] = set()
        self.is_open = True
        self.is_update = False

    def look(self) -> None:
        """Note what is there before: what optimizers keep, weights with their gradients, and all other tensors."""
        gc.collect()  # what only waits for its collection is not held
        found = [thing for thing in gc.get_objects() if issubclass(type(thing), (torch.Tensor, optimizers.Optimizer))]
        tensors = [thing for thing in found if issubclass(type(thing), torch.Tensor)]
        self._weights = [tensor for tensor in tensors if isinstance(tensor, torch.nn.Parameter)]
        for optimizer in found:
            if issubclass(type(optimizer), torch.Tensor):
                continue
            moments = [tensors_in(state) for state in getattr(optimizer, "state", {}).values()]
            weights = [weight for group in getattr(optimizer, "param_groups", ()) for weight in group["params"]]
            self._note((tensor for state in moments for tensor in state), HELD_MOMENTS, is_used=True)
            self._note(weights, HELD_WEIGHTS, is_used=True)
        self._note(self._weights, HELD_WEIGHTS)
        self._note(self._gradients(), HELD_GRADIENTS)
        self._note(tensors, HELD_OTHERS)

    def read(self, tensors: list) -> None:
        """Note what an operator reads. What no operator has made was there before."""
        for tensor in tensors:
            key = _key_of(tensor)
            if key is None:
                continue
            number = self._numbers.get(key)
            if number is None:
                self._note(
                    [tensor], HELD_WEIGHTS if isinstance(tensor, torch.nn.Parameter) else HELD_OTHERS, is_used=True
                )
            elif number in self._before:
                self._before[number] = True

    def made(self, tensors: list) -> None:
        for tensor in tensors:
            number = self._add(tensor, HELD_MADE)
            if number is not None:
                self._events.append((MADE_NOW, number, self.is_update))

    def flow(self, name: str, read: list, made: list, *, is_product: bool) -> None:
        """Note which results would have 16 bits under autocast on a card, where products compute in them.

        What a product reads is cast, and its copy is kept. All else has the type of what it reads.
        """
        if self.is_update:
            return
        inputs = self._floats(read)
        results = self._floats(made)
        if is_product:
            self._narrow.update(inputs, results)
        elif torch._C._current_graph_task_id() == -1 and name in IN_FLOAT32:
            self._wide.update(inputs if name in INPUT_IN_FLOAT32 else (), results if name in RESULT_IN_FLOAT32 else ())
        elif inputs and all(number in self._narrow and number not in self._wide for number in inputs):
            self._narrow.update(results)

    def begin_update(self) -> None:
        """Note that an optimizer begins: all gradients are there."""
        self.note_gradients()
        self._events.append((UPDATE_BEGINS, 0, True))

    def note_gradients(self) -> None:
        """Note which tensors are gradients, while they are there."""
        for gradient in self._gradients():
            number = self._numbers.get(_key_of(gradient) or 0)
            if number is not None:
                self._parts[number] = HELD_GRADIENTS

    def close(self) -> None:
        """End the iteration: what is freed from now on is of the next."""
        self.note_gradients()
        self.is_open = False
        self._weights = []

    def parts(self) -> dict[str, list[int]]:
        """Return the bytes of each part at the fullest moment of the passes, the updates, and passes in 16 bits."""
        passes, update = self._fullest(self._sizes)
        # If products computed in 16 bits; weights and their gradients stay in float32.
        sizes = list(self._sizes)
        for number in self._narrow - self._wide:
            if self._parts[number] in (HELD_MADE, HELD_OTHERS):
                sizes[number] //= 2
        narrow, _ = self._fullest(sizes)
        return {"passes": passes, "update": update, "narrow": narrow}

    def _fullest(self, sizes: list[int]) -> tuple[list[int], list[int]]:
        now = [0] * len(HELD_PARTS)
        gone = {number for what, number, _ in self._events if what == FREED}
        for number in self._there(gone):
            now[self._part_of(number, gone)] += block_bytes(sizes[number])
        most = {False: list(now), True: [0] * len(HELD_PARTS)}
        for what, number, is_update in self._events:
            if what != UPDATE_BEGINS:
                now[self._part_of(number, gone)] += what * block_bytes(sizes[number])
            if sum(now) > sum(most[is_update]):
                most[is_update] = list(now)
        return most[False], most[True]

    def _floats(self, tensors: list) -> list[int]:
        """Return the numbers of what was made in float32."""
        found = [self._numbers.get(_key_of(tensor) or 0) for tensor in tensors if tensor.dtype == torch.float32]
        return [number for number in found if number is not None and self._parts[number] == HELD_MADE]

    def kept_bytes(self) -> int:
        """Return what the allocator keeps after some iterations, more than tensors take at most.

        The moments are made in the first update.
        """
        allocator = CachingAllocator()
        gone = {number for what, number, _ in self._events if what == FREED}
        there = [number for number in self._there(gone) if number not in gone]
        moments = [number for number in there if self._parts[number] == HELD_MOMENTS]
        held: dict[int, CardBlock | None] = {
            number: allocator.take(self._sizes[number]) for number in there if self._parts[number] != HELD_MOMENTS
        }
        for _ in range(PLAYED):
            self._play_once(allocator, held, moments)
            moments = []
        return max(0, allocator.reserved - max(map(sum, self._fullest(self._sizes))))

    def _play_once(self, allocator: CachingAllocator, left: dict[int, CardBlock | None], moments: list[int]) -> None:
        """Play an iteration. `left` is what the one before left, and then what this one leaves.

        What the log frees without having made it is of the iteration before: a tensor of the same size that it left.
        """
        made: dict[int, CardBlock | None] = {}
        old: dict[int, list[CardBlock | None]] = {}
        wanted = Counter(
            self._sizes[number] for what, number, _ in self._events if what == FREED and number in self._before
        )
        for number in [number for number in left if number not in self._before]:
            block = left.pop(number)
            size = self._sizes[number]
            if wanted[size]:
                wanted[size] -= 1
                old.setdefault(size, []).append(block)
            else:
                allocator.free(block)
        for what, number, is_update in self._events:
            if is_update and moments:
                left.update((moment, allocator.take(self._sizes[moment])) for moment in moments)
                moments = []
            if what == MADE_NOW:
                made[number] = allocator.take(self._sizes[number])
            elif what == FREED and number in made:
                allocator.free(made.pop(number))
            elif what == FREED and old.get(self._sizes[number]):
                allocator.free(old[self._sizes[number]].pop(0))
        left.update((moment, allocator.take(self._sizes[moment])) for moment in moments)
        left.update(made)

    def _there(self, gone: set[int]) -> list[int]:
        """Return what was there and counts: what the iteration used, or freed."""
        return [number for number, is_used in self._before.items() if is_used or number in gone]

    def _part_of(self, number: int, gone: set[int]) -> int:
        """Return the part of a tensor. What the iteration before left is as what this one makes."""
        part = self._parts[number]
        return HELD_MADE if part == HELD_OTHERS and number in gone else part

    def _note(self, tensors: Iterable[Any], part: int, *, is_used: bool = False) -> None:
        for tensor in tensors:
            number = self._add(tensor, part)
            if number is not None:
                self._before[number] = is_used

    def _add(self, tensor: Any, part: int) -> int | None:
        """Number the memory of a tensor; None if it has a number, or no memory of its own."""
        key = _key_of(tensor)
        if key is None or key in self._numbers:
            return None
        storage = tensor.untyped_storage()
        number = self._numbers[key] = len(self._sizes)
        self._sizes.append(storage.nbytes())
        self._parts.append(part)
        weakref.finalize(storage, self._freed, key, number).atexit = False
        return number

    def _freed(self, key: int, number: int) -> None:
        if self.is_open and self._numbers.get(key) == number:
            del self._numbers[key]
            self._events.append((FREED, number, self.is_update))

    def _gradients(self) -> Iterator[Any]:
        return (weight.grad for weight in self._weights if weight.grad is not None)


def _key_of(tensor: Any) -> int | None:
    """Return what identifies the memory of a tensor. A sparse or a oneDNN tensor has no such storage."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def tensors_in(tree: Any) -> list:
    return [leaf for leaf in pytree.tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]
