"""Call a user's own function in the child and check what it returns; digest the user's files that it imported."""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib.util
import inspect
import itertools
import linecache
import os
import random
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from laptime.attach.own_modules import FreshLoader, compile_afresh
from laptime.model.errors import LaptimeError, TrainingError
from laptime.model.record import digest_source
from laptime.model.symptoms import is_memory_error
from laptime.model.workload import Training

INSTALLED = {"site-packages", "dist-packages"}
LAPTIME = Path(__file__).parents[2]
RELATIVE_IMPORT = re.compile(rb"^\s*from\s+\.", re.MULTILINE)


def call_own(file: str, function: str) -> Training:
    """Load the file with its folder on the import path, as `python file.py` does, and call its function."""
    path = Path(file)
    sys.path.insert(0, str(path.parent))
    module = _load(path)
    named = getattr(module, function, None)
    if not callable(named):
        raise TrainingError(*_why_not_callable(path, function, module))
    try:
        returned = named()
    except Exception as error:
        if is_memory_error(error):
            raise
        raise TrainingError(f"{path.name}:{function} raised {type(error).__name__}: {error}") from error
    return as_training(returned, f"{path.name}:{function}")


def _why_not_callable(path: Path, function: str, module: Any) -> tuple[str, str]:
    """Return why a file has no such function at its top, and what to name instead."""
    found = [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.FunctionDef)]
    at_the_top = [node.name for node in found if callable(getattr(module, node.name, None))]
    way = f"its functions: {', '.join(at_the_top)}" if at_the_top else "give file.py:function"
    if any(node.name == function for node in found):
        says = f"{path.name}: '{function}' is defined inside something else, and only its top can be called"
        return says, f"move it to the top of the file; {way}"
    if hasattr(module, function):
        return f"{path.name}: '{function}' is not a function", way
    return f"{path.name} has no function '{function}'", way


def _load(path: Path) -> Any:
    # The module has the file's name, so that its classes and functions can be pickled for loader processes.
    package = _package_of(path)
    name = f"{package}.{path.stem}" if package else path.stem
    compile_afresh(str(path.parents[len(package.split(".")) if package else 0]))
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # what the user's code starts leaves no compiled files either
    spec = importlib.util.spec_from_file_location(name, path, loader=FreshLoader(name, str(path)))
    if spec is None or spec.loader is None:
        raise TrainingError(f"{path} cannot be loaded as Python", "give the path of a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        if package:
            importlib.import_module(package)
        spec.loader.exec_module(module)
    except Exception as error:
        if is_memory_error(error):
            raise
        raise TrainingError(f"{path.name} raised {type(error).__name__} on import: {error}") from error
    return module


def _package_of(path: Path) -> str:
    """Return the package of a file that imports relative to it, and put the package's folder on the import path."""
    try:
        text = path.read_bytes()
    except OSError:
        return ""
    if not RELATIVE_IMPORT.search(text):
        return ""
    names: list[str] = []
    folder = path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    sys.path.insert(0, str(folder))
    return ".".join(names)


def length_of(data: Any) -> int | None:
    """Return how many batches there are, if the data has a length."""
    try:
        return len(data)
    except (TypeError, NotImplementedError, ValueError, OverflowError):  # a loader passes on what its data set raises
        return None


LAPS_A_SEED = 1_000_003
LARGEST_SEED = 1 << 31  # all generators take such a seed


@dataclass(slots=True)
class LapNotes:
    """How many laps of a user's data have begun, and how the data was as the last one did.

    Each lap begins with a seed of its own. So two trainings shuffle alike in all their laps, whatever their steps draw
    in between.
    """

    seed_all: Callable[[int], None]
    seed: int
    data: Any
    laps: int = 0
    states: list[Any] = field(default_factory=list)

    def note(self) -> None:
        self.laps += 1
        self.seed_all((self.seed + self.laps * LAPS_A_SEED) % LARGEST_SEED)
        self.states = []
        states: list[Any] = []
        with contextlib.suppress(Exception):  # whatever an attribute of a user's own class raises
            for part in _parts_of(self.data):
                if is_generator(part):
                    states.append(read_generator(part))
                else:  # what a part of the data counts
                    held = getattr(part, "__dict__", {})
                    states.append({key: value for key, value in held.items() if isinstance(value, KEPT_VALUES)})
            self.states = states

    def go_back(self, laps: int, states: Sequence[Any]) -> None:
        """Let the lap after `laps` begin next, with the data as it was."""
        self.laps = laps
        for part, state in zip(_parts_of(self.data), states, strict=False):
            if is_generator(part):
                put_generator(part, state)
            elif hasattr(part, "__dict__"):
                part.__dict__.update(state)


PARTS_OF_LOADERS = ("dataset", "sampler", "batch_sampler")
KEPT_VALUES = (bool, int, float, str, type(None))


def _parts_of(data: Any) -> list[Any]:
    """Return a user's data, what a loader of PyTorch's is made of, and all generators that these hold."""
    found = {id(data): data}
    for whole in (data, *(getattr(data, name, None) for name in PARTS_OF_LOADERS)):
        for part in (getattr(whole, "sampler", None), *getattr(whole, "__dict__", {}).values(), whole):
            if is_generator(part) or part is whole:
                found[id(part)] = part
    return list(found.values())


def is_generator(part: Any) -> bool:
    """Whether this draws random numbers on its own: of Python's, NumPy's or PyTorch's."""
    return isinstance(part, random.Random | np.random.Generator) or hasattr(part, "get_state")


def read_generator(part: Any) -> Any:
    """Return how far a generator has drawn."""
    if isinstance(part, random.Random):
        return part.getstate()
    return copy.deepcopy(part.bit_generator.state) if isinstance(part, np.random.Generator) else part.get_state()


def put_generator(part: Any, state: Any) -> None:
    if isinstance(part, random.Random):
        part.setstate(state)
    elif isinstance(part, np.random.Generator):
        part.bit_generator.state = copy.deepcopy(state)
    else:
        part.set_state(state)


def endless(data: Iterable[Any], name: str, notes: LapNotes | None = None) -> Iterator[Any]:
    """Iterate a user's data again and again; raise an error if a lap has no batch.

    No code of ours runs between two batches of a lap: next to a step of 0.2 ms it would be seen.
    """
    return itertools.chain.from_iterable(_laps(data, name, notes))


def _laps(data: Iterable[Any], name: str, notes: LapNotes | None) -> Iterator[Iterable[Any]]:
    """Yield the first batch of each lap, and then the rest of it."""
    for lap in itertools.count():
        if notes is not None:
            notes.note()
        batches = iter(data)
        first = tuple(itertools.islice(batches, 1))
        if not first:
            lap_words = f"in lap {lap + 1}, after {lap} that had some" if lap else "at all: it is empty"
            raise TrainingError(
                f"{name}: data gave no batch {lap_words}", "it must give batches each time it is iterated"
            )
        yield first
        del first  # it may be large
        yield batches


def digest_imported(file: str) -> dict[str, str]:
    """Digest the user's file and all modules imported from its folder, except installed packages."""
    folder = Path(file).parent
    imported = filter(make_own_test(folder), map(_file_of, list(sys.modules.values())))
    found = {}
    for path in sorted({file, *imported}):
        with contextlib.suppress(OSError):
            found[Path(path).relative_to(folder).as_posix()] = digest_source(Path(path).read_bytes())
    return found


def make_own_test(folder: Path) -> Callable[[str], bool]:
    """Return a test whether a path is in the user's folder, and not of an installed package, Python or laptime."""
    inside = _as_beginning(folder)
    # These may be below a user's folder and are not the user's: laptime, Python's library, and installed packages.
    installed = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    outside = tuple(map(_as_beginning, (LAPTIME, *installed)))

    def is_own(path: str) -> bool:
        is_ours = path.startswith(inside) and not path.startswith(outside)
        return is_ours and INSTALLED.isdisjoint(Path(path).relative_to(folder).parts)

    return is_own


def _as_beginning(folder: Path) -> str:
    return f"{str(folder).rstrip(os.sep)}{os.sep}"


def _file_of(module: object) -> str:
    """Return a module's file without importing it: `getattr` on a lazy module would import that module."""
    try:
        path = object.__getattribute__(module, "__dict__").get("__file__")
    except AttributeError:
        return ""
    return path if isinstance(path, str) else ""


# Where a user's own code raised an error: file, line and function, without the frames of libraries.

LONGEST_ERROR = 400  # characters of an error's own message
FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (\S+)', re.MULTILINE)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# What marks a traceback in a message: of a DataLoader's worker, of TensorFlow's functions, of TensorFlow's tracing.
OF_A_WORKER = "Caught "
TRACE = "Traceback (most recent call last)"
OF_A_GRAPH = "in user code:"
OF_KERAS = re.compile(r"^Exception encountered when calling .*?\n\n|\n\nArguments received by .*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class OwnError:
    """An error that a user's code raised, or that a library raised when this code called it.

    `reason` is the place and the error in one line, and `line` the source there. `on_load` says that the file's import
    or the call of its function raised. `trace` is the traceback without the frames of libraries.
    """

    reason: str
    line: str
    on_load: bool
    trace: str


def find_own_error(error: BaseException, file: str) -> OwnError | None:
    """Return where code from the folder of the user's file raised the error; None if it did not, or got no memory."""
    raised = error
    if isinstance(error, TrainingError) and error.__cause__ is not None:
        raised = error.__cause__
    if isinstance(raised, LaptimeError) or is_memory_error(raised):
        return None
    # The user's frames, outermost first, without columns: Python would mark these in rows of `^`.
    message = str(raised)
    places = [(frame.filename, frame.lineno or 0, frame.name) for frame in traceback.extract_tb(raised.__traceback__)]
    if TRACE in message or OF_A_GRAPH in message:
        places += [(path, int(line), name) for path, line, name in FRAME.findall(message)]
    if isinstance(raised, SyntaxError) and raised.filename:
        places.append((raised.filename, raised.lineno or 0, "<module>"))
    is_own = make_own_test(Path(file).parent)
    frames = [
        traceback.FrameSummary(path, line, name, line=linecache.getline(path, line).strip())
        for path, line, name in places
        if is_own(path)
    ]
    if not frames:
        return None
    words = _words_of(raised)
    last = frames[-1]
    function = "" if last.name == "<module>" else f", in {last.name}"
    place = f"{Path(last.filename).relative_to(Path(file).parent)}, line {last.lineno}{function}"
    source = f"{last.lineno} | {last.line}" if last.line else ""
    rows = traceback.format_list(frames)
    trace = "".join(["Traceback of your own code (most recent call last):\n", *rows, f"{words}\n"])
    is_on_load = any(frame.f_code is call_own.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))
    return OwnError(f"{place}: {words}", source, is_on_load, trace)


def _words_of(error: BaseException) -> str:
    """Return the error's kind and message in one line."""
    if isinstance(error, SystemExit):
        return f"its code ended the process: sys.exit({error.code!r})"
    message = OF_KERAS.sub("", COLOURS.sub("", error.msg if isinstance(error, SyntaxError) else str(error))).strip()
    if message.startswith(OF_A_WORKER) or OF_A_GRAPH in message:
        return _shortened(message.splitlines()[-1])
    message = message.partition(f"\n{TRACE}")[0]
    return _shortened(f"{type(error).__name__}: {message}" if message else type(error).__name__)


def _shortened(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= LONGEST_ERROR else f"{line[: LONGEST_ERROR - 4]} ..."


# What a user's function returned: a training that can be run, or a sentence that says what to return instead.

OWN_TRAINING = "laptime.Training(model=..., loss=..., optimizer=..., data=...)"
RETURN_A_TRAINING = f"return {OWN_TRAINING}, or a Keras model and its data"
OF_A_TRAINER = (
    "return its model and its data loader: laptime.Training(model=trainer.model, "
    "optimizer=torch.optim.AdamW(trainer.model.parameters(), lr=...), data=trainer.get_train_dataloader()); "
    "a model that computes its loss needs no loss="
)
OWN_STEP = "laptime.Training(step=step, state=state, data=data), where step(state, batch) returns (new state, loss)"


class MadeAgain:
    """Data that a user's function makes: it is called for each lap."""

    def __init__(self, make: Callable[[], Any], name: str) -> None:
        self._make = make
        self._name = name

    def __iter__(self) -> Iterator[Any]:
        made = self._make()
        if not hasattr(made, "__iter__"):
            says = f"{self._name}: data is a function, and it returned {type(made).__name__}"
            raise TrainingError(f"{says}, which cannot be iterated", "let it return a generator or a list of batches")
        return iter(made)


def is_keras(model: Any) -> bool:
    """Whether a model is a Keras model, found without importing Keras."""
    return _is_of(model, "keras")


def as_training(returned: Any, name: str) -> Training:
    """Return the training; raise an error in words if it cannot be run."""
    if isinstance(returned, tuple) and len(returned) == 2 and is_keras(returned[0]):
        returned = Training(model=returned[0], data=returned[1])  # a compiled model needs no more
    if not isinstance(returned, Training):
        raise _refusal_of(returned, name)
    if returned.step is not None:
        _check_step(returned, name)
    elif is_keras(returned.model):
        if returned.loss is not None or returned.optimizer is not None:
            raise TrainingError(f"{name}: returns a Keras model, and a loss or an optimizer next to it",
                                "compile the model with them, and leave them out here")  # fmt: skip
    elif returned.loss is not None and not callable(returned.loss):
        kind = type(returned.loss).__name__
        raise TrainingError(f"{name}: loss is {kind}, not a function of (outputs, targets)")
    training = replace(returned, data=_checked_data(returned, "data", name))
    if training.held_out is not None:
        if training.step is not None or is_keras(training.model):
            says = f"{name}: gives held_out, which is for a model of PyTorch: laptime judges its loss on these batches"
            raise TrainingError(says, "leave it out")
        training = replace(training, held_out=_checked_data(training, "held_out", name))
    if training.batch is not None and training.batch < 1:
        raise TrainingError(f"{name}: batch is {training.batch}, expected 1 or more")
    if training.steps_per_lap is not None and training.steps_per_lap < 1:
        raise TrainingError(f"{name}: steps_per_lap is {training.steps_per_lap}, expected 1 or more")
    return training


def _refusal_of(returned: Any, name: str) -> TrainingError:
    """Return the error for what is no training, with what to return instead."""
    kind = type(returned).__name__
    says = f"{name} returned {kind}, not a laptime.Training"
    if hasattr(returned, "get_train_dataloader") and hasattr(returned, "model"):
        return TrainingError(says, OF_A_TRAINER)
    if kind.endswith("Trainer"):
        return TrainingError(
            says, f"return its model and its data loader: {OWN_TRAINING}; or its loop as a step: {OWN_STEP}"
        )
    if _is_of(returned, "torch", "Module"):
        return TrainingError(f"{says}: its data and its optimizer are missing", f"return {OWN_TRAINING}")
    if isinstance(returned, tuple | list) and any(_is_of(part, "torch", "Module") for part in returned):
        hint = f"name each part: return {OWN_TRAINING}, without loss= if the model computes its loss"
        return TrainingError(says, hint)
    return TrainingError(says, RETURN_A_TRAINING)


def _is_of(value: Any, package: str, name: str | None = None) -> bool:
    """Whether a value's class comes from a package, found without importing it; from its class `name`, if given."""
    return any(
        kind.__module__.split(".")[0] == package and name in {None, kind.__name__} for kind in type(value).__mro__
    )


def _checked_data(training: Training, field: str, name: str) -> Any:
    """Return the data, or what is held out; a function, or a class, is called for each lap."""
    data = getattr(training, field)
    kind = type(data).__name__
    if isinstance(data, type) or (callable(data) and not hasattr(data, "__iter__")):
        return MadeAgain(data, name)
    if hasattr(data, "__next__") and not is_keras(training.model):
        raise TrainingError(
            f"{name}: {field} is {kind}: it can be iterated only once",
            f"give the function that makes it, as {field}=make_batches and not {field}=make_batches(): it is called "
            "for each lap; or give a list of batches or a DataLoader",
        )
    if hasattr(data, "__iter__"):
        return data
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        hint = "give a DataLoader over it: torch.utils.data.DataLoader(data, batch_size=32)"
        raise TrainingError(f"{name}: {field} is {kind}, a data set of single items", hint)
    if data is None:
        hint = "give data=: a list of batches, a DataLoader, or a function that makes a generator of batches"
        raise TrainingError(f"{name}: gives no data", hint)
    hint = "give a list of batches, a DataLoader, or a function that makes a generator of batches"
    raise TrainingError(f"{name}: {field} is {kind}, which cannot be iterated", hint)


def _check_step(training: Training, name: str) -> None:
    if training.model is not None or training.optimizer is not None:
        raise TrainingError(f"{name}: gives a step and a model", "give one of the two; a step has its own in its state")
    if not callable(training.step):
        raise TrainingError(f"{name}: step is {type(training.step).__name__}, not a function of (state, batch)")
    if training.fence is not None and not callable(training.fence):
        raise TrainingError(f"{name}: fence is {type(training.fence).__name__}, not a function of the state")
    try:
        inspect.signature(training.step).bind(None, None)
    except TypeError as error:
        raise TrainingError(
            f"{name}: step cannot be called as step(state, batch): {error}", f"return {OWN_STEP}"
        ) from None
    except ValueError:  # a function without a signature, such as one in C
        return
