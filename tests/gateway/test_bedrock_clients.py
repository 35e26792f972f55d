"""Clients of Amazon Bedrock's InvokeModel in front of the gateway."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from support.bedrock.chunks import EVENTS, chunk, exception, invoked, sse_of
from support.gateway.calls import JSON, NOWHERE, body_of, called, opened
from support.gateway.servers import SERVERS, ServerName, served
from support.gateway.upstreams import ABORT, StepUpstream
from support.http.raw_http import RawUpstream, raw_upstream
from support.openai_chat.chunks import DONE, content

from streamnorm.gateway import UpstreamConfig

pytestmark = pytest.mark.anyio

BODY: dict[str, Any] = {
    "anthropic_version": "bedrock-2023-05-31",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Snow?"}],
}
STREAM, INVOKE = "invoke-with-response-stream", "invoke"
CHAT_STREAM = b"".join([content("It "), content("snows.", "stop"), DONE])
MESSAGE = {
    **EVENTS[0]["message"],
    "content": [{"type": "text", "text": "It snows."}],
    "stop_reason": "end_turn",
}
EVENT_STREAM = "application/vnd.amazon.eventstream"


def http(
    body: bytes, kind: str = "text/event-stream", status: str = "200 OK", **more: str
) -> bytes:
    fields = {"content-type": kind, "content-length": str(len(body)), "connection": "close", **more}
    lines = [
        f"HTTP/1.1 {status}",
        *(f"{name.replace('_', '-')}: {v}" for name, v in fields.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def ask(
    answer: bytes,
    operation: str,
    body: object = BODY,
    *,
    dialect: str = "openai_chat",
    model: str = "claude-x",
    headers: tuple[tuple[str, str], ...] = JSON,
    **options: Any,
) -> tuple[Any, RawUpstream]:
    """Return the answer of a gateway to a client of Bedrock, and the upstream that it asked."""
    target = f"/model/{model}/{operation}"
    with raw_upstream(answer) as upstream:
        config = UpstreamConfig(dialect=dialect, base_url=upstream.url, **options)
        async with opened({"local": config}) as app:
            caller = await called(app, target, body, headers=headers, path=unquote(target))
    return caller, upstream


def bedrock(answer: bytes, operation: str, body: object = BODY, **options: Any) -> Any:
    settings = {"dialect": "anthropic", "framing": "invoke_chunks", **options}
    return ask(answer, operation, body, **settings)


async def test_stream_of_another_dialect_comes_in_chunks() -> None:
    caller, upstream = await ask(http(CHAT_STREAM), STREAM, model="us.claude-x-v1%3A0")
    assert (caller.status, caller.headers["content-type"]) == (200, EVENT_STREAM)
    assert caller.headers["x-amzn-bedrock-content-type"] == "application/json"
    assert caller.headers["x-amzn-requestid"]
    read = invoked(b"".join(caller.bodies))
    assert [event["type"] for event in read.events] == [event["type"] for event in EVENTS[:3]] + [
        "content_block_delta",
        *(event["type"] for event in EVENTS[3:]),
    ]
    assert "amazon-bedrock-invocationMetrics" in read.events[-1]
    sent = json.loads(upstream.requests[0][1])
    assert (sent["model"], sent["stream"]) == ("us.claude-x-v1:0", True)
    assert "anthropic_version" not in sent


async def test_path_alone_decides_about_streaming() -> None:
    answer = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "It snows."},
                "finish_reason": "stop",
            }
        ],
    }
    data = http(json.dumps(answer).encode(), "application/json")
    caller, upstream = await ask(data, INVOKE, {**BODY, "stream": True, "model": "other"})
    assert body_of(caller)["content"] == [{"type": "text", "text": "It snows."}]
    assert caller.headers["content-type"] == "application/json"
    assert caller.headers["x-amzn-requestid"]
    sent = json.loads(upstream.requests[0][1])
    assert (sent["model"], sent.get("stream")) == ("claude-x", None)


ARN = "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.claude-x"


@pytest.mark.parametrize(
    ("spelt", "model"),
    [
        ("arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Feu.claude-x", ARN),
        ("arn:aws:bedrock:eu-west-1:1:inference-profile%2Feu.claude-x", ARN),
        (ARN, ARN),
        ("a%252Fb", "a%2Fb"),
        ("a;b%2F%2Fc", "a;b//c"),
        ("x%2Finvoke", "x/invoke"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "/bedrock", "/a/b"])
async def test_name_of_the_model_is_decoded_once(prefix: str, spelt: str, model: str) -> None:
    target = f"{prefix}/model/{spelt}/{STREAM}"
    with raw_upstream(http(CHAT_STREAM)) as upstream:
        async with opened(upstream.url) as app:
            caller = await called(app, target, BODY, path=unquote(target))
    assert caller.status == 200
    assert json.loads(upstream.requests[0][1])["model"] == model


async def test_path_of_a_server_that_does_not_spell_it() -> None:
    with raw_upstream(http(CHAT_STREAM)) as upstream:
        async with opened(upstream.url) as app:
            await called(app, f"/model/{ARN}/{STREAM}", BODY, raw_path=None)
    assert json.loads(upstream.requests[0][1])["model"] == ARN


async def test_upstream_of_the_vendor_gets_the_vendors_form() -> None:
    beta = ["interleaved-thinking-2025-05-14", "other-2026-01-01"]
    body = {**BODY, "anthropic_beta": beta, "thread_of_mine": 1}
    caller, upstream = await ask(http(sse_of(EVENTS)), STREAM, body, dialect="anthropic")
    assert invoked(b"".join(caller.bodies)).events[1:4] == [*EVENTS[1:4]]
    ((head, data),) = upstream.requests
    assert head[0] == b"POST /v1/messages HTTP/1.1"
    lines = {line.lower() for line in head}
    assert b"anthropic-version: 2023-06-01" in lines
    assert b"anthropic-beta: interleaved-thinking-2025-05-14,other-2026-01-01" in lines
    rest = {name: body[name] for name in ("max_tokens", "messages", "thread_of_mine")}
    assert json.loads(data) == {"model": "claude-x", "stream": True, **rest}


async def test_version_of_the_vendor_is_kept() -> None:
    body = {**BODY, "anthropic_version": "2026-10-21"}
    _, upstream = await ask(http(sse_of(EVENTS)), STREAM, body, dialect="anthropic")
    head, _ = upstream.requests[0]
    assert b"anthropic-version: 2026-10-21" in {line.lower() for line in head}


async def test_bedrock_itself_gets_and_answers_the_same_bytes() -> None:
    data = json.dumps({**BODY, "anthropic_beta": ["new-2027-01-01"], "new_field": 1}, indent=1)
    stream = b"".join(map(chunk, EVENTS))
    headers = (
        *JSON,
        ("x-amzn-bedrock-trace", "ENABLED"),
        ("x-amzn-trace-id", "Root=1"),
        ("amz-sdk-request", "attempt=1"),
    )
    answer = http(
        stream, EVENT_STREAM, x_amzn_RequestId="r-1", x_amzn_bedrock_service_tier="default"
    )
    caller, upstream = await bedrock(
        answer, STREAM, data.encode(), headers=headers, model="arn%3Ax%2Fclaude"
    )
    assert b"".join(caller.bodies) == stream
    assert caller.headers["x-amzn-requestid"] == "r-1"
    assert caller.headers["x-amzn-bedrock-service-tier"] == "default"
    ((head, sent),) = upstream.requests
    assert sent == data.encode()
    assert upstream.targets == [b"/model/arn:x%2Fclaude/invoke-with-response-stream"]
    names = {line.partition(b":")[0].lower() for line in head[1:]}
    assert b"x-amzn-bedrock-trace" in names
    assert names.isdisjoint({b"x-amzn-trace-id", b"amz-sdk-request"})


async def test_request_that_is_translated_for_bedrock_itself() -> None:
    with raw_upstream(http(b"".join(map(chunk, EVENTS)), EVENT_STREAM)) as upstream:
        config = UpstreamConfig(
            dialect="anthropic", base_url=upstream.url, framing="invoke_chunks", normalize=True
        )
        async with opened({"local": config}) as app:
            caller = await called(app, f"/model/claude-x/{STREAM}", BODY)
    assert invoked(b"".join(caller.bodies)).events[1:4] == [*EVENTS[1:4]]
    assert json.loads(upstream.requests[0][1]) == BODY
    assert upstream.targets == [f"/model/claude-x/{STREAM}".encode()]


@pytest.mark.parametrize(
    ("status", "kind", "shown"),
    [
        ("400 Bad Request", "ValidationException", 400),
        ("403 Forbidden", "AccessDeniedException", 403),
        ("404 Not Found", "ResourceNotFoundException", 404),
        ("429 Too Many Requests", "ThrottlingException", 429),
        ("500 Internal Server Error", "InternalServerException", 500),
        ("503 Service Unavailable", "ServiceUnavailableException", 503),
        ("529 Overloaded", "ThrottlingException", 429),
    ],
)
async def test_error_has_the_type_and_the_form_of_the_cloud(
    status: str, kind: str, shown: int
) -> None:
    refused = http(b'{"error":{"message":"Slow.","type":"x"}}', "application/json", status)
    caller, _ = await ask(refused, STREAM)
    assert (caller.status, body_of(caller)) == (shown, {"message": "Slow."})
    assert caller.headers["x-amzn-errortype"] == kind
    assert caller.headers["content-type"] == "application/json"
    assert caller.headers["x-amzn-requestid"]


async def test_error_of_bedrock_itself_passes() -> None:
    refused = http(
        b'{"message":"Wait for it."}',
        "application/json",
        "429 Too Many Requests",
        x_amzn_ErrorType="ModelNotReadyException:http://internal",
    )
    caller, _ = await bedrock(refused, STREAM)
    assert (caller.status, body_of(caller)) == (429, {"message": "Wait for it."})
    assert caller.headers["x-amzn-errortype"] == "ModelNotReadyException:http://internal"


async def test_exception_before_the_first_event_is_a_status() -> None:
    data = exception("modelStreamErrorException", message="It broke.")
    caller, _ = await bedrock(http(data, EVENT_STREAM), STREAM)
    assert (caller.status, body_of(caller)) == (424, {"message": "It broke."})
    assert caller.headers["x-amzn-errortype"] == "ModelStreamErrorException"


async def test_prompt_that_is_too_long_has_the_words_of_the_dialect() -> None:
    error = {"message": "too long", "code": "context_length_exceeded", "type": "invalid"}
    refused = http(json.dumps({"error": error}).encode(), "application/json", "400 Bad Request")
    caller, _ = await ask(refused, STREAM)
    assert body_of(caller)["message"].startswith("prompt is too long")
    assert caller.headers["x-amzn-errortype"] == "ValidationException"


@pytest.mark.parametrize("steps", [[content("It ")], [content("It "), ABORT]])
async def test_cut_ends_in_an_exception(steps: list[Any]) -> None:
    """botocore takes the end of the bytes for success."""
    async with served(StepUpstream(steps)) as url, opened(url) as app:
        caller = await called(app, f"/model/m/{STREAM}", BODY)
    read = invoked(b"".join(caller.bodies))
    assert [kind for kind, _ in read.exceptions] == ["modelStreamErrorException"]
    assert read.events[-1]["type"] != "message_stop"


async def test_nothing_but_messages_is_sent_while_the_model_thinks() -> None:
    steps = [content("It "), 0.2, content("snows.", "stop"), DONE]
    async with (
        served(StepUpstream([0.2, *steps])) as url,
        opened(url, keepalive_s=0.02, commit_after_s=0.01) as app,
    ):
        caller = await called(app, f"/model/m/{STREAM}", BODY)
    data = b"".join(caller.bodies)
    assert b"".join(map(chunk_again, messages_of(data))) == data
    assert invoked(data).events[-1]["type"] == "message_stop"


def messages_of(data: bytes) -> list[bytes]:
    """Return the messages of a stream, by their lengths."""
    found = []
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(data[:size])
        data = data[size:]
    return found


def chunk_again(message: bytes) -> bytes:
    assert len(invoked(message).events) == 1
    return message


async def test_fallback_goes_on_while_nothing_is_sent() -> None:
    failed = http(b"{}", "application/json", "500 Internal Server Error")
    with raw_upstream(failed) as first, raw_upstream(http(CHAT_STREAM)) as second:
        upstreams = {
            name: UpstreamConfig(dialect="openai_chat", base_url=upstream.url)
            for name, upstream in {"a": first, "b": second}.items()
        }
        models = [{"match": "*", "to": ["a", "b"]}]
        async with opened(upstreams, models=models, commit_after_s=0.0, keepalive_s=0.01) as app:
            caller = await called(app, f"/model/m/{STREAM}", BODY)
    assert caller.status == 200


@pytest.mark.parametrize(
    ("target", "status", "kind"),
    [
        ("/model/m/other", 404, None),
        ("/model/../m/invoke", 404, "ResourceNotFoundException"),
        ("/model/%2E%2E/invoke", 404, "ResourceNotFoundException"),
        ("/model//invoke", 404, None),
    ],
)
async def test_path_that_the_gateway_does_not_have(
    target: str, status: int, kind: str | None
) -> None:
    async with opened(NOWHERE) as app:
        caller = await called(app, target, BODY, path=unquote(target))
    assert caller.status == status
    assert caller.headers.get("x-amzn-errortype") == kind


async def test_other_method_is_refused() -> None:
    async with opened(NOWHERE) as app:
        caller = await called(app, "/model/m/invoke", method="GET")
    assert (caller.status, caller.headers["allow"]) == (405, "POST")
    assert caller.headers["x-amzn-errortype"] == "ValidationException"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({**BODY, "anthropic_beta": ["a\r\nx: y"]}, "anthropic_beta"),
        ({**BODY, "anthropic_beta": "a"}, "anthropic_beta"),
        ({**BODY, "anthropic_version": 1}, "anthropic_version"),
        (b"{", "JSON"),
        ({"anthropic_version": "x"}, "messages"),
    ],
)
async def test_body_that_is_no_request_is_refused(body: object, message: str) -> None:
    async with opened(NOWHERE, dialect="anthropic") as app:
        caller = await called(app, "/model/m/invoke", body)
    assert caller.status == 400
    assert list(body_of(caller)) == ["message"]
    assert message in body_of(caller)["message"]


async def test_path_that_repeats_itself_takes_no_time() -> None:
    """A pattern that tried each `/model/` would take minutes."""
    target = "/model/" * 9000
    async with opened(NOWHERE) as app, asyncio.timeout(5):
        caller = await called(app, target, BODY)
    assert caller.status == 404


@pytest.mark.parametrize("server", SERVERS)
async def test_real_servers_spell_the_path(server: ServerName) -> None:
    async with (
        served(StepUpstream([content("It "), content("snows.", "stop"), DONE])) as url,
        opened(url) as app,
        served(app, server) as gateway,
        httpx.AsyncClient() as client,
    ):
        answer = await client.post(f"{gateway}/model/arn%3Ax%2Fy/{STREAM}", json=BODY)
    assert answer.status_code == 200
    assert invoked(answer.content).events[-1]["type"] == "message_stop"
