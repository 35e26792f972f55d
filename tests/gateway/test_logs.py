"""The log: one line a request, and nothing in it that anybody said."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest
from support.gateway.servers import served_gateway

from streamnorm._core.events import Completed, Failed, StreamError, Truncated, Usage
from streamnorm.gateway.observing import CallRecord, JSONFormatter, RequestLog
from streamnorm.testing import FakeProvider, faults

NAME = "streamnorm.gateway"
KEY = "sk-live-0123456789abcdefghijklmnop"
PROMPT = "my secret question"
REQUEST = {
    "model": "claude-x",
    "max_tokens": 9,
    "stream": True,
    "messages": [{"role": "user", "content": PROMPT}],
}


def record(**fields: object) -> CallRecord:
    known = {
        "client": "anthropic",
        "operation": "stream",
        "model": "claude-x",
        "upstream": "local",
        "status": 200,
        "started_at": 1.0,
        "seconds": 2.25,
        "attempts": 1,
    }
    return CallRecord(**{**known, **fields})  # type: ignore[arg-type]


def logged(call: CallRecord, caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    with caplog.at_level(logging.INFO, NAME):
        RequestLog().end(call)
    (line,) = caplog.records
    return line


def test_line_says_what_is_known(caplog: pytest.LogCaptureFixture) -> None:
    call = record(
        first_event_s=0.5,
        outcome=Completed("end_turn", Usage(20, 7, 5, 2, 3)),
        usage=Usage(20, 7, 5, 2, 3),
        losses={"reasoning": 2, "citations": 1},
    )
    line = logged(call, caplog)
    assert line.levelname == "INFO"
    assert line.getMessage() == (
        "client=anthropic operation=stream model=claude-x upstream=local status=200 "
        "outcome=completed attempts=1 first_event_s=0.5 duration_s=2.25 input_tokens=20 "
        "output_tokens=7 cache_read_tokens=5 cache_write_tokens=2 reasoning_tokens=3 "
        "losses=reasoning:2,citations:1"
    )


def test_json_line_has_the_same_fields(caplog: pytest.LogCaptureFixture) -> None:
    usage = Usage(20, 7)
    call = record(outcome=Completed("end_turn", usage), usage=usage, losses={"reasoning": 2})
    text = JSONFormatter().format(logged(call, caplog))
    fields = json.loads(text)
    assert fields.pop("time").endswith("+00:00")
    assert fields == {
        "level": "INFO",
        "client": "anthropic",
        "operation": "stream",
        "model": "claude-x",
        "upstream": "local",
        "status": 200,
        "outcome": "completed",
        "attempts": 1,
        "duration_s": 2.25,
        "input_tokens": 20,
        "output_tokens": 7,
        "losses": {"reasoning": 2},
    }
    assert "\n" not in text


def test_failure_is_a_warning_with_kind_and_code_but_not_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = StreamError("upstream", f"you said: {PROMPT}", "context_length_exceeded", 400)
    line = logged(record(outcome=Failed(error), status=400), caplog)
    assert line.levelname == "WARNING"
    assert "outcome=failed error=upstream code=context_length_exceeded" in line.getMessage()
    assert PROMPT not in JSONFormatter().format(line)


def test_reason_stands_behind_the_kind_of_error(caplog: pytest.LogCaptureFixture) -> None:
    error = StreamError("transport", "the text")
    call = record(outcome=Truncated(error), status=502, reason="refused")
    line = logged(call, caplog)
    assert "outcome=failed error=transport reason=refused attempts=1" in line.getMessage()
    assert json.loads(JSONFormatter().format(line))["reason"] == "refused"


@pytest.mark.parametrize("code", [KEY, PROMPT, "a" * 65, "", None, "x\ny", "é"])
def test_code_that_is_no_plain_word_is_left_out(
    code: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    line = logged(record(outcome=Failed(StreamError("upstream", "no", code))), caplog)
    assert "code=" not in line.getMessage()


def test_refusal_names_no_kind_of_error_of_an_upstream(caplog: pytest.LogCaptureFixture) -> None:
    error = StreamError("upstream", "no", "model_not_found", 404)
    line = logged(record(outcome=Failed(error), status=404, upstream="", attempts=0), caplog)
    assert line.levelname == "INFO"
    assert "status=404 outcome=refused code=model_not_found attempts=0 " in line.getMessage()


def test_path_of_a_refused_route_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    error = StreamError("upstream", "no", "unknown_url", 404)
    call = record(outcome=Failed(error), status=404, upstream="", operation="", path="/v1/*")
    line = logged(call, caplog)
    assert "status=404 outcome=refused code=unknown_url path=/v1/* attempts=" in line.getMessage()
    assert json.loads(JSONFormatter().format(line))["path"] == "/v1/*"


@pytest.mark.anyio
async def test_path_of_an_endpoint_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, NAME)
    async with (
        served_gateway(FakeProvider([]).app()) as gateway,
        httpx.AsyncClient() as client,
    ):
        await client.put(f"{gateway.url}/v1/messages")
        await client.post(f"{gateway.url}/v1/messages", json={})
    put, post = [one.getMessage() for one in caplog.records if one.name == NAME]
    assert "status=405 outcome=refused path=/v1/messages " in put
    assert "path=" not in post


def test_model_cannot_begin_another_line(caplog: pytest.LogCaptureFixture) -> None:
    line = logged(record(model='x" status=200\nclient=' + "é" * 200), caplog)
    assert r'model="x\" status=200\nclient=\u00e9' in line.getMessage()
    assert line.getMessage().isprintable()
    assert line.getMessage().count(r"\u00e9") == 128 - len('x" status=200\nclient=')


def test_other_records_have_a_message_and_no_text_of_an_exception() -> None:
    try:
        raise ValueError(KEY)
    except ValueError as exc:
        info = type(exc), exc, exc.__traceback__
    line = logging.LogRecord("x", logging.ERROR, "f", 1, "a %s\nb", ("c",), info)
    fields = json.loads(JSONFormatter().format(line))
    assert fields.pop("time")
    assert fields == {"level": "ERROR", "message": "a c\nb", "exception": "ValueError"}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (None, "status=200 outcome=completed attempts=1"),
        (
            faults.cut(event=3),
            "status=200 outcome=truncated error=transport reason=reset attempts=1",
        ),
        (faults.truncate(event=3), "status=200 outcome=truncated error=truncated attempts=1"),
        (faults.http(529), "status=529 outcome=failed error=upstream"),
    ],
)
async def test_request_through_a_gateway_is_one_line_without_secrets(
    fault: faults.Fault | None, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    provider = FakeProvider("It snows today.", faults=[] if fault is None else [fault])
    caplog.set_level(logging.INFO, NAME)
    async with (
        served_gateway(provider.app(), options={"key": "client"}) as gateway,
        httpx.AsyncClient() as client,
    ):
        url = f"{gateway.url}/v1/messages?beta=url-secret"
        await client.post(url, json=REQUEST, headers={"x-api-key": KEY})
    (line,) = [one.getMessage() for one in caplog.records if one.name == NAME]
    assert line.startswith("client=anthropic operation=stream model=claude-x upstream=local ")
    assert expected in line
    assert "duration_s=" in line
    for secret in (KEY, PROMPT, "snows", "url-secret", "127.0.0.1", "localhost"):
        assert secret not in line


@pytest.mark.anyio
async def test_request_of_a_client_that_leaves_has_the_tokens_so_far(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A provider of Anthropic's says the input first, and then never ends."""
    provider = FakeProvider("It snows today.", faults=[faults.stall(event=3)])
    caplog.set_level(logging.INFO, NAME)
    async with (
        served_gateway(provider.app(), "anthropic") as gateway,
        httpx.AsyncClient() as client,
    ):
        url = f"{gateway.url}/v1/messages"
        async with client.stream("POST", url, json=REQUEST) as response:
            await anext(response.aiter_bytes())
    (line,) = [one.getMessage() for one in caplog.records if one.name == NAME]
    assert "outcome=abandoned" in line
    assert "input_tokens=" in line


@pytest.mark.anyio
async def test_request_of_a_client_that_leaves_early_names_who_was_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    arrived = asyncio.Event()

    async def silent(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            arrived.set()
            while (await receive())["type"] != "http.disconnect":
                pass

    caplog.set_level(logging.INFO, NAME)
    async with served_gateway(silent) as gateway, httpx.AsyncClient() as client:
        request = client.post(f"{gateway.url}/v1/messages", json=REQUEST)
        task = asyncio.create_task(request)
        await arrived.wait()
        task.cancel()
    (line,) = [one.getMessage() for one in caplog.records if one.name == NAME]
    assert "upstream=local status=0 outcome=abandoned attempts=1 " in line


@pytest.mark.anyio
async def test_answer_that_is_drained_is_logged_to_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider = FakeProvider("It snows today.", faults=[faults.stall(s=0.05, event=3)])
    caplog.set_level(logging.INFO, NAME)
    async with (
        served_gateway(provider.app(), on_disconnect="drain") as gateway,
        httpx.AsyncClient() as client,
    ):
        url = f"{gateway.url}/v1/messages"
        async with client.stream("POST", url, json=REQUEST) as response:
            await anext(response.aiter_bytes())
    (line,) = [one.getMessage() for one in caplog.records if one.name == NAME]
    assert "outcome=completed" in line
    assert "output_tokens=" in line
