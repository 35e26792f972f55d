"""Requests as a whole, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.anthropic.bodies import Body, asked, parts_of, read, rewritten, write

from streamnorm import CacheMark, DecodeError, InputMessage, Request, Text
from streamnorm._core.codec import ReadContext
from streamnorm.dialects.anthropic.body.request import read_request

HELLO = (InputMessage("user", (Text("Hello"),)),)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_tokens": 0}, {"max_tokens": 0}),
        ({"temperature": 0}, {"temperature": 0}),
        ({"top_p": 0.9, "top_k": 5}, {"top_p": 0.9, "top_k": 5}),
        ({"stream": False}, {"stream": False}),
        ({"stop_sequences": ["END", "."]}, {"stop": ("END", ".")}),
        ({"metadata": {"user_id": "u-1"}}, {"user": "u-1"}),
        (
            {"metadata": {"user_id": "u-1", "team": "t"}},
            {"user": "u-1", "extra": {"anthropic": {"metadata": {"team": "t"}}}},
        ),
        (
            {"metadata": {"team": "t"}},
            {"extra": {"anthropic": {"metadata": {"team": "t"}}}},
        ),
        ({"cache_control": {"type": "ephemeral"}}, {"cache": CacheMark()}),
        ({"cache_control": {"type": "ephemeral", "ttl": "1h"}}, {"cache": CacheMark("1h")}),
        (
            {"thread": {"type": "continue", "previous_message_id": "msg_1"}},
            {"state": {"thread": {"type": "continue", "previous_message_id": "msg_1"}}},
        ),
        (
            {"container": "c_1", "speed": "fast", "fallbacks": "default"},
            {"extra": {"anthropic": {"container": "c_1", "speed": "fast", "fallbacks": "default"}}},
        ),
        (
            {"temperature": None, "tools": None, "system": None, "metadata": None},
            {
                "extra": {
                    "anthropic": {
                        "temperature": None,
                        "tools": None,
                        "system": None,
                        "metadata": None,
                    }
                }
            },
        ),
    ],
)
def test_field_is_read_and_written_again(fields: Body, expected: dict[str, Any]) -> None:
    plain = Request(model="claude-1", max_tokens=9, messages=HELLO)
    assert parts_of(read(**fields)) == structs.replace(plain, **expected)
    assert rewritten(**fields) == asked(**fields)


def test_unchanged_request_and_fields_are_written_as_they_were_read() -> None:
    body = asked(system="", stop_sequences=[], future={"a": None}, tools=[])
    request = read_request(body, ReadContext())
    assert write(request).body is body
    changed = structs.replace(request, max_tokens=10)
    assert list(write(changed).body.items()) == list((body | {"max_tokens": 10}).items())


def test_field_that_was_null_can_be_set() -> None:
    request = structs.replace(read(temperature=None), temperature=0.5)
    assert write(request).body["temperature"] == 0.5


def test_model_may_be_named_elsewhere() -> None:
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": []}
    request = read_request(body, ReadContext())
    assert request.model == ""
    assert write(parts_of(request)).body == body


@pytest.mark.parametrize(
    ("mark", "cache", "rest"),
    [
        ({"type": "ephemeral", "ttl": None}, CacheMark(), {"ttl": None}),
        ({"type": "ephemeral", "scope": "org"}, CacheMark(), {"scope": "org"}),
        ({"type": "lasting", "days": 3}, None, {"type": "lasting", "days": 3}),
        (None, None, None),
    ],
)
def test_unknown_fields_of_a_mark_are_kept(mark: Any, cache: CacheMark | None, rest: Any) -> None:
    request = read(cache_control=mark)
    assert request.cache == cache
    assert request.extra == {"anthropic": {"cache_control": rest}}
    assert rewritten(cache_control=mark) == asked(cache_control=mark)


def test_unknown_fields_of_a_mark_go_with_it() -> None:
    request = read(cache_control={"type": "ephemeral", "scope": "org"})
    assert write(structs.replace(request, cache=None)).body == asked()
    block = {"type": "tool_addition", "cache_control": {"type": "ephemeral", "scope": "org"}}
    messages = [{"role": "system", "content": [block]}]
    assert read(messages=messages).messages[0].blocks[0].cache is None
    assert rewritten(messages=messages) == asked(messages=messages)


@pytest.mark.parametrize(
    ("fields", "path", "reason"),
    [
        ({"model": 1}, "model", "an integer, expected a string"),
        ({"max_tokens": "9"}, "max_tokens", "expected an integer"),
        ({"max_tokens": True}, "max_tokens", "a boolean, expected an integer"),
        ({"temperature": "1"}, "temperature", "expected a number"),
        ({"top_k": 1.5}, "top_k", "expected an integer"),
        ({"stream": "yes"}, "stream", "expected a boolean"),
        ({"stop_sequences": "END"}, "stop_sequences", "expected an array"),
        ({"stop_sequences": [1]}, "stop_sequences[0]", "expected a string"),
        ({"metadata": "u"}, "metadata", "expected an object"),
        ({"metadata": {"user_id": 1}}, "metadata.user_id", "expected a string"),
        ({"cache_control": "yes"}, "cache_control", "expected an object"),
        ({"thread": "msg_1"}, "thread", "expected an object"),
        ({"messages": {}}, "messages", "an object, expected an array"),
    ],
)
def test_broken_field_is_refused_with_its_path(fields: Body, path: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as error:
        read(**fields)
    assert error.value.path == f"$.{path}"


def test_body_is_not_changed_by_reading_and_writing_it() -> None:
    def body() -> Body:
        return asked(
            system=[{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
            tools=[{"type": "mcp_toolset", "mcp_server_name": "w"}],
            mcp_servers=[{"name": "w", "url": "u", "tool_configuration": {"allowed_tools": ["a"]}}],
            context_management={
                "edits": [
                    {
                        "type": "compact_20260112",
                        "trigger": {"type": "input_tokens", "value": 9},
                        "instructions": "a",
                    }
                ]
            },
            metadata={"user_id": "u", "team": "t"},
        )

    given = body()
    request = read_request(given, ReadContext())
    write(request)
    write(parts_of(request))
    assert given == body()
