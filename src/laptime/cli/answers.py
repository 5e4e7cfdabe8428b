"""What each command prints for a program: the table of answers, and their schemas.

With `--json` a command prints one answer on stdout, or an `error` in its place, and nothing else there. Each answer is
a frozen class, of which its schema is made. The schemas are in the package (`laptime/schemas/`, `make schema`), and
`laptime help schema COMMAND` prints them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from laptime.cli.main import NO_JSON
from laptime.model.errors import UsageError
from laptime.model.questions import QUESTIONS, find_part

SCHEMAS = Path(__file__).parent / "schemas"


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One kind of answer, by the name of its schema, and the commands that print it, as they are typed.

    `kinds` are the classes ("module:name") that it may be of. It `is_list` where it is a list of such, and
    `is_finite` where no figure can be infinite or NaN. `maker` returns the schema where more is known than its classes.
    """

    schema: str
    commands: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    is_list: bool = False
    is_finite: bool = False
    maker: str = ""


def _planning() -> Iterator[str]:
    yield "race --dry-run"
    yield from (f"{row.command} --dry-run" for row in QUESTIONS if row.plans)


ANSWERS = (
    AnswerRow(
        "record",
        (*(row.command for row in QUESTIONS if row.prints_record), "resume", "show"),
        maker="laptime.store.schema:record_schema",
    ),
    AnswerRow("verdict", ("verdict",), ("laptime.questions.verdict.nouns:VerdictFields",), is_finite=True),
    AnswerRow(
        "plan",
        tuple(_planning()),
        ("laptime.model.plan:Plan", "laptime.model.protocol:FullPlan", "laptime.model.protocol:InferPlan"),
    ),
    AnswerRow("forecast", ("forecast",), ("laptime.model.hardware:HardwareForecast",)),
    AnswerRow("forecast-check", ("forecast --check",), ("laptime.model.hardware:CheckedForecast",), is_list=True),
    AnswerRow("list", ("list",), ("laptime.model.rows:RecordRow",), is_list=True),
    AnswerRow("compare", ("compare",), ("laptime.questions.compare.nouns:Compared",)),
    AnswerRow("history", ("history",), ("laptime.questions.compare.nouns:History",)),
    AnswerRow("apply", ("apply",), ("laptime.model.record:Applied",)),
    AnswerRow("report", ("report",), ("laptime.model.record:WrittenReport",)),
    AnswerRow("remove", ("remove",), ("builtins:str",), is_list=True),
    AnswerRow("export", ("export",), ("laptime.model.record:Exported",)),
    AnswerRow("import", ("import",), ("laptime.model.rows:Imported",), is_list=True),
    AnswerRow("validate", ("validate",), ("laptime.model.rows:FileCheck",), is_list=True),
    AnswerRow("board-add", ("board add",), ("laptime.show.board.add:Added",)),
    AnswerRow("board-remake", ("board remake",), ("laptime.show.board.add:Remade",)),
    AnswerRow("board-check", ("board check",), ("laptime.show.board.check:BoardCheck",)),
    AnswerRow("board-predict", ("board predict",), ("laptime.show.board.reported:PredictedFile",)),
    AnswerRow("board-build", ("board build",), ("laptime.show.board.site:BuiltSite",)),
    AnswerRow("board-repeat", ("board repeat",), ("laptime.show.board.repeat:Repeated",)),
    AnswerRow("devices", ("devices",), ("laptime.questions.doctor.nouns:DeviceRow",), is_list=True),
    AnswerRow("devices-check", ("devices --check",), ("laptime.questions.doctor.nouns:Checkup",)),
    AnswerRow("workloads", ("workloads",), ("laptime.model.workload:WorkloadRow",), is_list=True),
    AnswerRow("workload", ("workloads NAME",), ("laptime.model.workload:WorkloadRow",)),
    AnswerRow("data", ("data", "data list"), ("laptime.model.ask:MadeSet",), is_list=True),
    AnswerRow("data-make", ("data make",), ("laptime.model.ask:NewSet",)),
    AnswerRow("data-remove", ("data remove",), ("laptime.model.ask:MadeSet",)),
    AnswerRow("help-command", ("help COMMAND",), ("laptime.cli.answers:CommandHelp",)),
    AnswerRow("help-all", ("help", "help all"), ("laptime.cli.answers:CommandLine",), is_list=True),
    AnswerRow("help-lanes", ("help lanes",), ("laptime.cli.answers:LanesHelp",)),
    AnswerRow("help-exit-codes", ("help exit-codes",), ("laptime.cli.answers:ExitCodeRow",), is_list=True),
    AnswerRow("help-schema", ("help schema",), ("laptime.cli.answers:SchemaRow",), is_list=True),
)
# What is no answer of one command.
ERROR = AnswerRow("error", (), ("laptime.model.errors:ErrorAnswer",))
BOARD_ROW = AnswerRow("board-row", (), maker="laptime.show.board.row:row_schema")
ALL_SCHEMAS = (*ANSWERS, ERROR, BOARD_ROW)


def find_schema(words: str) -> AnswerRow:
    """Return the row of a schema's name, or of a command as it is typed."""
    named = {row.schema: row for row in ALL_SCHEMAS}
    found = named | {command: row for row in ANSWERS for command in row.commands}
    if words in found:
        return found[words]
    if words in NO_JSON:
        raise UsageError(f"{words} has no --json: {NO_JSON[words]}", "laptime help schema lists all that have")
    near = ", ".join(difflib.get_close_matches(words, found, n=3)) or "laptime help schema lists all"
    raise UsageError(f"no schema of '{words}'", f"expected a command such as race, or a schema's name: {near}")


def schema_text_of(row: AnswerRow) -> str:
    """Return a schema as it is in the package."""
    return (SCHEMAS / f"{row.schema}.json").read_text(encoding="utf-8")


def make_schema(row: AnswerRow) -> str:
    """Return the text of a schema, made from the classes of its answer. `make schema` writes it into the package."""
    from laptime.api import showing  # noqa: PLC0415  only `make schema` makes one

    if row.maker:
        return showing.text_of_schema(find_part(row.maker)())
    kinds = [find_part(kind) for kind in row.kinds]
    made = showing.answer_schema(row.schema, kinds, is_list=row.is_list, is_finite=row.is_finite)
    return showing.text_of_schema(made)


# What `laptime help --json` prints.


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command, what it is for, and its group."""

    command: str
    says: str
    group: str


@dataclass(frozen=True, slots=True)
class ArgumentHelp:
    """A word that a command takes, or `several` of them."""

    name: str
    required: bool
    several: bool


@dataclass(frozen=True, slots=True)
class OptionHelp:
    """An option by all its names. It takes a value of this `kind`, unless it `is_flag`."""

    names: tuple[str, ...]
    says: str
    is_flag: bool
    kind: str
    choices: tuple[str, ...]
    default: str | None
    several: bool


@dataclass(frozen=True, slots=True)
class CommandHelp:
    """A command with all its arguments and options, its own commands, and the schema of each form of its answer."""

    command: str
    says: str
    examples: tuple[str, ...]
    arguments: tuple[ArgumentHelp, ...]
    options: tuple[OptionHelp, ...]
    commands: tuple[str, ...]
    schemas: dict[str, str]


@dataclass(frozen=True, slots=True)
class LaneSetting:
    """A setting of lanes: the values that are listed, as a lane has them."""

    values: tuple[str, ...]
    says: str


@dataclass(frozen=True, slots=True)
class LanesHelp:
    """What a lane may be made of: FRAMEWORK/DEVICE/SETTING+SETTING, where a preset takes the place of settings."""

    frameworks: tuple[str, ...]
    presets: dict[str, str]
    settings: tuple[LaneSetting, ...]


@dataclass(frozen=True, slots=True)
class ExitCodeRow:
    """A number with which commands end, its name, and when."""

    exit_code: int
    name: str
    when: str


@dataclass(frozen=True, slots=True)
class SchemaRow:
    """The schema of an answer, and the commands that print it with --json."""

    schema: str
    commands: tuple[str, ...]


def describe_command(command: click.Command, name: str) -> CommandHelp:
    """Return a command's help for a program."""
    return CommandHelp(
        command=name,
        says=(command.help or "").replace("\b", "").strip(),
        examples=getattr(command, "examples", ()),
        arguments=tuple(
            ArgumentHelp((param.metavar or param.name or "").strip("[].").upper(), param.required, param.nargs != 1)
            for param in command.params
            if isinstance(param, click.Argument)
        ),
        options=tuple(_describe_option(param) for param in command.params if isinstance(param, click.Option)),
        commands=tuple(command.commands) if isinstance(command, click.Group) else (),
        schemas={typed: row.schema for row in ANSWERS for typed in row.commands if f"{typed} ".startswith(f"{name} ")},
    )


def _describe_option(option: click.Option) -> OptionHelp:
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    default = option.default
    return OptionHelp(
        names=(*option.opts, *option.secondary_opts),
        says=option.help or "",
        is_flag=bool(option.is_flag),
        kind="" if option.is_flag else option.type.name,
        choices=tuple(map(str, choices)),
        default=str(default) if isinstance(default, str | int | float) and not option.is_flag else None,
        several=option.multiple,
    )
