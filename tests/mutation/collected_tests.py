"""Tests that are collected once, of which each mutant runs some in a fork.

Most mutants change the body of a function that nothing has called when the tests are collected.
A fork of the process that has collected them gives the function its new code, and runs tests at
once; a new process would take longer to import and to collect them than most mutants live.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NoReturn

import pytest
from _pytest.main import pytest_runtestloop as run_loop
from covering import function_of
from forked_pytest import OPTIONS, enter, limit_time

__all__ = ["CollectedTests", "Question", "replace_code"]

_SURVIVES, _FAILS, _CANNOT = 0, 1, 77
_OPTIMIZED = 1  # flag of the code of functions, which that of classes lacks


@dataclass(frozen=True)
class Question:
    """A mutant, and the tests that may fail for it.

    Attributes:
        module: Name of the changed module.
        before: The module as it was imported.
        after: The module with the change.
        functions: The test functions to run, in their order.
        max_cpu_s: Processor time after which the run is stopped, and has failed.
    """

    module: str
    before: str
    after: str
    functions: Sequence[str]
    max_cpu_s: float


class CollectedTests:
    """A process that has collected tests of a copy of the project.

    Args:
        copy: The copy.
        paths: Files below it.
    """

    def __init__(self, copy: Path, paths: Sequence[str]) -> None:
        self._connection, theirs = multiprocessing.Pipe()
        if os.fork() == 0:
            self._connection.close()
            _serve(copy, paths, theirs)
        theirs.close()
        if not self._connection.recv():
            raise RuntimeError("the tests could not be collected")

    def fails(self, question: Question) -> bool | None:
        """Return whether a test fails for a mutant; None if it must be imported to be tested."""
        self._connection.send(question)
        result: bool | None = self._connection.recv()
        return result


def _serve(copy: Path, paths: Sequence[str], connection: Connection) -> NoReturn:
    try:
        with open(os.devnull, "wb") as output:
            enter(copy, output, writes_bytecode=False)
            pytest.main([*OPTIONS, *paths], [_Server(connection)])
    finally:
        os._exit(1)


class _Server:
    """Plugin of pytest that answers questions in place of running all tests."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> NoReturn:
        """Answer questions until the other side has gone."""
        items: defaultdict[str, list[pytest.Item]] = defaultdict(list)
        for item in session.items:
            items[function_of(item.nodeid)].append(item)
        gc.collect()
        gc.freeze()  # a collection in a fork would copy what they share
        self._connection.send(not session.testsfailed)
        try:
            while True:
                question: Question = self._connection.recv()
                self._connection.send(_answer(session, items, question))
        except EOFError:
            os._exit(0)


def _answer(
    session: pytest.Session, items: dict[str, list[pytest.Item]], question: Question
) -> bool | None:
    pid = os.fork()
    if pid == 0:
        session.items = [
            item for function in question.functions for item in items.get(function, ())
        ]
        _be_mutant(session, question)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == -signal.SIGKILL:
        raise RuntimeError(f"a mutant was killed from outside: {question.module}")
    return None if code == _CANNOT else code != _SURVIVES


def _be_mutant(session: pytest.Session, question: Question) -> NoReturn:
    code = _FAILS
    try:
        module = sys.modules.get(question.module)
        if module is None or replace_code(module, question.before, question.after):
            limit_time(question.max_cpu_s)
            with suppress(session.Failed, session.Interrupted):
                run_loop(session)
            code = _FAILS if session.testsfailed else _SURVIVES
        else:
            code = _CANNOT
    finally:
        os._exit(code)


def replace_code(module: ModuleType, before: str, after: str) -> bool:
    """Give the changed function of an imported module its new code.

    Args:
        module: The module.
        before: Its source.
        after: Its source with the change of a mutant.

    Returns:
        Whether that has the effect of the mutant: its change is in the body of a function that the
        module or a class of it has, or there is none.
    """
    if before == after:
        return True
    file = str(module.__file__)
    codes = [compile(each, file, "exec", dont_inherit=True) for each in (before, after)]
    old, new = (dict(_functions(code)) for code in codes)
    changed = [path for path, code in old.items() if new.get(path) != code]
    if len(changed) != 1 or old.keys() != new.keys():
        return False
    names, _ = changed[0]
    owner: Any = module
    for name in names[:-1]:
        owner = vars(owner).get(name)
        if owner is None:
            return False
    for function in _functions_in(vars(owner).get(names[-1])):
        if function.__code__ == old[changed[0]]:
            return _replace(vars(module), {function.__code__: new[changed[0]]})
    return False


def _replace(of_module: dict[str, Any], changed: dict[CodeType, CodeType]) -> bool:
    """Give functions with old code their new one, also those that functions have returned."""
    changed = changed | dict(_nested(changed.items()))
    gc.unfreeze()
    functions = [each for each in gc.get_objects() if type(each) is FunctionType]
    try:
        for each in functions:
            if each.__globals__ is of_module and each.__code__ in changed:
                each.__code__ = changed[each.__code__]
    except ValueError:  # it has fewer names of the functions around it
        return False
    return True


def _nested(changed: Iterable[tuple[CodeType, CodeType]]) -> Iterator[tuple[CodeType, CodeType]]:
    """Return the old and the new code of the changed functions within functions."""
    for old, new in changed:
        codes = zip(_codes_in(old), _codes_in(new), strict=True)
        inner = [(before, after) for before, after in codes if before != after]
        yield from inner
        yield from _nested(inner)


def _codes_in(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


_Path = tuple[tuple[str, ...], int]
"""The names of a function and the classes around it, and its line."""


def _functions(code: CodeType, names: tuple[str, ...] = ()) -> Iterator[tuple[_Path, CodeType]]:
    """Return the code of a module's functions and methods."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            inner = (*names, each.co_name)
            if each.co_flags & _OPTIMIZED:
                yield (inner, each.co_firstlineno), each
            else:
                yield from _functions(each, inner)


def _functions_in(value: object) -> Iterator[FunctionType]:
    """Return the functions that a decorator may have wrapped."""
    if isinstance(value, FunctionType):
        yield value
    for name in ("fget", "fset", "fdel", "func", "__func__", "__wrapped__"):
        inner = getattr(value, name, None)
        if inner is not None:
            yield from _functions_in(inner)
