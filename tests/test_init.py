"""The public names, and what importing them costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from inspect import getsource, ismodule
from pkgutil import iter_modules

import pytest
from support.public_modules import MODULES

import streamnorm
from streamnorm import _public


@pytest.mark.parametrize("name", streamnorm.__all__)
def test_public_name_is_there(name: str) -> None:
    assert getattr(streamnorm, name) is not None


def test_public_names_are_listed_in_order_and_once() -> None:
    assert sorted({*streamnorm.__all__}) == streamnorm.__all__
    assert len(_public.__all__) == len(streamnorm.__all__)


def test_public_names_and_modules_are_suggested() -> None:
    modules = [name for name in dir(streamnorm) if ismodule(getattr(streamnorm, name))]
    assert sorted([*streamnorm.__all__, *modules]) == dir(streamnorm)
    assert {f"streamnorm.{name}" for name in modules} < {*MODULES}


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'streamnorm' has no attribute 'klingon'"):
        streamnorm.klingon  # noqa: B018 - the access is the test


def test_importing_loads_nothing_that_does_io() -> None:
    code = "import sys, streamnorm; print(sorted({'anyio', 'asyncio', 'httpx'} & {*sys.modules}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_importing_the_package_loads_no_submodule() -> None:
    code = "import sys, streamnorm; print([m for m in sys.modules if m.startswith('streamnorm.')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_dialect_is_imported_on_first_use() -> None:
    code = """if True:
        import sys
        from streamnorm import Transcoder
        Transcoder("openai_chat", "anthropic")
        heavy = ("decode", "encode", "check", "validate")
        print([m for m in sorted(sys.modules) if "dialects" in m and m.split(".")[-1] in heavy])
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ["streamnorm.dialects.anthropic.encode", "streamnorm.dialects.openai_chat.decode"]
    assert run.stdout == f"{loaded}\n"


def test_server_loads_a_dialect_before_its_first_use() -> None:
    code = """if True:
        import sys
        from streamnorm import Transcoder, decode_request
        from streamnorm._registry import DIALECTS
        for dialect in DIALECTS.values():
            dialect.load()
        before = {*sys.modules}
        for dialect in DIALECTS.values():
            Transcoder(dialect.name, "openai_chat")
        decode_request({"model": "m", "max_tokens": 9, "messages": []}, "anthropic")
        print([m for m in sorted({*sys.modules} - before) if "dialects" in m])
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_no_module_has_the_name_of_a_public_function() -> None:
    modules = {module.name for module in iter_modules(streamnorm.__path__)}
    assert not modules & {*streamnorm.__all__}


def test_version_is_that_of_the_distribution_and_read_on_demand() -> None:
    assert streamnorm.__version__ == version("streamnorm")
    code = "import sys, streamnorm; print('importlib.metadata' in sys.modules)"
    command = [sys.executable, "-S", "-c", code]  # site may load it for editable installations
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


@pytest.mark.parametrize("name", streamnorm.__all__)
def test_type_checkers_find_the_value_of_a_name_in_its_module(name: str) -> None:
    """Of the star imports, the last one with the name decides."""
    (guarded,) = (
        node
        for node in ast.parse(getsource(_public)).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    modules = [str(node.module) for node in guarded.body if isinstance(node, ast.ImportFrom)]
    assert sorted(modules) == sorted({*_public.MODULE_OF.values()})
    found = [getattr(import_module(module), name, None) for module in modules]
    values = [value for value in found if value is not None]
    assert all(value is getattr(streamnorm, name) for value in values)


def test_public_module_loads_when_it_is_used() -> None:
    code = "import streamnorm; print(streamnorm.sse.__name__)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "streamnorm.sse\n"


def test_no_name_is_public_in_two_modules() -> None:
    names = [name for module in MODULES[:-1] for name in import_module(module).__all__]
    assert sorted({*names}) == sorted(names)
