"""The public names, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import streamnorm


@pytest.mark.parametrize("name", streamnorm.__all__)
def test_public_name_is_there(name: str) -> None:
    assert getattr(streamnorm, name) is not None


def test_public_names_are_listed_in_order() -> None:
    assert sorted(streamnorm.__all__) == streamnorm.__all__ == dir(streamnorm)
    assert len(set(streamnorm.__all__)) == len(streamnorm.__all__)


def test_other_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'streamnorm' has no attribute 'klingon'"):
        streamnorm.klingon  # noqa: B018 - the access is the test


def test_importing_loads_nothing_that_does_io() -> None:
    code = "import sys, streamnorm; print(sorted({'anyio', 'asyncio', 'httpx'} & {*sys.modules}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_importing_loads_no_module_of_ours_before_its_names_are_used() -> None:
    code = "import sys, streamnorm; print([m for m in sys.modules if m.startswith('streamnorm.')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_room_is_loaded_when_it_is_used_and_not_before() -> None:
    code = """if True:
        import sys
        from streamnorm import Transcoder
        Transcoder("openai_chat", "anthropic")
        heavy = ("decode", "encode", "check")
        print([m for m in sorted(sys.modules) if "dialects" in m and m.split(".")[-1] in heavy])
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ["streamnorm.dialects.anthropic.encode", "streamnorm.dialects.openai_chat.decode"]
    assert run.stdout == f"{loaded}\n"


@pytest.mark.parametrize("name", ["accumulate", "events", "transcode"])
def test_function_is_there_after_the_module_of_its_name_was_imported(name: str) -> None:
    code = f"import streamnorm.{name}; print(callable(streamnorm.{name}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "True\n"


def test_module_that_is_a_public_name_loads_when_it_is_used() -> None:
    code = "import streamnorm; print(streamnorm.sse.__name__)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "streamnorm.sse\n"
