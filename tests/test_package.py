"""What the package's metadata says of its files and links."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]


def test_licence_and_readme_stand_at_the_top() -> None:
    assert PROJECT["license-files"] == ["LICENSE"]
    readme = PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    assert readme["fragments"] == [{"path": "README.md"}]
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")


def test_source_distribution_names_what_is_there() -> None:
    included = PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"streamnorm", "tests", "recordings", "docs", "README.md", "LICENSE"} == {*included}
    assert all((ROOT / path).exists() for path in included)


def test_wheel_holds_every_file_of_the_package() -> None:
    """Profiles and the parts of the page of `inspect` are data, and read from the package."""
    wheel = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    hook = wheel["hooks"]["custom"]["path"]
    assert wheel == {"packages": ["streamnorm"], "hooks": {"custom": {"path": hook}}}
    assert (ROOT / hook).exists()
    assert [*(ROOT / "streamnorm" / "profiles").glob("*.toml")]
    page = ROOT / "streamnorm" / "inspect" / "html_page"
    assert {path.suffix for path in page.iterdir()} >= {".css", ".html", ".js"}


def test_index_links_to_code_pages_changes_and_issues() -> None:
    assert list(PROJECT["urls"]) == ["Homepage", "Documentation", "Changelog", "Issues"]
    pages = PROJECT["urls"]["Documentation"]
    assert PROJECT["urls"]["Changelog"] == f"{pages}changelog/"
    config = (ROOT / "docs" / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"\nsite_url: {pages}\n" in config
    assert f"\nrepo_url: {PROJECT['urls']['Homepage']}\n" in config


def test_links_of_the_readme_lead_to_this_release_on_an_index() -> None:
    """To the tag of the version: pages and pictures of later ones say other things."""
    readme = PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for rule in readme["substitutions"]:
        assert f"/v{PROJECT['version']}/" in rule["replacement"]
        text = re.sub(rule["pattern"], rule["replacement"], text)
    assert set(re.findall(r"\]\((\w+:)?", text)) == {"https:"}


def test_changelog_begins_with_the_version() -> None:
    text = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
    assert text.startswith(f"# Changelog\n\n## {PROJECT['version']}\n")


def test_generator_of_the_site_is_pinned() -> None:
    pinned = [name for name in PROJECT["optional-dependencies"]["docs"] if "==" in name]
    assert [name.partition("==")[0] for name in pinned] == ["mkdocstrings-python", "zensical"]


def test_readme_names_every_extra() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for extra in PROJECT["optional-dependencies"]:
        assert f"\n| `{extra}` | " in text
