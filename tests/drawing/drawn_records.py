"""Records to draw: of every question, of one lane and of twenty, of a million steps, and hostile in every word."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import full_records
import infer_records
import records
import scale_records
import sweep_records
import tune_records
import verdict_records
import watch_records
import why_records
from measured import with_heat
from test_pages_profile import page_of

from laptime.model.errors import RecordError
from laptime.model.record import NOT_RELIABLE, Finding, Record
from laptime.model.sample import Window
from laptime.model.workload import Published, PublishedResult
from laptime.store import schema

HACK = "window.hacked=(window.hacked||0)+1"
HOSTILE = [
    f"<script>{HACK}</script>", f"</script><script>{HACK}</script>", f"</title><script>{HACK}</script>",
    f"</style><script>{HACK}</script>", f"--><script>{HACK}</script>", f"<img src=x onerror={HACK}>",
    f'"><img src=x onerror={HACK}>', f"'><img src=x onerror={HACK}>", f'" onmouseover="{HACK}" x="',
    f"' onfocus='{HACK}' autofocus='", f"<svg onload={HACK}>", f"<svg><script>{HACK}</script></svg>",
    f"<iframe srcdoc='<script>parent.{HACK}</script>'>", f"javascript:{HACK}", f"<a href=javascript:{HACK}>x</a>",
    f"<body onload={HACK}>", f"<details open ontoggle={HACK}>", f"<input autofocus onfocus={HACK}>",
    f"<video><source onerror={HACK}></video>", f"<math><mtext></table><script>{HACK}</script>",
    f"]]><script>{HACK}</script>", f"<!--<script>{HACK}</script>-->", f"{{{{{HACK}}}}}", f"${{{HACK}}}", f"`{HACK}`",
    "<base href=https://example.invalid/>", "<link rel=stylesheet href=https://example.invalid/x.css>",
    "<img src=https://example.invalid/x.png>", "<meta http-equiv=refresh content=0;url=https://example.invalid/>",
    "url(https://example.invalid/x.png)", "@import 'https://example.invalid/x.css';", "<object data=x></object>",
    "<form action=https://example.invalid/><button>", "<embed src=x>", "&lt;script&gt;", "&#60;script&#62;",
    "&amp;&amp;", "%3Cscript%3E", "\\u003cscript\\u003e", "\x1b]0;title\x07", "\x1b[31mred", "\x9b31m", "\u202egnirts",
    "\u2028\u2029", "\ufeff", "\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"), "\x00", "\x08\x7f",
    "=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(1)", "../../../etc/passwd", "C:\\con\\nul", "a" * 400, "界" * 60,
    "🏁" * 20, "\n\n# heading\n", "| a | b |", "[x](javascript:alert(1))",
]  # fmt: skip


def long_race(steps: int) -> Record:
    """A race of two lanes with this many steps in all."""
    each = steps // 2
    windows = tuple(
        Window(
            number * 10**9,
            (number + 1) * 10**9,
            5_000,
            tuple(150_000 + (place * 7919) % 90_000 for place in range(5_000)),
        )
        for number in range(each // 5_000)
    )
    heat = with_heat(records.FIRST.heats[0], windows=windows)
    return records.record(
        (replace(records.FIRST, heats=(heat,)), replace(records.BEST, heats=(heat,))), (records.FASTER,)
    )


def in_turns() -> Record:
    """A race of two lanes whose heats took turns in four rounds; one turn was disturbed."""
    ratios, starts_ns = (1.44, 1.52, 1.5, 1.55), itertools.count(0, 300_000_000)
    lanes: list[list] = [[], []]
    for number, ratio in enumerate(ratios):
        took = (90.0 * ratio, 90.0)
        windows: list[list[Window]] = [[], []]
        for turn, place in enumerate((0, 1, 1, 0)):
            start_ns = next(starts_ns)
            flag = "other processes took 0.8 cores" if (number, turn) == (2, 3) else None
            end_ns = start_ns + round(took[place] * 2e6)
            windows[place].append(Window(start_ns, end_ns, 2, (), None, flag, turn // 2))
        for place, first in enumerate((records.FIRST, records.BEST)):
            heat = with_heat(first.heats[0], order=2 * number + place, round=number, windows=tuple(windows[place]))
            lanes[place].append(heat)
    made = [
        replace(first, heats=tuple(heats)) for first, heats in zip((records.FIRST, records.BEST), lanes, strict=True)
    ]
    found = records.comparison("torch/cpu/best", 1.5, 1.44, 1.57, ratios=ratios, in_turns=True, pairs=4)
    return records.record(tuple(made), (found,))


def disturbed() -> Record:
    finding = Finding(NOT_RELIABLE, "other processes took 1.5 of 2 cores.", {}, "Race again.", "proven")
    return replace(records.two_lanes(), findings=(finding,))


def many_lanes(count: int) -> Record:
    lanes = [records.lane(f"torch/cpu/threads={number}", 90.0 + number) for number in range(1, count)]
    compared = [records.comparison(each.name, 0.95, 0.93, 0.97, ratios=(0.94, 0.95, 0.96)) for each in lanes]
    return records.record((records.FIRST, *lanes), tuple(compared))


def published_training() -> Record:
    """Two lanes trained whole, with what an author reported of each lap."""
    curve = PublishedResult(
        "GPU (not named)", "gpu", lap_s=(13.0, 9.0, 9.0), accuracy=(0.354, 0.427, 0.458), loss=(1.81, 1.62, 1.54)
    )
    return replace(full_records.seeds(), published=Published("it trains", "a page", (curve,)))


def kept(name: str) -> Record:
    """A real record, of which the docs have pictures."""
    place = Path(__file__).parents[2] / "docs" / "pictures" / f"{name}.json.gz"
    return schema.decode(gzip.decompress(place.read_bytes()), name)


@cache
def hostile() -> tuple[Record, ...]:
    """Records of every question with a hostile string in every field that holds words."""
    given = (
        records.failed_lanes(), full_records.broken(), infer_records.broken(), why_records.failed_remedy(),
        tune_records.confirmed(), sweep_records.crossed(), watch_records.waits(),
    )  # fmt: skip
    return tuple(map(_hostile, given))


def _hostile(record: Record) -> Record:
    """Put a string into each field that holds words: those of one field at once, wherever in the record it is."""
    tree, words = json.loads(schema.encode(record)), itertools.cycle(HOSTILE)
    fields: dict[str, list[Callable[[object], object]]] = {}
    for field, put in _places(tree):
        fields.setdefault(field, []).append(put)
    for puts in fields.values():
        before = [put(next(words)) for put in puts]
        try:
            schema.decode(json.dumps(tree).encode(), "hostile")
        except RecordError:  # a word of the schema's own: another is refused when the record is read
            for put, old in zip(puts, before, strict=True):
                put(old)
    return schema.decode(json.dumps(tree).encode(), "hostile")


def _places(tree: object, field: str = "") -> Iterator[tuple[str, Callable[[object], object]]]:
    """Yield the field of every string of words in a tree, and a function that replaces it and returns what was there.

    A number that is written as a string, such as a value of a sweep, is no word: with another, no page can be made.
    """
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(pairs):
        inside = f"{field}.{key}" if isinstance(tree, dict) else field
        if isinstance(value, str) and not value.isdigit():
            yield inside, lambda new, key=key: _swap(tree, key, new)
        yield from _places(value, inside)


def _swap(tree, key, new):
    before, tree[key] = tree[key], new
    return before


SHOWN: dict[str, Callable[[], Record]] = {
    "race": records.two_lanes,
    "one-heat": records.one_heat,
    "failures": records.failed_lanes,
    "differing": records.differing,
    "training": full_records.whole,
    "broken-training": full_records.broken,
    "inference": infer_records.two_lanes,
    "why": why_records.loader_bound,
    "turns": in_turns,
    "disturbed": disturbed,
    "why-on-a-card": lambda: kept("plates-cnn-why-h100"),
    "scale": scale_records.exchange,
    "tune": tune_records.confirmed,
    "unconfirmed-tune": tune_records.unconfirmed,
    "sweep": sweep_records.crossed,
    "sweep-two-axes": sweep_records.two_axes,
    "watch": watch_records.waits,
    "verdict": verdict_records.kept,
    "ranks": watch_records.ranks,
    "keras": watch_records.keras,
    "published-training": published_training,
    "twenty": lambda: many_lanes(20),
    "profile": page_of,
    "default-race": lambda: kept("cifar-cnn-default"),
    "race-on-a-card": lambda: kept("scenes-cnn-h100"),
    "watched-loop": lambda: kept("plain-loop-watch"),
    "million": lambda: long_race(1_000_000),
}
