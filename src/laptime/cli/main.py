"""The command `laptime`: imports each command only when it runs, handles signals, turns errors into exit codes."""

from __future__ import annotations

import errno
import importlib
import resource
import sys
import time
import traceback
from typing import Any, NoReturn

import click

from laptime.cli.interrupts import INTERRUPTS
from laptime.cli.printing import ReaderGone, complain, emit_error, give_up_output, renew, say
from laptime.engine.streams import fill_closed_streams
from laptime.model.errors import ExitCode, LaptimeError, UsageError
from laptime.model.questions import QUESTIONS

# Where each command is, its line of help, and its group. Its module is imported when it runs, so help is instant.
ASK_GROUP, RECORDS_GROUP, MACHINE_GROUP, MORE_GROUP = "Ask", "Records", "Machine", "More"
OLDER_WORDS = "Older words"  # `laptime help all` alone lists them


def _of_questions(group: str) -> dict[str, tuple[str, str, str]]:
    rows = (row for row in QUESTIONS if row.is_older == (group == OLDER_WORDS))
    return {
        row.command: (f"questions.{row.name}.command:{row.name}" if row.has_command else "", row.line, group)
        for row in rows
    }


COMMANDS = {
    **_of_questions(ASK_GROUP),
    "forecast": (
        "questions.forecast.command:forecast", "What would it take on hardware that is not here, and cost?", ASK_GROUP
    ),
    "resume": ("questions.train.command:resume", "Go on with a training that was ended.", ASK_GROUP),
    "list": ("cli.listing:list_records", "List saved records, newest first.", RECORDS_GROUP),
    "show": ("cli.records:show_record", "Show a saved record.", RECORDS_GROUP),
    "apply": ("cli.apply:apply", "Change your code as why, watch or tune says, after showing it.", RECORDS_GROUP),
    "compare": (
        "questions.compare.command:compare", "Which lanes became faster or slower since another record?", RECORDS_GROUP
    ),
    "report": ("cli.records:report", "Show records as an HTML page with charts, Markdown, CSV or SVG.", RECORDS_GROUP),
    "history": ("questions.compare.command:history", "How did a lane change over time?", RECORDS_GROUP),
    "remove": ("cli.records:remove_records", "Remove saved records.", RECORDS_GROUP),
    "export": (
        "cli.records:export", "Write a record for other programs: CSV, pyperf, MLflow, and others.", RECORDS_GROUP
    ),
    "import": ("cli.records:import_records", "Bring records of other machines into the list.", RECORDS_GROUP),
    "validate": ("cli.records:validate", "Is each file a record? If not: where, and why.", RECORDS_GROUP),
    "board": ("cli.board:board", "Rows that anyone may send, and the pages made of them.", RECORDS_GROUP),
    "devices": (
        "questions.doctor.command:devices", "What is there to train on, and can each device be used?", MACHINE_GROUP
    ),
    "workloads": ("cli.records:workloads", "List the built-in trainings.", MORE_GROUP),
    "data": ("cli.records:data", "List, make or remove made data.", MORE_GROUP),
    "help": ("cli.help:help_", "Explain a command with all its options, or a topic.", MORE_GROUP),
    "completion": ("cli.listing:completion", "Print the script for a shell's completion.", MORE_GROUP),
    **_of_questions(OLDER_WORDS),
}  # fmt: skip
QUESTION_OF = {question.command: question.name for question in QUESTIONS}
# The first page of help: twelve lines at most. A line on two commands has words of its own.
FIRST_PAGE = {
    ASK_GROUP: {
        **{row.command: "" for row in QUESTIONS if row.has_line_of_its_own},
        "forecast": "",
        "train, infer": "How long does a whole training take, or an answer?",
    },
    RECORDS_GROUP: {
        "list, show": "List saved records, or show one.",
        "compare, report": "What changed since another record? A page with charts.",
    },
    MACHINE_GROUP: {"devices": ""},
}
# Commands that print nothing for a program, and why; every other one has --json, and a row in answers.py.
NO_JSON = {
    "board": "it is several commands",
    "completion": "it prints a script for a shell, and nothing for a program",
}
LATEST_S = 9_223_372_036  # seconds since 1970 that Python's 64 bits of nanoseconds hold
NEEDS_NO_NUMPY = ("list", "help", "completion")
LEAST_BYTES = 200 << 20  # with less, its import fails, or OpenBLAS ends the process with 1, which would be DISCARD
WAYS_OUT = {
    errno.EMFILE: "Allow more open files: `ulimit -n 256`.",
    errno.ENOMEM: "Free memory, or raise its limit: `ulimit -v`.",
    errno.EAGAIN: "Allow more processes and threads: `ulimit -u`.",
    errno.ENOSPC: "Make room on the disk.",
}


def find_command(name: str) -> click.Command | None:
    """Import a command's module and return the command. That of a question may be made from its row alone."""
    _refuse_this_machine(name)
    if name not in COMMANDS or not COMMANDS[name][0]:
        added: click.Command | None = importlib.import_module("laptime.cli.questions").find_added(name)
        return added
    module, _, found = COMMANDS[name][0].partition(":")
    command: click.Command = getattr(importlib.import_module(f"laptime.{module}"), found)
    return command


def _refuse_this_machine(name: str) -> None:
    """Refuse what would end without a word: a clock that Python cannot read, memory that ends NumPy's import."""
    try:
        is_readable = time.time() < LATEST_S
    except OverflowError:
        is_readable = False
    if not is_readable:
        raise LaptimeError("the clock of this machine cannot be read: it is beyond the year 2262", "Set it: `date`.")
    most_bytes = resource.getrlimit(resource.RLIMIT_AS)[0]
    if name not in NEEDS_NO_NUMPY and most_bytes != resource.RLIM_INFINITY and most_bytes < LEAST_BYTES:
        says = f"`ulimit -v` allows {most_bytes >> 20} MB, and laptime needs {LEAST_BYTES >> 20} MB to start"
        raise LaptimeError(says, WAYS_OUT[errno.ENOMEM])


class LazyGroup(click.Group):
    """A group that imports each of COMMANDS only when it runs."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        return find_command(cmd_name)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group, rows in FIRST_PAGE.items():
            with formatter.section(group):
                formatter.write_dl([(names, line or COMMANDS[names][1]) for names, line in rows.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        formatter.write_paragraph()
        formatter.write(f"All commands: laptime help {ALL_TOPIC}.  Lanes: laptime help {LANES_TOPIC}.\n")

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            difflib = importlib.import_module("difflib")  # only where a name is wrong: help is instant
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            guess = f" (did you mean {near[0]}?)" if near else ""
            raise click.UsageError(f"no command '{args[0]}'{guess}; commands: {', '.join(COMMANDS)}", ctx) from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="laptime")
def group() -> None:
    """How long does a training take on each device you have, and by what proven factor is one faster?

    `laptime race` alone races a known network on every usable device, as its authors wrote it and at its best,
    and answers within about a minute.
    """


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    fill_closed_streams()
    INTERRUPTS.listen()
    try:
        code = _run()
    except KeyboardInterrupt:
        code = INTERRUPTS.exit_code
    INTERRUPTS.leave()
    sys.exit(INTERRUPTS.exit_code if INTERRUPTS.is_heard else code)  # a terminal that is closed takes no page


def _run() -> int:
    try:
        code = group.main(renew(sys.argv[1:] or ["--help"]), prog_name="laptime", standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        return _refuse(error)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTS.exit_code
    except SystemExit:  # click ends so where nobody reads its help any more
        give_up_output()
        return ExitCode.READER_GONE
    except LaptimeError as error:
        return _fail(error)
    except ReaderGone:
        return ExitCode.READER_GONE
    except (OSError, MemoryError, RuntimeError) as error:
        give_up_output()  # click prints help directly, not through printing.py
        if isinstance(error, BrokenPipeError):
            return ExitCode.READER_GONE
        if isinstance(error.__cause__, KeyboardInterrupt):  # as Python wraps it where a class is made: an import
            return INTERRUPTS.exit_code
        refusal = _refusal_of(error)
        return _confess(error) if refusal is None else _fail(refusal)
    except Exception as error:  # noqa: BLE001  Python's own exit code would be 1, which is an answer
        return _confess(error)
    return code if isinstance(code, int) else 0


def _refusal_of(error: Exception) -> LaptimeError | None:
    """Return an error that says what the system refused, or None if the error is a bug of laptime."""
    if isinstance(error, OSError):
        named = f"{error.filename}: " if error.filename else ""
        says = f"the system refused what laptime needed: {named}{error.strerror or error}"
        return LaptimeError(says, WAYS_OUT.get(error.errno or 0, ""))
    if isinstance(error, MemoryError):
        return LaptimeError("the system refused memory", WAYS_OUT[errno.ENOMEM])
    if "can't start new thread" in str(error):
        return LaptimeError("the system refused a thread", WAYS_OUT[errno.EAGAIN])
    return None


def _refuse(error: click.ClickException) -> int:
    """Report a wrong command line, in click's own words about it."""
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "laptime"
    says = error.format_message()
    if isinstance(error, click.NoSuchOption) and error.option_name == "--json":
        why = NO_JSON.get(command.partition(" ")[2], "")
        says = f"No --json for `{command}`: {why}." if why else says
    return _fail(UsageError(says, f"{command} --help"))


def _fail(error: LaptimeError) -> int:
    complain(error)
    _tell_programs(error.kind, error.says, error.hint, error.exit_code)
    return error.exit_code


def _confess(error: Exception) -> int:
    """Report a bug of laptime: to a program as an error like any other, to a person with where it happened."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    says = f"a bug of laptime: {type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
    hint = "Report it with this message and the command line; saved records are not touched."
    if not _speaks_json():
        say("".join(traceback.format_exception(error)).rstrip("\n"))
    complain(LaptimeError(says, hint))
    _tell_programs("bug", says, hint, ExitCode.BUG)
    return ExitCode.BUG


def _tell_programs(kind: str, says: str, hint: str, exit_code: int) -> None:
    if _speaks_json():
        emit_error(kind, says, hint, exit_code)


def _speaks_json() -> bool:
    """Whether a program reads stdout. A script's words behind -- are its own, and so is stdout of a watched command."""
    words = sys.argv[1:]
    own = words[: words.index("--")] if "--" in words else words
    return "--json" in own and own[0] != "watch"


# Help that fits a screen: `--help` has the usual options, `laptime help COMMAND` (help.py) all of them.

SHOWS_ALL_OPTIONS = "laptime.all_options"
ALL_TOPIC, LANES_TOPIC = "all", "lanes"


class RareOption(click.Option):
    """An option that `laptime help COMMAND` shows and `--help` does not."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return super().get_help_record(ctx) if ctx.meta.get(SHOWS_ALL_OPTIONS) else None


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
            names = [row.command for row in QUESTIONS]
            owners = [f"laptime {name}" for name in names if _has(ctx, name, error.option_name)]
            if owners and error.option_name != "--json":
                named = " and ".join(filter(None, [", ".join(owners[:-1]), owners[-1]]))
                have = "have" if len(owners) > 1 else "has"
                raise click.UsageError(f"No such option '{error.option_name}'; {named} {have} it.", ctx) from error
            raise
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # click's parser knows none where an option lacks its value
            raise

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        if self.more and ctx.meta.get(SHOWS_ALL_OPTIONS):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(self.more)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"  {example}\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rest = any(isinstance(param, RareOption) for param in self.params) and not ctx.meta.get(SHOWS_ALL_OPTIONS)
        hints = [f"All options: laptime help {self.name}."] if rest else []
        hints += [f"More: {self.page}"] if self.page else []
        if hints:
            formatter.write_paragraph()
            formatter.write(f"{'  '.join(hints)}\n")


def _has(context: click.Context, command: str, option: str) -> bool:
    """Whether another command has an option."""
    group = context.find_root().command
    other = group.get_command(context, command) if isinstance(group, click.Group) else None
    return other is not None and any(option in param.opts for param in other.params)


if __name__ == "__main__":
    main()
