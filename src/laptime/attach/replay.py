"""The ceilings of a script that is not changed: its training without its loader, and its loader without the training.

For the first, the loader that trains gives the same few batches again and again. For the second, the script is kept
inside of a fetch, and the loader goes on as if the script fetched one batch after another.
"""

from __future__ import annotations

from functools import wraps
from time import monotonic_ns as now_ns

from . import kinds
from .agent import Agent
from .fetches import items_of
from .torch_hooks import LOADER

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

REPLAYED_MOST_BYTES = 1 << 28  # of batches that are kept
SHAPES_MOST = 64
AGAIN_ITEMS, AGAIN_TIMES, AGAIN_NS = 8, 4, 1_000_000_000  # items that are fetched again, as in heat/work.py


class Replay:
    """What the fetches of the loader that trains do: fetch, replay, or run alone."""

    def __init__(self, agent: Agent, fetched: Any) -> None:
        self._agent, self._fetched = agent, fetched
        self._last = 0  # the loader that was fetched from last: a step that follows trains on its batches
        self._trained: set = set()
        self._loaders: dict = {}
        self.run_alone = False
        self._wanted = 0
        self._kept: list = []
        self._iterators: dict = {}  # of the loaders whose batches are replayed
        self._idle_ns = 0
        self._shapes: set = set()
        self.redrawn: Any = None  # whether an item differs when it is fetched again, once that was asked

    @property
    def shapes(self) -> int:
        """How many different shapes the batches had that are trained on."""
        return len(self._shapes)

    def begin(self, batches: int) -> None:
        """Keep the next batches of the loader that trains, as many as this, and replay them from then on."""
        self._wanted = batches

    def fetch_again(self) -> None:
        """Fetch some items of the data set that trains several times, and note whether they differ.

        Only items by number: to walk through other data would take it from the script.
        """
        for number in self._trained & set(self._loaders):
            dataset = getattr(self._loaders[number], "dataset", None)
            if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
                self.redrawn = find_redrawn(dataset)
                return

    def trained(self) -> None:
        """Note that a batch was trained on. A script may make a new loader for each epoch."""
        self._trained.add(self._last)

    def take_idle_ns(self) -> int:
        """Return for how long a loader that runs alone was started again since the last call."""
        idle, self._idle_ns = self._idle_ns, 0
        return idle

    def next(self, iterator: Any, fetch: Any) -> Any:
        """Return the next batch that the script gets from this iterator."""
        try:
            number = self._last = iterator.__dict__.get(LOADER, 0)
            is_trained = number in self._trained
            is_used = is_trained and number in self._loaders and (self._wanted > 0 or self.run_alone)
            is_replayed = is_used and not self.run_alone and len(self._kept) >= self._wanted
        except Exception:
            self._agent.disable()
            return fetch(iterator)
        if is_used and self.run_alone:
            self._go_on_alone(iterator, fetch, self._loaders[number])
        if is_replayed:
            return self._again(iterator, fetch, number)
        batch = fetch(iterator)
        try:
            if is_used:
                self._keep(batch)
            elif is_trained and len(self._shapes) < SHAPES_MOST:
                self._shapes.add(tuple(tuple(each.shape) for each in _tensors_in(batch)))
        except Exception:
            self._agent.disable()
        return batch

    def start(self, loader: Any, start: Any) -> Any:
        """Return an iterator of a loader. Once its batches are replayed, it starts no more workers."""
        try:
            begin = now_ns()
            iterator = self._iterators.get(loader.__dict__.get(LOADER))
            if iterator is not None:
                iterator._num_yielded = 0
                self._agent.note(kinds.LOADER_OPEN, begin, now_ns(), iterator.__dict__[LOADER])
                return iterator
        except Exception:
            self._agent.disable()
        found = start(loader)
        if LOADER in loader.__dict__:
            self._loaders[loader.__dict__[LOADER]] = loader
        return found

    def _keep(self, batch: Any) -> None:
        kept = KeptBatch(batch)
        self._kept.append(kept)
        if kept.bytes * (len(self._kept) + 1) > REPLAYED_MOST_BYTES:
            self._wanted = len(self._kept)

    def _again(self, iterator: Any, fetch: Any, number: int) -> Any:
        begin = now_ns()
        try:
            self._iterators[number] = iterator
            length = _length_of(self._loaders[number])
            is_over = length is not None and iterator._num_yielded >= length
            if not is_over:
                kept = self._kept[iterator._num_yielded % len(self._kept)]
                iterator._num_yielded += 1
                batch = kept.give()
        except Exception:
            self._agent.disable()
            return fetch(iterator)
        if is_over:
            self._agent.note(kinds.LOADER_END, begin, now_ns(), number)
            raise StopIteration
        self._agent.note(kinds.FETCH, begin, now_ns(), number << kinds.ITEMS_SHIFT | items_of(batch))
        return batch

    def _go_on_alone(self, iterator: Any, fetch: Any, loader: Any) -> None:
        """Fetch until the process is ended: the script gets no further batch."""
        while not self._agent.is_off:
            try:
                fetch(iterator)
            except StopIteration:
                begin = now_ns()
                iterator = iter(loader)
                self._idle_ns += now_ns() - begin
                continue
            self._fetched()


def find_redrawn(dataset: Any) -> Any:
    """Return whether any of some items differs when it is fetched again, within a second; None if that fails."""
    if type(dataset) in (list, tuple):
        return False  # it holds its items
    try:
        return _differ_again(dataset, now_ns())
    except Exception:  # it is used in workers only, or has no such number
        return None


def _differ_again(dataset: Any, began: int) -> bool:
    for number in range(min(AGAIN_ITEMS, len(dataset))):
        first = _values_in(dataset[number])
        for _ in range(AGAIN_TIMES - 1):
            if _values_in(dataset[number]) != first:
                return True
            if now_ns() - began > AGAIN_NS:
                return False
    return False


def _values_in(item: Any) -> list:
    if isinstance(item, dict):
        item = list(item.values())
    if isinstance(item, (list, tuple)):
        return [value for each in item for value in _values_in(each)]
    if isinstance(item, (bool, int, float, str, bytes)):
        return [item]
    array = item.detach().cpu().numpy() if hasattr(item, "detach") else item
    return [array.tobytes()] if hasattr(array, "tobytes") else []


class KeptBatch:
    """A batch that is given again and again. If the script changed its values, they are put back first."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self._tensors = [(each, each.detach().clone()) for each in _tensors_in(batch)]
        self._versions = self._versions_now()
        self.bytes = sum(each.numel() * each.element_size() for each, _ in self._tensors)

    def give(self) -> Any:
        if self._versions_now() != self._versions:
            for each, before in self._tensors:
                each.detach().copy_(before)
            self._versions = self._versions_now()
        return self._batch

    def _versions_now(self) -> list:
        return [each._version for each, _ in self._tensors]


def _tensors_in(batch: Any) -> list:
    if hasattr(batch, "element_size") and hasattr(batch, "_version"):
        return [batch]
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        return [tensor for each in batch for tensor in _tensors_in(each)]
    inner = getattr(batch, "data", None)  # a batch of tokens, as tokenizers make them
    return _tensors_in(inner) if isinstance(inner, dict) else []


def _length_of(loader: Any) -> Any:
    try:
        return len(loader)
    except Exception:
        return None


def hold_loaders(agent: Agent, module: Any) -> None:
    """Let the fetches of data loaders go through the replay."""
    iterator, loader = module._BaseDataLoaderIter, module.DataLoader
    fetch, start = iterator.__next__, loader.__iter__
    replay = agent.hold.replay

    @wraps(fetch)
    def __next__(self):
        return fetch(self) if agent.is_off else replay.next(self, fetch)

    @wraps(start)
    def __iter__(self):
        return start(self) if agent.is_off else replay.start(self, start)

    iterator.__next__ = __next__
    loader.__iter__ = __iter__
