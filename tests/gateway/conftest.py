"""The gateway runs on asyncio alone, and stores state in three ways."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.state.valkey_servers import valkey_url as valkey_url


@pytest.fixture
def anyio_backend() -> str:
    """Run each async test on asyncio."""
    return "asyncio"


@pytest.fixture(params=["memory", "sqlite", "redis"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the `state` of a configuration, of each kind of store."""
    match request.param:
        case "memory":
            return "memory:"
        case "sqlite":
            return f"sqlite:{tmp_path / 'state.db'}"
        case _:
            url: str = request.getfixturevalue("valkey_url")
            return url
