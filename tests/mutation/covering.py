"""Which tests run which line of the package, so that of a mutant's tests those run first."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from coverage import Coverage, CoverageData
from mutants import Mutant, place, unchanged

__all__ = ["Chosen", "Covering", "Recorder", "function_of"]

# A test that is chosen among so many is sooner found by the order of the files.
_MAX_CHOSEN = 1500


def function_of(nodeid: str) -> str:
    """Return the test function of a test, without its parameters."""
    return nodeid.partition("[")[0]


class Recorder:
    """Plugin of pytest that stores which test functions run which lines.

    Args:
        copy: The copy of the project that is tested.
        file: The file to store them in.
    """

    def __init__(self, copy: Path, file: Path) -> None:
        self._copy = copy
        self._coverage = Coverage(
            data_file=str(file), source=[str(copy / "streamnorm")], config_file=False
        )

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out tests that count steps: they trace what they run themselves."""
        items[:] = [item for item in items if not _counts_steps(item)]

    def start(self) -> None:
        """Begin to record."""
        self._coverage.start()

    def pytest_sessionstart(self) -> None:
        """Import all modules, so that what runs then belongs to no test."""
        for module in pkgutil.walk_packages([str(self._copy / "streamnorm")], "streamnorm."):
            with suppress(ImportError):  # of packages that are not installed
                importlib.import_module(module.name)

    def stop(self) -> None:
        """Store what was recorded."""
        self._coverage.stop()
        self._coverage.save()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record a test, with its fixtures."""
        self._coverage.switch_context(function_of(item.nodeid))
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")


def _counts_steps(item: pytest.Item) -> bool:
    names = vars(getattr(item, "module", object)).values()
    return any(getattr(each, "__module__", "") == "support.operation_counts" for each in names)


class Chosen:
    """Plugin of pytest that leaves out all tests but some functions.

    Args:
        functions: The functions, as `function_of` returns them.
    """

    def __init__(self, functions: Iterable[str]) -> None:
        self._functions = frozenset(functions)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the other tests."""
        items[:] = [item for item in items if function_of(item.nodeid) in self._functions]


class Covering(NamedTuple):
    """The test functions that run the lines of modules, as `unchanged` returns these.

    Attributes:
        by_line: The functions by module and line; "" for what runs as modules are imported.
    """

    by_line: dict[Path, dict[int, set[str]]]

    @classmethod
    def read(cls, copy: Path, modules: Iterable[Path], files: Iterable[Path]) -> Covering:
        """Read what recorders have stored of the modules of a copy."""
        by_line: dict[Path, dict[int, set[str]]] = {module: {} for module in modules}
        for file in files:
            data = CoverageData(str(file))
            data.read()
            for module, lines in by_line.items():
                for line, found in data.contexts_by_lineno(str(copy / module)).items():
                    lines.setdefault(line, set()).update(found)
        return cls(by_line)

    def functions(self, module: Path, source: str, mutant: Mutant) -> list[str] | None:
        """Return the test functions that a mutant may make fail; None if that may be any.

        They are those that run its line or, if it is in a constant of its module, a line that
        reads the constant.  What else runs as a module is imported serves all tests.
        """
        lines = _lines_in_functions(source, mutant)
        if lines is None:
            return None
        by_line = self.by_line[module]
        found = set().union(*(by_line.get(line, ()) for line in lines))
        if not found or "" in found or len(found) > _MAX_CHOSEN:
            return None
        return sorted(found)


def _lines_in_functions(source: str, mutant: Mutant) -> list[int] | None:
    """Return the lines of `unchanged(source)` through which a mutant has an effect.

    None if that has one where its module is imported, or once for all tests.
    """
    tree = ast.parse(unchanged(source))
    if ast.dump(tree) != ast.dump(ast.parse(source)):
        return None  # nodes have other numbers
    inner = {
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any("cache" in ast.unparse(each) for each in function.decorator_list)
        for statement in function.body
        for node in ast.walk(statement)
    }
    node = next(node for number, node in enumerate(ast.walk(tree)) if number == mutant.node)
    if node in inner:
        return [place(node).lineno]
    name = _constant_with(tree, node)
    reads = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id == name
    ]
    return [each.lineno for each in reads] if reads and inner.issuperset(reads) else None


def _constant_with(tree: ast.Module, node: ast.AST) -> str | None:
    """Return the private constant of a module whose value has a node; None if none has."""
    for statement in tree.body:
        match statement:
            case ast.Assign([ast.Name(name)], value) if name.startswith("_"):
                if node in ast.walk(value):
                    return name
    return None
