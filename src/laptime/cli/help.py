"""`laptime help`: a command with all its options, and topics: every command, lanes, exit codes, schemas."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import click
from click.shell_completion import CompletionItem

from laptime.cli.answers import (
    ALL_SCHEMAS,
    CommandLine,
    ExitCodeRow,
    LaneSetting,
    LanesHelp,
    SchemaRow,
    describe_command,
    find_schema,
    schema_text_of,
)
from laptime.cli.main import ALL_TOPIC, COMMANDS, LANES_TOPIC, SHOWS_ALL_OPTIONS
from laptime.cli.printing import emit, emit_json
from laptime.model.errors import ExitCode

EXIT_CODES_TOPIC, SCHEMA_TOPIC = "exit-codes", "schema"
LANES_HELP = """A lane is [FRAMEWORK/]DEVICE[/SETTING+SETTING...]: what trains, where, and how.

  torch/cpu                 PyTorch on the processor, as its authors wrote the training
  torch/cuda:0/best         on the first NVIDIA card, with every setting that keeps arithmetic and learning
  cuda/fastest              with reduced precision, too; the framework is left out
  keras-jax/cpu/batch=64    Keras on JAX, with one setting changed

Frameworks: {frameworks}.
"""
PRESET_SAYS = {
    "as-written": "as the authors wrote it; the default",
    "best": "every setting that keeps arithmetic and learning",
    "fastest": "best, and reduced precision where the device has it",
    "tuned": "what the newest `laptime tune` found here",
}
HELP_HELP = """Explain a command with all its options, or a topic: all, lanes, exit-codes, schema.

`laptime help schema COMMAND` prints the JSON Schema of what COMMAND prints with --json.
"""


def complete_topic(context: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete a command or a topic."""
    group = context.find_root().command
    commands = group.list_commands(context) if isinstance(group, click.Group) else []
    return [CompletionItem(word) for word in (*commands, *TOPICS) if word.startswith(begun)]


@click.command("help", help=HELP_HELP, context_settings={"ignore_unknown_options": True})
@click.argument("topic", default="", shell_complete=complete_topic)
@click.argument("words", metavar="[WORD]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print what the help says as JSON.")
@click.pass_context
def help_(context: click.Context, topic: str, words: tuple[str, ...], *, as_json: bool) -> None:
    asked = " ".join((topic, *words))
    if topic == SCHEMA_TOPIC and words:
        emit_json(schema_text_of(find_schema(" ".join(words))).rstrip("\n"))
    elif asked in TOPICS or (as_json and not asked):
        row = TOPICS[asked or ALL_TOPIC]
        return emit_values(row.values()) if as_json else emit(row.text())
    else:
        return _explain(context, asked, as_json=as_json)
    return None


def emit_values(values: object) -> None:
    from laptime.api import showing  # noqa: PLC0415  help in words needs nothing of it

    emit_json(showing.to_json(values))


def _explain(context: click.Context, asked: str, *, as_json: bool) -> None:
    """Print a command's help with all its options, or that of laptime."""
    group = context.parent
    assert group is not None
    assert isinstance(group.command, click.Group)
    if not asked:
        return emit(f"{group.get_help()}\n\nTopics: laptime help {', '.join(TOPICS)}")
    command: click.Command = group.command
    shown = group
    for word in asked.split():  # `board add` is a command of a command
        found = command.get_command(shown, word) if isinstance(command, click.Group) else None
        if found is None:
            topics = ", ".join((*TOPICS, *COMMANDS))
            raise click.UsageError(f"no help on '{asked}'; topics: {topics}", context)
        command, shown = found, click.Context(found, info_name=word, parent=shown)
    shown.meta[SHOWS_ALL_OPTIONS] = True
    return emit_values(describe_command(command, asked)) if as_json else emit(command.get_help(shown))


# Every command.


def commands_text() -> str:
    """Return every command with its line, in groups."""
    formatter = click.HelpFormatter()
    rows = command_lines()
    for group in dict.fromkeys(row.group for row in rows):
        with formatter.section(group):
            formatter.write_dl([(row.command, row.says) for row in rows if row.group == group])
    return formatter.getvalue().strip("\n")


def command_lines() -> list[CommandLine]:
    added = importlib.import_module("laptime.cli.questions").added_lines()
    ours = [CommandLine(name, line, group) for name, (_, line, group) in COMMANDS.items()]
    return [*ours, *(CommandLine(name, line, "Added") for name, line in added.items())]


# What a lane is, and every setting.


def lanes_text() -> str:
    lanes = lanes_help()
    formatter = click.HelpFormatter()
    formatter.write(LANES_HELP.format(frameworks=", ".join(lanes.frameworks)))
    with formatter.section("Presets"):
        formatter.write_dl([*lanes.presets.items()])
    with formatter.section("Settings"):
        formatter.write_dl([(" ".join(row.values), row.says) for row in lanes.settings])
    return formatter.getvalue().rstrip("\n")


def lanes_help() -> LanesHelp:
    from laptime import api  # noqa: PLC0415  the help of most commands needs nothing of it
    from laptime.model.frameworks import FRAMEWORKS  # noqa: PLC0415

    return LanesHelp(
        tuple(row.name for row in FRAMEWORKS if not row.switch),
        {name: PRESET_SAYS.get(name, "") for name in api.presets},
        tuple(LaneSetting(tuple(map(row.written, row.listed)), row.about) for row in api.settings.values()),
    )


# What each exit code means.


def exit_codes_text() -> str:
    return "Exit codes:\n" + "\n".join(f"  {code:<5}{code.when}" for code in ExitCode)


def exit_code_rows() -> list[ExitCodeRow]:
    return [ExitCodeRow(int(code), code.name.lower().replace("_", " "), code.when) for code in ExitCode]


# What each command prints for a program.


def schemas_text() -> str:
    rows = [(", ".join(row.commands) or "(no command's own)", row.schema) for row in ALL_SCHEMAS]
    formatter = click.HelpFormatter()
    formatter.write("With --json a command prints one answer on stdout, or an error; messages are on stderr.\n")
    with formatter.section("Schemas (laptime help schema COMMAND)"):
        formatter.write_dl([(schema, commands) for commands, schema in rows])
    return formatter.getvalue().rstrip("\n")


def schema_rows() -> list[SchemaRow]:
    return [SchemaRow(row.schema, row.commands) for row in ALL_SCHEMAS]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of help, in words and for programs."""

    text: Callable[[], str]
    values: Callable[[], object]


TOPICS = {
    ALL_TOPIC: Topic(commands_text, command_lines),
    LANES_TOPIC: Topic(lanes_text, lanes_help),
    EXIT_CODES_TOPIC: Topic(exit_codes_text, exit_code_rows),
    SCHEMA_TOPIC: Topic(schemas_text, schema_rows),
}
