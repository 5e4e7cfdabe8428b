"""How near `laptime tune` comes to the best, and whether the gain that it states holds in a later race.

    python bench/tune.py [--out FILE.json] [--only gain] [--only grid] [--only repeat] [--what cifar-mlp]
                         [--left-out execution,threads]

**gain**: each network is tuned on PyTorch with --allow precision, then the winner races the lane as written once more,
next to Keras on TensorFlow as written. The winner has to beat both by the limits below, and the later race has to
agree within 5 %. **grid**: all sets of all settings that a tuning may try, a heat each, and more of the best ones until
--grid-s; the best of them by the same rating races the winner of a tuning, which has a fifth of the time. --left-out
names settings that the grid, but not the tuning, does without: all sets of cifar-cnn are 1,024, those of scenes-cnn
more than 10,000. **repeat**: tunings of --budget, each with a later race; nine of ten have to agree within 5 %, and all
name the same winner or a tie; --after goes on from the repeats of an earlier run.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import laptime
from common import Figure, finish, fresh_home, parser_for
from laptime import api
from laptime.model.ask import Ask
from laptime.model.machine import Machine
from laptime.questions.tune.nouns import TunedLane
from laptime.questions.tune.run import TunePrepared, prepare_tune

PARTS = ("gain", "grid", "repeat")
LANE = "torch/cpu"
KERAS = "keras-tf/cpu"
LEAST = {"cifar-mlp": 2.8, "cifar-cnn": 2.4, "scenes-cnn": 6.0}
LEAST_OF_KERAS = {"cifar-mlp": 1.4, "cifar-cnn": 1.8, "scenes-cnn": 2.2}
AGREES = 0.05
OF_GRID, OF_ITS_TIME = 0.97, 0.2
LATER_BUDGET, LATER_ROUNDS = "2m", 8
REPEATS = 20
Repeats = Sequence[dict[str, Any]]


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--what", choices=LEAST, action="append", help="only these networks")
    parser.add_argument("--budget", default="5m", help="of a tuning in gain and in repeat")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--grid-s", type=float, default=2400.0, help="a grid that took less tries its best sets again")
    parser.add_argument("--left-out", default="", metavar="NAMES", help="settings that no set of the grid has")
    parser.add_argument("--after", type=Path, metavar="FILE.json", help="repeats of this machine to go on from")
    given = parser.parse_args()
    chosen, what = given.only or PARTS, given.what or tuple(LEAST)
    figures: list[Figure] = []
    details: dict[str, Any] = {}
    with fresh_home() as _place:
        if "gain" in chosen:
            figures += [figure for name in what for figure in check_gain(name, given.budget, details)]
        if "grid" in chosen:
            left_out = tuple(filter(None, given.left_out.split(",")))
            figures += [figure for name in what for figure in check_grid(name, left_out, given.grid_s, details)]
        if "repeat" in chosen:
            before = json.loads(given.after.read_text())["details"][f"repeat: {what[0]}"] if given.after else []
            figures += check_repeats(what[0], given.repeats, given.budget, before, details)
    return finish("tune", figures, given.out, details=details)


def check_gain(what: str, budget: str, details: dict[str, Any]) -> list[Figure]:
    """Tune, then race the winner against the lane as written."""
    tuned, took_s = tune(what, budget)
    stated, (later, between, over_keras) = gain_of(tuned), race_with_keras(what, tuned)
    details[f"gain: {what}"] = {
        "words": tuned.words, "stated": stated, "stated_between": ends_of(tuned.gain), "later": later,
        "later_between": between, "seemed": tuned.seemed, "tried": tuned.tried,
        "over_keras": over_keras, "alone": {each.word: each.alone and each.alone.ratio for each in tuned.settings},
        "took_s": took_s, "ties": tuned.ties,
    }  # fmt: skip
    told = f"stated {stated}, later {later}, over Keras {over_keras}, {took_s:.0f} s"
    print(f"{what}: {'+'.join(tuned.words)} {told}", flush=True)
    return [
        Figure(f"{what}: the winner over Keras on TensorFlow", over_keras, "times", least=LEAST_OF_KERAS[what]),
        Figure(f"{what}: the winner's gain in a later race", later, "times", least=LEAST[what]),
        Figure(f"{what}: the stated gain over that, less 1", off(stated, later), "", most=AGREES, least=-AGREES),
    ]


def check_grid(what: str, left_out: Sequence[str], budget_s: float, details: dict[str, Any]) -> list[Figure]:
    """Run every set of settings once, then the best ones again, and race the best against the winner of a tuning."""
    began_s = time.monotonic()
    record = api.answer(
        "tune", Ask(what, (LANE,), budget_s=budget_s, tune=ASKED), prepare=partial(_prepare_grid, left_out)
    )
    grid_s = time.monotonic() - began_s
    answer = record.answer
    assert hasattr(answer, "tuning")
    best: TunedLane = answer.tuning.lanes[0]
    a_fifth_s = OF_ITS_TIME * grid_s
    tuned, took_s = tune(what, f"{a_fifth_s:.0f}s")
    found = laptime.race(what, [best.winner, tuned.winner], heats=7, budget="10m", progress=False)
    ratio = 1.0 if best.winner == tuned.winner else found.ratios[tuned.winner].value
    details[f"grid: {what}"] = {
        "sets": best.tried, "left_out": left_out, "best": best.words, "grid_s": grid_s, "words": tuned.words,
        "took_s": took_s, "budget_s": a_fifth_s, "ratio": ratio,
    }  # fmt: skip
    print(f"{what}: grid {'+'.join(best.words)} in {grid_s:.0f} s, tune {'+'.join(tuned.words)} in {took_s:.0f} s")
    return [
        Figure(f"{what}: the winner over the grid's best", ratio, "times", least=OF_GRID),
        Figure(f"{what}: its time over the grid's", took_s / grid_s, "times", most=OF_ITS_TIME),
    ]


def _prepare_grid(left_out: Sequence[str], asked: Ask, machine: Machine) -> TunePrepared:
    """Prepare a tuning whose presets are all sets of settings: they race first, and nothing is left to try."""
    prepared = prepare_tune(asked, machine)
    (one,) = prepared.tunables
    values = {name: each for name, each in one.values.items() if name not in left_out}
    choices = [[None, *each] for each in values.values()]
    every = (
        tuple((name, value) for name, value in zip(values, chosen, strict=True) if value is not None)
        for chosen in itertools.product(*choices)
    )
    grid = replace(one, values={}, known=tuple(words for words in every if words))
    return replace(prepared, tunables=(grid,))


def check_repeats(what: str, repeats: int, budget: str, before: Repeats, details: dict[str, Any]) -> list[Figure]:
    """Tune again and again, each time with a later race, until there are `repeats` with those that were run before."""
    every = list(before)
    while len(every) < repeats:
        tuned, took_s = tune(what, budget)
        stated, (later, between) = gain_of(tuned), race(what, tuned)
        every.append({
            "words": list(tuned.words), "stated": stated, "stated_between": ends_of(tuned.gain), "pairs": tuned.pairs,
            "later": later, "later_between": between, "ties": list(tuned.ties), "took_s": took_s,
        })  # fmt: skip
        print(f"{what}: {'+'.join(tuned.words)} stated {stated} ({tuned.pairs} pairs), later {later}", flush=True)
    details[f"repeat: {what}"] = every
    winners = [tuple(each["words"]) for each in every]
    common = max(set(winners), key=winners.count)
    agree = [abs(off(each["stated"], each["later"]) or 0.0) <= AGREES for each in every]
    same = [tuple(each["words"]) == common or "+".join(common) in each["ties"] for each in every]
    return [
        Figure(f"{what}: stated gains that a later race finds again within 5 %", share(agree), "", least=0.9),
        Figure(f"{what}: tunings that name the usual winner, or a tie with it", share(same), "", least=0.9),
    ]


def share(found: Sequence[bool]) -> float:
    return sum(found) / len(found)


def tune(what: str, budget: str) -> tuple[TunedLane, float]:
    began_s = time.monotonic()
    found = laptime.tune(what, LANE, allow="precision", budget=budget, progress=False)
    return found.tuned[0], time.monotonic() - began_s


def race(what: str, tuned: TunedLane) -> tuple[float, list[float | None]]:
    """Return how many times as fast as the lane as written the winner is, in a race of its own, with its interval."""
    if not tuned.words:
        return 1.0, [1.0, 1.0]
    found = laptime.race(what, [LANE, tuned.winner], heats=LATER_ROUNDS, budget=LATER_BUDGET, progress=False).ratio
    return float(found.value), ends_of(found)


def race_with_keras(what: str, tuned: TunedLane) -> tuple[float, list[float | None], float]:
    """Return how many times as fast the winner is as the lane as written, with its interval, and as Keras is."""
    found = laptime.race(what, [LANE, tuned.winner, KERAS], heats=LATER_ROUNDS, budget="10m", progress=False)
    gain = found.ratios[tuned.winner] if tuned.words else None
    winner = gain.value if gain else 1.0
    of_keras = next(ratio.value for name, ratio in found.ratios.items() if name.startswith(KERAS))
    return float(winner), ends_of(gain), float(winner / of_keras)


def gain_of(tuned: TunedLane) -> float | None:
    return 1.0 if not tuned.words else None if tuned.gain is None else tuned.gain.ratio


def ends_of(factor: Any) -> list[float | None]:
    """Return the ends of a factor's interval, where it has one."""
    return [end if isinstance(end := getattr(factor, name, None), float) else None for name in ("low", "high")]


def off(stated: float | None, later: float | None) -> float | None:
    return None if stated is None or later is None else stated / later - 1


ASKED = laptime.TuneAsk(("precision",))

if __name__ == "__main__":
    sys.exit(main())
