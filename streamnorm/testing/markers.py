"""The options of a test's markers, the path of its recordings and the command that runs it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pytest

__all__ = ["REPLAY_OPTIONS", "MarkerOptions", "marker_options", "pytest_command", "recordings_path"]

REPLAY_OPTIONS = ("match", "drift", "rechunk", "faults", "ignore", "redact", "speed", "max_gap_s")
"""The options of `ReplayTransport`."""

_KEYWORDS = (*REPLAY_OPTIONS, "allow_unplayed")
# Characters of a file name that are not valid on every system, or need quotes in a shell.
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+|\.$")
_MAX_CHARS = 100


class MarkerOptions(NamedTuple):
    """The options of all markers of a test; those nearer to it override others.

    Attributes:
        name: Name of shared recordings; None if the test has its own.
        options: Options of `ReplayTransport`.
        allow_unplayed: Whether the test may leave recordings unplayed.
    """

    name: str | None
    options: Mapping[str, Any]
    allow_unplayed: bool


def marker_options(item: pytest.Item) -> MarkerOptions:
    """Return the options of the markers of a test.

    Raises:
        pytest.UsageError: A marker has other arguments.
    """
    name: str | None = None
    options: dict[str, Any] = {}
    for marker in reversed([*item.iter_markers("streamnorm")]):
        if len(marker.args) > 1:
            raise pytest.UsageError(
                f"marker streamnorm of {item.nodeid} has {len(marker.args)} names, expected one"
            )
        unknown = sorted(marker.kwargs.keys() - set(_KEYWORDS))
        if unknown:
            raise pytest.UsageError(
                f"marker streamnorm of {item.nodeid} has {', '.join(unknown)},"
                f" expected {', '.join(_KEYWORDS)}"
            )
        name = _checked_name(marker.args[0], item) if marker.args else name
        options |= marker.kwargs
    return MarkerOptions(name, options, bool(options.pop("allow_unplayed", False)))


def _checked_name(name: object, item: pytest.Item) -> str:
    """Return a name after checking that it stays within its folder on every system."""
    inside = (
        isinstance(name, str)
        and not re.search(r'[\\:*?"<>|\x00-\x1f]', name)
        and all(part.strip(". ") for part in name.split("/"))
    )
    if not inside:
        raise pytest.UsageError(
            f"marker streamnorm of {item.nodeid} has the name {name!r},"
            ' expected one as "agent" or "agent/two-tools"'
        )
    return str(name)


def recordings_path(item: pytest.Item, name: str | None) -> Path:
    """Return the folder of a test's recordings, or the single file; it need not exist.

    Args:
        item: The test.
        name: Name from its marker; None for a folder of its own.

    Raises:
        pytest.UsageError: The ini option `streamnorm_dir` is no relative path.
    """
    folder = PurePosixPath(item.config.getini("streamnorm_dir"))
    if folder.is_absolute() or Path(folder).is_absolute():
        raise pytest.UsageError(
            f"streamnorm_dir is {str(folder)!r}, expected a path relative to the test module"
        )
    root = item.path.parent / folder
    if name is None:
        return root / _safe(item.path.stem) / _safe(_test_name(item))
    file = root / f"{name}.sse"
    return file if file.is_file() else root / name


def _test_name(item: pytest.Item) -> str:
    """Return the name of a test with its classes and parameters."""
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    call = getattr(item, "callspec", None)
    if call is None:
        return ".".join([*classes, item.name])
    function = item.name.removesuffix(f"[{call.id}]")
    return ".".join([*classes, f"{function}-{call.id}"])


def _safe(name: str) -> str:
    """Return a valid file name that is unique for each name."""
    safe = _UNSAFE.sub("_", name)
    if safe == name and len(safe) <= _MAX_CHARS:
        return name
    digest = blake2b(name.encode("utf-8", "backslashreplace"), digest_size=4).hexdigest()
    return f"{safe[:_MAX_CHARS]}-{digest}"


def pytest_command(item: pytest.Item, mode: str) -> str:
    """Return the command that runs a single test in a recording mode."""
    path = Path(os.path.abspath(item.path))
    inside = item.nodeid.partition("::")[2]
    try:
        file = os.path.relpath(path, item.config.invocation_params.dir)
    except ValueError:  # on another drive
        file = str(path)
    return f"pytest {shlex.quote(f'{file}::{inside}')} --streamnorm-record={mode}"
