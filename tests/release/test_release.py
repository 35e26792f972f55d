"""What the release command refuses, and what it says of a build."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest
from release.artifacts import relative_links, sdist_differences, sha256, wheel_differences
from release.provenance import NOT_ATTESTED, Build, statement

COMMITTED = ["pkg/__init__.py", "pkg/py.typed", "pkg/data.toml", "tests/test_pkg.py", "README.md"]
METADATA = ["METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"]
IN_WHEEL = [*COMMITTED[:3], *(f"pkg-1.0.dist-info/{name}" for name in METADATA)]
IN_SDIST = [*COMMITTED, "pyproject.toml", "PKG-INFO", ".gitignore"]


def wheel(folder: Path, names: list[str], metadata: str = "") -> Path:
    path = folder / "pkg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, metadata if name.endswith("/METADATA") else "")
    return path


def sdist(folder: Path, names: list[str]) -> Path:
    path = folder / "pkg-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"pkg-1.0/{name}"), io.BytesIO())
    return path


@pytest.mark.parametrize(
    ("names", "differences"),
    [
        (IN_WHEEL, []),
        (
            [*IN_WHEEL, "tests/test_pkg.py"],
            ["holds tests/test_pkg.py, which does not belong there"],
        ),
        ([name for name in IN_WHEEL if name != "pkg/data.toml"], ["lacks pkg/data.toml"]),
        ([name for name in IN_WHEEL if name != "pkg/py.typed"], ["lacks pkg/py.typed"]),
    ],
)
def test_wheel_holds_the_package_alone(
    names: list[str], differences: list[str], tmp_path: Path
) -> None:
    assert wheel_differences(wheel(tmp_path, names), COMMITTED) == differences


def test_type_marker_is_demanded_also_where_no_commit_has_it(tmp_path: Path) -> None:
    committed = [name for name in COMMITTED if name != "pkg/py.typed"]
    names = [name for name in IN_WHEEL if name != "pkg/py.typed"]
    assert wheel_differences(wheel(tmp_path, names), committed) == ["lacks pkg/py.typed"]


@pytest.mark.parametrize(
    ("names", "differences"),
    [
        (IN_SDIST, []),
        ([*IN_SDIST, "notes.txt"], ["holds notes.txt, which does not belong there"]),
        (IN_SDIST[1:], ["lacks pkg/__init__.py"]),
    ],
)
def test_source_distribution_holds_what_the_project_names(
    names: list[str], differences: list[str], tmp_path: Path
) -> None:
    committed = [*COMMITTED, "other/unnamed.py"]
    included = ["pkg", "tests", "README.md"]
    assert sdist_differences(sdist(tmp_path, names), committed, included) == differences


def test_links_that_lead_nowhere_on_an_index_are_found(tmp_path: Path) -> None:
    text = "[a](docs/a.md) ![b](docs/b.png) [c](https://host/c) [d](#there)"
    assert relative_links(wheel(tmp_path, IN_WHEEL, text)) == ["docs/a.md", "docs/b.png"]


def test_provenance_names_commit_builder_tools_and_hashes(tmp_path: Path) -> None:
    path = wheel(tmp_path, IN_WHEEL)
    build = Build(
        repository="https://host/pkg",
        commit="c0ffee",
        epoch=7,
        tools={"hatchling": "1.27"},
        python="3.11.7",
        started="2026-11-28T01:00:00+00:00",
        finished="2026-11-28T01:01:00+00:00",
    )
    whole = json.loads(statement(build, [path]))
    assert whole["_type"] == "https://in-toto.io/Statement/v1"
    assert whole["predicateType"] == "https://slsa.dev/provenance/v1"
    assert whole["subject"] == [{"name": path.name, "digest": {"sha256": sha256(path)}}]
    definition = whole["predicate"]["buildDefinition"]
    assert definition["internalParameters"] == {"SOURCE_DATE_EPOCH": 7, "python": "3.11.7"}
    assert definition["resolvedDependencies"] == [
        {"uri": "git+https://host/pkg", "digest": {"gitCommit": "c0ffee"}},
        {"uri": "pkg:pypi/hatchling@1.27", "name": "hatchling"},
    ]
    run = whole["predicate"]["runDetails"]
    assert run["builder"] == {"id": "https://host/pkg/blob/c0ffee/tests/release/run.py"}
    assert run["metadata"]["startedOn"] == build.started
    assert whole["predicate"]["streamnorm_notAttested"] == [*NOT_ATTESTED]
