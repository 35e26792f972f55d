"""The gateway runs on asyncio alone, and stores state in three ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.valkey_servers import valkey_server


@pytest.fixture
def anyio_backend() -> str:
    """Run each async test on asyncio."""
    return "asyncio"


@pytest.fixture(scope="package")
def valkey_url() -> Iterator[str]:
    """Provide the URL of a server of Valkey."""
    with valkey_server() as server:
        yield f"redis://127.0.0.1:{server.port}/0"


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
