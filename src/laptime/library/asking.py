"""From the arguments of a call to an `Ask`. Each argument has the name of the command line's option."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from laptime import api
from laptime.errors import UsageError
from laptime.library.notebook import file_of_cells, find_shell, is_of_a_cell
from laptime.model.ask import DEFAULT_WORKLOAD, Ask, FullAsk, TypePrice
from laptime.model.plan import find_launcher
from laptime.model.quantities import parse_duration, parse_share
from laptime.model.questions import find_question
from laptime.model.record import Record

OneTraining: TypeAlias = str | os.PathLike[str] | Callable[[], object]
What: TypeAlias = OneTraining | Ask
Trainings: TypeAlias = Sequence[OneTraining]
LaneNames: TypeAlias = str | Sequence[str]
DurationLike: TypeAlias = str | float
ShareLike: TypeAlias = str | float

OTHER_NAMES = {"framework": "frameworks", "for": "aim"}  # what a call names otherwise than the command
OF_A_GATE = {"against", "fail_above", "trust"}
OPTION = re.compile(r"(?<!\S)--([a-z]+(?:-[a-z]+)*)")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def read_duration(value: object) -> float:
    if not (_is_number(value) or isinstance(value, str)):
        raise ValueError("expected seconds, or a text such as '60s', '2m' or '1h'")
    return parse_duration(value) if isinstance(value, str) else read_number(value)


def read_share(value: object) -> float:
    if not (_is_number(value) or isinstance(value, str)):
        raise ValueError("expected a number such as 0.03, or a text such as '3%'")
    return parse_share(value if isinstance(value, str) else f"{value:.12f}".rstrip("0").rstrip("."))


def read_number(value: object) -> float:
    if not _is_number(value):
        raise ValueError("expected a number")
    return float(value)  # type: ignore[arg-type]


def read_count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("expected a whole number")
    return value


def read_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("expected True or False")
    return value


def read_items(value: object) -> int:
    """Return a number of items; 0 is all."""
    if value == "all":
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("expected a whole number from 1, or 'all'")
    return value


def read_path(value: object) -> str:
    if not isinstance(value, str | os.PathLike):
        raise TypeError("expected a path")
    return str(os.fspath(value))


def read_label(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("expected a name, such as 'main'")
    return value


def read_cluster(value: object) -> str:
    if value == "torchrun":
        raise ValueError("expected 'ray' or 'slurm': torchrun starts the command laptime, not a function")
    if not isinstance(value, str) or find_launcher(value) is None:
        raise ValueError("expected 'ray', 'ray://host:10001' or 'slurm'; devices are named as lanes")
    return value


def read_prices(value: object) -> tuple[TypePrice, ...]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError("expected a price for each type, such as {'small': 0.1}")
    return tuple(TypePrice(name, read_number(price)) for name, price in value.items())


def read_words(value: object) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, Sequence) or not all(isinstance(each, str) for each in words):
        raise ValueError("expected names, such as ['host', 'rapl']")
    return tuple(words)


def read_command(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(each, str) for each in value):
        raise ValueError("expected a list of words, such as ['--epochs', '3']")
    return tuple(value)


def read_counts(value: object) -> tuple[int, ...]:
    return tuple(map(read_count, value if isinstance(value, Sequence) else [value]))


def read_numbers(value: object) -> tuple[float, ...]:
    return tuple(map(read_number, value if isinstance(value, Sequence) else [value]))


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call: which field of an `Ask` (or of its `FullAsk`) it sets, and how it is read."""

    field: str
    read: Callable[[object], Any]


FULL_FIELDS = {each.name for each in fields(FullAsk)}
ARGUMENTS = {
    "heats": Argument("heats", read_count),
    "budget": Argument("budget_s", read_duration),
    "margin": Argument("margin", read_share),
    "seed": Argument("seed", read_count),
    "pretrained": Argument("pretrained", read_flag),
    "patience": Argument("patience_s", read_duration),
    "watchdog": Argument("watchdog_s", read_duration),
    "data": Argument("data", read_path),
    "items": Argument("items", read_items),
    "every": Argument("every", read_flag),
    "sensors": Argument("sensors", read_words),
    "sensor_rate": Argument("sensors_hz", read_number),
    "price": Argument("price_per_kwh", read_number),
    "rate": Argument("rate_per_hour", read_number),
    "profile": Argument("profile", read_flag),
    "alone": Argument("alone", read_flag),
    "label": Argument("label", read_label),
    "laps": Argument("laps", read_count),
    "steps_per_lap": Argument("steps_per_lap", read_count),
    "seeds": Argument("seeds", read_count),
    "until_accuracy": Argument("until_accuracy", read_share),
    "lr": Argument("learning_rates", read_numbers),
    "batch": Argument("batches", read_counts),
    "devices": Argument("devices", read_counts),
    "weak": Argument("growth", read_flag),
    "strong": Argument("growth", read_flag),
    "both": Argument("growth", read_flag),
    "allow": Argument("tune", read_words),
    "frameworks": Argument("tune", read_words),
    "arguments": Argument("command", read_command),
    "steps": Argument("steps", read_count),
    "on": Argument("on", read_cluster),
    "each": Argument("each", read_label),
    "prices": Argument("prices", read_prices),
}


def make_ask(
    what: What | Trainings,
    lanes: LaneNames,
    before: Record | None = None,
    *,
    found_as: str | None = None,
    trust: str | None = None,
    trains: bool = False,
    **given: object,
) -> Ask:
    """Return the ask of a call. An argument that is None or False was left out; the defaults are those of `Ask`.

    The trainings of a list race each other. If the call `trains` whole, what `FullAsk` holds is set there. The race of
    a record `before`, which was `found_as` that name, is asked for as it was.
    """
    given = {name: value for name, value in given.items() if value is not None and value is not False}
    named = read_lanes(lanes)
    if before is not None:
        return _ask_again(before, what, named, found_as=found_as, trust=trust, **given)
    if trust is not None:
        raise UsageError("trust is for a record that is run again", "laptime.race(against=ID, trust=ID)")
    if isinstance(what, Ask):
        _refuse_both([*given, *(["lanes"] if named else [])])
        return what
    read = {name: read_argument(name, value) for name, value in given.items()}
    found = {ARGUMENTS[name].field: value for name, value in read.items()}
    of_full = {field: found.pop(field) for field in FULL_FIELDS & found.keys()} if trains else {}
    full = FullAsk(**of_full) if trains else None
    first, *others = [name_subject(each) for each in _listed(what)]
    return Ask(what=first, others=tuple(others), lanes=named, full=full, **found)


def _ask_again(
    before: Record,
    what: object,
    lanes: Sequence[str],
    *,
    found_as: str | None = None,
    trust: str | None = None,
    **given: object,
) -> Ask:
    """Return the ask that runs a recorded race again. Refuse what would change it."""
    label = None if (named := given.pop("label", None)) is None else read_argument("label", named)
    changing = [*(["what"] if what != DEFAULT_WORKLOAD else []), *(["lanes"] if lanes else []), *given]
    if changing:
        says = f"against runs a race again as it was, and {', '.join(changing)} would change it"
        raise UsageError(says, "Leave it out, or race without against and then: laptime.compare(before, result).")
    with options_as_arguments():
        return api.ask_again(before, label, name=found_as, trust=trust)


def check_threshold(ask: Ask, before: Record | None, fail_above: float | None) -> None:
    """Refuse a threshold for a race that has nothing to compare with."""
    if fail_above is not None and before is None and not ask.others:
        raise UsageError(
            "fail_above compares two trainings, and one is given",
            "laptime.race([before, after], fail_above='5%'), or laptime.race(against='@main', fail_above='5%')",
        )


def _listed(what: OneTraining | Trainings) -> Trainings:
    if isinstance(what, str) or not isinstance(what, Sequence):
        return [what]
    if not what:
        raise UsageError("an empty list names no training", "Give a training, or a list of trainings to race.")
    return what


def check_call(ask: Ask, call: str) -> None:
    """Refuse an ask that means another function than the one that was called."""
    meant = find_question(ask.question).command
    if meant not in {call, "race"}:
        field = find_question(ask.question).field
        raise UsageError(
            f"this Ask has {field}, which laptime.{call} does not run",
            f"Call laptime.{meant} with it, or leave {field} out.",
        )


def read_lanes(lanes: LaneNames) -> tuple[str, ...]:
    """Return the names of lanes; one lane may be given as a text."""
    named: Sequence[str] = (lanes,) if isinstance(lanes, str) else lanes
    if not isinstance(named, Sequence) or not all(isinstance(each, str) for each in named):
        raise UsageError(f"lanes={lanes!r}: expected the names of lanes", "such as ['cpu', 'cuda/best']")
    return tuple(named)


@contextmanager
def options_as_arguments() -> Iterator[None]:
    """Name arguments in errors as Python does: `sensor_rate`, where the command line has `--sensor-rate`."""
    try:
        yield
    except UsageError as error:
        raise UsageError(_as_arguments(error.says), _as_arguments(error.hint)) from None


def _as_arguments(sentence: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        name = OTHER_NAMES.get(found[1], found[1].replace("-", "_"))
        return name if name in {*ARGUMENTS, *OTHER_NAMES.values(), *OF_A_GATE} else found[0]

    return OPTION.sub(replaced, sentence)


def _refuse_both(names: Sequence[str]) -> None:
    if names:
        raise UsageError(f"an Ask has all arguments in it, and {', '.join(names)} was given too", "Set it in the Ask.")


def read_argument(name: str, value: object) -> Any:
    try:
        return ARGUMENTS[name].read(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}={value!r}: {error}", f"help(laptime.race) says what {name} is.") from None


# What is trained, as the engine names it: a workload's name, or `file.py:function` for a function or a path.

AT_THE_TOP = "Write a function without arguments at the top of a file or a cell: `def training(): ...`, and give that."
NEEDS_NONE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def name_subject(what: object) -> str:
    """Return a workload's name or `file.py:function`. The processes that train it import the file."""
    if isinstance(what, str | os.PathLike):
        return str(os.fspath(what))
    if callable(what):
        return _name_function(what)
    raise UsageError(
        f"{_brief(what)} is not a training",
        "Give a function that returns a laptime.Training, 'file.py:function', or a workload's name: 'cifar-cnn'.",
    )


def _name_function(function: Callable[..., object]) -> str:
    name = _name_at_the_top(function)
    _check_arguments(function, name)
    module = sys.modules.get(function.__module__)
    if getattr(module, name, None) is not function:
        raise UsageError(f"'{name}' is not this function's name at the top of {function.__module__}", AT_THE_TOP)
    if is_of_a_cell(function):
        return f"{file_of_cells(name)}:{name}"
    return f"{_file_of(function, module, name)}:{name}"


def _name_at_the_top(function: Callable[..., object]) -> str:
    """Return the function's name. Refuse what another process cannot find under a name."""
    name = getattr(function, "__qualname__", "")
    if inspect.isclass(function) or not name:
        raise UsageError(f"{_brief(function)} is not a function", AT_THE_TOP)
    if name.endswith("<lambda>"):
        raise UsageError("a lambda has no name by which another process can find it", AT_THE_TOP)
    if "<locals>" in name:
        outer, _, inner = name.rpartition(".<locals>.")
        says = f"'{inner}' is defined inside '{outer.rpartition('.')[2]}', where another process cannot find it"
        raise UsageError(says, AT_THE_TOP)
    if "." in name or inspect.ismethod(function):
        raise UsageError(f"'{name}' is a method", AT_THE_TOP)
    return name


def _check_arguments(function: Callable[..., object], name: str) -> None:
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    needed = [f"'{each.name}'" for each in given if each.default is each.empty and each.kind not in NEEDS_NONE]
    if needed:
        says = f"'{name}' needs {', '.join(needed)}, and laptime calls it without arguments"
        raise UsageError(says, f"Write a function that calls it: `def training(): return {name}(...)`, and give that.")


def _file_of(function: Callable[..., object], module: ModuleType | None, name: str) -> str:
    """Return the file that holds the function."""
    named = getattr(module, "__file__", None)
    if named is None and find_shell() is not None:  # IPython's %run leaves the functions, and not the module
        named = inspect.getsourcefile(inspect.unwrap(function))
    if named is None or not Path(named).is_file():
        raise UsageError(
            f"'{name}' is in no file: it was typed, or made by a program",
            f"Save it in a file, and give 'file.py:{name}'.",
        )
    file = Path(named).resolve()
    if file.suffix != ".py":
        raise UsageError(f"'{name}' is in {file.name}, which is no .py file", "Save it in a file that ends with .py.")
    return str(file)


def _brief(what: object) -> str:
    """Return what was given, short enough for a sentence."""
    shown = repr(what)
    return shown if len(shown) <= 60 else f"a {type(what).__name__}"
