"""Fixtures of the tests of the plugin."""

from __future__ import annotations

import pytest
from support.recording.plugin_project import Project


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project in a folder of its own, outside CI."""
    for name in ("CI", "STREAMNORM_RECORD", "PYTEST_ADDOPTS", "SAYS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return Project(pytester)
