"""What the filters of a page load: an index of its lines, and the details of the lines that are shown.

The index has of each line what a filter, the order and a factor need: about ten bytes. All else is in files of at most
`CHUNK` lines, one device after another, of which a page loads those that it shows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from laptime.show.board.entries import TIERS, Entry

CHUNK = 50
KIND_CLASS = {"measured": "m", "reported": "r", "predicted": "p"}
FOLDER = "lines"
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class _Texts:
    """Texts by number, each once."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number_of(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def line_files(name: str, entries: Sequence[Entry], root: str) -> Iterator[tuple[str, str]]:
    """Yield the files of a table's lines, each with its name inside the site: the index, then the details.

    The lines of a page of a training are split by device, and those of a page of a device by training.
    """
    by_file: dict[str, list[Entry]] = {}
    for entry in entries:
        by_file.setdefault(entry.training if root else entry.device or OTHERS, []).append(entry)
    texts = _Texts()
    kinds: dict[tuple[object, ...], int] = {}
    places: dict[tuple[object, ...], list[object]] = {}
    energy: list[tuple[int, int, float]] = []
    for file, of in by_file.items():
        of.sort(key=_place_of)  # the lines of a place follow each other in its files
        for at, entry in enumerate(of):
            key = (file, *_place_of(entry))
            if key not in places:
                places[key] = [
                    file, at, texts.number_of(entry.hardware), int(file == entry.device), entry.device_kind,
                    _short(entry.memory_gb), entry.price, texts.number_of(entry.price_date), [],
                ]  # fmt: skip
            lines = places[key][-1]
            assert isinstance(lines, list)
            if entry.energy_wh is not None:
                energy.append((len(places) - 1, len(lines) // 2, float(f"{entry.energy_wh:.5g}")))
            lines += [kinds.setdefault(_kind_of(entry, texts), len(kinds)), _short(entry.lap_s)]
    tree = {
        "root": root,
        "of": f"{root}{FOLDER}/{name}",
        "chunk": CHUNK,
        "tiers": TIERS,
        "texts": list(texts.numbers),
        "kinds": list(kinds),
        "energy": energy,
        "places": list(places.values()),
    }
    yield f"{name}.data.js", _script("laptimeIndex", tree)
    for file, of in by_file.items():
        for first in range(0, len(of), CHUNK):
            chunk = [
                [_short(entry.low_s), _short(entry.high_s), where_words(entry), entry.record, entry.more]
                for entry in of[first : first + CHUNK]
            ]
            stem = f"{file}.{first // CHUNK}"
            yield f"{FOLDER}/{name}/{stem}.js", _script("laptimeDetails", [stem, chunk])


def _place_of(entry: Entry) -> tuple[str, ...]:
    """Return what the lines of a place have in common."""
    return (
        entry.hardware,
        entry.device or "",
        entry.device_kind,
        str(_short(entry.memory_gb)),
        str(entry.price),
        entry.price_date,
    )


def _kind_of(entry: Entry, texts: _Texts) -> tuple[object, ...]:
    """Return what a filter asks of a line besides its place, and the steps of its lap."""
    steps = float(f"{1e3 * entry.lap_s / entry.step_ms:.6g}")
    training = texts.number_of(entry.training)
    names = texts.number_of(entry.framework), texts.number_of(entry.settings)
    return (KIND_CLASS[entry.kind], *names, entry.tier, steps, training)


def where_words(entry: Entry) -> str:
    """Return where a line is from, and how many rows it is the fastest of."""
    if entry.rows == 1:
        return entry.where
    machines = f"{entry.machines} kind{'s' if entry.machines > 1 else ''} of machine"
    return f"{entry.where} · fastest of {entry.rows:,} rows on {machines}"


def _script(function: str, tree: object) -> str:
    """Return a script that hands data over. Its texts are ASCII without an angle bracket, so none ends it."""
    data = json.dumps(tree, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c").replace(">", "\\u003e")
    return f"window.{function}({data});\n"


def _short(value: float | None) -> float | None:
    """Return a figure with the digits that a page shows, and whole where it is whole."""
    if value is None:
        return None
    found = float(f"{value:.5g}")
    return int(found) if found.is_integer() else found
