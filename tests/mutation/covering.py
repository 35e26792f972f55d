"""Which tests run which line of the package, so that of a mutant's tests those run first."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from coverage import Coverage, CoverageData
from mutants import Mutant, place, unchanged

__all__ = ["Chosen", "Covering", "Recorder", "Selector", "files_of", "function_of"]


_UNTRACED_S = 20  # that such a test takes at most


def function_of(nodeid: str) -> str:
    """Return the test function of a test, without its parameters."""
    return nodeid.partition("[")[0]


def files_of(functions: Iterable[str]) -> list[str]:
    """Return the files of test functions, in their order."""
    return list(dict.fromkeys(name.partition("::")[0] for name in functions))


class Recorder:
    """Plugin of pytest that stores which test functions run which lines, and their processor time.

    Args:
        copy: The copy of the project that is tested.
        file: The file to store them in.
    """

    def __init__(self, copy: Path, file: Path) -> None:
        self._copy = copy
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._untraced: set[str] = set()
        self._file = file
        self._coverage = Coverage(
            data_file=str(file), source=[str(copy / "streamnorm")], config_file=False
        )

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out tests that count steps: they trace what they run themselves."""
        self._untraced.update(function_of(item.nodeid) for item in items if _counts_steps(item))
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
        self._file.with_suffix(".json").write_text(
            json.dumps([self._seconds, sorted(self._untraced)])
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record a test, with its fixtures."""
        function, started_s = function_of(item.nodeid), time.process_time()
        self._coverage.switch_context(function)
        try:
            return (yield)
        finally:
            self._seconds[function] += time.process_time() - started_s
            self._coverage.switch_context("")


def _counts_steps(item: pytest.Item) -> bool:
    names = vars(getattr(item, "module", object)).values()
    return any(getattr(each, "__module__", "") == "support.operation_counts" for each in names)


class Selector:
    """Plugin of pytest that leaves out all tests but some functions.

    Args:
        functions: The functions, as `function_of` returns them.
    """

    def __init__(self, functions: Iterable[str]) -> None:
        self._functions = frozenset(functions)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the other tests."""
        items[:] = [item for item in items if function_of(item.nodeid) in self._functions]


class Chosen(NamedTuple):
    """The tests that a mutant may make fail.

    Attributes:
        functions: Test functions that run its line, in the order to run them.
        seconds: Processor time that they take without the mutant.
        serves_all: Whether any other test may fail, too.
    """

    functions: list[str]
    seconds: float
    serves_all: bool


class Covering(NamedTuple):
    """The test functions that run the lines of modules, as `unchanged` returns these.

    Attributes:
        by_line: The functions by module and line; "" for what runs as modules are imported.
        seconds: Processor time that each function takes.
        untraced: Functions that may run any line.
    """

    by_line: dict[Path, dict[int, set[str]]]
    seconds: dict[str, float]
    untraced: list[str]

    @classmethod
    def read(cls, copy: Path, modules: Iterable[Path], files: Iterable[Path]) -> Covering:
        """Read what recorders have stored of the modules of a copy."""
        by_line: dict[Path, dict[int, set[str]]] = {module: {} for module in modules}
        seconds: dict[str, float] = {}
        untraced: list[str] = []
        for file in files:
            data = CoverageData(str(file))
            data.read()
            of_part, untraced_of_part = json.loads(file.with_suffix(".json").read_text())
            seconds |= of_part
            untraced += untraced_of_part
            for module, lines in by_line.items():
                for line, found in data.contexts_by_lineno(str(copy / module)).items():
                    lines.setdefault(line, set()).update(found)
        return cls(by_line, seconds, untraced)

    def tests_of(
        self,
        module: Path,
        source: str,
        mutant: Mutant,
        files: Collection[str],
        first: Collection[str],
    ) -> Chosen:
        """Return the tests that a mutant may make fail.

        They are those that run its line or, if it is in a constant of its module, a line that
        reads the constant.  What else runs as a module is imported serves all tests.  Those that
        nothing could trace come last.

        Args:
            module: The module.
            source: The source of it.
            mutant: The mutant.
            files: Its test files.
            first: Files whose tests come first; then the files that take the least time.
        """
        lines = _lines_in_functions(source, mutant)
        by_line = self.by_line[module]
        found = set().union(*(by_line.get(line, ()) for line in lines or ()))
        serves_all = not found or "" in found
        functions = self._in_order(found - {""}, first)
        untraced = [each for each in self.untraced if each.partition("::")[0] in files]
        seconds = sum(map(self.seconds.__getitem__, functions)) + _UNTRACED_S * len(untraced)
        return Chosen([*functions, *untraced], seconds, serves_all)

    def within(
        self, chosen: Chosen, files: Collection[str], first: Collection[str], max_s: float
    ) -> Chosen:
        """Return as many of the chosen tests as take some seconds, the untraced left out.

        The shortest come first, so that they are many.  Where any test may fail they are followed
        by others.

        Args:
            chosen: The tests.
            files: The test files to take others from.
            first: Files whose tests come first.
            max_s: The seconds, beyond which the last of them may go.
        """
        functions = self._shortest_first(filter(self.seconds.__contains__, chosen.functions), first)
        if chosen.serves_all:
            others = {each for each in self.seconds if each.partition("::")[0] in files}
            functions += self._shortest_first(others.difference(functions), first)
        kept, seconds = list[str](), 0.0
        for function in functions:
            if seconds >= max_s:
                break
            kept.append(function)
            seconds += self.seconds[function]
        return Chosen(kept, seconds, chosen.serves_all)

    def _shortest_first(self, functions: Iterable[str], first: Collection[str]) -> list[str]:
        """Return test functions, those of some files first, then the shortest."""

        def rank(function: str) -> tuple[bool, float, str]:
            return function.partition("::")[0] not in first, self.seconds[function], function

        return sorted(functions, key=rank)

    def _in_order(self, functions: Collection[str], first: Collection[str]) -> list[str]:
        """Return test functions, those of some files first, then the files of least time."""
        by_file: defaultdict[str, list[str]] = defaultdict(list)
        for function in sorted(functions):
            by_file[function.partition("::")[0]].append(function)
        costs = {
            file: (file not in first, sum(map(self.seconds.__getitem__, each)))
            for file, each in by_file.items()
        }
        return [
            function
            for file in sorted(by_file, key=costs.__getitem__)
            for function in by_file[file]
        ]


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
