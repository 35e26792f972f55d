"""Requests of real clients: in and out equal, and those of other dialects within the types."""

from __future__ import annotations

import copy
from typing import Any

from msgspec import structs
from support.bodies.request_corpus import (
    RealRequest,
    corpus_requests,
    each_captured_request,
    each_dialect_of_the_corpus,
)
from support.bodies.sdk_types import problems
from support.openai_chat.requests import read, without_source, write
from support.streams.corpus import needs_corpus

from streamnorm import EncodeError, Request, ToolResult, decode_request, encode_request

REFERRING = {"ts_ai_responses__2"}
"""Requests that refer to what their provider has stored."""


def assert_stays_equal(body: dict[str, Any]) -> None:
    """Check that a request of this dialect is the same when it is written again."""
    before = copy.deepcopy(body)
    request = decode_request(body, "openai_chat")
    encoded = encode_request(request, "openai_chat")
    assert (encoded.body, encoded.losses) == (before, ())
    renamed = encode_request(structs.replace(request, model="other"), "openai_chat")
    assert renamed.body == {**before, "model": "other"}
    anew = without_source(request)
    again = without_source(read(write(anew)))
    assert comparable(again) == comparable(anew)


def comparable(request: Request) -> Request:
    """Return a request without what is not written here.

    That are the names of results, `strict: false`, and a mode of reasoning, which is an effort by
    then, if it is anything.
    """
    messages = tuple(
        structs.replace(
            message,
            blocks=tuple(
                structs.replace(block, name="") if isinstance(block, ToolResult) else block
                for block in message.blocks
            ),
        )
        for message in request.messages
    )
    tools = tuple(
        structs.replace(tool, strict=tool.strict or None) if hasattr(tool, "strict") else tool
        for tool in request.tools
    )
    reasoning = request.reasoning
    return structs.replace(
        request,
        messages=messages,
        tools=tools,
        parallel_tool_calls=request.parallel_tool_calls if tools else None,
        reasoning=None if reasoning is not None and reasoning.mode is not None else reasoning,
    )


def assert_within_types(captured: RealRequest) -> bool:
    """Check a request of another dialect as it is written here; False if it has no form."""
    request = decode_request(captured.body, captured.dialect, path=captured.path or None)
    try:
        encoded = encode_request(request, "openai_chat", repair="fill", missing_tools="drop")
    except EncodeError:  # of what its provider has stored
        return False
    assert problems("openai_chat", encoded.body) == [], captured.name
    return True


@each_captured_request
def test_captured_requests(captured: RealRequest) -> None:
    if captured.dialect == "openai_chat":
        assert_stays_equal(captured.body)
    else:
        assert assert_within_types(captured) == (captured.name not in REFERRING)


@needs_corpus
def test_requests_of_the_corpus_stay_equal() -> None:
    for captured in corpus_requests("openai_chat"):
        if "messages" in captured.body:
            assert_stays_equal(captured.body)


@each_dialect_of_the_corpus
def test_requests_of_the_corpus_are_within_the_types(dialect: str) -> None:
    if dialect != "openai_chat":
        written = [assert_within_types(known) for known in corpus_requests(dialect)]
        assert written.count(False) <= 4
