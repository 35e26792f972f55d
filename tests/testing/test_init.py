"""The public names of the package, imported on first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import streamnorm.testing


@pytest.mark.parametrize("name", streamnorm.testing.__all__)
def test_public_name_is_there(name: str) -> None:
    assert getattr(streamnorm.testing, name) is not None


def test_public_names_are_listed_in_order() -> None:
    names = streamnorm.testing.__all__
    assert sorted(names) == names == dir(streamnorm.testing)


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'streamnorm.testing' has no attribute 'klingon'"):
        streamnorm.testing.klingon  # noqa: B018 - the access is the test


def test_importing_loads_no_submodule() -> None:
    code = (
        "import sys, streamnorm; before = {*sys.modules}; import streamnorm.testing;"
        "print(sorted({*sys.modules} - before))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "['streamnorm.testing']\n"
