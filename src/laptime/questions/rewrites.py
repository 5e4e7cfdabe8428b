"""The table of changes of code that a remedy may be: how the place is found in the user's code, and what is written.

A place that is not certain is refused with the reason. Only the text of a call changes, or one line is added; comments
and all other text stay as they are.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import TypeGuard

from laptime.model.script import FUSIBLE
from laptime.questions.keras_rewrites import (
    FORKS_UNTIL,
    fits_by_keras,
    keras_batch,
    keras_compile,
    keras_prefetch,
    keras_processes,
    keras_workers,
)
from laptime.questions.line_rewrites import EVERY, TURNS, do_in_some_turns, do_seldom, leave_out_switch, takes_steps
from laptime.questions.loader_rewrites import LOADERS, make_loader_once, start_loader_once
from laptime.questions.text_edits import (
    TextEdit,
    dicts_given,
    given_for,
    name_call,
    name_calls,
    said,
    set_keywords,
)
from laptime.questions.user_code import CodePart, NoPlaceError, SourceFile, UserCode, is_main_guard, parse

LARGEST_VALUE = 1024  # of workers or threads
LARGEST_LINE = 9999
CHANGE_WORD = re.compile(r"(?P<name>[a-z0-9_]+)(?:=(?P<value>0|[1-9][0-9]{0,3}))?", re.ASCII)
CHANGES_MOST = 16  # changes in one
LOADER_PLACES = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers")


@dataclass(frozen=True, slots=True)
class Edited:
    """A file with its change: where it is, and the file's new bytes."""

    file: SourceFile
    line: int
    data: bytes


Find = Callable[[UserCode, int], tuple[SourceFile, int, Sequence[TextEdit]]]
FindOrNone = Callable[[UserCode, int], tuple[SourceFile, int, Sequence[TextEdit]] | None]


@dataclass(frozen=True, slots=True)
class RewriteRow:
    """One change of code. `find` returns the file, the line and the edits. `takes_value` is for a number behind `=`.

    `says` and `changes` tell the user what it does, for a stranger's record may lie about that. Where the code makes
    `TrainingArguments` of Hugging Face's Trainer, these `arguments` of it are set in their place; where it trains by
    Keras's `fit`, `keras` is asked first, which returns None for what is PyTorch's there, too.
    """

    find: Find
    says: str
    changes: str = ""
    takes_value: bool = False
    least: int = 1
    most: int = LARGEST_VALUE
    arguments: Mapping[str, str] = field(default_factory=dict)
    keras: FindOrNone | None = None


def rewrite(code: UserCode, word: str) -> Edited:
    """Make the change that a word of the table names, or several joined by +, one after another in one file.

    Raise NoPlaceError where a place is not certain.
    """
    first, *others = word.split("+")
    if len(others) >= CHANGES_MOST:
        raise NoPlaceError(f"more than {CHANGES_MOST} changes in one")
    edited = made = _rewrite_one(code, first)
    for following in others:
        code = code.with_file(made.file.path, made.data)
        made = _rewrite_one(code, following)
        if made.file.path != edited.file.path:
            raise NoPlaceError(f"the changes are in {edited.file.path.name} and {made.file.path.name}")
    return edited if not others else Edited(edited.file, _first_changed(edited.file.data, made.data), made.data)


def _first_changed(before: bytes, after: bytes) -> int:
    """Return the number of the first line that two texts do not share."""
    pairs = enumerate(zip_longest(before.splitlines(), after.splitlines()), 1)
    return next(number for number, (one, other) in pairs if one != other)


def _rewrite_one(code: UserCode, word: str) -> Edited:
    row, value = find_rewrite(word)
    found = _trainer_arguments(code, value, row.arguments) if row.arguments else None
    if found is None and row.keras is not None and fits_by_keras(code):
        found = row.keras(code, value)
    file, line, edits = found or row.find(code, value)
    text = file.text
    for edit in sorted(edits, key=lambda edit: -edit.start):
        text = text[: edit.start] + edit.text + text[edit.end :]
    try:
        parse(text)
        data = text.encode(file.encoding)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NoPlaceError(f"{file.path.name}:{line} would no longer compile: {error}") from None
    return Edited(file, line, data)


def find_rewrite(word: str) -> tuple[RewriteRow, int]:
    """Return the row that a word names, and its number, or 0. Raise NoPlaceError for any other word."""
    found = CHANGE_WORD.fullmatch(word)
    row = REWRITES.get(found["name"]) if found else None
    if found is None or row is None or row.takes_value != (found["value"] is not None):
        raise NoPlaceError("this laptime knows no such change of code")
    value = int(found["value"] or 0)
    if value > row.most:
        raise NoPlaceError(f"{value} is more than {row.most}")
    if row.takes_value and value < row.least:
        raise NoPlaceError(f"{value} is less than {row.least}")
    return row, value


def describe_rewrite(word: str) -> str:
    """Say what a word of the table does to a training. Of any other word, nothing is said but that."""
    try:
        rows = [find_rewrite(part) for part in word.split("+")]
    except NoPlaceError as error:
        return f"{str(error)[:1].upper()}{str(error)[1:]}."
    sentences = [f"{row.says.format(value=value)}." for row, value in rows]
    changed = dict.fromkeys(row.changes for row, _ in rows if row.changes)
    return " ".join(
        [*sentences, f"This changes {' and '.join(changed)}." if changed else "The training learns the same."]
    )


# The arguments of Hugging Face's Trainer.

TRAINER_ARGUMENTS = ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments")
UNFUSED_OPTIMIZER = "adamw_torch"
TRAINER_BATCH, USUAL_TRAINER_BATCH = "per_device_train_batch_size", 8


def _trainer_arguments(
    code: UserCode, value: int, wanted: Mapping[str, str]
) -> tuple[SourceFile, int, Sequence[TextEdit]] | None:
    """Set these arguments of the Trainer; None where the code makes none."""
    found = _trainer_call(code)
    if found is None:
        return None
    unit, call = found
    chosen = next((keyword.value for keyword in call.keywords if keyword.arg == "optim" and "optim" in wanted), None)
    if chosen is not None and said(unit.file, chosen).strip("\"'") != UNFUSED_OPTIMIZER:
        raise NoPlaceError(f"{name_call(unit.file, call)} has optim={said(unit.file, chosen)}")
    texts = {name: text.format(value=value, is_some=value > 0) for name, text in wanted.items()}
    return unit.file, call.lineno, set_keywords(unit.file, call, texts, ())


def _trainer_call(code: UserCode) -> tuple[CodePart, ast.Call] | None:
    found = [(unit, call) for unit, call, name in code.calls() if name in TRAINER_ARGUMENTS]
    if len(found) > 1:
        raise NoPlaceError(f"several calls of TrainingArguments may be meant: {name_calls(found)}")
    return found[0] if found else None


# The data loader.


def _workers(code: UserCode, value: int) -> tuple[SourceFile, int, Sequence[TextEdit]]:
    unit, call = _training_loader(code)
    if not value:
        needing = [
            keyword.arg
            for keyword in call.keywords
            if keyword.arg in {"persistent_workers", "prefetch_factor", "timeout"}
        ]
        if needing:
            raise NoPlaceError(
                f"{name_call(unit.file, call)} has {' and '.join(map(str, needing))}, which need workers"
            )
        return unit.file, call.lineno, set_keywords(unit.file, call, {"num_workers": "0"}, LOADER_PLACES)
    for part in code.units:
        if isinstance(part.node, ast.ClassDef) and any("IterableDataset" in ast.dump(base) for base in part.node.bases):
            raise NoPlaceError(f"{part.node.name} is an IterableDataset: each worker would give all of its items")
    forks = sys.platform == "linux" and sys.version_info < FORKS_UNTIL
    if code.function is None and not forks and not any(map(is_main_guard, code.start.tree.body)):
        raise NoPlaceError('workers import the script here, and it has no `if __name__ == "__main__":`')
    edits = set_keywords(unit.file, call, {"num_workers": str(value), "persistent_workers": "True"}, LOADER_PLACES)
    return unit.file, call.lineno, edits


def _of_workers(code: UserCode, value: int, *, keyword: str, text: str) -> tuple[SourceFile, int, Sequence[TextEdit]]:
    unit, call = _training_loader(code)
    workers = given_for(call, dicts_given(unit.file, call), "num_workers")
    if all(isinstance(worker, ast.Constant) and not worker.value for worker in workers):
        raise NoPlaceError(f"{name_call(unit.file, call)} has no num_workers")
    wanted = {keyword: text.format(value=value)}
    return unit.file, call.lineno, set_keywords(unit.file, call, wanted, LOADER_PLACES, having="num_workers")


def _pinned(code: UserCode, _value: int) -> tuple[SourceFile, int, Sequence[TextEdit]]:
    unit, call = _training_loader(code)
    return unit.file, call.lineno, set_keywords(unit.file, call, {"pin_memory": "True"}, LOADER_PLACES)


def _batch(code: UserCode, _value: int, *, times: float) -> tuple[SourceFile, int, Sequence[TextEdit]]:
    trainer = _trainer_call(code)
    if trainer is not None:
        unit, call = trainer
        given = [keyword.value for keyword in call.keywords if keyword.arg == TRAINER_BATCH]
        if not given:
            usual = {TRAINER_BATCH: str(max(1, int(USUAL_TRAINER_BATCH * times)))}
            return unit.file, call.lineno, set_keywords(unit.file, call, usual, ())
    else:
        unit, call = _training_loader(code)
        given = [keyword.value for keyword in call.keywords if keyword.arg == "batch_size"] or call.args[1:2]
    if not given or not (isinstance(given[0], ast.Constant) and type(given[0].value) is int):
        raise NoPlaceError(f"{name_call(unit.file, call)} has no batch_size that is a number")
    other = int(given[0].value * times)
    if other < 1:
        raise NoPlaceError(f"{name_call(unit.file, call)} has batch_size={given[0].value}")
    return unit.file, given[0].lineno, [TextEdit(*unit.file.span(given[0]), str(other))]


def _training_loader(code: UserCode) -> tuple[CodePart, ast.Call]:
    """Return the one DataLoader, or of several the one over which a loop with a backward pass goes."""
    found = [(unit, call) for unit, call, name in code.calls() if name in LOADERS]
    if not found:
        raise NoPlaceError("no call of torch's DataLoader is in the training's own code")
    if len(found) > 1:
        used = [(unit, call) for unit, call in found if _feeds_training(code, unit, call)]
        used = used or [(unit, call) for unit, call in found if not _feeds_evaluation(unit, call)]
        if len(used) != 1:
            raise NoPlaceError(f"several calls of DataLoader may be meant: {name_calls(found)}")
        found = used
    return found[0]


def _feeds_training(code: UserCode, unit: CodePart, call: ast.Call) -> bool:
    """Whether a loop with a backward pass goes over a loader: here, or in a function that it is handed to.

    Lightning and Keras have the loop in their own code: there it is what `train_dataloader` returns, or what `fit` is
    called with.
    """
    names = set(_names_given(unit.node, call))
    if any(
        isinstance(node, ast.FunctionDef)
        and node.name == "train_dataloader"
        and any(part is call for part in ast.walk(node))
        for node in ast.walk(unit.node)
    ):
        return True
    is_global = not isinstance(unit.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    nodes = [part.node for part in code.units if part is unit or (is_global and part.file is unit.file)]
    if any(_trains_over(node, names, call) or _is_fitted(node, names, call) for node in nodes):
        return True
    functions = {part.node.name: part.node for part in code.units if isinstance(part.node, ast.FunctionDef)}
    for node in nodes:
        for handed in ast.walk(node):
            if isinstance(handed, ast.Call) and isinstance(handed.func, ast.Name) and handed.func.id in functions:
                function = functions[handed.func.id]
                if _trains_over(function, set(_parameters_of(function, handed, names, call)), call):
                    return True
    return False


def _feeds_evaluation(unit: CodePart, call: ast.Call) -> bool:
    """Whether a loop that trains nothing goes over a loader, also if it is an argument there: `enumerate(loader)`."""
    names = set(_names_given(unit.node, call))
    loops = [node for node in ast.walk(unit.node) if isinstance(node, ast.For) and not takes_steps(unit.file, node)]
    return any(_means(node, names, call) for loop in loops for node in ast.walk(loop.iter))


def _is_fitted(node: ast.AST, names: set[str], call: ast.Call) -> bool:
    """Whether the training loader in a call of `fit` is the one that is meant."""
    for fit in ast.walk(node):
        if isinstance(fit, ast.Call) and isinstance(fit.func, ast.Attribute) and fit.func.attr == "fit":
            given = [
                *fit.args[:2],
                *(keyword.value for keyword in fit.keywords if keyword.arg in {"train_dataloaders", "x"}),
            ]
            if any(_means(expression, names, call) for expression in given):
                return True
    return False


def _trains_over(node: ast.AST, names: set[str], call: ast.Call) -> bool:
    loops = (loop for loop in ast.walk(node) if isinstance(loop, ast.For) and _has_backward(loop))
    return any(_means(part, names, call) for loop in loops for part in ast.walk(loop.iter))


def _means(node: ast.AST, names: set[str], call: ast.Call) -> bool:
    return node is call or (isinstance(node, ast.Name) and node.id in names)


def _parameters_of(function: ast.FunctionDef, handed: ast.Call, names: set[str], call: ast.Call) -> Iterator[str]:
    """Yield the parameters of a function that are the loader in a call of it."""
    for parameter, given in zip(function.args.args, handed.args, strict=False):
        if _means(given, names, call):
            yield parameter.arg
    yield from (keyword.arg for keyword in handed.keywords if keyword.arg and _means(keyword.value, names, call))


def _names_given(node: ast.AST, value: ast.expr) -> Iterator[str]:
    """Yield the names to which an expression is assigned."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assign) and len(inner.targets) == 1:
            pairs = [(inner.targets[0], inner.value)]
            if isinstance(inner.targets[0], ast.Tuple) and isinstance(inner.value, ast.Tuple):
                pairs = list(zip(inner.targets[0].elts, inner.value.elts, strict=False))
            yield from (target.id for target, given in pairs if given is value and isinstance(target, ast.Name))


def _has_backward(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr == "backward" for part in ast.walk(node))


# The optimizer, and the model that it moves.


def _fused(code: UserCode, _value: int) -> tuple[SourceFile, int, Sequence[TextEdit]]:
    unit, call = _optimizer(code)
    # What is false is no form of its own, and goes with the fused one.
    asked = [
        keyword
        for keyword in call.keywords
        if not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
    ]
    if any(keyword_.arg in {"foreach", "capturable", "differentiable"} for keyword_ in asked):
        raise NoPlaceError(f"{name_call(unit.file, call)} has foreach, capturable or differentiable")
    return unit.file, call.lineno, set_keywords(unit.file, call, {"fused": "True"}, ())


MAY_BE_IN_PARTS = "{model}.to("  # changes a module also where its parts are called one by one


def _before_optimizer(code: UserCode, _value: int, *, line: str) -> tuple[SourceFile, int, Sequence[TextEdit]]:
    """Add a line about the model before its optimizer is made. Both forms change the model in place."""
    unit, call = _optimizer(code)
    model = _model_of(unit, call)
    if model == "self" and MAY_BE_IN_PARTS not in line:
        raise NoPlaceError(f"{name_call(unit.file, call)} moves a module whose parts are called one by one")
    if "torch." in line and unit.file.imported.get("torch") != "torch":
        raise NoPlaceError(f"{unit.file.path.name} does not import torch")
    added = line.format(model=model)
    if any(said(part.file, node) == added for part in code.units for node in ast.walk(part.node)):
        raise NoPlaceError(f"{added} is there already")
    # All statements within one, outer ones first
    statements = (statement for statement in ast.walk(unit.node) if isinstance(statement, ast.stmt))
    inner_first = reversed([*statements])
    statement = next(node for node in inner_first if any(part is call for part in ast.walk(node)))
    begin = unit.file.line_span(statement.lineno)[0]
    indent = unit.file.text[begin : unit.file.span(statement)[0]]
    if indent.strip():
        raise NoPlaceError(f"{name_call(unit.file, call)} is behind another statement in its line")
    return unit.file, statement.lineno, [TextEdit(begin, begin, f"{indent}{added}{unit.file.newline}")]


def _optimizer(code: UserCode) -> tuple[CodePart, ast.Call]:
    found = [(unit, call) for unit, call, name in code.calls()
             if name.startswith("torch.optim.") and name.rpartition(".")[2] in FUSIBLE]  # fmt: skip
    if len(found) == 1:
        return found[0]
    if found:
        raise NoPlaceError(f"several optimizers are made: {name_calls(found)}")
    raise NoPlaceError(f"no {', '.join(FUSIBLE[:-1])} or {FUSIBLE[-1]} of torch.optim is made in its own code")


def _model_of(unit: CodePart, call: ast.Call) -> str:
    """Return the text of the model whose parameters an optimizer is made for."""
    match call.args[:1]:
        case [ast.Call(func=ast.Attribute(value=model, attr="parameters"))] if isinstance(
            model, ast.Name | ast.Attribute
        ):
            return said(unit.file, model)
    raise NoPlaceError(f"which model {name_call(unit.file, call)} moves is not certain")


# A call that is made once, at the top of the training's file.


def _once(code: UserCode, value: int, *, call: str, replaces: bool = False) -> tuple[SourceFile, int, list[TextEdit]]:
    """Call a function after the imports; where the code calls it with a constant already, change that one."""
    file, (name, _, argument) = code.start, call.format(value=value).partition("(")
    argument = argument.removesuffix(")")
    made = [(unit, node) for unit, node, whole in code.calls() if whole == name]
    if len(made) > 1:
        raise NoPlaceError(f"it is called in several places: {name_calls(made)}")
    if made:
        unit, node = made[0]
        is_plain = len(node.args) == 1 and not node.keywords and isinstance(node.args[0], ast.Constant)
        if not (replaces and is_plain) or said(unit.file, node.args[0]) == argument:
            raise NoPlaceError(f"{name_call(unit.file, node)} calls it already")
        return unit.file, node.lineno, [TextEdit(*unit.file.span(node.args[0]), argument)]
    root = name.partition(".")[0]
    bound = next((mine for mine, whole in _bound_at_top(file).items() if whole == root), None)
    if bound is None:
        raise NoPlaceError(f"{file.path.name} does not import {root} at its top")
    last = _last_import(file)
    _, end = file.line_span(last.end_lineno or last.lineno)
    written = f"{bound}{name.removeprefix(root)}({argument})"
    return file, (last.end_lineno or last.lineno) + 2, [TextEdit(end, end, f"{file.newline * 2}{written}")]


def _switched(code: UserCode, value: int, *, call: str) -> tuple[SourceFile, int, list[TextEdit]]:
    """Call a function with another constant, where the code calls it."""
    name = call.partition("(")[0]
    if all(whole != name for _, _, whole in code.calls()):
        raise NoPlaceError(f"no line that is known to run calls {name}")
    return _once(code, value, call=call, replaces=True)


def _without_second_graph(code: UserCode, _value: int) -> tuple[SourceFile, int, Sequence[TextEdit]]:
    """Leave out create_graph of a backward pass."""
    found = [
        (unit, node)
        for unit, node, _ in code.calls()
        if isinstance(node.func, ast.Attribute) and node.func.attr == "backward"
        if any(keyword.arg == "create_graph" for keyword in node.keywords)
    ]
    if len(found) != 1:
        raise NoPlaceError(f"{len(found)} calls of backward have create_graph: {name_calls(found)}")
    ((unit, call),) = found
    return unit.file, call.lineno, set_keywords(unit.file, call, {"create_graph": "False"}, ())


OF_CHECKPOINT = {"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"}


def _kept_passes(code: UserCode, _value: int) -> tuple[SourceFile, int, Sequence[TextEdit]]:
    """Call what a checkpoint calls, so that its results are kept for the backward pass."""
    found = [(unit, call) for unit, call, name in code.calls() if name == "torch.utils.checkpoint.checkpoint"]
    if len(found) != 1 or not found[0][1].args or isinstance(found[0][1].args[0], ast.Starred):
        raise NoPlaceError(
            f"{len(found)} calls of torch.utils.checkpoint may be meant: {name_calls(found)}".rstrip(": ")
        )
    ((unit, call),) = found
    function, *others = call.args
    named = [keyword for keyword in call.keywords if keyword.arg not in OF_CHECKPOINT]
    given = [said(unit.file, expression) for expression in others]
    given += [f"{keyword_.arg}={said(unit.file, keyword_.value)}" for keyword_ in named if keyword_.arg]
    given += [f"**{said(unit.file, keyword_.value)}" for keyword_ in named if keyword_.arg is None]
    text = f"{said(unit.file, function)}({', '.join(given)})"
    if not isinstance(function, ast.Name | ast.Attribute | ast.Subscript):
        raise NoPlaceError(f"{name_call(unit.file, call)} checkpoints {said(unit.file, function)}")
    return unit.file, call.lineno, [TextEdit(*unit.file.span(call), text)]


def _last_import(file: SourceFile) -> ast.stmt:
    """Return the last of the imports at the top of a file."""
    last: ast.stmt | None = None
    for node in file.tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            last = node
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            break
    if last is None:
        raise NoPlaceError(f"{file.path.name} does not begin with imports")
    return last


def _bound_at_top(file: SourceFile) -> dict[str, str]:
    """Return the names that the imports at the top bind to a whole package."""
    last = _last_import(file)
    first = [node for node in file.tree.body[: file.tree.body.index(last) + 1] if isinstance(node, ast.Import)]
    names = {name.asname or name.name.split(".")[0] for node in first for name in node.names}
    return {name: whole for name, whole in file.imported.items() if name in names}


# Numbers, reads of values, and Keras.


def _single(code: UserCode, _value: int) -> tuple[SourceFile, int, Sequence[TextEdit]]:
    """Change the default type. Where single tensors are float64, which of them may be float32 is not certain."""
    made = [(unit, call) for unit, call, name in code.calls() if name == "torch.set_default_dtype"]
    wide = [
        (unit, call)
        for unit, call in made
        if call.args
        and isinstance(call.args[0], ast.Attribute)
        and unit.file.whole_name(call.args[0]) in {"torch.float64", "torch.double"}
    ]
    if len(made) != 1 or not wide:
        raise NoPlaceError("what makes the numbers float64 is not one call of torch.set_default_dtype")
    unit, call = wide[0]
    argument = call.args[0]
    assert isinstance(argument, ast.Attribute)
    end = unit.file.span(argument)[1]
    return unit.file, call.lineno, [TextEdit(end - len(argument.attr), end, "float32")]


def _reads(code: UserCode, _value: int) -> tuple[SourceFile, int, Sequence[TextEdit]]:
    """Add up the loss without reading it: `total += loss.item()`, where `total` is only printed later."""
    found = [(unit, loop) for unit in code.units for loop in ast.walk(unit.node) if _is_step_loop(loop)]
    sums = {id(read): (unit, node, read) for unit, loop in found for node in ast.walk(loop)
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name)
            for read in ast.walk(node.value) if _is_read(read)}  # fmt: skip
    reads = [(unit, read) for unit, loop in found for read in ast.walk(loop) if _is_read(read)]
    if len({id(read) for _, read in reads}) != 1 or len(sums) != 1:
        raise NoPlaceError("the value that each step reads is not one sum, as in `total += loss.item()`")
    unit, added, read = next(iter(sums.values()))
    assert isinstance(added.target, ast.Name)
    if read is not added.value or not _is_only_printed(unit, added.target.id):
        raise NoPlaceError(f"{name_call(unit.file, read)} is used for more than a sum that is printed")
    end = unit.file.span(read)[1]
    name = unit.file.text.rfind("item", 0, end)
    return unit.file, read.lineno, [TextEdit(name, name + len("item"), "detach")]


def _is_step_loop(node: ast.AST) -> bool:
    """Whether a loop makes a step in each turn: it has a backward pass, and no loop within it has one."""
    inner = (loop for loop in ast.walk(node) if isinstance(loop, ast.For) and loop is not node)
    return isinstance(node, ast.For) and _has_backward(node) and not any(map(_has_backward, inner))


def _is_read(node: ast.AST) -> TypeGuard[ast.Call]:
    return (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item"
            and not node.args and not node.keywords)  # fmt: skip


def _is_only_printed(unit: CodePart, name: str) -> bool:
    """Whether a number begins as a constant, is added to, and else is in formatted texts: a tensor may do the same."""
    is_local = isinstance(unit.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    nodes = [*ast.walk(unit.node if is_local else unit.file.tree)]
    allowed = {id(node.target) for node in nodes if isinstance(node, ast.AugAssign)}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Constant):
            allowed.add(id(node.targets[0]))
        elif isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Name | ast.BinOp):
            allowed |= {id(inner) for inner in (node.value, *ast.iter_child_nodes(node.value))}
    return all(
        id(name_node) in allowed for name_node in nodes if isinstance(name_node, ast.Name) and name_node.id == name
    )


IN_BFLOAT16 = '{{model}}.forward = torch.autocast("{}", dtype=torch.bfloat16)({{model}}.forward)'
IN_KERAS_POLICY = partial(_once, call='keras.config.set_dtype_policy("mixed_bfloat16")', replaces=True)
OTHER_LEARNING, OTHER_ARITHMETIC, MORE_MEMORY = "the learning", "the arithmetic", "how much memory it takes"
REWRITES: dict[str, RewriteRow] = {
    "workers": RewriteRow(
        _workers,
        "Load the data in {value} worker processes",
        takes_value=True,
        least=0,
        arguments={"dataloader_num_workers": "{value}", "dataloader_persistent_workers": "{is_some}"},
        keras=keras_workers,
    ),
    "persistent_workers": RewriteRow(
        partial(_of_workers, keyword="persistent_workers", text="True"),
        "Keep the data loader's workers from one epoch to the next",
        arguments={"dataloader_persistent_workers": "True"},
    ),
    "prefetch": RewriteRow(
        partial(_of_workers, keyword="prefetch_factor", text="{value}"),
        "Let each worker of the data loader prepare {value} batches ahead",
        MORE_MEMORY,
        takes_value=True,
        arguments={"dataloader_prefetch_factor": "{value}"},
        keras=keras_prefetch,
    ),
    "loader_started_once": RewriteRow(
        start_loader_once,
        "Start the data loader once, and go on with its next batch",
        "which items come in which batch",
    ),
    "loader_made_once": RewriteRow(make_loader_once, "Make the data loader once, in front of the loop"),
    "pinned": RewriteRow(
        _pinned, "Load batches into pinned memory", MORE_MEMORY, arguments={"dataloader_pin_memory": "True"}
    ),
    "use_multiprocessing": RewriteRow(keras_processes, "Load the data in processes, not in threads"),
    "batch_2x": RewriteRow(
        partial(_batch, times=2), "Make the batch 2 times as large", OTHER_LEARNING, keras=partial(keras_batch, times=2)
    ),
    "batch_4x": RewriteRow(
        partial(_batch, times=4), "Make the batch 4 times as large", OTHER_LEARNING, keras=partial(keras_batch, times=4)
    ),
    "batch_8x": RewriteRow(
        partial(_batch, times=8), "Make the batch 8 times as large", OTHER_LEARNING, keras=partial(keras_batch, times=8)
    ),
    "batch_half": RewriteRow(
        partial(_batch, times=0.5), "Halve the batch", OTHER_LEARNING, keras=partial(keras_batch, times=0.5)
    ),
    "fused": RewriteRow(_fused, "Use the optimizer's fused form", arguments={"optim": '"adamw_torch_fused"'}),
    "compile": RewriteRow(
        partial(_before_optimizer, line="{model}.compile()"),
        "Compile the model",
        arguments={"torch_compile": "True"},
        keras=partial(keras_compile, keyword="jit_compile", text="True"),
    ),
    "channels_last": RewriteRow(
        partial(_before_optimizer, line="{model}.to(memory_format=torch.channels_last)"),
        "Store images with their channels last",
    ),
    "bf16_cpu": RewriteRow(
        partial(_before_optimizer, line=IN_BFLOAT16.format("cpu")),
        "Compute in bfloat16 on the processor",
        OTHER_ARITHMETIC,
        arguments={"bf16": "True"},
        keras=IN_KERAS_POLICY,
    ),
    "bf16_cuda": RewriteRow(
        partial(_before_optimizer, line=IN_BFLOAT16.format("cuda")),
        "Compute in bfloat16 on the GPU",
        OTHER_ARITHMETIC,
        arguments={"bf16": "True"},
        keras=IN_KERAS_POLICY,
    ),
    "flush_denormal": RewriteRow(
        partial(_once, call="torch.set_flush_denormal(True)", replaces=True),
        "Take the smallest numbers (denormals) as 0",
        OTHER_ARITHMETIC,
    ),
    "threads": RewriteRow(
        partial(_once, call="torch.set_num_threads({value})", replaces=True),
        "Compute on {value} threads",
        takes_value=True,
    ),
    "no_anomalies": RewriteRow(
        partial(_switched, call="torch.autograd.set_detect_anomaly(False)"), "Look for no anomalies in each operation"
    ),
    "not_left_on": RewriteRow(leave_out_switch, "Leave out what slows each step down while it is on"),
    "mkldnn": RewriteRow(
        partial(_switched, call="torch.backends.mkldnn.set_flags(True)"), "Compute with oneDNN", OTHER_ARITHMETIC
    ),
    "no_checkpoint": RewriteRow(
        _kept_passes,
        "Keep what the forward pass computes, in place of computing it again",
        MORE_MEMORY,
        arguments={"gradient_checkpointing": "False"},
    ),
    "no_second_graph": RewriteRow(_without_second_graph, "Make no graph of the backward pass"),
    "matmul_high": RewriteRow(
        partial(_once, call='torch.set_float32_matmul_precision("high")', replaces=True),
        "Multiply matrices with reduced precision (high)",
        OTHER_ARITHMETIC,
    ),
    "matmul_medium": RewriteRow(
        partial(_once, call='torch.set_float32_matmul_precision("medium")', replaces=True),
        "Multiply matrices with reduced precision (medium)",
        OTHER_ARITHMETIC,
    ),
    "keep_memory": RewriteRow(
        partial(_once, call="laptime.keep_memory()"), "Keep memory that was freed for the next step", MORE_MEMORY
    ),
    "float32": RewriteRow(_single, "Train in float32, not in float64", OTHER_ARITHMETIC),
    "no_item": RewriteRow(_reads, "Add up the loss without reading it in each step"),
    "some_turns": RewriteRow(
        do_in_some_turns,
        f"Do what line {{value}} does in every {TURNS}th turn only",
        "how often it is evaluated or saved",
        takes_value=True,
        most=LARGEST_LINE,
    ),
    "seldom": RewriteRow(
        do_seldom,
        f"Do what line {{value}} does every {EVERY} steps only",
        "what that line does",
        takes_value=True,
        most=LARGEST_LINE,
    ),
    "jit_compile": RewriteRow(partial(keras_compile, keyword="jit_compile", text="True"), "Compile the model"),
    "steps_per_execution": RewriteRow(
        partial(keras_compile, keyword="steps_per_execution", text="{value}"),
        "Let Keras take {value} steps at once",
        takes_value=True,
    ),
}
