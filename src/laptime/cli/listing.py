"""`laptime list`, and what a shell completes after <Tab>: both read the list of records, and are fast."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from laptime.cli.main import QUESTION_OF, Command
from laptime.cli.output import ALL_FIELDS, emit_page, page_width
from laptime.cli.printing import emit, emit_json
from laptime.model.quantities import parse_duration
from laptime.model.rows import LABEL_FORM, Selection
from laptime.model.visible import visible
from laptime.show import listing

# What a shell completes: workloads and files, lanes and settings, records.
#
# What knows workloads and settings is imported when a shell asks: help is instant, and a list names these functions.
#
# A shell puts a word on the command line as it is, and bash then acts on what is in it. Records and files may come from
# others. So only words are offered that no shell acts on; any other can be typed, in quotes.

SAFE = re.compile(f"@?{LABEL_FORM.pattern}")
SHELLS = {
    "bash": 'eval "$(laptime completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(laptime completion zsh)" in ~/.zshrc',
    "fish": "laptime completion fish > ~/.config/fish/completions/laptime.fish",
}
COMPLETION_HELP = """Print the script that lets a shell complete commands, workloads, lanes, settings and record ids.

\b
  bash   eval "$(laptime completion bash)" in ~/.bashrc
  zsh    eval "$(laptime completion zsh)" in ~/.zshrc
  fish   laptime completion fish > ~/.config/fish/completions/laptime.fish
"""


@click.command("completion", help=COMPLETION_HELP)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    kind = get_completion_class(shell)
    assert kind is not None
    emit(kind(context.find_root().command, {}, "laptime", "_LAPTIME_COMPLETE").source())


def complete_what(_context: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete a built-in workload, the name of a Python file, or a lane of the default workload."""
    from laptime import api  # noqa: PLC0415

    names = [workload.name for workload in api.workloads]
    return [*beginning(begun, names), *beginning(begun, _lanes(begun)), CompletionItem(begun, type="file")]


def complete_lane(_context: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete a framework, a device, or the setting that was begun last."""
    return beginning(begun, _lanes(begun))


def complete_record(_context: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete the id of a saved record."""
    return [
        *beginning(begun, ["latest"]),
        *beginning(begun, [f"@{label}" for label in _labels()] if begun.startswith("@") else []),
        *(CompletionItem(record.id, help=" ".join(visible(f"{record.question} {record.workload}").split()))
          for record in listing.records() if record.id.startswith(begun) and SAFE.fullmatch(record.id)),
    ]  # fmt: skip


def complete_label(_context: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete the label of a saved record."""
    return beginning(begun, _labels())


def complete_target(_context: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete what a record can be exported to."""
    from laptime import api  # noqa: PLC0415

    return beginning(begun, api.exports())


def _labels() -> list[str]:
    """Return the labels of all saved records, the newest first."""
    return list(dict.fromkeys(record.label for record in listing.records() if record.label is not None))


def _lanes(begun: str) -> list[str]:
    """Return what may follow in a lane: after a slash or a plus it is another part."""
    from laptime import api  # noqa: PLC0415
    from laptime.model.frameworks import FRAMEWORKS  # noqa: PLC0415

    cut = max(begun.rfind("/"), begun.rfind("+")) + 1
    before, parts = begun[:cut], begun.split("/")
    frameworks = [row.name for row in FRAMEWORKS if not row.switch]
    devices = ["cpu", "cuda", "cuda:0", "mps", "xpu"]
    if len(parts) == 1:
        return [*(f"{name}/" for name in frameworks), *devices]
    if len(parts) == 2 and parts[0] in frameworks:
        return [before + device for device in devices]
    settings = [row.written(value) for row in api.settings.values() for value in row.listed]
    return [before + word for word in (*api.presets, *settings)]


def beginning(begun: str, words: Iterable[str]) -> list[CompletionItem]:
    """Return the words that begin so and on which no shell acts."""
    return [CompletionItem(word) for word in words if word.startswith(begun) and SAFE.fullmatch(word)]


# All saved records, or those that options choose.

LIST_HELP = """List saved records, newest first. Options choose among them; all that are given have to fit."""
LISTED_MOST = 30
DEVICE_KINDS = ("cpu", "gpu", "cuda", "mps", "xpu", "tpu")
RECORD_STATUSES = ("running", "finished", "interrupted", "ended", "unreadable")


class Since(click.ParamType):  # type: ignore[type-arg]  # before click 8.4 it takes none
    """A date or a moment, in UTC as lists show it, or how long ago."""

    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dt.datetime:
        if isinstance(value, dt.datetime):
            return value
        try:
            found = dt.datetime.fromisoformat(str(value))
            return found if found.tzinfo else found.replace(tzinfo=dt.UTC)
        except ValueError:
            pass
        try:
            return dt.datetime.now(dt.UTC) - dt.timedelta(seconds=parse_duration(str(value)))
        except (ValueError, OverflowError):
            self.fail(f"'{value}' is not a date; such as 2026-11-20, '2026-11-20 14:00', or 7d", param, ctx)


@click.command(
    "list",
    cls=Command,
    help=LIST_HELP,
    examples=("laptime list --since 7d --device cuda", "laptime list --workload cifar-cnn --label main --json"),
    page="docs/compare.md",
)
@click.option("--workload", metavar="WHAT", shell_complete=complete_what, help="Only of this training.")
@click.option("--lane", shell_complete=complete_lane, help="Only with this lane: torch/cpu, cuda/best.")
@click.option("--device", type=click.Choice(DEVICE_KINDS), help="Only on this kind of device; gpu is any card.")
@click.option("--label", metavar="NAME", shell_complete=complete_label, help="Only with this label.")
@click.option("--since", metavar="DATE", type=Since(), help="Only from then on: 2026-11-20, or 7d ago.")
@click.option("--question", type=click.Choice(tuple(QUESTION_OF)), help="Only answers to this question.")
@click.option("--status", type=click.Choice(RECORD_STATUSES), help="Only with this status.")
@click.option("--limit", type=click.IntRange(0), help="At most N; 0 for all.  [default: 30; all in JSON]")
@ALL_FIELDS
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
def list_records(*, details: bool, as_json: bool, limit: int | None, question: str | None, **given: Any) -> None:
    wanted = Selection(question=None if question is None else QUESTION_OF.get(question, question), **given)
    rows = wanted.of(listing.records())
    most = (0 if as_json else LISTED_MOST) if limit is None else limit
    shown = rows[:most] if most else rows
    if as_json:
        emit_json(listing.rows_as_json(shown))
    else:
        is_chosen = wanted != Selection()
        page = listing.records_as_text(shown, page_width(), left_out=len(rows) - len(shown), is_chosen=is_chosen)
        emit_page(page, shown, details=details)
