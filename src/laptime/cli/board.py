"""`laptime board`: rows that anyone may send, what checks them, and the static pages made of them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click

from laptime import api
from laptime.api import showing
from laptime.cli.listing import complete_lane, complete_record
from laptime.cli.main import Command
from laptime.cli.printing import emit, emit_json, say
from laptime.cli.questions import conclude, with_progress
from laptime.cli.records import AS_JSON
from laptime.model.errors import ExitCode
from laptime.model.frameworks import installed_version
from laptime.show.board import add as adding
from laptime.show.board import check as checking
from laptime.show.board import repeat as repeating
from laptime.show.board import reported, site
from laptime.show.board.claims import find_faults
from laptime.show.board.evidence import with_whole
from laptime.show.board.row import PREDICTED

BOARD_HELP = """Rows that anyone may send: how long a training takes on a device, with the record that proves it.

A row is made from a race or a training by `laptime board add`, checked by `laptime board check`, and shown by
`laptime board build` next to what others reported and what a forecast predicts. Nothing is sent anywhere.
"""
ADD_HELP = """Write a row for each lane of a race or a training, and the record without names of hosts, users and files.

ID is a record's id or the beginning of one, a file, `latest` or @label. A fake, a lane whose work is not proven, and a
record that is NOT RELIABLE, of your own training, of your own data or unfinished have no row: each is named.
"""
CHECK_HELP = """Check every row and record of a board's folder. The exit code is 0 if all are good, else 1.

Each row is made again from its record. The figures of a record have to follow from its windows, its proof from the
known losses of its training, and nothing may be beyond what its device can do.
"""
REMAKE_HELP = """Write all rows of a board's folder again from its records, after laptime itself has changed.

A device that laptime's table has now, a new field, or a newer schema changes what a record gives. No number does.
"""
PREDICT_HELP = """Write what common cards would take, from a record that is on the board (docs/forecast.md).

The stripped record alone is used, so that `laptime board check` predicts the same.
"""
BUILD_HELP = """Write the board as static pages: one a training, one a device, and a first page. They need no server."""
REPEAT_HELP = """Run what a row says here, and say whether it agrees. ROW is a row's file.

Only the training and the lanes of a row are used, and only those that laptime itself knows. Nothing of its text runs.
"""
BOARD = click.option("--output", "-o", default="board", type=click.Path(), help="The board's folder.  [default: board]")


@click.group("board", help=BOARD_HELP)
def board() -> None:
    pass


@board.command("add", cls=Command, help=ADD_HELP, examples=("laptime board add latest",), page="docs/board.md")
@click.argument("identity", metavar="ID", shell_complete=complete_record)
@click.option("--lane", multiple=True, shell_complete=complete_lane, help="Only this lane; repeatable.  [default: all]")
@BOARD
@AS_JSON
def add(*, identity: str, lane: tuple[str, ...], output: str, as_json: bool) -> None:
    whole = api.read_bytes(api.find(identity))
    record = with_whole(api.load(identity), whole)
    made = adding.add(record, lane, Path(output), lambda stripped: [says for _, says in find_faults(stripped)])
    if as_json:
        emit_json(showing.to_json(made))
        return
    emit("\n".join(f"written: {file}" for file in made.files))
    for name, why in made.refused.items():
        say(f"no row for {name}: {why}")


@board.command("remake", cls=Command, help=REMAKE_HELP, page="docs/board.md")
@click.argument("folder", default="board", type=click.Path())
@AS_JSON
def remake(*, folder: str, as_json: bool) -> None:
    made = adding.remake(Path(folder))
    if as_json:
        emit_json(showing.to_json(made))
    else:
        lines = [f"written: {file}" for file in made.changed] + [f"removed: {file}" for file in made.removed]
        emit("\n".join([*lines, f"{_counted(made.unchanged, 'file')} as before"]))


@board.command("check", cls=Command, help=CHECK_HELP, examples=("laptime board check board/",), page="docs/board.md")
@click.argument("folder", default="board", type=click.Path())
@click.option("--against", metavar="BOARD", type=click.Path(), help="An earlier board, whose files all stay.")
@click.option("--records", metavar="FOLDER", type=click.Path(), help="Whole records, which have to give those here.")
@AS_JSON
def check(*, folder: str, against: str | None, records: str | None, as_json: bool) -> int:
    before, wholes = (None if path is None else Path(path) for path in (against, records))
    found = checking.check(Path(folder), before, wholes)
    if as_json:
        emit_json(showing.to_json(found))
    else:
        lines = [f"{fault.file}: {fault.says}\n  {fault.hint}" for fault in found.faults]
        lines += [f"note: {note.file}: {note.says}" for note in found.notes]
        refused = len({fault.file for fault in found.faults})
        outcome = f"{_counted(refused, 'file')} refused" if refused else "all are good"
        of = f"{_counted(found.rows, 'row')} of {_counted(found.records, 'record')}"
        emit("\n".join([*lines, f"{of}: {outcome}."]))
    return ExitCode.NO if found.faults else ExitCode.ANSWERED


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


@board.command("predict", cls=Command, help=PREDICT_HELP, page="docs/board.md")
@click.argument("identity", metavar="ID", shell_complete=complete_record)
@click.argument("lane", required=False, shell_complete=complete_lane)
@BOARD
@AS_JSON
def predict(*, identity: str, lane: str | None, output: str, as_json: bool) -> None:
    record = adding.record_of(Path(output), api.load(identity))
    today = dt.datetime.now(dt.UTC).date().isoformat()
    made = reported.predict_for_board(record, lane, reported.CARDS_TO_PREDICT, today, installed_version())
    place = Path(output, PREDICTED, f"{made.training}.json")
    api.write_files(place, {"": reported.encode_predictions(made)}, is_folder=False)
    if as_json:
        emit_json(showing.to_json(made))
    else:
        emit(f"written: {place}")


@board.command("build", cls=Command, help=BUILD_HELP, examples=("laptime board build -o site/",), page="docs/board.md")
@click.argument("folder", default="board", type=click.Path())
@click.option("--output", "-o", default="site", type=click.Path(), help="Where the pages go.  [default: site]")
@AS_JSON
def build(*, folder: str, output: str, as_json: bool) -> None:
    made = site.build(Path(folder), Path(output))
    if as_json:
        emit_json(showing.to_json(made))
    else:
        emit(f"written: {made.first_page}: {made.rows} measured rows on {made.pages} pages")


@board.command("repeat", cls=Command, help=REPEAT_HELP, page="docs/board.md")
@click.argument("place", metavar="ROW", type=click.Path())
@AS_JSON
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def repeat(*, place: str, as_json: bool, quiet: bool) -> int:
    row = repeating.read_row(Path(place))
    question, ask = repeating.ask_of(row)
    raced = with_progress(lambda **callbacks: api.answer(question, ask, **callbacks), quiet=quiet)
    found = repeating.compare(row, raced.record)
    if as_json:
        emit_json(showing.to_json(found))
    else:
        emit(found.says)
    return ExitCode.NO if found.agrees is False else conclude(raced)
