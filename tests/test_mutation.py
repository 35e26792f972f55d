"""Mutation testing: areas, the tests of a mutant, and functions that get their new code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOL = Path(__file__).with_name("mutation")
sys.path.insert(0, str(TOOL))
try:
    from areas import modules_by_area
    from collected_tests import replace_code
    from covering import Chosen, Covering
finally:
    sys.path.remove(str(TOOL))

SOURCE = """
from contextlib import contextmanager
from functools import cached_property
LIMIT = 3

def is_small(number):
    return number < LIMIT

class Box:
    size = 2

    class Lid:
        def opens(self):
            return 1

    @property
    def width(self):
        return 4

    @width.setter
    def width(self, value):
        self.set = value + 5

    @classmethod
    def of(cls):
        return 6

    @staticmethod
    def empty():
        return 7

    @cached_property
    def depth(self):
        return 8

    @contextmanager
    def held(self):
        yield 9

def make():
    number = 10
    def inner():
        return number if number else 11
    return inner

def with_default(number=12):
    return number
"""


def module_of(source: str) -> Any:
    module = ModuleType("changed")
    module.__file__ = "changed.py"
    exec(compile(source, "changed.py", "exec", dont_inherit=True), vars(module))  # noqa: S102 - the source above
    return module


def changed(before: str, after: str) -> tuple[bool, Any]:
    module = module_of(SOURCE)
    return replace_code(module, SOURCE, SOURCE.replace(before, after)), module


def test_functions() -> None:
    is_changed, module = changed("number < LIMIT", "number > LIMIT")
    assert is_changed
    assert module.is_small(4)


def test_methods_of_all_kinds() -> None:
    assert changed("return 1\n", "return 21\n")[1].Box.Lid().opens() == 21
    assert changed("return 4", "return 24")[1].Box().width == 24
    assert changed("return 6", "return 26")[1].Box.of() == 26
    assert changed("return 7", "return 27")[1].Box.empty() == 27
    assert changed("return 8", "return 28")[1].Box().depth == 28
    with changed("yield 9", "yield 29")[1].Box().held() as held:
        assert held == 29
    box = changed("value + 5", "value - 5")[1].Box()
    box.width = 1
    assert box.set == -4


def test_functions_in_functions() -> None:
    is_changed, module = changed("number = 10", "number = 20")
    assert is_changed
    assert module.make()() == 20


def test_functions_that_a_function_has_returned_before() -> None:
    module = module_of(SOURCE)
    made = module.make()
    assert replace_code(module, SOURCE, SOURCE.replace("number if", "-number if"))
    assert (made(), module.make()()) == (-10, -10)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("LIMIT = 3", "LIMIT = 4"), id="constant of a module"),
        pytest.param(("size = 2", "size = 3"), id="field of a class"),
        pytest.param(("number=12", "number=13"), id="default of an argument"),
        pytest.param(("LIMIT = 3\n", "LIMIT = 3\n\n"), id="other lines"),
    ],
)
def test_what_must_be_imported_anew(change: tuple[str, str]) -> None:
    is_changed, module = changed(*change)
    assert not is_changed
    assert module.with_default() == 12


# Whether a test fails, and None if the mutant must be imported; the last but one never ends, and
# the last changes nothing.
ASKED = """
from pathlib import Path
from collected_tests import CollectedTests, Question

source = Path("changed.py").read_text()
tests = CollectedTests(Path(), ["test_it.py"])
for functions, before, after in [
    (["test_other", "test_small"], "number < LIMIT", "number > LIMIT"),
    (["test_other"], "number < LIMIT", "number > LIMIT"),
    (["test_other", "test_small"], "number < LIMIT", "number <= LIMIT"),
    (["test_small"], "LIMIT = 3", "LIMIT = 0"),
    (["test_small"], "number < LIMIT", "[0 for _ in iter(int, 1)]"),
    (["test_other", "test_small"], "", ""),
]:
    names = [f"test_it.py::{name}" for name in functions]
    question = Question("changed", source, source.replace(before, after), names, max_cpu_s=1)
    print(tests.fails(question))
"""


def test_tests_of_a_copy(tmp_path: Path) -> None:
    (tmp_path / "changed.py").write_text(SOURCE)
    (tmp_path / "test_it.py").write_text(
        "import changed\n"
        "def test_small():\n    assert changed.is_small(1)\n"
        "def test_other():\n    assert changed.make()() == 10\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", ASKED],
        cwd=tmp_path,
        env={"PYTHONPATH": str(TOOL)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert run.stdout.split() == ["True", "False", "False", "None", "True", "False"]


def test_each_module_has_an_area() -> None:
    assert modules_by_area()[""] == []


def test_quick_tests_of_a_mutant() -> None:
    seconds = {"tests/a.py::one": 1.0, "tests/b.py::two": 2.0, "tests/b.py::three": 8.0}
    covering = Covering({}, seconds, ["tests/a.py::untraced"])
    files, first = ["tests/a.py", "tests/b.py"], ["tests/b.py"]

    def within(functions: list[str], *, serves_all: bool, max_s: float) -> tuple[list[str], float]:
        chosen = Chosen(functions, 99.0, serves_all)
        kept = covering.within(chosen, files, first, max_s)
        assert kept.serves_all == serves_all
        return [name.partition("::")[2] for name in kept.functions], kept.seconds

    one, two, three = seconds
    some = [two, one, "tests/a.py::untraced"]
    assert within(some, serves_all=False, max_s=9) == (["two", "one"], 3.0)
    assert within(some, serves_all=False, max_s=2) == (["two"], 2.0)
    assert within([three, two], serves_all=False, max_s=9) == (["two", "three"], 10.0)
    assert within([one], serves_all=True, max_s=3) == (["one", "two"], 3.0)
    assert within([one], serves_all=True, max_s=4) == (["one", "two", "three"], 11.0)
    assert within([three], serves_all=False, max_s=1) == (["three"], 8.0)
