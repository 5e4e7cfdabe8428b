"""Which number of workers, and how many batches ahead, a training is fastest with: the search of `laptime.auto`.

It is given turns: how long a batch took while a setting fed the training. It names the setting of the next turn. First
it goes from setting to setting, to more workers while that helps and then to fewer. Then the best ones take turns, so
that what the machine does meanwhile meets all of them. It knows no framework.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, fsum, inf

from laptime.model.stats import Interval, median, paired_ratio, unpaired_ratio

LADDER = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
AHEAD_DEFAULT = 2  # batches that a worker prepares ahead, as PyTorch has it
AHEAD_MOST = 8  # the most that are tried
NO_WAITING = 0.01  # a training that waits less has nothing to gain from more workers
TIE = 0.02  # a setting with fewer workers is taken where it is slower by less
HOPELESS = 2.0  # how much slower than the best one a setting is when its turn ends at once
NEAR = 1.10  # how much slower than the best one a setting may seem and still be measured again
SCREENED_MOST = 8
FINALISTS_MOST = 3
CONFIRM_ROUNDS_LEAST = 2
CONFIRM_ROUNDS_MOST = 4
GAIN_ALPHA = 0.05


@dataclass(frozen=True, slots=True, order=True)
class LoaderSetting:
    """Workers, and batches that each prepares ahead. Fewer of either take less memory, and come first in order."""

    workers: int
    prefetch: int


@dataclass(frozen=True, slots=True)
class LoaderTurn:
    """What a training did while a setting fed it: seconds a batch, in a few stretches, and the share of waiting."""

    setting: LoaderSetting
    stretches_s: tuple[float, ...]
    waiting: float

    @property
    def batch_s(self) -> float:
        return fsum(self.stretches_s) / len(self.stretches_s)

    @property
    def spread(self) -> float:
        """How far apart the stretches are, as a share of the mean."""
        return (max(self.stretches_s) - min(self.stretches_s)) / self.batch_s

    @property
    def own_s(self) -> float:
        """Seconds a batch that the training computes."""
        return self.batch_s * (1 - self.waiting)


class LoaderSearch:
    """The state of a search. `current` is the setting of the next turn, and the chosen one once `is_over`."""

    def __init__(self, given: LoaderSetting, cores: int, can_take: Callable[[LoaderSetting], bool]) -> None:
        """`can_take` says whether there is memory for a setting."""
        self.given = self.current = given
        self.is_over = False
        self.turns: dict[LoaderSetting, list[LoaderTurn]] = {}
        self._most = max(2 * cores, given.workers)
        self._cores = cores
        self._can_take = can_take
        self._failed: set[LoaderSetting] = set()
        self._finalists: list[LoaderSetting] = []
        self._queue: list[LoaderSetting] = []
        self._rounds = 0

    def take(self, turn: LoaderTurn) -> None:
        """Note a turn of the current setting, and go on to the next one."""
        self.turns.setdefault(turn.setting, []).append(turn)
        self._go_on()

    def fail(self) -> None:
        """Leave out the current setting, which could not load a batch."""
        self._failed.add(self.current)
        self.turns.pop(self.current, None)
        self._queue = [loader_setting for loader_setting in self._queue if loader_setting != self.current]
        self._finalists = [finalist for finalist in self._finalists if finalist != self.current]
        self._go_on()

    def end(self) -> None:
        """Choose from what is known: the fewest workers among the settings that are as fast as the fastest one."""
        self.is_over = True
        self.current = self._cheapest(self._finalists or list(self.turns)) if self.turns else self.given

    def stay(self) -> None:
        """Choose the given setting, whatever is known."""
        self.is_over = True
        self.current = self.given

    def gain(self) -> Interval | None:
        """How many times as fast as the given setting the chosen one was; None where it is the given one."""
        ours = self.turns.get(self.current)
        theirs = self.turns.get(self.given)
        if self.current == self.given or not ours or not theirs:
            return None
        if min(len(ours), len(theirs)) > CONFIRM_ROUNDS_LEAST:
            pairs = min(len(ours), len(theirs))
            return paired_ratio(
                [turn.batch_s for turn in ours[:pairs]], [turn.batch_s for turn in theirs[:pairs]], GAIN_ALPHA
            )
        return unpaired_ratio(_stretches(theirs), _stretches(ours), GAIN_ALPHA)

    def hopeless_s(self) -> float:
        """Seconds a batch from which on a turn of another setting need not go on."""
        return HOPELESS * min(map(self.batch_s, self.turns), default=inf)

    def batch_s(self, setting: LoaderSetting) -> float:
        return median([turn.batch_s for turn in self.turns[setting]])

    def waiting(self, setting: LoaderSetting) -> float:
        return median([turn.waiting for turn in self.turns[setting]])

    def _go_on(self) -> None:
        following = self._screen() if not self._rounds else None
        following = following or self._confirm()
        if following is None:
            self.end()
        else:
            self.current = following

    def _screen(self) -> LoaderSetting | None:
        """Return the next setting that was not tried yet and may be better."""
        if not self.turns:
            return None if self.given in self._failed else self.given
        if len(self.turns) >= SCREENED_MOST:
            return None
        best = min(self.turns, key=self.batch_s)
        if self.waiting(best) > NO_WAITING:
            # A setting with as many workers as the wait asks for, at first; then the next one above the best. A turn in
            # which other processes stopped the training asks for too few, and a later one may ask for more.
            known = [turn for turns in self.turns.values() for turn in turns]
            own_s = min(turn.own_s for turn in known)
            loads_s = self.batch_s(best) * (best.workers or self.waiting(best))
            asked = min(ceil(loads_s / max(own_s, 1e-9)), max(self._cores, best.workers + 1))
            for wanted in (asked,) if len(known) == 1 else (best.workers + 1, asked):
                more = self._at_workers(min((rung for rung in LADDER if rung >= wanted), default=-1))
                if more is not None:
                    return more
        cheapest = self._cheapest(list(self.turns))
        fewer = self._at_workers(max((rung for rung in LADDER if rung < cheapest.workers), default=-1))
        if fewer is None and self.waiting(best) > NO_WAITING:
            # What waits for the way from a worker rather than for the loading is fastest without any.
            fewer = self._at_workers(0)
        return fewer or self._further_ahead(cheapest)

    def _further_ahead(self, cheapest: LoaderSetting) -> LoaderSetting | None:
        """Return a setting that prepares more batches ahead: that may help where batches take unequally long."""
        if not cheapest.workers or self.waiting(cheapest) <= NO_WAITING:
            return None
        base = min(turn.prefetch for turn in self.turns if turn.workers == cheapest.workers)
        most = LoaderSetting(cheapest.workers, AHEAD_MOST)
        if base >= AHEAD_MOST or most not in self.turns:
            return self._untried(most) if base < AHEAD_MOST else None
        helps = self.batch_s(most) < self.batch_s(LoaderSetting(cheapest.workers, base)) * (1 - TIE)
        return self._untried(LoaderSetting(cheapest.workers, 2 * base)) if helps and 2 * base < AHEAD_MOST else None

    def _at_workers(self, workers: int) -> LoaderSetting | None:
        if not 0 <= workers <= self._most or any(turn.workers == workers for turn in self.turns):
            return None
        return self._untried(LoaderSetting(workers, (self.given.prefetch or AHEAD_DEFAULT) if workers else 0))

    def _untried(self, setting: LoaderSetting) -> LoaderSetting | None:
        is_known = setting in self.turns or setting in self._failed
        return None if is_known or not self._can_take(setting) else setting

    def _confirm(self) -> LoaderSetting | None:
        """Return the next of the best settings, which take turns; None once they are told apart, or are as fast."""
        if not self._rounds:
            # The settings that may be the best, and among them the one with the fewest workers
            if not self.turns:
                self._finalists = []
            else:
                ordered = sorted(self.turns, key=self.batch_s)
                spread = median([turn.spread for turns in self.turns.values() for turn in turns])
                most_s = max(NEAR, 1 + spread) * self.batch_s(ordered[0])  # on busy cores a turn says less
                near = [loader_setting for loader_setting in ordered if self.batch_s(loader_setting) <= most_s]
                self._finalists = sorted({*near[: FINALISTS_MOST - 1], min(near)}, key=self.batch_s)
        if not self._queue:
            self._finalists = [finalist for finalist in self._finalists if not self._is_slower(finalist)]
            if len(self._finalists) < 2 or self._rounds == CONFIRM_ROUNDS_MOST:
                return None
            self._rounds += 1
            self._queue = self._finalists[:: -1 if self._rounds % 2 else 1]
        return self._queue.pop(0)

    def _is_slower(self, setting: LoaderSetting) -> bool:
        """Whether a finalist is surely slower than the fastest one, after a few rounds."""
        fastest = min(self._finalists, key=self.batch_s)
        if setting == fastest or self._rounds < CONFIRM_ROUNDS_LEAST:
            return False
        ratios = self._ratios(setting, fastest)
        return median(ratios) > NEAR or paired_ratio([1.0] * len(ratios), ratios, GAIN_ALPHA).low > 1 + TIE

    def _ratios(self, setting: LoaderSetting, fastest: LoaderSetting) -> list[float]:
        """Return how much longer a setting's batch takes, by the turns of each round."""
        pairs = zip(self.turns[setting], self.turns[fastest], strict=False)
        return [ours.batch_s / theirs.batch_s for ours, theirs in pairs]

    def _cheapest(self, settings: Sequence[LoaderSetting]) -> LoaderSetting:
        """Return the setting with the fewest workers among those that are as fast as the fastest one."""
        fastest = min(settings, key=self.batch_s)
        return min(setting for setting in settings if median(self._ratios(setting, fastest)) <= 1 + TIE)


def _stretches(turns: Sequence[LoaderTurn]) -> list[float]:
    return [stretch_s for turn in turns for stretch_s in turn.stretches_s]
