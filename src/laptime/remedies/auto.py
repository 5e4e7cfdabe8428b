"""A PyTorch DataLoader that finds its number of workers while the training goes on: `laptime.auto(loader)`.

The first lap is loaded in turns, each by a DataLoader with other settings. All of them draw from the one sampler of
the given loader. A ticket is kept for each batch that one of them has begun, and batches are delivered in the order of
the tickets. So each batch of the lap comes once and in its place, however often the loaders change. The next loader
starts while the one before it still delivers.

PyTorch is not imported here: where there is a DataLoader, the script has imported it. Of its parts that are not
public, those in `PARTS` are used; a version without them loads as before.
"""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import os
import shutil
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import fsum, inf
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil

from laptime.machine.sensors.cgroup import usable_cores
from laptime.model.errors import UsageError
from laptime.model.quantities import Missing, brief, number, parse_duration
from laptime.model.stats import Interval
from laptime.remedies.auto_changes import fingerprint
from laptime.remedies.auto_search import AHEAD_DEFAULT, LoaderSearch, LoaderSetting, LoaderTurn
from laptime.remedies.cached import free_memory

FIRST_LAP = "first lap"
PATIENCE_HOW = 'leave it out for "first lap", or write a length of time, such as "90s"'
PARTS = ("_BaseDataLoaderIter._next_data", "_BaseDataLoaderIter._reset", "DataLoader._get_iterator")
STRETCHES = 4  # of a turn
TURN_LEAST_S = 0.25  # how long a turn is measured
TURN_MOST_S = 2.0
TURN_SHARE = 0.01  # of a lap, where laps are long
MEMORY_SHARE = 0.5  # how much of the free memory may be taken
WORKER_BYTES = 100_000_000  # what a worker takes for itself, until one was measured
WORKERS_MEMORY = Path("/dev/shm")  # noqa: S108  where PyTorch's workers put their batches
WAITS_FROM = 0.2  # the share of an iteration from which on it waits for its workers
NESTED_MOST = 4  # how deep a batch is looked into
# What each loader has from the given one, and what only one with workers takes.
LOADER_WORDS = ("collate_fn", "pin_memory", "pin_memory_device")
LEFT_ALONE = "the training changes its dataset within an epoch, which worker processes do not see"
WORKER_WORDS = ("timeout", "worker_init_fn", "multiprocessing_context", "in_order")


@dataclass(frozen=True, slots=True)
class Tried:
    """One setting that was measured: how long a batch took, the share of it that was waiting, and in how many turns."""

    workers: int
    prefetch_factor: int | None
    batch_s: float
    waiting: float
    turns: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """What `laptime.auto` has found. `print(loader.chosen)` prints it as a sentence.

    `gain` says how many times as fast as with the given settings the training is, at 95 %, by the turns of the search;
    it is missing where the given settings stayed. `cost_s` is how much longer the batches of the search took than they
    would have with the chosen settings.
    """

    workers: int
    prefetch_factor: int | None
    gain: Interval | Missing
    cost_s: float
    tried: tuple[Tried, ...]

    def __str__(self) -> str:
        ahead = f", prefetch_factor={self.prefetch_factor}" if self.workers else ""
        tried = f"{len(self.tried)} setting{'s' * (len(self.tried) != 1)} tried"
        if isinstance(self.gain, Missing):
            gain = self.gain.missing
        else:
            interval = f"{number(self.gain.low)} to {number(self.gain.high)}"
            gain = f"{number(self.gain.estimate)} times as fast as given ({interval})"
        return f"num_workers={self.workers}{ahead}: {gain}; {tried}, which cost {brief(self.cost_s)} s"


def auto(loader: Any, *, patience: str | float = FIRST_LAP) -> Any:
    """Return a PyTorch DataLoader that finds its number of workers, and of batches ahead, while the training goes on.

        loader = laptime.auto(DataLoader(dataset, batch_size=64, shuffle=True))

    It replaces the given loader: it is of its class, has its attributes, and delivers its batches in its order. In the
    first lap other settings take turns, and the time of the whole iteration is compared: the wait for a batch and what
    the training does with it. The best one stays, with its workers, for all later laps; of equally fast ones, that with
    the fewest workers. The search ends early where the training waits for less than 1 % of its time. With
    `patience="90s"` it goes on for 90 seconds, over several laps if need be.

    `loader.chosen` is what was found, what was tried and what that cost. It is Missing, with a reason, before the
    search has ended, and where the loader is used as it was given: that of an IterableDataset, for example.

    What transforms draw at random differs as it does between any two numbers of workers. The choice depends on the time
    that things take: for runs that can be repeated to the last bit, write what was found into your own DataLoader.
    """
    seconds: float | None = None
    if patience != FIRST_LAP:
        try:
            seconds = parse_duration(patience) if isinstance(patience, str) else float(patience)
        except (TypeError, ValueError) as error:
            raise UsageError(f"patience={patience!r}: that is no length of time", PATIENCE_HOW) from error
        if not 0 < seconds < inf:
            raise UsageError(f"patience={patience!r}: expected more than 0 seconds", PATIENCE_HOW)
    base = getattr(loader, "base_dataloader", None)
    if base is not None:  # Accelerate's loader, which loads by one of PyTorch's
        replaced: Any = copy.copy(loader)
        replaced.base_dataloader = auto(base, patience=patience)
        return replaced
    torch_data = getattr(sys.modules.get("torch"), "utils", None)
    if torch_data is None or not isinstance(loader, torch_data.data.DataLoader):
        raise _wrong_loader(loader)
    kind = type(loader).__mro__[2] if isinstance(loader, AutoLoader) else type(loader)
    replaced = object.__new__(_mixed(AutoLoader, kind))
    vars(replaced).update({**vars(loader), "_laptime_patience_s": seconds, "_laptime_tuning": None, "_iterator": None})
    return replaced


def _wrong_loader(loader: Any) -> UsageError:
    kinds = [kind.__module__.split(".")[0] + "." + kind.__name__ for kind in type(loader).__mro__]
    hint = "give a torch.utils.data.DataLoader"
    if "keras.PyDataset" in kinds:
        hint = "a PyDataset has its workers from its constructor: super().__init__(workers=4, use_multiprocessing=True)"
    elif type(loader).__module__.startswith("tensorflow."):
        hint = "tf.data finds this itself: .map(..., num_parallel_calls=tf.data.AUTOTUNE), .prefetch(tf.data.AUTOTUNE)"
    return UsageError(f"laptime.auto cannot set the workers of this: {type(loader).__name__}", hint)


@cache
def _mixed(mixin: type, base: type) -> type:
    return type(mixin.__name__, (mixin, base), {"__module__": mixin.__module__})


class AutoLoader:
    """Mixed with the class of the given loader. The search begins with the first lap."""

    # A framework may make another of this class, from the loader's arguments: it has these.
    _laptime_patience_s: float | None = None
    _laptime_tuning: LoaderTuning | None = None

    @property
    def chosen(self) -> Chosen | Missing:
        """What was found, and what it cost; Missing before that, and where nothing is searched."""
        if (reason := _why_as_given(self)) is not None:
            return Missing(reason)
        tuning = self._laptime_tuning
        return Missing("no batch was loaded yet") if tuning is None else tuning.chosen()

    def _get_iterator(self) -> Any:
        if _why_as_given(self) is not None:
            return super()._get_iterator()  # type: ignore[misc]
        base = sys.modules["torch"].utils.data.dataloader._BaseDataLoaderIter  # noqa: SLF001
        return _mixed(AutoIterator, base)(self)


class AutoIterator:
    """Mixed with PyTorch's class of iterators, which draws from the random numbers what the given loader would."""

    _sampler_iter: Iterator[Any]
    _base_seed: int

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)  # type: ignore[call-arg]
        if loader.num_workers:  # with workers PyTorch begins its sampler twice
            super()._reset(loader, first_iter=True)  # type: ignore[misc]
        if loader._laptime_tuning is None:  # noqa: SLF001
            loader._laptime_tuning = LoaderTuning(loader, self._base_seed)  # noqa: SLF001
        self._tuning = loader._laptime_tuning  # noqa: SLF001
        self._lap = self._tuning.begin_lap(self._sampler_iter)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:  # noqa: FBT001, FBT002  as PyTorch's own
        super()._reset(loader, first_iter)  # type: ignore[misc]
        self._lap = self._tuning.begin_lap(self._sampler_iter)

    def _next_data(self) -> Any:
        return self._tuning.next_batch(self._lap)


def _why_as_given(loader: Any) -> str | None:
    """Return why a loader is used as it was given; None where its workers can be changed."""
    data = sys.modules["torch"].utils.data
    if isinstance(loader.dataset, data.IterableDataset):
        return "each worker of an IterableDataset has a copy of it: with other workers it would deliver other batches"
    if isinstance(loader.dataset, data.MapDataPipe):
        return "a MapDataPipe is divided among its workers"
    kind: Any = type(loader).__mro__[2]
    if kind._get_iterator is not data.DataLoader._get_iterator:  # noqa: SLF001
        return f"{kind.__name__} loads in a way of its own"
    if any(not hasattr(getattr(data.dataloader, kind), name) for kind, name in (part.split(".") for part in PARTS)):
        return f"PyTorch {sys.modules['torch'].__version__} loads in a way that laptime does not know"
    if multiprocessing.current_process().daemon:
        return "this process may not start others"
    # The plain question would settle the method, which a script may not do twice.
    starts = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    if starts != "fork" and not loader.num_workers:
        return f"workers start by {starts} here, which runs a script again: give num_workers=1 where yours allows it"
    return None


class Lap:
    """One go through the sampler: the batches that are left, and a ticket for each that was begun, in order."""

    def __init__(self, indices: Iterator[Any]) -> None:
        self.indices = indices
        self.tickets: deque[tuple[int, Any]] = deque()  # the number of a source, and what the sampler named
        self.delivered = 0
        self.is_broken = False  # the sampler failed
        self.alone: Any = None  # what loads the rest, once another lap has begun
        self.last_s: float | None = None  # when the last batch was delivered

    def rest(self) -> Iterator[Any]:
        """Return what was not delivered."""
        yield from [index for _, index in self.tickets]
        yield from self.indices


class TicketFeed:
    """The sampler of a source: while it is open, it takes the next batches of a lap, and a ticket for each."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.lap: Lap | None = None
        self.is_open = False

    def __iter__(self) -> Iterator[Any]:
        lap = self.lap
        while lap is not None and self.is_open:
            try:
                index = next(lap.indices)
            except StopIteration:
                return
            except BaseException:
                lap.is_broken = True
                raise
            lap.tickets.append((self._number, index))
            yield index


class Source:
    """A DataLoader with a setting of its own. No reference leads back to it, so its workers end when it is dropped.

    `state` is the fingerprint of what its workers hold.
    """

    def __init__(self, number: int, given: Any, setting: LoaderSetting, generator: Any, state: int) -> None:
        self.number = number
        self.setting = setting
        self.state = state
        self._feed = TicketFeed(number)
        self._batches: Any = None
        words: dict[str, Any] = {}
        if setting.workers:
            words = {name: getattr(given, name) for name in WORKER_WORDS if hasattr(given, name)}
            words |= {"prefetch_factor": setting.prefetch, "persistent_workers": True}
        self._loader = _plain_loader(given, self._feed, num_workers=setting.workers, generator=generator, **words)

    def open(self, lap: Lap) -> None:
        """Begin to load the next batches of a lap."""
        self._feed.lap = lap
        self._feed.is_open = True
        # Not by the public `iter` and `next`: an agent that watches would note each batch twice.
        if self._batches is None or not self.setting.workers:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that there are more workers than cores
                self._batches = self._loader._get_iterator()  # noqa: SLF001
        else:
            self._batches._reset(self._loader)  # noqa: SLF001

    def close(self) -> None:
        """Take no further batch. What was begun will be delivered."""
        self._feed.is_open = False

    def end(self) -> None:
        """End the workers now. Python's collector of cycles, which would end them, waits five seconds for each."""
        end = getattr(self._batches, "_shutdown_workers", None)
        if end is not None:
            end()

    def next(self) -> Any:
        return self._batches._next_data()  # noqa: SLF001


def _plain_loader(given: Any, sampler: Any, **words: Any) -> Any:
    """Return PyTorch's loader of the same dataset by another sampler, which yields what the given loader's does."""
    is_batched = given.batch_sampler is not None
    sampled = {"batch_sampler": sampler} if is_batched else {"sampler": sampler, "batch_size": None}
    words |= {name: getattr(given, name) for name in LOADER_WORDS if hasattr(given, name)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return sys.modules["torch"].utils.data.DataLoader(given.dataset, **sampled, **words)


class LoaderTuning:
    """What an `AutoLoader` keeps from lap to lap: its sources, and the search while it goes on."""

    def __init__(self, loader: Any, seed: int) -> None:
        self._given = copy.copy(loader)  # an iterator may outlive its loader
        self._random = sys.modules["torch"].Generator().manual_seed(seed)
        given = LoaderSetting(
            loader.num_workers, (loader.prefetch_factor or AHEAD_DEFAULT) if loader.num_workers else 0
        )
        ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
        cores = max(1, usable_cores() // (int(ranks) if ranks.isdecimal() and int(ranks) else 1))
        self._memory = MemoryRoom()
        self._search = LoaderSearch(given, cores, self._memory.holds)
        self._sources: dict[int, Source] = {}  # by number
        self._opened_ever = 0
        self._source: Source | None = None
        self._meter: Meter | None = None
        self._lap: weakref.ref[Lap] | None = None
        self._patience_s = loader._laptime_patience_s  # noqa: SLF001
        self._state = 0  # the fingerprint of what the loader's items are made of, when it was looked at last
        self._made_here = False  # whether items were made in this process since then: that may change their dataset
        self._is_left_alone = False
        self._batches: float = inf  # of a lap
        with contextlib.suppress(TypeError):
            self._batches = len(loader)
        self._searched_s = 0.0
        self._searched = 0
        self._cost_s = 0.0

    def begin_lap(self, indices: Iterator[Any]) -> Lap:
        self._look()
        if not self._given.persistent_workers:  # workers that stay would not see what was changed
            outdated = [source for source in self._sources.values() if source.state != self._state]
            for source in outdated:
                self._end_source(source)
        lap = Lap(indices)
        self._lap = weakref.ref(lap)
        self._source = None
        self._change(lap)
        return lap

    def next_batch(self, lap: Lap) -> Any:
        if self._lap is None or self._lap() is not lap:  # another lap was begun before this one had ended
            if lap.alone is None:
                lap.alone = self._load_alone(lap.rest())
            return next(lap.alone)
        begin_s = perf_counter()
        try:
            batch = self._take(lap)
        except StopIteration:
            if self._batches == inf:
                self._look_within_lap()
            self._end_search()
            self._source = None
            if self._search.is_over:
                of_chosen = [source for source in self._sources.values() if source.setting == self._search.current]
                self._end_sources(but=of_chosen[0] if of_chosen else None)
            raise
        lap.delivered += 1
        if lap.delivered == self._batches:
            self._look_within_lap()
        if not self._search.is_over:
            self._judge(lap, begin_s, batch)
            if lap.delivered == self._batches:  # Lightning asks for no more than a lap has
                self._end_search()
        elif len(self._sources) > 1 and all(number == self._number() for number, _ in lap.tickets):
            self._end_sources(but=self._source)
        return batch

    def chosen(self) -> Chosen | Missing:
        if self._is_left_alone:
            return Missing(LEFT_ALONE)
        if not self._search.is_over:
            return Missing("the search goes on: it ends with the first lap, or when its patience does")
        search = self._search
        chosen = search.current
        gain: Interval | Missing | None = search.gain()
        if gain is None and not search.turns:
            gain = Missing('the lap was too short to measure a setting: patience="1m" goes on in later laps')
        elif gain is None:
            gain = Missing("the given settings stayed" if chosen == search.given else "they were not measured")
        return Chosen(
            workers=chosen.workers,
            prefetch_factor=chosen.prefetch or None,
            gain=gain,
            cost_s=self._cost_s,
            tried=tuple(
                Tried(
                    setting.workers,
                    setting.prefetch or None,
                    search.batch_s(setting),
                    search.waiting(setting),
                    len(turns),
                )
                for setting, turns in sorted(search.turns.items())
            ),
        )

    def _take(self, lap: Lap) -> Any:
        """Return the next batch in order, by the source that has begun it."""
        number = lap.tickets[0][0] if lap.tickets else self._number()
        source = self._sources.get(number)
        if source is None:
            if not lap.tickets:
                raise StopIteration
            return next(self._load_alone(iter([lap.tickets.popleft()[1]])))  # its source has failed
        self._made_here |= not source.setting.workers
        try:
            batch = source.next()
        except StopIteration:
            raise
        except Exception:
            if not lap.tickets:
                raise
            index = lap.tickets.popleft()[1]
            if self._search.is_over or source.setting == self._search.given or lap.is_broken:
                raise
            return self._leave_out(lap, source, index)
        lap.tickets.popleft()
        return batch

    def _leave_out(self, lap: Lap, source: Source, index: Any) -> Any:
        """Return a batch that a setting could not load, and leave the setting out, unless it cannot be loaded at all.

        A dataset that holds a card, or a file that one process alone may read, works without workers only.
        """
        batch = next(self._load_alone(iter([index])))
        self._end_source(source)  # one whose worker was killed would deliver others than those of its tickets
        if source is self._source:
            self._source = None
            self._search.fail()
            self._change(lap)
        return batch

    def _load_alone(self, indices: Iterator[Any]) -> Any:
        """Return an iterator that loads these batches in this process."""
        self._made_here = True
        return iter(_plain_loader(self._given, indices, generator=self._random))

    def _judge(self, lap: Lap, begin_s: float, batch: Any) -> None:
        """Measure an iteration, and change to the next setting after a turn."""
        end_s = perf_counter()
        self._memory.batch_bytes = self._memory.batch_bytes or _bytes_of(batch)
        last_s = lap.last_s
        lap.last_s = end_s
        if last_s is None or self._meter is None:
            return
        self._searched_s += end_s - last_s
        self._searched += 1
        turn = self._meter.add(last_s, begin_s, end_s)
        lap.last_s = self._meter.now_s
        if turn is not None:
            if turn.setting.workers:
                self._memory.note_workers()
            self._search.take(turn)
            self._look_within_lap()
        if self._patience_s is not None and self._searched_s > self._patience_s:
            self._search.end()
        if turn is not None or self._search.is_over:
            self._change(lap)

    def _change(self, lap: Lap) -> None:
        """Load from now on with the setting that the search wants."""
        setting = self._search.current
        left_out = (0, 0)
        if self._source is None or self._source.setting != setting:
            if self._source is not None:
                self._source.close()
            self._source = self._opened(lap, setting)
            begun = 1 + len(lap.tickets)
            left_out = int(min(begun, self._batches / 2)), int(min(3 * begun, self._batches / 2))
        if self._search.is_over:
            self._cost_s = self._count_cost()
        elif self._meter is not None and not self._meter.is_full and self._meter.setting == setting:
            self._meter.leave_out(*left_out)  # another lap has begun within a turn
        else:
            turn_s = TURN_LEAST_S
            if self._search.turns and self._batches != inf:
                fastest_s = min(map(self._search.batch_s, self._search.turns))
                turn_s = min(TURN_MOST_S, max(TURN_LEAST_S, TURN_SHARE * self._batches * fastest_s))
            self._meter = Meter(self._source.setting, left_out, turn_s, self._search.hopeless_s())

    def _opened(self, lap: Lap, setting: LoaderSetting) -> Source:
        try:
            # A source that has nothing to deliver any more: opened again, it forgets what it has begun.
            busy = {number for number, _ in lap.tickets}
            alike = [source for source in self._sources.values() if source.setting == setting]
            idle = [source for source in alike if source.number not in busy]
            if idle:
                source = idle[0]
            else:
                self._opened_ever += 1
                source = Source(self._opened_ever, self._given, setting, self._random, self._state)
            source.open(lap)
        except (OSError, RuntimeError, TypeError, AttributeError, ValueError):
            if setting == self._search.given or lap.is_broken:
                raise
            self._search.fail()  # no process can be started, or the dataset cannot be sent to one
            return self._opened(lap, self._search.current)
        self._sources[source.number] = source
        return source

    def _number(self) -> int:
        return 0 if self._source is None else self._source.number

    def _end_search(self) -> None:
        if not self._search.is_over and self._patience_s is None:
            self._search.end()
            self._cost_s = self._count_cost()

    def _end_sources(self, but: Source | None = None) -> None:
        for source in tuple(self._sources.values()):
            if source is not but:
                self._end_source(source)

    def _end_source(self, source: Source) -> None:
        del self._sources[source.number]
        source.end()

    def _look(self) -> bool:
        """Look at what the items are made of. Return whether the training has changed it since the last look."""
        before = self._state
        self._state = fingerprint(self._given)
        made_here = self._made_here
        self._made_here = False
        return self._state != before and not made_here

    def _look_within_lap(self) -> None:
        """Load as given from now on if a training without workers changes its dataset while it goes through it."""
        if self._given.num_workers == 0 and self._look() and not self._is_left_alone:
            self._is_left_alone = True
            self._search.stay()
            warnings.warn(f"laptime.auto loads as the DataLoader was given: {LEFT_ALONE}", stacklevel=2)

    def _count_cost(self) -> float:
        """Return how much longer the search took than as many batches with the chosen setting."""
        if self._search.current not in self._search.turns:
            return 0.0
        return max(0.0, self._searched_s - self._searched * self._search.batch_s(self._search.current))


class MemoryRoom:
    """What workers and their batches take."""

    def __init__(self) -> None:
        self.batch_bytes = 0
        self._worker_bytes = 0

    def note_workers(self) -> None:
        """Note what a worker takes for itself, once there is one."""
        if self._worker_bytes:
            return
        for process in multiprocessing.active_children():
            with contextlib.suppress(psutil.Error):
                self._worker_bytes = max(self._worker_bytes, psutil.Process(process.pid).memory_full_info().uss)

    def holds(self, setting: LoaderSetting) -> bool:
        """Whether half of the free memory holds the workers of a setting and the batches that they prepare."""
        batches = setting.workers * setting.prefetch * self.batch_bytes
        shared = shutil.disk_usage(WORKERS_MEMORY).free if WORKERS_MEMORY.is_dir() else inf
        wanted = setting.workers * (self._worker_bytes or WORKER_BYTES) + batches
        return wanted <= MEMORY_SHARE * free_memory()[0] and batches <= MEMORY_SHARE * shared


class Meter:
    """Measures one turn: it leaves out the first batches, and then takes stretches of time."""

    def __init__(self, setting: LoaderSetting, left_out: tuple[int, int], turn_s: float, hopeless_s: float) -> None:
        self.setting = setting
        self._stretch_s = turn_s / STRETCHES
        self._hopeless_s = hopeless_s
        self._stretches: list[float] = []
        self._seconds = self._waited_s = self._total_s = 0.0
        self._batches = 0
        self.now_s = 0.0  # when the last batch was delivered, to count the next one from
        self.is_full = False
        self.leave_out(*left_out)

    def leave_out(self, least: int, most: int) -> None:
        """Leave out the next batches: those of the setting before, and those that were loaded while they were used."""
        self._left_out = least
        self._left_out_most = most

    def add(self, last_s: float, begin_s: float, end_s: float) -> LoaderTurn | None:
        """Add an iteration, from the last batch to this one, of which the part from `begin_s` was waiting."""
        self.now_s = end_s
        if self._left_out_most:
            self._left_out -= 1
            self._left_out_most -= 1
            # A turn begins where the training waits for its workers: no batch is left that was loaded before. Or where
            # it never does.
            if self._left_out <= 0 and end_s - begin_s > WAITS_FROM * (end_s - last_s):
                self._left_out_most = 0
            if not self._left_out_most:
                _wait_for_device()
                self.now_s = perf_counter()
            return None
        self._seconds += end_s - last_s
        self._waited_s += end_s - begin_s
        self._batches += 1
        # Workers deliver in bursts, so a stretch has as many batches of each.
        if self._batches % max(1, self.setting.workers) or self._seconds < self._stretch_s:
            return None
        if len(self._stretches) == STRETCHES - 1:
            _wait_for_device()
            self.now_s = perf_counter()
            self._seconds += self.now_s - end_s
        self._stretches.append(self._seconds / self._batches)
        self._total_s += self._seconds
        self._seconds = 0.0
        self._batches = 0
        if len(self._stretches) < STRETCHES and fsum(self._stretches) < self._hopeless_s * len(self._stretches):
            return None
        self.is_full = True
        return LoaderTurn(self.setting, tuple(self._stretches), min(1.0, self._waited_s / self._total_s))


def _wait_for_device() -> None:
    """Wait until a card has done what it was given: without this, a turn would leave its work to the next one."""
    cuda = sys.modules["torch"].cuda
    if cuda.is_initialized():
        cuda.synchronize()


def _bytes_of(batch: Any, depth: int = 0) -> int:
    """Return the bytes of a batch's arrays."""
    size = getattr(batch, "nbytes", None)
    if isinstance(size, int):
        return size
    if depth == NESTED_MOST or not isinstance(batch, dict | list | tuple):
        return 0
    parts = batch.values() if isinstance(batch, dict) else batch
    return int(fsum(_bytes_of(part, depth + 1) for part in parts))
