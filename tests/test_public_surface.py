"""The public surface as a snapshot, so that no change to it goes unseen.

To accept a change: `STREAMNORM_ACCEPT_SURFACE=1 python -m pytest tests/test_public_surface.py`.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from support.public_modules import MODULES

SNAPSHOT = Path(__file__).parent / "data" / "public_surface.txt"


def surface() -> Iterator[str]:
    """Yield a line for each public name of a public module, and for each public member."""
    for name in MODULES:
        module = import_module(name)
        for public in sorted(module.__all__):
            value = getattr(module, public)
            yield f"{name}.{public}{_signature(value)}"
            if inspect.isclass(value):
                members = {**vars(value), **dict.fromkeys(_fields(value))}
                for member in sorted(members):
                    if not member.startswith("_"):
                        yield f"{name}.{public}.{member}{_signature(vars(value).get(member))}"


def _fields(value: type) -> tuple[str, ...]:
    return getattr(value, "__struct_fields__", ())


def _signature(value: object) -> str:
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if not callable(value):
        return ""
    try:
        signature = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    # Where a type is at home, and at which address, is no one's business, and Python's versions
    # do not agree on the former.
    signature = re.sub(r"Limits\(.*?\)", "Limits()", signature)
    return re.sub(r"streamnorm(\.\w+)*\.|typing\.| at 0x[0-9a-f]+", "", signature)


def test_public_surface_is_the_one_that_was_accepted() -> None:
    found = "".join(f"{line}\n" for line in surface())
    if os.environ.get("STREAMNORM_ACCEPT_SURFACE"):
        SNAPSHOT.write_text(found)
    assert found == SNAPSHOT.read_text()
