"""Help that fits a screen: `--help` has the usual options, `laptime help COMMAND` all of them; and what lanes are."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from laptime.cli.printing import emit

ALL_OPTIONS = "laptime.all_options"
LANES, EXIT_CODES = "lanes", "exit-codes"
TOPICS = {
    LANES: "What a lane is, and its settings.",
    EXIT_CODES: "What each exit code means.",
}
CODES = """Exit codes:
  0    answered
  1    slower than --fail-above allows, or (validate) a file is not a record
  2    wrong usage, or something that cannot run here
  3    a lane did not finish, or the result could not be saved
  4    not to be relied on: a lane did not do the same work, or the machine was too busy
  5    an instrument that --sensors names is missing; or doctor found a problem
  130  interrupted by Ctrl-C; finished heats and laps are saved
  143  terminated; finished heats and laps are saved
"""
LANES_HELP = """A lane is [FRAMEWORK/]DEVICE[/SETTING+SETTING...]: what trains, where, and how.

  torch/cpu                 PyTorch on the processor, as its authors wrote the training
  torch/cuda:0/best         on the first NVIDIA card, with every setting that keeps arithmetic and learning
  cuda/fastest              with reduced precision, too; the framework is left out
  keras-jax/cpu/batch=64    Keras on JAX, with one setting changed

Frameworks: {frameworks}.
"""


class RareOption(click.Option):
    """An option that `laptime help COMMAND` shows and `--help` does not."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return super().get_help_record(ctx) if ctx.meta.get(ALL_OPTIONS) else None


def rare(*names: str, **attributes: Any) -> Callable[[Any], Any]:
    """Return a decorator that adds an option which few people need."""
    return click.option(*names, cls=RareOption, **attributes)


class Command(click.Command):
    """A command with examples, which names the page that says more. `more` is for `laptime help COMMAND`."""

    def __init__(
        self, *args: Any, examples: tuple[str, ...] = (), page: str = "", more: str = "", **given: Any
    ) -> None:
        super().__init__(*args, **given)
        self.examples, self.page, self.more = examples, page, more

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            questions = importlib.import_module("laptime.model.questions").QUESTIONS  # help starts without it
            names = [each.command for each in questions]
            owners = [f"laptime {name}" for name in names if _has(ctx, name, error.option_name)]
            if owners:
                named = " and ".join(filter(None, [", ".join(owners[:-1]), owners[-1]]))
                have = "have" if len(owners) > 1 else "has"
                raise click.UsageError(f"No such option '{error.option_name}'; {named} {have} it.", ctx) from error
            raise

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        if self.more and ctx.meta.get(ALL_OPTIONS):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(self.more)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"  {example}\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rest = any(isinstance(each, RareOption) for each in self.params) and not ctx.meta.get(ALL_OPTIONS)
        told = [f"All options: laptime help {self.name}."] if rest else []
        told += [f"More: {self.page}"] if self.page else []
        if told:
            formatter.write_paragraph()
            formatter.write(f"{'  '.join(told)}\n")


def complete_topic(context: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete a command or a topic."""
    group = context.find_root().command
    commands = group.list_commands(context) if isinstance(group, click.Group) else []
    return [CompletionItem(word) for word in (*commands, *TOPICS) if word.startswith(begun)]


def _has(context: click.Context, command: str, option: str) -> bool:
    """Whether another command has an option."""
    group = context.find_root().command
    other = group.get_command(context, command) if isinstance(group, click.Group) else None
    return other is not None and any(option in each.opts for each in other.params)


@click.command("help", help="Explain a command with all its options, or a topic: lanes, exit-codes.")
@click.argument("topic", default="", shell_complete=complete_topic)
@click.pass_context
def help_(context: click.Context, topic: str) -> None:
    if topic == LANES:
        emit(lanes_text())
    elif topic == EXIT_CODES:
        emit(CODES)
    else:
        emit(_help_of(context, topic))


def _help_of(context: click.Context, topic: str) -> str:
    """Return a command's help with all its options, or that of laptime."""
    group = context.parent
    assert group is not None
    assert isinstance(group.command, click.Group)
    if not topic:
        return f"{group.get_help()}\n\nTopics: laptime help {', '.join(TOPICS)}"
    command = group.command.get_command(group, topic)
    if command is None:
        topics = ", ".join((*TOPICS, *group.command.list_commands(group)))
        raise click.UsageError(f"no help on '{topic}'; topics: {topics}", context)
    asked = click.Context(command, info_name=topic, parent=group)
    asked.meta[ALL_OPTIONS] = True
    return command.get_help(asked)


def lanes_text() -> str:
    """Return the reference of lanes: what a lane is, and every setting."""
    from laptime import api  # noqa: PLC0415  the help of most commands needs nothing of it
    from laptime.model.frameworks import FRAMEWORKS  # noqa: PLC0415

    formatter = click.HelpFormatter()
    names = [row.name for row in FRAMEWORKS if not row.switch]
    formatter.write(LANES_HELP.format(frameworks=", ".join(names)))
    with formatter.section("Presets"):
        formatter.write_dl([(name, PRESET_SAYS.get(name, "")) for name in api.presets])
    with formatter.section("Settings"):
        formatter.write_dl([(" ".join(map(row.written, row.listed)), row.about) for row in api.settings.values()])
    return formatter.getvalue().rstrip("\n")


PRESET_SAYS = {
    "as-written": "as the authors wrote it; the default",
    "best": "every setting that keeps arithmetic and learning",
    "fastest": "best, and reduced precision where the device has it",
    "tuned": "what the newest `laptime tune` found here",
}
