"""Requests of odd parts: each gets an answer, whole and in the shape of its client."""

from __future__ import annotations

import json
import random

import pytest
from support.gateway.calls import (
    NOWHERE,
    POSTS,
    assert_refused,
    body_of,
    called,
    opened,
    shape_of,
)
from support.gateway.upstreams import PAGE_REQUESTS
from support.http.asgi_caller import Caller

from streamnorm.gateway import ModelConfig, PageConfig, UpstreamConfig

pytestmark = pytest.mark.anyio

REQUESTS = 150
PATHS = [
    *(path for path, _ in POSTS.values()),
    "/v1/messages/count_tokens",
    "/v1/responses/input_tokens",
    "/v1/responses/compact",
    "/v1/responses/{}",
    "/v1/responses/{}/input_items",
    "/v1/models",
    "/v1/models/{}",
    "/v1beta/models/{}",
    "/v1beta/models/{}:streamGenerateContent",
    "/v1/models/{}:countTokens",
    "/v1beta/tunedModels/{}:generateContent",
    "{}",
]
NAMES = [
    "",
    "..",
    "%2e%2e",
    "a/b",
    "a b",
    "\0",
    "\r\nx: y",
    "\ud800",
    "?",
    "#",
    "m:m",
    "%",
    "x" * 3000,
]
VALUES = [
    *(None, True, 0, -1, 1.5, 10**18, "", "a", "\ud800", "\0", [], {}, [None], [1], ["a"], [{}]),
    [{"type": "text", "text": "a"}],
    [{"role": "user", "content": "a"}],
    [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": {}}]}],
    [{"role": "tool", "tool_call_id": "x", "content": "y"}],
    [{"name": "f", "input_schema": {"type": "object"}}],
    [{"type": "function", "function": {"name": "f", "parameters": 5}}],
    [{"type": "compaction_trigger"}],
    [{"type": "compaction", "encrypted_content": "sn1.compaction.a.b.c"}, 5],
    [{"type": "compaction", "encrypted_content": "\ud800"}, {"type": "compaction_trigger"}],
]
FIELDS = [
    *("model", "messages", "max_tokens", "stream", "tools", "tool_choice", "system", "input"),
    *("contents", "store", "previous_response_id", "conversation", "background", "instructions"),
    *("response_format", "stream_options", "temperature", "thinking", "reasoning", "metadata"),
    *("systemInstruction", "generationConfig", "generateContentRequest", "include", "\ud800"),
]
BODIES = [
    *(b"", b"{", b"[]", b"null", b"\xff", b"{}", b'{"a":1e999}', b'{"a":NaN}', b"\xef\xbb\xbf{}"),
    b'{"a":' + b"9" * 5000 + b"}",
    b"[" * 2000,
]
HEADERS = [
    *(b"content-type", b"content-length", b"transfer-encoding", b"content-encoding", b"upgrade"),
    *(b"x-api-key", b"authorization", b"x-goog-api-key", b"anthropic-version", b"openai-beta"),
    *(b"anthropic-beta", b"user-agent", b"traceparent", b"x-client-request-id", b"\xff"),
]
HEADER_VALUES = [
    *(b"", b"a", b"application/json", b"text/plain", b"\xff\xfe", b"0", b"99999999999999999999"),
    *(b"Bearer k", b"x" * 9000, b"a\r\nb", b"2023-06-01", b"a,b", b"identity", b"gzip"),
]
QUERIES = [b"", b"a=b", b"\xff=%ff&limit=5", b"limit=-1", b"alt=sse", b"beta=%0d%0a", b"&" * 500]


def body(draw: random.Random) -> bytes:
    if draw.random() < 0.1:
        return draw.choice(BODIES)
    whole: dict[str, object] = {}
    for _, fields in POSTS.values():
        whole |= fields
    for _ in range(draw.randrange(5)):
        whole[draw.choice(FIELDS)] = draw.choice(VALUES)
    return json.dumps(
        {name: value for name, value in whole.items() if draw.random() > 0.1}
    ).encode()


def request(draw: random.Random) -> Caller:
    method = draw.choice(["POST"] * 7 + ["GET"] * 2 + ["DELETE", "HEAD", ""])
    caller = Caller("/", method=method, body=[body(draw)])
    names = [draw.choice(HEADERS) for _ in range(draw.randrange(4))]
    caller.scope |= {
        "path": draw.choice(PATHS).replace("{}", draw.choice(NAMES)),
        "headers": [(b"host", b"h"), *((name, draw.choice(HEADER_VALUES)) for name in names)],
        "query_string": draw.choice(QUERIES),
    }
    return caller


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("dialect", POSTS)
async def test_every_request_gets_an_answer(dialect: str, *, normalize: bool) -> None:
    draw = random.Random(f"{dialect} {normalize}")  # noqa: S311 - no secret
    upstreams = {"local": UpstreamConfig(dialect=dialect, base_url=NOWHERE, normalize=normalize)}
    models = [
        ModelConfig(match="m", to=["local"], simplify_schemas=True, serial_tool_calls=True),
        ModelConfig(match="*", to=["local/x y"]),
    ]
    for configured in ([], models):
        async with opened(upstreams, models=configured) as app:
            for _ in range(REQUESTS):
                caller = request(draw)
                await caller.call(app)
                assert caller.finished
                if caller.status != 200:
                    assert 400 <= caller.status < 500 or caller.status == 502
                    shape_of(body_of(caller))


PART = {"type": "tool-f", "toolCallId": "c", "state": "output-available", "input": {}, "output": 1}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}
PAGE_VALUES = [
    *VALUES,
    *(
        "user",
        "assistant",
        "tool",
        "system",
        "reasoning",
        "step-start",
        "file",
        "data:,x",
        "gs://x",
    ),
    *("input-streaming", "output-error", "approval-requested", "output-denied", "dynamic-tool"),
    *([PART], [PART, PART], [CALL], PART, CALL, {"id": 1, "approved": "yes"}, {"x": {"y": 1}}),
    [{"type": "file", "mediaType": "text/plain", "url": "data:text/plain;base64,\u00e9"}],
    [{"type": "document", "source": {"type": "data", "value": "?", "mimeType": "text/plain"}}],
    [{"id": "9", "role": "tool", "toolCallId": "c", "content": "r"}],
    [{"id": "9", "role": "assistant", "parts": [PART, PART], "toolCalls": [CALL]}],
]
PAGE_FIELDS = [
    *("id", "role", "parts", "content", "toolCalls", "toolCallId", "encryptedValue", "error"),
    *("type", "state", "input", "rawInput", "output", "errorText", "approval", "url", "mediaType"),
    *("providerMetadata", "callProviderMetadata", "providerExecuted", "metadata", "name"),
]
TOP_FIELDS = ["messages", "tools", "context", "resume", "threadId", "runId", "id", "messageId"]


def page_body(draw: random.Random, page: str) -> bytes:
    if draw.random() < 0.1:
        return draw.choice(BODIES)
    whole = json.loads(json.dumps(PAGE_REQUESTS[page].body))
    messages: list[object] = whole["messages"]
    for _ in range(draw.randrange(4)):
        message = {"id": "2", "role": draw.choice(["user", "assistant"]), "content": "x"}
        names = draw.sample(PAGE_FIELDS, 2)
        inner = {**PART, **{name: draw.choice(PAGE_VALUES) for name in names}}
        drawn = {name: inner[name] for name in names if draw.random() < 0.5}
        messages.append({**message, "parts": [inner], **drawn})
    if draw.random() < 0.5:
        messages.append(messages[0])
    for name in draw.sample(TOP_FIELDS, draw.randrange(2)):
        whole[name] = draw.choice(PAGE_VALUES)
    return json.dumps(whole).encode()


@pytest.mark.parametrize("page", PAGE_REQUESTS)
async def test_every_request_of_a_page_gets_an_answer(page: str) -> None:
    draw = random.Random(page)  # noqa: S311 - no secret
    options = PageConfig(model="m", allow_system=True, allow_tools=True)
    for dialect in POSTS:
        upstreams = {"local": UpstreamConfig(dialect=dialect, base_url=NOWHERE)}
        async with opened(upstreams, pages={page: options}) as app:
            for _ in range(REQUESTS):
                caller = await called(app, PAGE_REQUESTS[page].path, page_body(draw, page))
                assert caller.finished
                assert caller.status in (400, 413, 502)
                if page == "ag_ui":
                    assert body_of(caller).keys() == {"message", "code"}
                else:
                    assert caller.headers["content-type"].startswith("text/plain")
                    assert b"".join(caller.bodies)


@pytest.mark.parametrize("client", POSTS)
@pytest.mark.parametrize("upstream", ["anthropic", "gemini", "gemini_interactions"])
async def test_body_of_too_many_values_is_refused(client: str, upstream: str) -> None:
    """A million empty objects of 3 MB would take some 80 MB, and a request of them more."""
    path, fields = POSTS[client]
    objects = b",".join([b"{}"] * 1_000_000)
    data = json.dumps(fields).encode()[:-1] + b',"metadata":[' + objects + b"]}"
    async with opened(NOWHERE, dialect=upstream) as app:
        found = assert_refused(await called(app, path, data), 400, client)
    assert found == "$: more than 500000 JSON values, expected at most that (max_json_values)"
