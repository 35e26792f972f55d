"""Mutants of a module: one small change each, of the kinds that programmers make by mistake."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Mutant", "mutants", "mutated", "place", "unchanged"]

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
}
_BOOLEANS: dict[type[ast.boolop], type[ast.boolop]] = {ast.And: ast.Or, ast.Or: ast.And}


@dataclass(frozen=True)
class Mutant:
    """One change of a module.

    Attributes:
        line: Line of the change.
        change: The kind of change.
        node: Number of the changed node, in the order of `ast.walk`.
        text: The line, with marks around what is changed.
    """

    line: int
    change: str
    node: int
    text: str


def mutants(source: str) -> list[Mutant]:
    """Return all mutants of a module, in order of their lines."""
    tree = ast.parse(source)
    untried = set(_declarations(tree))
    lines = source.splitlines()
    found = [
        Mutant(place(node).lineno, change, number, _marked(lines, place(node)))
        for number, node in enumerate(ast.walk(tree))
        if node not in untried
        for change in _changes(node)
    ]
    return sorted(found, key=lambda mutant: mutant.line)


def mutated(source: str, mutant: Mutant) -> str:
    """Return a module with the change of a mutant."""
    tree = ast.parse(source)
    node = next(node for number, node in enumerate(ast.walk(tree)) if number == mutant.node)
    _apply(mutant.change, node)
    return ast.unparse(ast.fix_missing_locations(tree))


def unchanged(source: str) -> str:
    """Return a module as its mutants are written, with no change in it."""
    return ast.unparse(ast.parse(source))


def place(node: ast.AST) -> Any:
    """Return the node whose text is marked: of a statement with a condition, this alone."""
    return getattr(node, "test", node)


def _marked(lines: list[str], node: Any) -> str:
    """Return the first line of a node, with marks around the node."""
    line = lines[node.lineno - 1].encode()
    end = node.end_col_offset if node.end_lineno == node.lineno else len(line)
    before, changed = line[: node.col_offset], line[node.col_offset : end]
    return f"{before.decode()}«{changed.decode()}»{line[end:].decode()}".strip()


def _declarations(tree: ast.AST) -> Iterator[ast.AST]:
    """Return the nodes that no test can hold.

    Type checkers read some of them, and how a struct is made and used (`frozen`, `kw_only`); that
    both arguments of a `zip` have one length is true in all that can be tested.
    """
    for node in ast.walk(tree):
        match node:
            case ast.If() if ast.unparse(node.test) == "TYPE_CHECKING":
                yield from ast.walk(node)
            case ast.keyword(arg="frozen" | "gc" | "kw_only" | "slots", value=value):
                yield value
            case ast.Call(func=ast.Name("zip"), keywords=[ast.keyword(value=value)]):
                yield value


def _changes(node: ast.AST) -> Iterator[str]:
    """Return the names of the changes that a node can have."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARISONS:
            yield f"{type(op).__name__} to {_COMPARISONS[type(op)].__name__}"
        case ast.BoolOp(op=op):
            yield f"{type(op).__name__} to {_BOOLEANS[type(op)].__name__}"
        case ast.BinOp(op=op, left=left) if type(op) in _OPERATORS:
            if not isinstance(left, ast.Constant) or not isinstance(left.value, str):
                yield f"{type(op).__name__} to {_OPERATORS[type(op)].__name__}"
        case ast.UnaryOp(op=ast.Not()):
            yield "not removed"
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if not _is_negated_elsewhere(test):
                yield "condition negated"
        case ast.Constant(value=bool()):
            yield "constant flipped"
        case ast.Constant(value=int()):
            yield "constant plus one"
        case ast.Return(value=ast.expr()) if not _is_none(node.value):
            yield "returns None"
        case ast.Expr(value=ast.Call()):
            yield "call removed"


def _is_negated_elsewhere(test: ast.expr) -> bool:
    """Return whether another mutant is the negation of a condition."""
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Compare(ops=[op]):
            return not isinstance(op, _ORDERS)
    return False


def _is_none(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _apply(change: str, node: ast.AST) -> None:
    """Change a node in place."""
    match node:
        case ast.Compare():
            node.ops = [_COMPARISONS[type(node.ops[0])]()]
        case ast.BoolOp():
            node.op = _BOOLEANS[type(node.op)]()
        case ast.BinOp():
            node.op = _OPERATORS[type(node.op)]()
        case ast.UnaryOp():
            # `+x` of a bool is an int, but as true as the bool.
            node.op = ast.UAdd()
            node.operand = ast.Call(ast.Name("bool", ast.Load()), [node.operand], [])
        case ast.If() | ast.While() | ast.IfExp():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.Constant(value=bool(value)):
            node.value = not value
        case ast.Constant(value=int(value)):
            node.value = value + 1
        case ast.Return():
            node.value = ast.Constant(None)
        case ast.Expr():
            node.value = ast.Constant(None)
