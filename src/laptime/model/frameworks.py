"""FRAMEWORKS: one row per framework, with all that other rooms need to know of it; an installed package may add rows.
And how laptime itself was installed, for hints that say how to add one.

A row names its back end by a dotted path: only the child imports the framework.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from laptime.model.machine import Machine

FRAMEWORK_ENTRY_POINTS = "laptime.frameworks"


@dataclass(frozen=True, slots=True)
class Package:
    """A module that a framework needs. `also` names distributions that install the same module under other names."""

    name: str
    least: str = ""
    also: tuple[str, ...] = ()
    is_needed: bool = True  # False: where this is missing, the framework itself reports it


@dataclass(frozen=True, slots=True)
class EngineRow:
    """What computes: one framework, or the one below Keras.

    `denormals` says whether the engine can be switched to flush them. `builds` holds, by maker, the command that
    installs the engine for the maker's cards: {cuda} is the major version of CUDA. A maker that is not in it has no
    build. `older` is the command for an older driver; without it, laptime suggests an older version of the engine.
    With `starts_late`, listing the devices of a machine without cards starts nothing: a user's code may still
    configure the engine. With `splits_processor`, variables that it reads when it is imported make several devices of a
    processor (`planner/groups.py`).
    """

    name: str
    denormals: Literal["switch", "always flushed", "up to its code"] = "up to its code"
    sizes_own_threads: bool = False
    falls_back: bool = False
    starts_late: bool = False
    splits_processor: bool = False
    builds: dict[str, str] = field(default_factory=dict)
    older: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkRow:
    """`backend` is the module whose `open_room(name)` returns the back end.

    `imports` are the modules that a user's file imports if it is written for this family. `switch` is the environment
    variable without which the framework is hidden. `refusal` says why a built-in workload cannot run, and what can be
    raced instead: such a framework only takes the user's own steps. One that `takes_steps` takes them too, as well as
    models. With `is_opaque`, laptime does not know what computes: it places no batch and tries no card. `spreads` says
    how several devices share a step: `ranks` by a process for each, `itself` within one process. `forks_on`
    are the kinds of devices whose heats may be forked from a process that has imported the framework. With
    `holds_its_shapes`, the memory of a step is what `trainings/workloads/shapes.py` counts by the shapes of its layers.
    """

    name: str
    backend: str = ""
    engine: EngineRow
    family: str = "torch"
    packages: tuple[Package, ...] = ()
    imports: tuple[str, ...] = ()
    switch: str = ""
    refusal: tuple[str, str] | None = None
    is_opaque: bool = False
    training_lines: tuple[str, ...] = ()  # of a function that laptime can call, as its family writes it
    takes_steps: bool = False
    runs_own_code: bool = True
    changes_own_steps: bool = False  # joins a user's batches, defers what a user's step reads
    measures_peaks: bool = False
    spreads: Literal["", "ranks", "itself"] = ""
    forks_on: tuple[str, ...] = ()
    holds_its_shapes: bool = False

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that must be importable; a pip extra of laptime is named like the module that it installs."""
        return tuple(package.name for package in self.packages if package.is_needed)

    @property
    def takes_steps_only(self) -> bool:
        return self.refusal is not None

    @property
    def runs_steps(self) -> bool:
        """Whether it runs a step function of the user's."""
        return self.takes_steps or self.takes_steps_only


TORCH = EngineRow(
    "torch",
    denormals="switch",
    starts_late=True,
    builds={
        "NVIDIA": "pip uninstall -y torch && pip install torch  # on Linux the default build is for CUDA",
        "AMD": "pip install --force-reinstall torch  # the ROCm build: see pytorch.org/get-started",
        "Intel": "pip install --force-reinstall torch  # the XPU build: see pytorch.org/get-started",
        "Apple": "pip uninstall -y torch && pip install torch",
    },
)
JAX = EngineRow(
    "jax",
    denormals="always flushed",
    sizes_own_threads=True,
    falls_back=True,
    splits_processor=True,
    builds={
        "NVIDIA": 'pip install --upgrade "jax[cuda{cuda}]"',
        "AMD": "pip install --upgrade jax-rocm7-pjrt jax-rocm7-plugin",
    },
    older='pip install "jax[cuda{cuda}]"',
)
TENSORFLOW = EngineRow(
    "tensorflow",
    denormals="always flushed",
    falls_back=True,
    starts_late=True,
    builds={
        "NVIDIA": 'pip uninstall -y tensorflow-cpu && pip install --upgrade "tensorflow[and-cuda]"',
        "AMD": "pip uninstall -y tensorflow tensorflow-cpu && pip install tensorflow-rocm",
    },
)
TORCH_PACKAGE = Package("torch", "2.6")
KERAS_PACKAGE = Package("keras", "3.6", also=("keras-nightly",))
JAX_PACKAGES = (
    Package("jax", "0.4.35", also=("jax-nightly",)),
    Package("jaxlib", also=("jaxlib-nightly",), is_needed=False),
)
TENSORFLOW_PACKAGE = Package(
    "tensorflow",
    also=(
        *("tensorflow-cpu", "tensorflow-gpu", "tensorflow-intel", "tensorflow-macos", "tensorflow-rocm"),
        *("tensorflow-cpu-aws", "tensorflow-aarch64", "intel-tensorflow", "tf-nightly", "tf-nightly-cpu"),
    ),
)
KERAS_BACKEND = "laptime.engine.backends.keras"
TORCH_LINES = (
    "    model = ...      # as the script makes it",
    "    optimizer = ...  # of the model's parameters",
    "    loader = ...     # batches of (inputs, targets)",
    "    return laptime.Training(model=model, loss=loss_function, optimizer=optimizer, data=loader)",
)
KERAS_LINES = (
    "    model = ...  # as the script makes it",
    "    model.compile(...)",
    "    data = ...   # batches of (inputs, targets)",
    "    return laptime.Training(model=model, data=data)",
)
STEP_LINES = (
    "    state = ...  # the first weights, and what the optimizer keeps",
    "    data = ...   # batches",
    "    def step(state, batch): ...  # one step: return the new state and the loss",
    "    return laptime.Training(step=step, state=state, data=data)",
)

FRAMEWORKS = (
    FrameworkRow(
        name="torch",
        backend="laptime.engine.backends.torch.backend",
        engine=TORCH,
        packages=(TORCH_PACKAGE,),
        imports=("torch",),
        training_lines=TORCH_LINES,
        takes_steps=True,
        changes_own_steps=True,
        measures_peaks=True,
        spreads="ranks",
        # Importing it opens no card. A template that has one open all the same refuses to fork.
        forks_on=("cpu", "cuda"),
        holds_its_shapes=True,
    ),
    FrameworkRow(
        name="jax",
        backend="laptime.engine.backends.jax.backend",
        engine=JAX,
        family="jax",
        packages=JAX_PACKAGES,
        imports=("jax", "flax", "equinox", "optax"),
        training_lines=STEP_LINES,
        refusal=("has no form in JAX alone", "keras-jax"),
        measures_peaks=True,
        spreads="itself",
    ),
    FrameworkRow(
        name="keras-tf",
        backend=KERAS_BACKEND,
        engine=TENSORFLOW,
        family="keras",
        packages=(KERAS_PACKAGE, TENSORFLOW_PACKAGE),
        imports=("keras", "tensorflow"),
        training_lines=KERAS_LINES,
        measures_peaks=True,
        spreads="itself",
    ),
    FrameworkRow(
        name="keras-jax",
        backend=KERAS_BACKEND,
        engine=JAX,
        family="keras",
        packages=(KERAS_PACKAGE, *JAX_PACKAGES),
        imports=("keras",),
        spreads="itself",
    ),
    FrameworkRow(
        name="keras-torch",
        backend=KERAS_BACKEND,
        engine=TORCH,
        family="keras",
        packages=(KERAS_PACKAGE, TORCH_PACKAGE),
        imports=("keras",),
    ),
    FrameworkRow(
        name="python",
        backend="laptime.engine.backends.python.backend",
        engine=EngineRow("python", starts_late=True),
        family="python",
        training_lines=STEP_LINES,
        refusal=("is raced in a framework", "torch"),
        is_opaque=True,
    ),
    FrameworkRow(
        name="fake",
        backend="laptime.engine.backends.fake",
        engine=EngineRow("fake", denormals="switch"),
        switch="LAPTIME_FAKE",
        runs_own_code=False,
        measures_peaks=True,
        spreads="ranks",
    ),
)
DEFAULT_FRAMEWORK = FRAMEWORKS[0].name
SCRIPT = "script"  # in place of a framework, on the lanes of a script that decides itself what it uses
SCRIPT_ROW = FrameworkRow(name=SCRIPT, engine=EngineRow(SCRIPT, denormals="switch"), family=SCRIPT)


@cache
def all_frameworks() -> dict[str, FrameworkRow]:
    """Return every row by its name: those of laptime, and those that installed packages add as entry points."""
    from importlib import metadata  # noqa: PLC0415  it is slow to import, and a heat needs none of this

    ours = {row.name: row for row in FRAMEWORKS}
    added: list[FrameworkRow] = [point.load() for point in metadata.entry_points(group=FRAMEWORK_ENTRY_POINTS)]
    return ours | {row.name: row for row in added if row.name not in ours}


def find_framework(name: str) -> FrameworkRow:
    """Return a framework's row; for a name that no row has, such as one of an old record, a row with the name alone."""
    ours = next((row for row in (*FRAMEWORKS, SCRIPT_ROW) if row.name == name), None)
    return ours or all_frameworks().get(name) or FrameworkRow(name=name, engine=EngineRow(name))


def frameworks_of(family: str | None) -> tuple[FrameworkRow, ...]:
    """Return the frameworks that run code written for a family."""
    return tuple(row for row in all_frameworks().values() if row.family == family and row.runs_own_code)


def step_families() -> set[str]:
    """Return the families whose frameworks run a step function."""
    return {row.family for row in all_frameworks().values() if row.runs_steps}


def family_of_any_steps() -> str | None:
    """Return the family whose framework runs steps of any framework, or None if there is none."""
    return next((row.family for row in all_frameworks().values() if row.is_opaque and row.runs_steps), None)


# Nodes of several types: where the same lane races once on each type (`--each`).


@dataclass(frozen=True, slots=True)
class NodeType:
    """One type of nodes: all those with this `value` of a `label`, or with a resource of that name (no `label`).

    `nodes` are the cluster's own names of them. They are replicates: rounds go to them in turn.
    """

    label: str | None
    value: str
    nodes: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.value if self.label is None else f"{self.label}={self.value}"


@dataclass(frozen=True, slots=True)
class FleetNode:
    """A node of a fleet, by the cluster's own name of it. `of` is the name of its type.

    `machine` is what it has, with what its drivers say; `problem` is why no heat runs on it.
    """

    node: str
    of: str
    host: str | None = None
    machine: Machine | None = None
    problem: str | None = None


# How laptime itself was installed, for hints that say how to install more of it or a newer one.

PACKAGE_NAME = "laptime"


def install_command(*extras: str) -> str:
    """Return the command that adds extras to this laptime, from where it came: a folder, a repository, or the index."""
    return command_for(_read_origin(), extras)


def upgrade_command() -> str:
    """Return the command that brings a newer laptime, or what to do in the folder that this one runs from."""
    origin = _read_origin()
    folder = _folder_of(origin)
    if folder is not None and origin.get("dir_info", {}).get("editable"):
        return f"bring the source in {folder} up to date"
    return command_for(origin, (), ("--upgrade",))


def installed_version() -> str:
    """Return the installed version. A source folder that is only on the path has none."""
    from importlib import metadata  # noqa: PLC0415  it is slow to import, and few commands need it

    try:
        return metadata.version(PACKAGE_NAME)
    except metadata.PackageNotFoundError:
        return "not installed"


def command_for(origin: dict[str, Any], extras: tuple[str, ...], flags: tuple[str, ...] = ()) -> str:
    """Return the command for an `origin` as pip wrote it to direct_url.json; it is empty for a package of the index."""
    wanted = f"[{','.join(extras)}]" if extras else ""
    folder = _folder_of(origin)
    if folder is not None:
        editable = ("-e",) if origin["dir_info"].get("editable") else ()
        return shlex.join(["pip", "install", *flags, *editable, f"{folder}{wanted}"])
    if "vcs_info" in origin:
        url = f"{origin['vcs_info'].get('vcs', 'git')}+{origin.get('url', '')}"
        return shlex.join(["pip", "install", *flags, f"{PACKAGE_NAME}{wanted} @ {url}"])
    return shlex.join(["pip", "install", *flags, f"{PACKAGE_NAME}{wanted}"])


@cache
def _read_origin() -> dict[str, Any]:
    """Return what pip noted of where laptime came from; nothing for a package of the index, or a bare source folder."""
    from importlib import metadata  # noqa: PLC0415  it is slow to import, and few commands need it

    try:
        origin = json.loads(metadata.distribution(PACKAGE_NAME).read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return {}
    return origin if isinstance(origin, dict) else {}


def _folder_of(origin: dict[str, Any]) -> str | None:
    url = urlsplit(str(origin.get("url", "")))
    return unquote(url.path) if "dir_info" in origin and url.scheme == "file" else None
