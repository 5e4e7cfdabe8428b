"""A change of one line of a script's own: what it does in each step is done every hundred steps only, and what it does
between them in every tenth turn.

The line is refused unless all goes on without it (`attach/left_out`), and unless its loop counts its turns.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from laptime.analysis.diagnosis.script_computing import LEFT_ON
from laptime.attach.left_out import LOOPS, TRAINING, find_needless, ways_to
from laptime.questions.text_edits import TextEdit, said
from laptime.questions.user_code import NoPlaceError, SourceFile, UserCode

EVERY = 100
TURNS = 10
TRAINS = {"backward", "step"}
IN_EACH_TURN = TRAINING - {"train", "eval"}  # the mode of a model goes with its evaluation
# What a statement of its own may call that is done less often. Of any other call it is not known whether it learns.
SHOWS_OR_KEEPS = frozenset(
    {"print", "write", "writelines", "writerow", "flush", "fsync", "dump", "save", "save_image", "savefig", "imsave"}
    | {"imwrite", "to_csv", "savetxt", "plot", "log", "debug", "info", "warning", "set_description", "set_postfix"}
    | {"add_scalar", "add_scalars", "add_image", "add_images", "add_histogram", "collect", "empty_cache", "sleep"}
)
COUNTING = ("enumerate", "range")
OPENS_NOTHING = {"no_grad", "inference_mode", "set_grad_enabled", "enable_grad", "autocast", "record_function"}


def do_seldom(code: UserCode, line: int) -> tuple[SourceFile, int, Sequence[TextEdit]]:
    """Put a statement behind `if step % 100 == 0`, by the name that its loop counts steps with."""
    file = code.start
    place = f"{file.path.name}:{line}"
    found = find_needless(file.tree, line)
    if found is None:
        raise NoPlaceError(f"{place} trains something, or other code reads what it makes")
    if not _only_shows(found[1]):
        raise NoPlaceError(f"{place} may do something that the training needs")
    for _, statement in (found, ways_to(file.tree, line)[-1]):  # the whole loop that does nothing else, or its line
        if opened := _opened_around(file, statement):
            raise NoPlaceError(f"{opened} would still be opened each time")
        if (index := _index_of(file, statement)) is not None:
            return file, statement.lineno, _indented(file, statement, f"if {index} % {EVERY} == 0:")
    raise NoPlaceError(f"the loop around {place} does not count its steps")


def do_in_some_turns(code: UserCode, line: int) -> tuple[SourceFile, int, Sequence[TextEdit]]:
    """Evaluate or save in every tenth turn of the loop that trains, and in the last one.

    Where a condition such as `step % 500 == 0` says when, its number becomes ten times as large.
    """
    file = code.start
    turns = list(_turns_with(file, line))
    loops = {id(turn[0]) for turn in turns}
    if len(loops) != 1:
        raise NoPlaceError(f"{len(loops)} loops that train lead to {file.path.name}:{line}")
    loop, *inside = turns[0]
    at = inside[-1].lineno
    for guard in reversed(inside):
        number = _counted_by(guard, at)
        if number is not None and all(guard in turn for turn in turns) and _is_by_itself(file, guard):
            return file, number.lineno, [TextEdit(*file.span(number), str(int(str(number.value)) * TURNS))]
    needless = [pair[1] for outer in inside if (pair := find_needless(file.tree, outer.lineno)) is not None]
    statement = next((candidate for candidate in needless if _is_by_itself(file, candidate)), None)
    if statement is None:
        raise NoPlaceError(f"{file.path.name}:{at} trains something, or other code reads what it makes")
    if len(turns) > 1:
        raise NoPlaceError(f"{len(turns)} lines of a loop lead to {file.path.name}:{line}")
    if opened := _opened_around(file, statement):
        raise NoPlaceError(f"{opened} would still be opened each time")
    index = _index_of(file, statement)
    if index is None or loop is not _around(file, statement)[0]:
        raise NoPlaceError(f"the loop around {file.path.name}:{at} does not count its turns")
    last = _last_of(file, loop)
    or_last = "" if last is None else f" or {index} == {last}"
    return file, statement.lineno, _indented(file, statement, f"if {index} % {TURNS} == 0{or_last}:")


def _turns_with(file: SourceFile, line: int, visited: frozenset[int] = frozenset()) -> Iterator[list[ast.stmt]]:
    """Yield the innermost loop that trains around a line, with the statements within it around that line.

    Where it is in a function that does not train, the lines that call this are looked at.
    """
    around = [node for _, node in ways_to(file.tree, line)]
    begin = max((at + 1 for at, node in enumerate(around) if isinstance(node, ast.FunctionDef)), default=0)
    loops = [at for at in range(begin, len(around)) if isinstance(around[at], LOOPS) and takes_steps(file, around[at])]
    if loops:
        yield around[loops[-1] :]
    elif begin:
        name = getattr(around[begin - 1], "name", "")
        for call in ast.walk(file.tree):
            if isinstance(call, ast.Call) and _name_of(call) == name and call.lineno not in visited:
                yield from _turns_with(file, call.lineno, visited | {call.lineno})


def takes_steps(file: SourceFile, node: ast.AST, names_followed: frozenset[str] = frozenset()) -> bool:
    """Whether a step of a training is in a node, or in functions of the file that it calls."""
    names = {_name_of(call) for call in ast.walk(node) if isinstance(call, ast.Call)} - names_followed
    called = [
        function for function in ast.walk(file.tree) if isinstance(function, ast.FunctionDef) and function.name in names
    ]
    return bool(names & TRAINS) or any(takes_steps(file, function, names_followed | names) for function in called)


def _name_of(call: ast.Call) -> str:
    """Return the last part of the name of what is called: `evaluate` also of `self.evaluate()`."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else _called(call)


def _counted_by(guard: ast.stmt, line: int) -> ast.Constant | None:
    """Return the number of a condition such as `step % 500 == 0` that a line is under; None where it is another."""
    if not isinstance(guard, ast.If) or not guard.body[0].lineno <= line <= (guard.body[-1].end_lineno or line):
        return None
    tests = guard.test.values if isinstance(guard.test, ast.BoolOp) and isinstance(guard.test.op, ast.And) else []
    for test in tests or [guard.test]:
        match test:
            case ast.Compare(left=ast.BinOp(op=ast.Mod(), right=ast.Constant(value=int()) as number), ops=[ast.Eq()]):
                return number
    return None


def _is_by_itself(file: SourceFile, statement: ast.stmt) -> bool:
    """Whether a statement trains nothing, and nothing else reads what it, or a function that it calls, sets."""
    calls = {_name_of(call) for call in ast.walk(statement) if isinstance(call, ast.Call)}
    own = [
        function for function in ast.walk(file.tree) if isinstance(function, ast.FunctionDef) and function.name in calls
    ]
    changes = calls & IN_EACH_TURN or any(
        isinstance(node, ast.Break | ast.Continue | ast.Return | ast.Raise)
        or (isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store))
        for node in ast.walk(statement)
    )
    if changes or takes_steps(file, statement) or not (own or calls & SHOWS_OR_KEEPS):
        return False
    shared = {
        name
        for function in own
        for inner in ast.walk(function)
        if isinstance(inner, ast.Global)
        for name in inner.names
    }
    stored = {
        name_node.id
        for name_node in ast.walk(statement)
        if isinstance(name_node, ast.Name) and isinstance(name_node.ctx, ast.Store)
    }
    inner = {id(node) for part in (statement, *own) for node in ast.walk(part)}
    return not any(
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in shared | stored
        for node in ast.walk(file.tree)
        if id(node) not in inner
    )


def _last_of(file: SourceFile, loop: ast.stmt) -> str | None:
    """Return the text of the last number of a loop over a range; None of any other loop."""
    counts = _counting(loop.iter) if isinstance(loop, ast.For) else None
    if not isinstance(counts, ast.Call) or _called(counts) != "range" or len(counts.args) not in {1, 2}:
        return None
    match counts.args[-1]:
        case ast.Constant(value=int(number)):
            return str(number - 1)
        case ast.BinOp(left=last, op=ast.Add(), right=ast.Constant(value=1)):
            return said(file, last)
        case ast.Name() | ast.Attribute() | ast.Call() as end:
            return f"{said(file, end)} - 1"
        case end:
            return f"({said(file, end)}) - 1"


def leave_out_switch(code: UserCode, _value: int) -> tuple[SourceFile, int, Sequence[TextEdit]]:
    """Leave out the one statement that switches on what slows each step down."""
    switches = {name for left_on in LEFT_ON.values() for name in left_on.calls}
    found = [(unit.file, call) for unit, call, name in code.calls() if name in switches]
    if len(found) != 1:
        raise NoPlaceError(f"{len(found)} calls that are known to run leave something on")
    ((file, call),) = found
    body, statement = ways_to(file.tree, call.lineno)[-1]
    if not isinstance(statement, ast.Expr) or statement.value is not call or len(body) == 1:
        raise NoPlaceError(f"{file.path.name}:{call.lineno} is no statement of its own, or the only one of its block")
    begin, _ = file.line_span(statement.lineno)
    _, end = file.line_span(statement.end_lineno or statement.lineno)
    if file.text[begin:end].strip() != ast.get_source_segment(file.text, statement):
        raise NoPlaceError(f"{file.path.name}:{call.lineno} shares its line")
    behind = len(file.newline) if file.text.startswith(file.newline, end) else 0
    return file, statement.lineno, [TextEdit(begin, end + behind, "")]


def _only_shows(statement: ast.stmt) -> bool:
    """Whether a statement only makes what nobody reads, or shows or keeps it.

    What a loop adds up is read by nobody either, where the whole loop can be left out.
    """
    if isinstance(statement, ast.For | ast.While):
        adds_or_shows = all(isinstance(node, ast.AugAssign) or _only_shows(node) for node in statement.body)
        return adds_or_shows and not statement.orelse
    if isinstance(statement, ast.With):
        return all(map(_only_shows, statement.body))
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        return (called.attr if isinstance(called, ast.Attribute) else _called(statement.value)) in SHOWS_OR_KEEPS
    return isinstance(statement, ast.Assign | ast.AnnAssign)


def _around(file: SourceFile, statement: ast.stmt) -> list[ast.stmt]:
    """Return the statements from the innermost loop or function around a statement on to it, without itself."""
    around = [node for _, node in ways_to(file.tree, statement.lineno) if node.lineno < statement.lineno]
    since = [at for at, node in enumerate(around) if isinstance(node, (*LOOPS, ast.FunctionDef))]
    return around[since[-1] :] if since else []


def _opened_around(file: SourceFile, statement: ast.stmt) -> str:
    """Return what a `with` around a statement opens in the same loop, such as a file, which would then stay empty."""
    opened = [item for outer in _around(file, statement) if isinstance(outer, ast.With) for item in outer.items]
    calls = [item.context_expr.func for item in opened if isinstance(item.context_expr, ast.Call)]
    names = [call.attr if isinstance(call, ast.Attribute) else ast.unparse(call) for call in calls]
    return next((name for name in names if name not in OPENS_NOTHING), "")


def _index_of(file: SourceFile, statement: ast.stmt) -> str | None:
    """Return the name with which the innermost loop around a statement counts; None where it has none."""
    inner = next(iter(_around(file, statement)), None)
    if not isinstance(inner, LOOPS):
        return None
    return _index_of_for(file, inner) or _count_of(inner)


def _count_of(loop: ast.stmt) -> str | None:
    """Return the name to which each turn of a loop adds 1, and that it changes nowhere else."""
    stored = [
        name_node.id
        for name_node in ast.walk(loop)
        if isinstance(name_node, ast.Name) and isinstance(name_node.ctx, ast.Store)
    ]
    added = [
        node.target.id
        for node in getattr(loop, "body", ())
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name)
        if isinstance(node.value, ast.Constant) and node.value.value == 1
    ]
    return next((name for name in added if stored.count(name) == 1), None)


def _index_of_for(file: SourceFile, inner: ast.stmt) -> str | None:
    if not isinstance(inner, ast.For) or set(COUNTING) & file.bound:
        return None
    counts = _counting(inner.iter)
    target: ast.expr = inner.target
    if _called(counts) == "enumerate" and isinstance(target, ast.Tuple) and target.elts:
        target = target.elts[0]
    elif _called(counts) != "range":
        return None
    stored = [
        name_node.id
        for name_node in ast.walk(inner)
        if isinstance(name_node, ast.Name) and isinstance(name_node.ctx, ast.Store)
    ]
    return target.id if isinstance(target, ast.Name) and stored.count(target.id) == 1 else None


def _counting(counts: ast.expr) -> ast.expr:
    """Return the call that counts in what a loop goes over, such as tqdm(enumerate(loader))."""
    while _called(counts) not in COUNTING and isinstance(counts, ast.Call) and counts.args:
        counts = counts.args[0]
    return counts


def _called(node: ast.expr) -> str:
    """Return the name of what an expression calls; an empty string where it calls nothing that has a plain name."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _indented(file: SourceFile, statement: ast.stmt, head: str) -> list[TextEdit]:
    """Put a head before a statement, and its lines one level deeper."""
    begin, end = file.span(statement)
    start, _ = file.line_span(statement.lineno)
    last = statement.end_lineno or statement.lineno
    _, line_end = file.line_span(last)
    before = file.text[start:begin]
    behind = file.text[end:line_end].strip()
    spans = [node for node in ast.walk(statement) if isinstance(node, ast.Constant | ast.JoinedStr)]
    if (
        before.strip()
        or (behind and not behind.startswith("#"))
        or any(span.lineno != span.end_lineno for span in spans)
    ):
        raise NoPlaceError(f"{file.path.name}:{statement.lineno} shares its line, or has a text of several lines")
    deeper = "\t" if "\t" in before else "    "
    starts = [file.line_span(line)[0] for line in range(statement.lineno + 1, last + 1)]
    first = TextEdit(start, start, f"{before}{head}{file.newline}{deeper}")
    return [first, *(TextEdit(start, start, deeper) for start in starts)]
