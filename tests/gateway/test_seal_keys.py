"""The key that seals compacted conversations: the same one for all workers of a gateway."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support.bodies.compactions import TRIGGER
from support.gateway.calls import CANARY, asked, opened
from support.gateway.servers import served

from streamnorm.gateway import ConfigError
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

RESPONSES = "/v1/responses"
SAID = {"role": "user", "content": "Snow?"}
OLD, NEW = "o" * 32, "n" * 40


async def compacted(app: Any) -> dict[str, Any]:
    """Return the item of a conversation that was compacted."""
    status, body = await asked(app, RESPONSES, {"model": "m", "input": [SAID, TRIGGER]})
    assert status == 200
    item: dict[str, Any] = body["output"][0]
    return item


async def continued(app: Any, item: dict[str, Any]) -> int:
    """Return the status of a request that goes on from an item."""
    status, _ = await asked(app, RESPONSES, {"model": "m", "input": [SAID, item, SAID]})
    return status


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (NEW, NEW, 200),
        (OLD, f"{NEW},{OLD}", 200),
        (OLD, f" {NEW} , {OLD} ", 200),
        (f"{NEW},{OLD}", NEW, 200),
        (f"{NEW},{OLD}", OLD, 400),
        (OLD, NEW, 400),
        (None, NEW, 400),
        (None, None, 400),  # each has a key of its own
    ],
)
async def test_workers_with_the_same_key_go_on_with_each_other_s_conversations(
    first: str | None, second: str | None, expected: int
) -> None:
    def settings(key: str | None) -> Any:
        return {"seal_key": "env:SEAL", "environ": {"SEAL": key}} if key else {}

    async with served(FakeProvider("1. Task: snow.").app()) as url:
        async with opened(url, **settings(first)) as one:
            item = await compacted(one)
            assert await continued(one, item) == 200
        async with opened(url, **settings(second)) as other:
            assert await continued(other, item) == expected


@pytest.mark.parametrize(
    ("place", "key", "message"),
    [
        ("SEAL", "", "seal_key: no place of a key, expected env: and the name of a variable"),
        (CANARY, "", "seal_key: no place of a key, expected env: and the name of a variable"),
        ("env:OTHER", NEW, "seal_key: OTHER is not set in the environment, expected a key"),
        ("env:SEAL", "", "seal_key: SEAL is empty in the environment, expected a key"),
        ("env:SEAL", CANARY, "seal_key: a key of 11 characters, expected at least 32"),
        ("env:SEAL", f"{NEW},", "seal_key: a key of 0 characters, expected at least 32"),
        ("env:SEAL", f"{NEW},{CANARY}", "seal_key: a key of 11 characters, expected at least 32"),
    ],
)
async def test_wrong_key_is_an_error_of_the_configuration(
    place: str, key: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        async with opened(seal_key=place, environ={"SEAL": key}):
            pass
    assert str(caught.value) == message


async def test_random_key_is_said_once_when_it_first_seals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served(FakeProvider("1. Task: snow.").app()) as url:
        with caplog.at_level(logging.WARNING, "streamnorm"):
            async with opened(url) as app:
                assert caplog.records == []
                await compacted(app)
                await compacted(app)
    assert [record.getMessage() for record in caplog.records] == [
        "no seal_key is configured: a conversation that is compacted here can be continued by "
        "this process alone"
    ]


async def test_configured_key_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    key = f"{CANARY}-{NEW}"
    async with served(FakeProvider("1. Task: snow.").app()) as url:
        with caplog.at_level(logging.DEBUG, "streamnorm"):
            async with opened(url, seal_key="env:SEAL", environ={"SEAL": key}) as app:
                item = await compacted(app)
    assert CANARY not in caplog.text
    assert CANARY not in str(item)
