"""Requests of real clients: what they send comes back, and what others send fits the types."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from support.bodies.sdk_types import problems
from support.openai_responses.requests import read, unread, within_the_types, write

from streamnorm import decode_request, encode_request
from streamnorm._core.blocks import Image, InputBlock, Text, ToolResult
from streamnorm._core.bodies.request import InputMessage, Request
from streamnorm._core.tools import ServerTool, Tool

pytestmark = pytest.mark.outside

OWN = "openai_responses"

# What agents send outside of the types of the SDK, by the name of the capture without its turn.
OUTSIDE: dict[str, set[str]] = {
    "codex_gpt-5.1-codex": {"client_metadata", "id"},
    "codex_reasoning": {"client_metadata", "content", "id"},
    "codex_gpt-5.5_reasoning": {"client_metadata", "content", "id", "search_content_types"},
    "codex_gpt-6-sol_lite": {"client_metadata", "content", "id", "status"},
    "opencode_responses": {"type"},  # an `output_text` in an easy message
    "py_lc_responses": {"strict"},
}


def captured() -> Iterator[Any]:
    """Yield the captured requests, and those of the corpus."""
    folder = os.environ.get("STREAMNORM_REQUESTS")
    corpus = os.environ.get("STREAMNORM_CORPUS")
    if folder is None and corpus is None:
        skip = pytest.mark.skip(reason="no folder of captured requests is named")
        yield pytest.param("", {}, marks=skip, id="none")
    for path in sorted(Path(folder).glob("*.json")) if folder else ():
        request = json.loads(path.read_text("utf-8"))
        if request["path"].endswith("/responses") and isinstance(request["body"], dict):
            yield pytest.param(path.stem, request["body"], id=path.stem)
    for path in sorted(Path(corpus, "responses").glob("*.request.json")) if corpus else ():
        yield pytest.param("", json.loads(path.read_text("utf-8")), id=path.stem)


each_request = pytest.mark.parametrize(("client", "body"), [*captured()])


def foreign(request: Request) -> Request:
    """Return a request as another dialect would have it: without what only this one has."""
    messages = tuple(
        structs.replace(message, extra=None, blocks=tuple(map(_foreign, message.blocks)))
        for message in unread(request).messages
    )
    tools = tuple(
        structs.replace(tool, extra=None, **_other(tool)) for tool in unread(request).tools
    )
    options = {
        name: structs.replace(part, extra=None)
        for name in ("output", "reasoning")
        if (part := getattr(request, name)) is not None
    }
    return structs.replace(
        request, messages=messages, tools=tools, extra=None, state=None, source=None, **options
    )


def _foreign(block: InputBlock) -> InputBlock:
    if isinstance(block, ToolResult):
        content = tuple(structs.replace(part, extra=None) for part in block.content)
        block = structs.replace(block, content=content)
    return structs.replace(block, extra=None)


def _other(tool: Any) -> dict[str, Any]:
    return {"dialect": "other", "data": {}} if isinstance(tool, ServerTool) else {}


@each_request
def test_same_dialect_gets_back_what_was_sent(client: str, body: dict[str, Any]) -> None:
    encoded = encode_request(decode_request(body, OWN), OWN)
    assert encoded.body == body
    assert encoded.losses == ()


@each_request
def test_request_with_another_message_has_all_that_was_sent(
    client: str, body: dict[str, Any]
) -> None:
    request = decode_request(body, OWN)
    longer = (*request.messages, InputMessage("user", (Text("more"),)))
    items = body["input"]
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    more = {"role": "user", "content": "more"}
    assert write(structs.replace(request, messages=longer)) == {**body, "input": [*items, more]}


@each_request
def test_request_without_sources_reads_the_same(client: str, body: dict[str, Any]) -> None:
    request = read(body)
    again = read(write(structs.replace(unread(request), source=request.source)))
    assert _with_defaults(unread(again)) == _with_defaults(unread(request))


def _with_defaults(request: Request) -> Request:
    """Return a request with what the types demand, and some clients leave out."""
    tools = tuple(
        structs.replace(tool, strict=bool(tool.strict)) if isinstance(tool, Tool) else tool
        for tool in request.tools
    )
    messages = tuple(
        structs.replace(message, blocks=tuple(map(_with_detail, message.blocks)))
        for message in request.messages
    )
    return structs.replace(request, tools=tools, messages=messages)


def _with_detail(block: InputBlock) -> InputBlock:
    is_image = isinstance(block, Image)
    return structs.replace(block, detail=block.detail or "auto") if is_image else block


@each_request
def test_request_of_another_dialect_fits_the_types(client: str, body: dict[str, Any]) -> None:
    request = foreign(decode_request(body, OWN))
    encoded = encode_request(request, OWN, repair="fill", missing_tools="drop")
    assert problems(OWN, within_the_types(encoded.body)) == []


@each_request
def test_what_agents_send_outside_of_the_types_is_listed(client: str, body: dict[str, Any]) -> None:
    if not client:
        pytest.skip("of the corpus")
    found = {problem.partition(":")[0].rpartition(".")[2] for problem in problems(OWN, body)}
    assert found <= OUTSIDE.get(client.rpartition("__")[0], set())
