"""What a shell completes after <Tab>: workloads and files, lanes and settings, records, topics of help."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem, get_completion_class

from laptime import listing
from laptime.cli.main import Command
from laptime.cli.printing import emit
from laptime.model.rows import LABEL_FORM
from laptime.visible import visible

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


@click.command("completion", cls=Command, help=COMPLETION_HELP)
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
