"""Nothing of a request chooses where it is sent."""

from __future__ import annotations

import pytest
from support.gateway.calls import JSON, MESSAGES, POSTS, called, every_dialect, opened
from support.gateway.servers import served
from support.http.scripted_upstream import ScriptedUpstream

pytestmark = pytest.mark.anyio

ELSEWHERE = "http://169.254.169.254"
FIELDS = ("base_url", "api_base", "api_key", "url", "host", "proxy", "endpoint")
HEADERS = ("x-forwarded-host", "forwarded", "x-original-url", "x-upstream", "x-base-url")


@every_dialect
async def test_no_field_of_a_request_chooses_its_host(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    upstream = ScriptedUpstream({})
    target, body = POSTS[client]
    headers = [("host", "169.254.169.254"), *JSON[1:], *((name, ELSEWHERE) for name in HEADERS)]
    query = "&".join(f"{name}={ELSEWHERE}" for name in FIELDS)
    # No provider knows the fields.
    async with served(upstream, strict=False) as url, opened(url, dialect=client) as app:
        fields = dict.fromkeys(FIELDS, ELSEWHERE)
        await called(app, f"{target}?{query}", {**body, **fields}, headers=headers)
    (sent,) = upstream.requests
    assert (sent.target, sent.headers["host"]) == (target, url.removeprefix("http://"))
    assert ELSEWHERE not in str(sent.headers)


@pytest.mark.parametrize(
    "model",
    [
        "@169.254.169.254/m",
        "//169.254.169.254/m",
        "http://169.254.169.254/m",
        "..",
        "../../x",
        "%2e%2e/x",
        "\\\\169.254.169.254\\m",
        "m?key=k",
        "m#x",
        "m\r\nhost: 169.254.169.254",
        "m\0",
        "m:x",
        "\ud800",
    ],
)
@pytest.mark.parametrize(
    "dialect",
    ["gemini", "openai_chat", "anthropic", "openai_responses", "gemini_interactions"],
)
async def test_no_name_of_a_model_chooses_the_host(dialect: str, model: str) -> None:
    upstream = ScriptedUpstream({})
    async with served(upstream) as url, opened(url, dialect=dialect) as app:
        caller = await called(app, "/v1/messages", {**MESSAGES, "model": model})
        assert caller.status in (400, 404)
        for sent in upstream.requests:
            assert sent.headers["host"] == url.removeprefix("http://")
            path = sent.target.partition("?")[0]
            assert path.startswith(("/v1/", "/v1beta/models/", "/v1beta/interactions"))
            assert ".." not in path.split("/")
            assert "?" not in sent.target
