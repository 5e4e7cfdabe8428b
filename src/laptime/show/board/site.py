"""`laptime board build`: the board as static pages. A page needs no server, no other host, and no script to be read.

A page holds its fastest lines as HTML. Only what a reader filters loads the rest: one file of data for each page's
table, of its training's devices or of its device's rows. Nothing that grows with all rows is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from laptime.model import quantities
from laptime.model.errors import StoreError, UsageError
from laptime.model.process import AS_WRITTEN
from laptime.model.workload import Workload
from laptime.show.board.entries import (
    TIERS,
    Entry,
    all_of_each,
    fastest_of_each,
    hardware_of,
    predicted_entries,
    read_rows,
    reported_entry,
)
from laptime.show.board.folder import SiteFolder
from laptime.show.board.lines import KIND_CLASS, line_files, where_words
from laptime.show.board.reported import also_published, describe_training, read_predictions, reported_rows
from laptime.show.board.row import RECORDS, BoardRow, record_name, record_place
from laptime.show.drawing.svg import safe
from laptime.show.pages.words import lap as lap_words
from laptime.trainings.workloads import CATALOGUE

LINES_A_PAGE = 60
DEVICES_A_PAGE = 400
LISTED_DEVICES = 60  # on the first page
POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'none'; base-uri 'none'; form-action 'none'"
HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="referrer" content="no-referrer">
<meta name="generator" content="laptime board build">
<title>{title}</title><link rel="stylesheet" href="{root}board.css"></head><body><main class="board">
"""
TICKS_S = (
    (1e-3, "1 ms"),
    (1e-2, "10 ms"),
    (0.1, "0.1 s"),
    (1.0, "1 s"),
    (10.0, "10 s"),
    (60.0, "1 min"),
    (600.0, "10 min"),
    (3600.0, "1 h"),
    (36000.0, "10 h"),
)
NO_PAIR = "Factors across machines have no interval of their own: their rounds took no turns with each other."
ON_AXIS = "on a logarithmic axis"
LEGEND = (
    "Dot: estimate; band: 95 % interval over rounds. Hollow: reported by others, not proven. Striped: predicted, the "
    "range that should hold 80 %. The axis is logarithmic."
)


@dataclass(frozen=True, slots=True)
class BuiltSite:
    """What was written."""

    first_page: str
    pages: int
    rows: int
    devices: int


def build(board: Path, site: Path) -> BuiltSite:
    """Write the pages of a board's folder, in place of those that an earlier build wrote."""
    rows = list(read_rows(board))
    by_training: dict[str, list[BoardRow]] = {name: [] for name in CATALOGUE}
    by_device: dict[str, list[BoardRow]] = {}
    for row in rows:
        if row.training not in by_training:
            raise UsageError(f"a row is of {row.training!a}, which is no built-in training", "Run: laptime board check")
        by_training[row.training].append(row)
        by_device.setdefault(row.device_slug, []).append(row)
    others = {name: [*_not_measured(board, workload)] for name, workload in CATALOGUE.items()}
    # The lines of each device's page. Every card has one, measured or not
    devices = {device: all_of_each(device_rows) for device, device_rows in by_device.items()}
    for entry in [entry for of in others.values() for entry in of]:
        if entry.device is not None and (entry.device in devices or entry.device_kind != "cpu"):
            devices.setdefault(entry.device, []).append(entry)
    try:
        with SiteFolder(site) as folder:
            pages = sum(
                _write_training(folder, CATALOGUE[name], of, [*fastest_of_each(of), *others[name]], devices.keys())
                for name, of in by_training.items()
            )
            pages += sum(_write_device(folder, name, of) for name, of in sorted(devices.items()))
            pages += _write_front(folder, by_training, devices)
            # The colours and sizes of a report, and what only the board has
            report_css = resources.files("laptime.show.drawing").joinpath("report.css").read_bytes()
            own = resources.files("laptime.show.board")
            folder.write("board.css", report_css + own.joinpath("board.css").read_bytes())
            folder.write("board.js", own.joinpath("board.js").read_bytes())
            # Copy the records that rows link to, but no file that is a link: `check` refuses one
            for identity in sorted({row.record for row in rows}):
                found = board / record_place(identity)
                if found.is_file() and not found.is_symlink():
                    folder.write(str(record_place(identity)), found.read_bytes())
    except OSError as error:
        says = f"{error.filename or site} could not be written: {error.strerror or error}"
        raise StoreError(says, "Make room there, or name another folder with -o.") from error
    return BuiltSite(str(site / "index.html"), pages, len(rows), len(by_device))


def _not_measured(board: Path, workload: Workload) -> Iterator[Entry]:
    """Yield what others reported of a training, and what is predicted of it."""
    predictions = read_predictions(board, workload.name)
    for reported in reported_rows(workload):
        line = reported_entry(reported)
        if line is not None:
            yield line
    if predictions is not None:
        yield from predicted_entries(predictions)


# One training: what was claimed, what was measured, and all lines of a table.


def _write_training(
    site: SiteFolder, workload: Workload, rows: Sequence[BoardRow], lines: Sequence[Entry], devices: Collection[str]
) -> int:
    """Write the pages of a training. `devices` are those that have a page of their own."""
    entries = [line if line.device in devices else replace(line, device=None) for line in lines]
    entries.sort(key=lambda entry: entry.lap_s)
    lap = f"One epoch of {workload.title}: {workload.steps_per_lap:,} steps of {workload.batch} {workload.items}."
    links = " ".join(
        f'<a aria-current="page" href="{name}.html">{name}</a>'
        if name == workload.name
        else f'<a href="{name}.html">{name}</a>'
        for name in CATALOGUE
    )
    trainings_list = f'<nav class="trainings" aria-label="Trainings"><a href="index.html">the board</a> {links}</nav>'
    # The claim of the experiment next to what was measured, in one record where one has both
    measured = _measured_factors(rows) or "Nobody sent a row with a factor yet."
    claims = (
        f'<dl class="claims"><div><dt>published</dt><dd>{safe(workload.published.claim)}</dd>'
        f'<dd class="soft">{safe(workload.published.source)}</dd></div>'
        f"<div><dt>measured by laptime</dt><dd>{measured}</dd></div></dl>"
    )
    # Every published figure of the experiment; of two results of one device, with the note of the first
    notes = {result.device: result.note for result in reversed(workload.published.results)}
    items = []
    for row in reported_rows(workload):
        note = f". {safe(notes[row.hardware])}" if notes[row.hardware] else ""
        items.append(f"<li><b>{safe(row.hardware)}</b>: {safe('; '.join(row.figures))}{note}</li>")
    items += [f"<li>{safe(figure)}</li>" for figure in also_published(workload.name)]
    below = (
        f"<section><h2>What was published</h2><p>{safe(workload.published.source)}. Claim: "
        f"{safe(workload.published.claim)}. {workload.parameters:,} parameters.</p><ul>{''.join(items)}</ul>"
        f"<p><b>What its authors could not see.</b> {safe(describe_training(workload.name))}</p></section>"
    )
    top = (
        f"{trainings_list}<h1>How long does one lap of {safe(workload.name)} take?</h1>"
        f'<p class="soft">{safe(lap)}</p>{claims}'
    )
    return _write_tables(site, _TablePage(workload.name, workload.name, top, entries, below))


def _measured_factors(rows: Sequence[BoardRow]) -> str | None:
    """Return the factor of a card as written against the processor, and that of the best lane, of one record.

    Where no record has a card and a processor, it is the best factor that there is.
    """
    compared = [row for row in rows if row.factor is not None]
    of_cards = [row for row in compared if row.device.kind != "cpu" and row.factor and "/cpu/" in row.factor.reference]
    if not compared:
        return None
    written = [row for row in of_cards if row.preset == "as-written"]
    first = max(written or of_cards or compared, key=lambda row: row.rounds)
    same = [row for row in of_cards or compared if row.record == first.record]
    best = max(same, key=lambda row: row.factor.ratio if row.factor else 0)
    lines = []
    for row in [first] if first == best else [first, best]:
        found = row.factor
        assert found is not None
        has_interval = found.low is not None and found.high is not None
        ends = f"{found.low:.3g} to {found.high:.3g}" if has_interval else "one pair, no interval"
        other = row.device.kind != "cpu" and "/cpu/" in found.reference
        where = f" on {_in_words(row.machine.processor)}, {row.machine.cores} cores" if other else ""
        lines.append(
            f"On {safe(hardware_of(row))}, {_in_words(row.lane)} is {quantities.times(found.ratio)} as fast as "
            f"{_in_words(found.reference)}{where} ({ends})."
        )
    note = "" if of_cards else ". No record has a card and a processor yet"
    return f'{"<br>".join(lines)}<br><span class="soft">Record {safe(first.record)}{note}.</span>'


def _in_words(name: str) -> str:
    """Return a lane or a processor as a sentence names it: torch/cpu as written."""
    return safe(name.replace(f"/{AS_WRITTEN}", " as written"))


# One device: all its rows, of all trainings.


def _write_device(site: SiteFolder, device: str, lines: Sequence[Entry]) -> int:
    entries = sorted(lines, key=lambda line: (line.training, line.lap_s))
    first = entries[0]
    measured = [entry for entry in entries if entry.kind == "measured"]
    trainings = len({entry.training for entry in measured})
    rows = f"{len(measured):,} row{'s' if len(measured) > 1 else ''}"
    count = f"{rows} of {trainings} training{'s' if trainings > 1 else ''}, each with its record."
    extent = count if measured else "Nobody sent a measured row of it yet."
    top = (
        '<nav class="trainings" aria-label="The board"><a href="../index.html">the board</a></nav>'
        f"<h1>{safe(first.hardware)}</h1>"
        f'<p class="soft">{extent}</p>'
    )
    return _write_tables(site, _TablePage(f"device/{device}", first.hardware, top, entries))


# A table, on each page of a training and of a device.


@dataclass(frozen=True, slots=True)
class _TablePage:
    """A page with a table: its file's name inside the site, its title, what is above and below the table, its lines."""

    name: str
    title: str
    top: str
    entries: Sequence[Entry]
    below: str = ""

    @property
    def root(self) -> str:
        """The way from the page to the first page."""
        return "../" * self.name.count("/")


def _write_tables(site: SiteFolder, made: _TablePage) -> int:
    """Write a table over as many pages as it needs, and the file that its filters load."""
    name = made.name
    root = made.root
    entries = made.entries
    ends = [end for entry in entries for end in (entry.lap_s, entry.low_s, entry.high_s) if end is not None and end > 0]
    low, high = (math.log10(min(ends)), math.log10(max(ends))) if ends else (-1.0, 2.0)
    room = max(0.04 * (high - low), 0.1)
    axis = _Axis(low - room, high + room)
    count = max(1, math.ceil(len(entries) / LINES_A_PAGE))
    # What factors are against at first: the slowest processor as written, else the slowest measured line
    measured = [entry for entry in entries if entry.kind == "measured"]
    written = [entry for entry in measured if entry.device_kind == "cpu" and entry.settings == "as-written"]
    reference = max(written or measured, key=lambda entry: entry.lap_s, default=None)
    stem = name.rpartition("/")[2]
    against = ""
    if reference is not None and not root:
        against = safe(f"; factors are against {reference.hardware}, {reference.settings}")
    for number in range(count):
        shown = entries[number * LINES_A_PAGE : (number + 1) * LINES_A_PAGE]
        pages = _page_links(stem, number, count)
        body = "".join(_line(entry, axis, reference, root) for entry in shown)
        page = "".join(
            [
                HEAD.format(policy=POLICY, title=f"{safe(made.title)} on the board - laptime", root=root),
                made.top,
                f'<form id="filters" data-file="{safe(stem)}.data.js" hidden></form>',
                f'<p id="count" role="status">{len(shown):,} of {len(entries):,} lines {ON_AXIS}{against}</p>',
                _table(axis, body, with_factor=not root),
                pages,
                f'<p class="soft legend">{LEGEND} {NO_PAIR if not root else ""}</p>',
                made.below if number == 0 else "",
                f'</main><script src="{root}board.js"></script></body></html>\n',
            ]
        )
        site.write(f"{_page_name(name, number)}.html", page.encode())
    for file, content in line_files(name, entries, root):
        site.write(file, content.encode())
    return count


def _page_name(stem: str, number: int) -> str:
    return stem if number == 0 else f"{stem}-page-{number + 1}"


def _page_links(stem: str, number: int, count: int) -> str:
    if count == 1:
        return ""
    parts = [f"page {number + 1} of {count}"]
    if number:
        parts.insert(0, f'<a rel="prev" href="{_page_name(stem, number - 1)}.html">faster lines</a>')
    if number + 1 < count:
        parts.append(f'<a rel="next" href="{_page_name(stem, number + 1)}.html">slower lines</a>')
    return f'<nav class="pages" aria-label="Pages">{" · ".join(parts)}</nav>'


@dataclass(frozen=True, slots=True)
class _Axis:
    """The two ends of the axis of a lap, as logarithms of seconds."""

    low: float
    high: float

    def place(self, lap_s: float) -> float:
        """Return where a time is, in percent of the axis."""
        return min(100.0, max(0.0, 100 * (math.log10(lap_s) - self.low) / (self.high - self.low)))


def _table(axis: _Axis, body: str, *, with_factor: bool) -> str:
    ticks = ""
    last = -math.inf  # ticks are on the axis, and not too close to each other
    for at, words in TICKS_S:
        place = axis.place(at)
        if axis.low <= math.log10(at) <= axis.high and place - last > 9 and 3 < place < 97:
            last = place
            ticks += f'<line x1="{place:.2f}%" x2="{place:.2f}%" y1="22" y2="32"/>'
            ticks += f'<text x="{place:.2f}%" y="14">{words}</text>'
    factor = '<th class="number factor" scope="col">factor</th>' if with_factor else ""
    return (
        '<table id="lines" class="lines"><thead><tr><th scope="col">machine and lane</th>'
        '<th class="number" scope="col" id="axis-name">a lap</th>'
        '<th class="plot" scope="col"><svg class="ticks" id="ticks" role="img" aria-label="logarithmic axis">'
        f"{ticks}</svg></th>"
        f'{factor}<th scope="col">where it is from</th></tr></thead><tbody>{body}</tbody></table>'
    )


def _line(entry: Entry, axis: _Axis, reference: Entry | None, root: str) -> str:
    name = f"<b>{safe(entry.hardware)}</b>"
    if entry.device and not root:
        name = f'<a href="device/{entry.device}.html">{name}</a>'
    training = f"{safe(entry.training)} · " if root else ""
    cells = [
        f'<td>{name}<br><span class="soft">{training}{safe(lane_words(entry))}</span></td>',
        f'<td class="number">{value_words(entry)}</td>',
        f'<td class="plot">{_plot(entry, axis)}</td>',
    ]
    if not root:
        cells.append(f'<td class="number factor">{"" if reference is None else factor_words(reference, entry)}</td>')
    kind = KIND_CLASS[entry.kind]
    tier = f" · {TIERS[entry.tier]}" if entry.tier > 1 else ""
    link = ""
    if entry.record is not None:
        link = f' <a href="{root}{RECORDS}/{record_name(entry.record)}">record</a>'
    more = "".join(f"<p>{safe(sentence)}</p>" for sentence in entry.more)
    cells.append(
        f'<td><em class="{kind}">{entry.kind}</em> <span class="soft">{safe(where_words(entry))}{tier}</span>{link}'
        f"<details><summary>more</summary>{more}</details></td>"
    )
    return f'<tr class="{kind}">{"".join(cells)}</tr>'


def lane_words(entry: Entry) -> str:
    """Return what trained there: torch, best; a reported row has no known framework."""
    return entry.settings if entry.kind == "reported" else f"{entry.framework} {entry.settings}"


def value_words(entry: Entry) -> str:
    """Return a lap in words, in one piece; a prediction is a range and no number."""
    if entry.kind == "predicted" and entry.low_s is not None and entry.high_s is not None:
        return f"{_in_one_piece(entry.low_s)} to {_in_one_piece(entry.high_s)}"
    return _in_one_piece(entry.lap_s)


def factor_words(reference: Entry, entry: Entry) -> str:
    """Return how many times as fast a line is as another; a prediction has a range here, too."""
    if entry.kind == "predicted" and entry.low_s is not None and entry.high_s is not None:
        return " to ".join(quantities.times(reference.lap_s / end) for end in (entry.high_s, entry.low_s))
    return quantities.times(reference.lap_s / entry.lap_s)


def _in_one_piece(lap_s: float) -> str:
    return lap_words(lap_s).replace(" ", "\u00a0")


def _plot(entry: Entry, axis: _Axis) -> str:
    parts = []
    if entry.low_s is not None and entry.high_s is not None and entry.low_s > 0:
        left = axis.place(entry.low_s)
        right = axis.place(entry.high_s)
        if entry.kind == "predicted":
            stripes = max(2, round((right - left) / 1.2))
            wide = (right - left) / stripes
            parts += [
                f'<rect class="stripe" x="{left + wide * number:.2f}%" y="7" width="{wide / 2:.2f}%" height="10"/>'
                for number in range(stripes)
            ]
        else:
            parts.append(
                f'<rect class="band" x="{left:.2f}%" y="7" width="{max(right - left, 0.3):.2f}%" height="10" rx="5"/>'
            )
    if entry.kind != "predicted":
        size = 6 if entry.kind == "measured" else 5
        parts.append(f'<circle class="dot" cx="{axis.place(entry.lap_s):.2f}%" cy="12" r="{size}"/>')
    rail = '<line class="rail" x1="0" x2="100%" y1="12" y2="12"/>'
    return f'<svg class="place" aria-hidden="true">{rail}{"".join(parts)}</svg>'


# The first page, and the list of devices.

END = "</main></body></html>\n"
INTRODUCTION = "what others reported; and what a forecast predicts. The three never look alike."
FRONT_TABLE = (
    '<table class="front"><thead><tr><th scope="col">training</th><th scope="col">published</th>'
    '<th scope="col">fastest measured lap</th><th class="number" scope="col">rows</th></tr></thead>'
)
ADD_A_ROW = (
    '<h2>Add a row</h2><ol><li><code class="command">laptime race cifar-cnn</code></li>'
    '<li><code class="command">laptime board add latest</code></li>'
    "<li>Send the new files of <code>board/</code> as a pull request, where "
    "<code>laptime board check board/</code> reads them.</li></ol>"
)


def _write_front(site: SiteFolder, by_training: dict[str, list[BoardRow]], devices: dict[str, list[Entry]]) -> int:
    """Write the first page and, where there are many devices, the pages that list them all; return how many."""
    measured = {name: sum(entry.kind == "measured" for entry in of) for name, of in devices.items()}
    often = sorted(devices, key=lambda device: (-measured[device], device))
    listed = [
        f'<li><a href="device/{device}.html">{safe(devices[device][0].hardware)}</a> '
        f'<span class="soft">{measured[device] or "no row yet"}</span></li>'
        for device in often
    ]
    more = f'<p><a href="devices.html">All {len(often):,} devices</a></p>' if len(often) > LISTED_DEVICES else ""
    trainings = ""
    for name, of in by_training.items():
        workload = CATALOGUE[name]
        best = min(of, key=lambda row: row.lap_s.middle, default=None)
        fastest = "nobody sent a row yet"
        if best is not None:
            fastest = f"{lap_words(best.lap_s.middle)} on {hardware_of(best)}, {best.lane}"
        trainings += (
            f'<tr><td><a href="{name}.html"><b>{name}</b></a><br><span class="soft">{safe(workload.title)}</span></td>'
            f'<td data-head="published">{safe(workload.published.claim)}</td>'
            f'<td data-head="fastest">{safe(fastest)}</td><td class="number" data-head="rows">{len(of):,}</td></tr>'
        )
    rows = sum(map(len, by_training.values()))
    page = "".join(
        [
            HEAD.format(policy=POLICY, title="The board of laptime", root=""),
            "<h1>How long does this training take, and on what?</h1>",
            f'<p class="soft">{rows:,} measured rows, each with the record that proves it; {INTRODUCTION}</p>',
            f"{FRONT_TABLE}<tbody>{trainings}</tbody></table>",
            f'<h2>Devices</h2><ul class="devices">{"".join(listed[:LISTED_DEVICES])}</ul>{more}{ADD_A_ROW}{END}',
        ]
    )
    site.write("index.html", page.encode())
    if not more:
        return 1
    count = math.ceil(len(listed) / DEVICES_A_PAGE)
    for number in range(count):
        shown = listed[number * DEVICES_A_PAGE : (number + 1) * DEVICES_A_PAGE]
        page = (
            f"{HEAD.format(policy=POLICY, title='All devices - laptime', root='')}"
            '<nav class="trainings" aria-label="The board"><a href="index.html">the board</a></nav><h1>All devices</h1>'
            f'<ul class="devices">{"".join(shown)}</ul>{_page_links("devices", number, count)}{END}'
        )
        site.write(f"{_page_name('devices', number)}.html", page.encode())
    return 1 + count
