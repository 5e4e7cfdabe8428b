"""The walls of the house: who may import whom, frameworks in their rooms only, no cycle, no long file."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import laptime
from docs_house import FOLDERS, PICTURE, draw, read_arrows
from laptime.cli.main import find_command
from laptime.library.results import QuestionCall
from laptime.model.option_kinds import QuestionOptions
from laptime.model.questions import QUESTIONS, find_part, public_names
from laptime.model.record import QuestionAnswer, QuestionRates
from laptime.questions.job import QuestionRun
from laptime.show.pages.page import QuestionPage

HOUSE = Path(laptime.__file__).parent
TESTS = Path(__file__).parent
LONGEST = 700
FRAMEWORKS = {"torch", "torchvision", "keras", "jax", "tensorflow"}
OPEN_TO_ALL = {"errors", "model", "visible"}
NO_SENSORS = {"base", "files", "cgroup"}  # under sensors: what all may share
FACTS = {"workloads", "machine", "hardware"}
CLOSED = {"errors", "model", "visible", "stats", "attach"}  # import nothing of ours

# Rooms that have walls of their own within a folder.
ROOMS_WITHIN = {
    "model": {"errors", "visible", "stats"},
    "machine": {"sensors", "hardware", "core_score"},
    "store": {"disk", "checkpoint", "exports"},
    "trainings": {"workloads", "data"},
    "analysis": {"diagnosis"},
    "engine": {"run", "heat", "backends", "pipelines", "wire", "authentication", "streams"},
    "show": {"pages", "figures", "drawing", "board", "listing"},
    "api": {"showing", "forecasts"},
}
# What still looks up, and why.
LOOKS_UP = {
    ("model/ask.py", "questions"): "an Ask names the parts of five questions; a record has them by name",
    ("show/board/", "questions"): "a row of the board is checked by the same arithmetic as its record",
    ("show/pages/", "questions"): "a page says what a doctor found, and what a lane costs",
    ("store/files.py", "show"): "the words of a list are kept, so that a list reads no record",
    ("store/exports.py", "questions"): "a comparison is exported, too",
    ("store/schema.py", "questions"): "a record's classes",
    ("store/sessions.py", "questions"): "the state of a session of verdicts",
    **{("questions/*/command.py", folder): "a question's command is in its folder" for folder in ("api", "cli")},
    **{("questions/*/call.py", folder): "so does its function" for folder in ("api", "library")},
}

# All that is not listed is forbidden; `errors` and `model` are open to every room that is not closed.
MAY_IMPORT: dict[str, set[str]] = {
    **{room: set() for room in CLOSED},
    **{folder: set() for folder in ("engine", "show", "trainings")},
    "workloads": set(),
    "data": {"workloads", "disk", "sensors"},
    "pipelines": {"data", "workloads", "sensors", "disk"},
    "wire": set(),
    "sensors": set(),
    "disk": set(),
    "authentication": set(),
    "core_score": set(),
    "streams": set(),
    "checkpoint": {"disk"},
    "store": {"disk", "checkpoint", "pages"},
    "pages": {"stats"},
    "figures": {"pages", "analysis", "stats"},
    "drawing": {"figures", "pages"},
    "exports": set(),
    "backends": {"workloads", "data", "pipelines", "core_score", "attach"},
    "heat": {"wire", "authentication", "backends", "workloads", "disk", "checkpoint", "analysis", "attach"},
    "machine": {"sensors", "core_score"},
    "hardware": set(),
    "planner": set(),
    "run": {"wire", "authentication", "disk", "sensors", "streams", "attach", "machine"},
    "analysis": {"stats", "attach"},
    "diagnosis": {"analysis", "stats", "attach"},
    "questions": FACTS | {"planner", "run", "analysis", "diagnosis", "stats", "data", "disk", "attach"},
    "remedies": {"sensors", "disk", "stats"},
    "api": {"questions", "planner", "store", "machine", "workloads", "data", "disk", "exports"},
    "forecasts": {"api", "showing", "questions", "hardware", "pages", "figures"},
    "showing": {"api", "questions", "store", "pages", "figures", "drawing", "data", "workloads"},
    "listing": {"store", "pages"},
    "board": FACTS | {"store", "disk", "analysis", "diagnosis", "stats", "pages", "planner", "questions", "drawing"},
    "cli": {"api", "showing", "listing", "forecasts", "streams", "board"},
    "library": {"api", "showing", "listing", "forecasts", "questions", "run", "disk"},
    "__init__": {"library", "remedies"},
    "__main__": {"cli"},
}
# What a file in a question's folder is, by its name: it keeps to the walls of that room. Any other name runs it.
PARTS = {
    "nouns": "model", "options": "model", "lanes": "planner", "reduce": "analysis",
    "answer": "diagnosis", "causes": "diagnosis", "compute_causes": "diagnosis", "step_causes": "diagnosis",
    "experiments": "diagnosis", "gains": "diagnosis", "facts": "diagnosis", "own_code": "diagnosis",
    "checkup": "diagnosis", "cheats": "analysis", "curves": "analysis",
    "page": "figures", "learning_page": "figures", "command": "cli", "call": "library",
}  # fmt: skip
# What a question takes from the folder of another, and why it is no shared part.
OF_ANOTHER_QUESTION = {
    ("compare", "infer.reduce"): "an answer's times are compared as inference has them",
    ("forecast", "compare.run"): "it reads records that others wrote, and refuses them in the same words",
    ("race", "compare.call"): "laptime.race(against=...) has a comparison",
    ("race", "compare.command"): "race --against and --fail-above print a comparison",
    ("race", "doctor.checkup"): "each answer names a card that is there and was not used, as the doctor does",
    ("race", "doctor.nouns"): "the same",
    ("race", "forecast.page"): "a race without a card says what cards would bring",
    ("race", "profile.page"): "race --profile",
    ("race", "profile.run"): "race --profile",
    ("scale", "race.run"): "its heats run as those of a race, until all ratios are known",
    ("sweep", "doctor.checkup"): "each answer names a card that is there and was not used",
    ("tune", "doctor.checkup"): "the same",
    ("tune", "train.options"): "tune --laps trains the lane and its winner whole",
    ("tune", "train.reduce"): "tune --laps",
    ("tune", "train.run"): "tune --laps",
    ("tune", "why.causes"): "the search tries first what limits the lane",
    ("tune", "why.experiments"): "the same",
    ("verdict", "race.page"): "a verdict is shown above the lanes of its race",
    ("verdict", "race.run"): "a candidate races its base",
    ("why", "doctor.checkup"): "each answer names a card that is there and was not used",
    ("why", "forecast.page"): "without a card it says what cards would bring",
}
# Public names that several modules define. What is not listed has one home; a name that got one leaves the list.
SAME_BEHIND_A_WALL = """
    as_csv as_json count count_items count_laps count_step decode describe device_memory drop_all find_device
    find_devices find_redrawn is_ours items_of judge_answers list_activities list_cards make_run open_room part path_of
    place_batches read_hello serve SET_PARENT_DEATH_SIGNAL stand_by switch take_census take_late_step warm_up
"""  # the same of other things, in processes or rooms that may not import each other
OTHER_THINGS = "share_of"
DOORS = {
    "api",
    "showing",
    "listing",
    "forecasts",
    "library",
    "cli",
    "__main__",
    "__init__",
}  # the same thing, at another door
OF_EACH_QUESTION = {
    "PART",
    "render",
    "page_parts",
    "figures",
    "glance_of",
    "live_lines",
    "summary",
}  # its row names them
OF_EACH_PROGRAM = {"main", "PART", "T", "TYPE_CHECKING"}
DEFINED = re.compile(r"^(?:(?:async )?def|class) (\w+)|^(\w+(?:, \w+)*)(?:: [^=\n]+)? = ", re.MULTILINE)
# The child may leave without looking back, and a fake one may chat as frameworks do.
MAY_PRINT = {
    "engine/backends/fake_script.py": {"print", "os._exit"},
    "engine/heat/__main__.py": {"os._exit"},
    "engine/heat/template.py": {"os._exit"},
    "engine/pipelines/worker.py": {"sys.exit"},
    "engine/run/guardian.py": {"os._exit"},
    "engine/run/node.py": {"sys.exit"},
}
SPEAKING = {"print", "exit", "quit", "sys.exit", "os._exit", "os.abort"}
SPOKEN = re.compile("|".join(each.rpartition(".")[2] for each in SPEAKING))


@dataclass(frozen=True)
class Import:
    """One import: which file takes what, and where."""

    place: str
    line: int
    what: str


def check_walls(root: Path) -> list[str]:
    """Return a sentence for every import that the table forbids."""
    return [
        f"{each.place}:{each.line}: {room_of(each.place)} may not import {each.what}"
        for each in list_imports(root)
        if each.what.split(".")[0] == root.name and not _may(room_of(each.place), _room_named(each.what))
    ]


def check_order(root: Path) -> list[Import]:
    """Return every import of a module of ours of a higher folder."""
    order = {folder: number for number, folder in enumerate(FOLDERS)}
    return [
        each
        for each in list_imports(root)
        if each.what.split(".")[0] == root.name and "/" in each.place
        if order.get(folder_of(each.what), len(FOLDERS)) > order.get(each.place.split("/")[0], len(FOLDERS))
    ]


def folder_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def check_frameworks(root: Path) -> list[str]:
    """Return a sentence for every framework that is imported outside its room under backends."""
    return [
        f"{each.place}:{each.line}: {each.what} may be imported under backends/<room>/ only"
        for each in list_imports(root)
        if each.what.split(".")[0] in FRAMEWORKS and not _is_framework_room(each.place)
    ]


def check_siblings(root: Path) -> list[str]:
    """Return a sentence for every sensor that imports another; a folder is one sensor, and some files are none."""
    return [
        f"{each.place}:{each.line}: sensors are siblings, and may not import {each.what}"
        for each in list_imports(root)
        if room_of(each.place) == "sensors"
        and each.what.startswith(f"{root.name}.machine.sensors.")
        and each.what.split(".")[3] not in {*NO_SENSORS, each.place.split("/")[2].removesuffix(".py")}
    ]


def borrowed_by_questions(root: Path) -> set[tuple[str, str]]:
    """Return each pair of a question and what it imports from the folder of another."""
    shared = {path.stem for path in (root / "questions").glob("*.py")}
    return {
        (asking, ".".join(inside))
        for each in list_imports(root)
        if each.place.startswith("questions/") and each.what.startswith(f"{root.name}.questions.")
        for asking, inside in [(each.place.split("/")[1], each.what.split(".")[2:4])]
        if asking.removesuffix(".py") not in shared and inside[0] not in {asking, *shared}
    }


def names_taken_twice(root: Path) -> dict[str, set[str]]:
    """Return the public names that several modules define, with the places of these."""
    places: dict[str, set[str]] = {}
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root).as_posix()
        allowed = OF_EACH_PROGRAM | (OF_EACH_QUESTION if place.endswith("page.py") else set())
        for name in _names_defined(path.read_text(encoding="utf-8")) - allowed:
            if not (name[0].islower() and room_of(place) in DOORS):
                places.setdefault(name, set()).add(_framework_or(place, name))
    return {name: found for name, found in places.items() if len(found) > 1}


def _names_defined(text: str) -> set[str]:
    """Return the public functions, classes and constants of a file."""
    found = (name for names in DEFINED.findall(text) for each in names for name in each.split(", "))
    return {name for name in found if name and name[0] != "_"}


def _framework_or(place: str, name: str) -> str:
    """Return `backends/` for a function of a framework's room: all of them have the functions of one protocol."""
    in_a_room = place.startswith("engine/backends/") and place.count("/") > 2
    return "backends/" if in_a_room and name[0].islower() else place


def check_cycles(root: Path) -> list[str]:
    """Return the first ring of modules that import each other, if there is one."""
    graph: dict[str, set[str]] = {}
    for each in list_imports(root):
        graph.setdefault(_module_name(root, each.place), set()).add(each.what)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [f"a ring of imports: {' -> '.join(error.args[1])}"]
    return []


def check_lengths(*roots: Path) -> list[str]:
    """Return the name and the length of every file that is too long."""
    lengths = {place: len(place.read_text().splitlines()) for root in roots for place in root.rglob("*.py")}
    return [f"{place} has {length} lines" for place, length in sorted(lengths.items()) if length > LONGEST]


def check_speech(root: Path) -> list[str]:
    """Return a sentence for every call outside cli that prints or exits."""
    return [
        f"{place}:{call.lineno}: only cli may call {ast.unparse(call.func)}"
        for place, tree in _trees(root, lambda text: SPOKEN.search(text) is not None)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in SPEAKING - MAY_PRINT.get(place, set())
        and room_of(place) != "cli"
    ]


def list_imports(root: Path) -> Iterator[Import]:
    """Return every import of every file, those inside functions too; of ours, the module that it means."""
    for path in sorted(root.rglob("*.py")):
        yield from _imports_of(root, path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))


@cache  # five tests ask for all imports: a file is parsed once for them
def _imports_of(root: Path, place: str, text: str) -> tuple[Import, ...]:
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [Import(place, node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            named = _absolute(root, place, node)
            for alias in node.names:
                deeper = f"{named}.{alias.name}"
                found.append(Import(place, node.lineno, deeper if _is_module(root, deeper) else named))
    return tuple(found)


def room_of(place: str) -> str:
    """Return the room of a file. A file in the folder of a question belongs to the room that its name says."""
    folder, *within = place.removesuffix(".py").split("/")
    if folder == "questions" and len(within) > 1:
        return PARTS.get(within[1], folder)
    return within[0] if within and within[0] in ROOMS_WITHIN.get(folder, set()) else folder


def _trees(root: Path, may_have_it: Callable[[str], bool]) -> Iterator[tuple[str, ast.AST]]:
    """Parse the files whose text may have what is looked for."""
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if may_have_it(text):
            yield path.relative_to(root).as_posix(), ast.parse(text)


def _absolute(root: Path, place: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    folders = [root.name, *place.split("/")[:-1]]
    return ".".join([*folders[: len(folders) - node.level + 1], *([node.module] if node.module else [])])


def _is_module(root: Path, name: str) -> bool:
    if name.split(".", maxsplit=1)[0] != root.name:
        return False
    path = root.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def _module_name(root: Path, place: str) -> str:
    return ".".join([root.name, *place.removesuffix(".py").split("/")]).removesuffix(".__init__")


def _room_named(what: str) -> str:
    _, _, inside = what.partition(".")
    return room_of(inside.replace(".", "/")) if inside else "__init__"


def _may(room: str, other: str) -> bool:
    if room == other:
        return True
    return other in MAY_IMPORT.get(room, set()) | (set() if room in CLOSED else OPEN_TO_ALL)


def _is_framework_room(place: str) -> bool:
    room = "engine/backends/"
    return place.startswith(room) and place.count("/") > 2 and not place.startswith(f"{room}python/")


def test_every_room_keeps_to_the_import_table():
    """No room imports what the table does not allow it."""
    assert check_walls(HOUSE) == []


def test_the_tree_has_few_names():
    """A newcomer reads them in one look."""
    names = {path.name for path in HOUSE.iterdir() if path.name[0] not in "_." and path.name != "py.typed"}
    assert names == set(FOLDERS)


def test_the_picture_of_the_house_is_that_of_its_imports():
    assert PICTURE.read_text(encoding="utf-8") == draw(read_arrows(HOUSE)), "make house draws it"


def test_no_folder_imports_from_a_higher_one():
    """As folders lie; what still does is named, and nothing is named that does not."""
    found = {(each.place, folder_of(each.what)) for each in check_order(HOUSE)}
    allowed = {pair for pair in found if any(_is_at(pair, named) for named in LOOKS_UP)}
    assert sorted(found - allowed) == []
    assert [named for named in LOOKS_UP if not any(_is_at(pair, named) for pair in found)] == []


def _is_at(pair: tuple[str, str], named: tuple[str, str]) -> bool:
    place, folder = named
    return pair[1] == folder and (fnmatch(pair[0], place) or (place[-1] == "/" and pair[0].startswith(place)))


def test_the_table_names_every_room():
    """A room that nobody put into the table would have no walls."""
    rooms = {room_of(path.relative_to(HOUSE).as_posix()) for path in HOUSE.rglob("*.py")}
    assert set() == rooms - MAY_IMPORT.keys()


def test_only_declared_packages_are_imported():
    """What else is installed here (rich, that Keras brings) is not there for everybody."""
    project = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["project"]
    named = [each for extra in ("images", "ray", "slurm") for each in project["optional-dependencies"][extra]]
    extras = {"PIL" if name == "pillow" else name for name in map(_package, named)}
    declared = {"pynvml" if name == "nvidia-ml-py" else name for name in map(_package, project["dependencies"])}
    allowed = {*declared, *extras, *FRAMEWORKS, "jaxlib", HOUSE.name, *sys.stdlib_module_names}
    assert [each for each in list_imports(HOUSE) if each.what.split(".")[0] not in allowed] == []


def _package(requirement: str) -> str:
    return re.split(r"[<>=\[; ]", requirement, maxsplit=1)[0]


def test_frameworks_live_in_their_rooms_only():
    """Nothing outside backends/<room>/ imports a framework, not even inside a function."""
    assert check_frameworks(HOUSE) == []


def test_sensors_do_not_know_each_other():
    """A sensor imports no other sensor."""
    assert check_siblings(HOUSE) == []


def test_what_questions_take_from_each_other_is_named():
    """What two questions share has no question's name; and no shared room shows a record with a question's page."""
    assert borrowed_by_questions(HOUSE) == set(OF_ANOTHER_QUESTION)
    pages = [
        f"{each.place}:{each.line}: {each.what}"
        for each in list_imports(HOUSE)
        if room_of(each.place) in {"pages", "figures", "drawing"} and not each.place.startswith("questions/")
        if each.what.startswith("laptime.questions.") and each.what.endswith("page")
    ]
    assert pages == []


def test_no_modules_import_each_other_in_a_ring():
    """The imports of all modules can be put in order."""
    assert check_cycles(HOUSE) == []


def test_only_the_command_line_prints_and_exits():
    """No print, exit or the like outside cli, but for the documented places in the child."""
    assert check_speech(HOUSE) == []


def test_a_public_name_has_one_home():
    """Or it is named above; and no file takes two of one name, for a reader to tell apart."""
    twice = names_taken_twice(HOUSE)
    assert set(twice) == {*SAME_BEHIND_A_WALL.split(), *OTHER_THINGS.split()}
    taken: dict[tuple[str, str], set[str]] = {}
    takes_one = re.compile(rf"^(?:from \S+ import .*|    )\b(?:{'|'.join(twice)})\b(?:,|$)", re.MULTILINE)
    for place, tree in _trees(HOUSE, lambda text: takes_one.search(text) is not None):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                for each in node.names:
                    taken.setdefault((place, each.name), set()).add(node.module or "")
    assert [place for (place, name), found in taken.items() if name in twice and len(found) > 1] == []


def test_every_question_has_its_parts():
    for question in QUESTIONS:
        kinds = [QuestionAnswer, QuestionRun, QuestionPage, QuestionCall]
        kinds += [QuestionOptions] * question.has_options + [QuestionRates] * question.has_rates
        for kind in kinds:
            assert isinstance(question.part(kind), kind), f"{question.name}: {kind.FILE}"
        assert question.says or find_command(question.command) is not None, question.name
    assert all(callable(find_part(place)) for place in public_names().values())


# What lists several questions by their names, and why it may: all else asks the table.
MAY_LIST_QUESTIONS = {
    "api/__init__.py": "its own functions",
    "library/calls.py": "what a type checker reads, compared below",
    "model/options.py": "which questions take an option",
    "planner/settings.py": "why a setting is refused, question by question",
    "questions/why/page.py": "the columns of a table: what the verdict on a cause is, and why",
}


def test_nothing_but_the_table_lists_the_questions():
    """A list by hand is forgotten when a question comes: `laptime list --question sweep` was once refused."""
    names = {word for each in QUESTIONS for word in (each.name, each.command)}
    lists = [
        f"{place}:{node.lineno}"
        for place, tree in _trees(HOUSE, lambda text: sum(f'"{each}"' in text for each in names) > 1)
        if place not in MAY_LIST_QUESTIONS
        for node in ast.walk(tree)
        if len(names & _words_in(node)) > 1
    ]
    assert lists == []
    followed, _none = get_args(get_type_hints(laptime.history)["question"])
    assert {*get_args(followed)} == {row.command for row in QUESTIONS if row.is_followed}


def _words_in(node: ast.AST) -> set[str]:
    """Return the texts of a list, a set or a tuple, or those that are the keys of a dictionary."""
    kinds = ast.List | ast.Tuple | ast.Set
    parts = node.keys if isinstance(node, ast.Dict) else node.elts if isinstance(node, kinds) else []
    return {each.value for each in parts if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def test_what_runs_as_a_program_is_read_to_its_end_first():
    """A block `if __name__ == "__main__"` is the last of its file: what is below it is not defined yet when it runs."""
    early = [
        place
        for place, tree in _trees(HOUSE, lambda text: "__main__" in text)
        if isinstance(tree, ast.Module)
        and any(isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in tree.body[:-1])
    ]
    assert early == []


def test_no_file_is_longer_than_it_should_be():
    """Every file that is too long is named with its length."""
    assert check_lengths(HOUSE, *(TESTS.parent / folder for folder in ("tests", "bench", "examples"))) == []


@pytest.fixture
def planted(tmp_path):
    """Make a small house in which nothing is wrong yet."""
    root = tmp_path / "laptime"
    plant(root, "__init__.py", "")
    plant(root, "model/errors.py", "import sys\n")
    plant(root, "model/stats.py", "from math import exp\n")
    plant(root, "machine/sensors/base.py", "")
    plant(root, "engine/run/child.py", "from laptime.engine import wire\nfrom laptime.model.errors import WireError\n")
    plant(root, "engine/wire.py", "from laptime.model.errors import WireError\n")
    plant(root, "engine/backends/torch/backend.py", "import torch.nn\n")
    plant(root, "cli/main.py", "from laptime import api\nprint(1)\n")
    plant(root, "api/__init__.py", "from laptime import store\n")
    plant(root, "store/__init__.py", "")
    return root


def plant(root: Path, place: str, text: str) -> None:
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).write_text(text)


def check_all(root: Path) -> list[str]:
    checks = (check_walls, check_frameworks, check_siblings, check_cycles, check_lengths, check_speech)
    return [sentence for check in checks for sentence in check(root)]


def test_a_good_house_is_not_accused(planted):
    """The checker says nothing of a house that keeps to its table."""
    assert check_all(planted) == []


@pytest.mark.parametrize(
    ("place", "text", "said"),
    [
        (
            "engine/run/a.py",
            "from laptime.engine.heat import loop\n",
            "engine/run/a.py:1: run may not import laptime.engine.heat",
        ),
        (
            "engine/heat/a.py",
            "def f():\n    import laptime.engine.run\n",
            "engine/heat/a.py:2: heat may not import laptime.engine.run",
        ),
        (
            "model/stats.py",
            "from laptime.model.errors import X\n",
            "model/stats.py:1: stats may not import laptime.model.errors",
        ),
        ("show/pages/a.py", "from ... import store\n", "show/pages/a.py:1: pages may not import laptime.store"),
        ("model/a.py", "import laptime\n", "model/a.py:1: model may not import laptime"),
        ("cellar/a.py", "import laptime.api\n", "cellar/a.py:1: cellar may not import laptime.api"),
        (
            "engine/backends/fake.py",
            "def f():\n    from torch import nn\n",
            "engine/backends/fake.py:2: torch may be imported under backends/<room>/ only",
        ),
        (
            "engine/backends/python/a.py",
            "import torch\n",
            "engine/backends/python/a.py:1: torch may be imported under backends/<room>/ only",
        ),
        ("api/a.py", "import keras\n", "api/a.py:1: keras may be imported under backends/<room>/ only"),
        (
            "machine/sensors/a.py",
            "from laptime.machine.sensors import base, cgroup\nimport laptime.machine.sensors.b\n",
            "machine/sensors/a.py:2: sensors are siblings, and may not import laptime.machine.sensors.b",
        ),
        (
            "machine/sensors/cards/b.py",
            "from laptime.machine.sensors.cards import a\nimport laptime.machine.sensors.power\n",
            "machine/sensors/cards/b.py:2: sensors are siblings, and may not import laptime.machine.sensors.power",
        ),
        ("store/a.py", "print(1)\n", "store/a.py:1: only cli may call print"),
        ("store/a.py", "import sys\nsys.exit(1)\n", "store/a.py:2: only cli may call sys.exit"),
        ("engine/heat/__main__.py", "print(1)\n", "engine/heat/__main__.py:1: only cli may call print"),
    ],
)
def test_a_planted_fault_is_named(planted, place, text, said):
    """Each kind of forbidden import or call is reported with its file and line."""
    plant(planted, place, text)
    assert [said] == check_all(planted)


def test_a_planted_ring_is_named(planted):
    """Two modules of one room that import each other are a ring, though the table allows both imports."""
    plant(planted, "engine/wire.py", "def f():\n    from laptime.wire_words import A\n")
    plant(planted, "store/a.py", "from laptime.store.b import B\n")
    plant(planted, "store/b.py", "def f():\n    from laptime.store import a\n")
    (found,) = check_cycles(planted)
    assert {"laptime.store.a", "laptime.store.b"} <= set(found.removeprefix("a ring of imports: ").split(" -> "))


def test_a_planted_long_file_is_named(planted):
    """One line over the limit is reported with the file's name and its length."""
    plant(planted, "store/long.py", "\n" * LONGEST)
    plant(planted, "store/longer.py", "\n" * (LONGEST + 1))
    assert [f"{planted / 'store/longer.py'} has 701 lines"] == check_all(planted)


def test_the_walks_go_through_what_is_there():
    page = (Path(__file__).parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    walks = page.partition("## Four walks")[2].partition("\n## ")[0]
    steps = re.findall(r"`([a-z_/]+\.py)` `(\w+)`", walks)
    assert len(steps) > 20
    assert [step for step in steps if not re.search(rf"\b{step[1]}\b", (HOUSE / step[0]).read_text())] == []
