"""Checks of a wheel and a source distribution: their files, and the links an index would show."""

from __future__ import annotations

import hashlib
import re
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

__all__ = ["relative_links", "sdist_differences", "sha256", "wheel_differences"]

_KERNEL = "streamnorm/_core/codec/_kernel.abi3.so"
_METADATA = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
# hatchling adds them to each source distribution.
_ADDED_TO_SDIST = {".gitignore", "PKG-INFO", "pyproject.toml"}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def wheel_differences(wheel: Path, committed: Iterable[str]) -> list[str]:
    """Return what a wheel lacks of the package, and what it holds besides.

    Args:
        committed: Paths of all files of the commit.
    """
    name, version, *_ = wheel.name.split("-")
    expected = {path for path in committed if path.startswith(f"{name}/")}
    expected |= {f"{name}-{version}.dist-info/{path}" for path in _METADATA}
    # Type checkers ignore the types of a package without it.
    expected.add(f"{name}/py.typed")
    if not wheel.name.endswith("-none-any.whl"):
        expected.add(_KERNEL)
    with zipfile.ZipFile(wheel) as archive:
        found = {entry.filename for entry in archive.infolist() if not entry.is_dir()}
    return _differences(found, expected)


def sdist_differences(sdist: Path, committed: Iterable[str], included: Iterable[str]) -> list[str]:
    """Return what a source distribution lacks, and what it holds besides.

    Args:
        committed: Paths of all files of the commit.
        included: Files and folders that `pyproject.toml` names for it.
    """
    folders = tuple(f"{name}/" for name in included)
    expected = {path for path in committed if path in included or path.startswith(folders)}
    root = sdist.name.removesuffix(".tar.gz") + "/"
    with tarfile.open(sdist) as archive:
        found = {member.name.removeprefix(root) for member in archive if not member.isdir()}
    return _differences(found, expected | _ADDED_TO_SDIST)


def relative_links(wheel: Path) -> list[str]:
    """Return the links of the description that only a clone can follow."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        description = archive.read(name).decode()
    return re.findall(r"\]\((?!https?:|#)([^)]+)\)", description)


def _differences(found: set[str], expected: set[str]) -> list[str]:
    return [
        *(f"lacks {path}" for path in sorted(expected - found)),
        *(f"holds {path}, which does not belong there" for path in sorted(found - expected)),
    ]
