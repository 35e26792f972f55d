"""The key of an upstream in the upstream's own errors."""

from __future__ import annotations

from typing import Any

import pytest
from support.gateway_servers import served
from support.gateway_upstreams import Head, Records, StepUpstream, asked

from streamnorm import StreamError
from streamnorm._upstream.requests import Upstream
from streamnorm.gateway import Config, Gateway, UpstreamConfig
from streamnorm.gateway.scrubbing import scrubbed_body, scrubbed_error

KEY = "sk-1234567890"


def upstream(headers: dict[str, str]) -> Upstream:
    return Upstream(dialect="openai_chat", base_url="https://provider.test/v1", headers=headers)


@pytest.mark.parametrize("headers", [{"authorization": f"Bearer {KEY}"}, {"api-key": KEY}])
def test_key_is_replaced_by_as_many_letters(headers: dict[str, str]) -> None:
    found = scrubbed_body(f'{{"a":"{KEY}","b":"{KEY}."}}'.encode(), upstream(headers))
    assert found == b'{"a":"xxxxxxxxxxxxx","b":"xxxxxxxxxxxxx."}'


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer -"}, {"x-team": KEY}])
def test_what_is_no_key_stays(headers: dict[str, str]) -> None:
    assert scrubbed_body(b"a-b " + KEY.encode(), upstream(headers)) == b"a-b " + KEY.encode()


def test_error_is_changed_in_all_its_fields() -> None:
    known = upstream({"authorization": f"Bearer {KEY}"})
    error = StreamError("upstream", f"no {KEY}", KEY, 401, retryable=False, extra={"a": [KEY]})
    cleared = "x" * len(KEY)
    assert scrubbed_error(error, known) == StreamError(
        "upstream", f"no {cleared}", cleared, 401, retryable=False, extra={"a": [cleared]}
    )
    assert scrubbed_error(plain := StreamError("upstream", "no"), known) is plain


@pytest.mark.anyio
@pytest.mark.parametrize("client", ["anthropic", "openai_chat"])
async def test_client_and_observers_are_not_told_the_key(client: str) -> None:
    refusal: list[Any] = [
        Head(401, {"content-type": "application/json"}),
        b'{"error":{"message":"Incorrect API key: ' + KEY.encode() + b'"}}',
    ]
    records = Records()
    async with served(StepUpstream(refusal)) as url:
        known = UpstreamConfig(dialect="openai_chat", base_url=url, key="env:KEY")
        app = Gateway(Config(upstreams={"a": known}), environ={"KEY": KEY}, observers=(records,))
        async with served(app) as gateway_url:
            response = await asked(gateway_url, client)
    assert response.status_code == 401
    assert "Incorrect API key: xxxxxxxxxxxxx" in response.text
    assert KEY not in repr(records.ended)
