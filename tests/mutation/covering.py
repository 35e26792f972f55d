"""Which tests run which line of the package, so that of a mutant's tests those run first."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Sequence
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
    """The test functions that run the lines of a copy.

    Attributes:
        copy: The copy, whose modules are written as `unchanged` returns them.
        data: What was recorded.
    """

    copy: Path
    data: Sequence[CoverageData]

    @classmethod
    def read(cls, copy: Path, files: Iterable[Path]) -> Covering:
        """Read what recorders have stored."""
        read: list[CoverageData] = []
        for file in files:
            read.append(CoverageData(str(file)))
            read[-1].read()
        return cls(copy, read)

    def functions(self, module: Path, source: str, mutant: Mutant) -> list[str] | None:
        """Return the test functions that run the line of a mutant; None if all must be asked.

        That is so where a line runs as its module is imported, which serves all tests.
        """
        line = _line_in_function(source, mutant)
        if line is None:
            return None
        contexts: set[str] = set()
        for data in self.data:
            by_line = data.contexts_by_lineno(str(self.copy / module))
            contexts.update(by_line.get(line, ()))
        if "" in contexts or len(contexts) > _MAX_CHOSEN:
            return None
        return sorted(contexts)


def _line_in_function(source: str, mutant: Mutant) -> int | None:
    """Return the line of a mutant in `unchanged(source)`; None if it is outside of functions."""
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
    return place(node).lineno if node in inner else None
