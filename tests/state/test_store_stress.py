"""Processes that share a store, and are killed: as `tests/stress/stores.py`, in small."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.state.stores import emptied
from support.state.stress import stress

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_nothing_is_lost_or_mixed(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:{tmp_path / 'state.db'}"
    if kind == "redis":
        url = request.getfixturevalue("valkey_url")
        emptied(url)
    report = stress(url, processes=2, conversations=5, turns=4, kills=4, seed=1)
    assert report.wrong == Counter()
    assert report.stored >= 40
    assert report.killed == 4
