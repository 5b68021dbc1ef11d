"""Mutants of one module: the source with one small fault, such as `<` for `<=` or `+` for `-`."""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

Edit = Callable[[Any], ast.AST]

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
NAMES = {
    "min": "max", "max": "min", "amin": "amax", "amax": "amin", "minimum": "maximum",
    "maximum": "minimum", "clamp_min": "clamp_max", "clamp_max": "clamp_min", "any": "all",
    "all": "any", "exp": "expm1", "log": "log1p", "sqrt": "square", "square": "sqrt",
    "ceil": "floor", "floor": "ceil", "argmin": "argmax", "argmax": "argmin",
}  # fmt: skip
BUILTINS = {"min", "max", "any", "all"}


@dataclass(frozen=True)
class Mutant:
    """One fault: where it is, what was changed, and the whole source with it."""

    path: str
    line: int
    change: str
    source: str


def mutants(path: Path, root: Path) -> Iterator[Mutant]:
    """Yield every mutant of the module at `path`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for number, node in enumerate(_code(tree)):
        for change, edit in _edits(node):
            mutated = copy.deepcopy(tree)
            target = next(islice(_code(mutated), number, None))
            _replace(mutated, target, edit(target))
            source = ast.unparse(ast.fix_missing_locations(mutated))
            yield Mutant(path.relative_to(root).as_posix(), node.lineno, change, source)


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, field, new)
            elif isinstance(value, list) and any(item is old for item in value):
                setattr(parent, field, [new if item is old else item for item in value])


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that compute: not those of annotations, docstrings, messages or imports."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Raise | ast.JoinedStr | ast.Assert):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Assign) and "__all__" in ast.dump(node.targets[0]):
            continue
        yield node
        yield from _code(_bare(node))


def _bare(node: ast.AST) -> ast.AST:
    """The node without its annotations and decorators; shares its children."""
    if isinstance(node, ast.FunctionDef):
        defaults = [value for value in node.args.kw_defaults if value is not None]
        return _container(*node.args.defaults, *defaults, *node.body)
    if isinstance(node, ast.ClassDef):
        return _container(*node.body)
    if isinstance(node, ast.AnnAssign):
        return _container(*([node.value] if node.value else []))
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return _container() if node.value.id[0].isupper() else node  # a type, such as Float[...]
    return node


def _container(*nodes: ast.AST) -> ast.AST:
    return ast.Module(body=list(nodes), type_ignores=[])  # type: ignore[arg-type]


def _edits(node: ast.AST) -> Iterator[tuple[str, Edit]]:
    """Yield each (change, function that turns such a node into its replacement)."""
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
        yield _swap(node.op), _set("op", SWAPS[type(node.op)]())
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield _swap(node.ops[0]), _set("ops", [SWAPS[type(node.ops[0])](), *node.ops[1:]])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not | ast.Invert):
        yield f"drop {type(node.op).__name__}", lambda n: n.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} -> {not node.value}", _set("value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield f"{node.value} -> {node.value + 1}", _set("value", node.value + 1)
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield f"{node.attr} -> {NAMES[node.attr]}", _set("attr", NAMES[node.attr])
    if isinstance(node, ast.Name) and node.id in BUILTINS:
        yield f"{node.id} -> {NAMES[node.id]}", _set("id", NAMES[node.id])
    if isinstance(node, ast.If | ast.IfExp):
        yield "negate the condition", _set("test", ast.UnaryOp(ast.Not(), node.test))


def _swap(operator: ast.AST) -> str:
    return f"{type(operator).__name__} -> {SWAPS[type(operator)].__name__}"


def _set(field: str, value: object) -> Edit:
    def edit(node: ast.AST) -> ast.AST:
        setattr(node, field, copy.deepcopy(value))
        return node

    return edit
