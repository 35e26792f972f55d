"""What a gateway does with a fault of its own."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support.gateway.calls import CANARY, POSTS, assert_refused, called, every_dialect, opened
from support.gateway.servers import served
from support.gateway.upstreams import Records
from support.http.scripted_upstream import ScriptedUpstream

from streamnorm import Failed
from streamnorm.gateway import messages

pytestmark = pytest.mark.anyio


@every_dialect
async def test_fault_of_the_gateway_is_an_error_and_no_client_that_left(
    client: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_arguments: Any, **_options: Any) -> None:
        raise ValueError(CANARY)

    monkeypatch.setattr(messages, "Attempts", fail)
    records = Records()
    target, body = POSTS[client]
    async with opened(observers=(records,)) as app:
        with caplog.at_level(logging.INFO, "streamnorm"):
            caller = await called(app, target, body)
    assert assert_refused(caller, 500, client) == "a fault of the gateway"
    assert isinstance(records.ended[0].outcome, Failed)
    assert "fault of the gateway: ValueError at " in caplog.text
    assert CANARY not in caplog.text


async def test_answer_that_a_fault_ends_is_not_answered_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_arguments: Any, **_options: Any) -> None:
        raise ValueError(CANARY)

    monkeypatch.setattr(messages.ClientStream, "send_body", fail)
    records = Records()
    target, body = POSTS["anthropic"]
    async with served(ScriptedUpstream({})) as url, opened(url, observers=(records,)) as app:
        with pytest.raises(ValueError, match=CANARY):
            await called(app, target, body)
    assert isinstance(records.ended[0].outcome, Failed)
