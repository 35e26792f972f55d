"""Only the rooms and the registry name a dialect, so that a new one changes nothing else.

Comments and docstrings may: they say which server or client forces a line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import streamnorm
from streamnorm._registry import _BY_NAME, DIALECTS

PACKAGE = Path(streamnorm.__file__).parent

EXCEPTIONS = {
    "_registry.py": "it lists the dialects",
    "cli/": "examples, and the variables that the vendors' SDKs read their base URL from",
    "gateway/routing.py": "headers that name the session of an agent",
    "gateway/telemetry.py": "the names that OpenTelemetry's conventions give to providers",
    "recording/importing/har.py": "`responses` of the standard library: phrases of statuses",
    "recording/matching.py": "a directory of Claude Code, in the text of its system prompt",
    "recording/secrets/__init__.py": "headers of vendors whose values are no secrets",
}

VENDORS = re.compile("anthropic|claude|openai|gemini", re.IGNORECASE)


def files() -> Iterator[Path]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] != "dialects":
            yield path


def words(tree: ast.AST) -> Iterator[str]:
    """Yield the names and the text constants of a module, but for its docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(str() | bytes() as value) if id(node) not in docstrings:
                yield str(value)
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name
            case ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.ImportFrom(module=str(name)):
                yield name
            case _:
                pass


def named_dialects(path: Path) -> list[str]:
    known = set(_BY_NAME)
    tree = ast.parse(path.read_text())
    return [word for word in words(tree) if word in known or VENDORS.search(word)]


def test_names_are_found() -> None:
    for dialect in DIALECTS:
        room = PACKAGE / "dialects" / dialect / "__init__.py"
        assert dialect in named_dialects(room)
    assert named_dialects(PACKAGE / "_registry.py")


def test_no_file_outside_a_room_names_a_dialect() -> None:
    found = {
        str(path.relative_to(PACKAGE)): names for path in files() if (names := named_dialects(path))
    }
    unexplained = {
        path: names for path, names in found.items() if not path.startswith(tuple(EXCEPTIONS))
    }
    assert unexplained == {}


def test_no_exception_is_stale() -> None:
    naming = [str(path.relative_to(PACKAGE)) for path in files() if named_dialects(path)]
    assert [start for start in EXCEPTIONS if not any(p.startswith(start) for p in naming)] == []
