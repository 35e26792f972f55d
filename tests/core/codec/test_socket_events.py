"""Single messages of a WebSocket of Responses: their types, lanes and errors."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from streamnorm._core.codec import socket_events
from streamnorm._core.codec.socket_events import (
    MessageHead,
    drop_stream_id,
    error_answer,
    error_message,
    flat_error,
    head_of,
    name_stream,
    type_of,
)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (b'{"type":"response.created"}', "response.created"),
        (b' \n{ "type" : "error"}', "error"),
        (b'{"sequence_number":0,"type":"error"}', "error"),
        (b'{"type":"A b"}', "A b"),
        (b'{"type":"A b","delta":"\\ud800"}', "A b"),
        (b'{"type":"A b","delta":"\xff"}', "A b"),
        (b'{"type":7,"delta":"\\ud800"}', None),
        (b'{"type":null}', None),
        (b'{"type":""}', None),
        (b'{"type":"error"', "error"),
        (b'{"type":"A b"', None),
        (b"null", None),
        (b"", None),
    ],
)
def test_type_of_a_message(message: bytes, kind: str | None) -> None:
    assert type_of(message) == kind


@pytest.mark.parametrize(
    ("message", "head"),
    [
        (b'{"type":"error","stream_id":"a"}', MessageHead("error", "a")),
        (b'{"type":"error","stream_id":7}', MessageHead("error", 7)),
        (b'{"x":"\\ud800","stream_id":"a","type":"error"}', MessageHead("error", "a")),
        (b"[]", MessageHead()),
        (b"{", MessageHead()),
    ],
)
def test_head_of_a_message(message: bytes, head: MessageHead) -> None:
    assert head_of(message) == head


def test_name_of_a_lane_is_replaced_and_all_else_stays() -> None:
    message = b'{"type":"x","n":1.0,"stream_id":"b","t":"\\u00e9"}'
    assert name_stream(message, "a") == b'{"type":"x","n":1.0,"t":"\\u00e9","stream_id":"a"}'
    assert name_stream(message, None) == b'{"type":"x","n":1.0,"t":"\\u00e9"}'
    assert drop_stream_id(b'{"a":"\\"stream_id\\""}') == b'{"a":"\\"stream_id\\""}'
    assert name_stream(b'["stream_id"]', "a") == b'["stream_id"]'


MEMBERS = [
    b'"content_index":0',
    b'"delta":"It \\"snows\\",\\n\xc3\xa9"',
    b'"item_id":"msg_1"',
    b'"logprobs":[]',
    b'"obfuscation":"x"',
    b'"output_index":10',
    b'"sequence_number":4',
]
TYPE = b'"type":"response.output_text.delta"'
NUMBERED = [MEMBERS[at] for at in (6, 2, 5, 0, 1, 3, 4)]


@pytest.mark.parametrize("members", [MEMBERS, NUMBERED, MEMBERS[1:3], []], ids=len)
@pytest.mark.parametrize("stream_id", [b"", b',"stream_id":"b"'])
def test_lane_of_a_delta_is_cut_and_added_without_reading_it(
    members: list[bytes], stream_id: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket_events, "_rewrite_stream_id")
    start = b"{" + b",".join([TYPE, *members])
    message = start + stream_id + b"}"
    assert drop_stream_id(message) == start + b"}"
    assert name_stream(message, None) == start + b"}"
    assert name_stream(message, "a") == start + b',"stream_id":"a"}'


def test_lane_of_a_message_of_any_spelling_is_that_of_the_full_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spaces, names that occur twice, escapes and text that is no JSON."""
    lane = b'"stream_id":"b"'
    odd = [
        *(b'"delta":"\\u00e9"', b'"delta":"\\x"', b'"delta":"\\"', b'"delta":"a\tb"', b'"delta":"'),
        *(b'"sequence_number":01', b'"sequence_number":-1', b'"sequence_number":1e3'),
        *(b'"logprobs":[ ]', b'"logprobs":[{}]', b'"delta" :"a"', b'"delta": "a"', b' "delta":"a"'),
        *(
            b'"delta":"a" ',
            b'"d\\u0065lta":"a"',
            b'"new":1',
            b'"delta":"\xff"',
            b'"delta":",\\"stream_id"',
        ),
        *(
            lane,
            b'"stream_id":7',
            b'"stream_id":"a\\"b"',
            b'"stream_id": "b"',
            b'"type":"x"',
            b"{",
            b"}",
            b"",
        ),
    ]
    pieces = [*MEMBERS, *odd]
    messages = [b"{" + b",".join([TYPE, *two, lane]) + b"}" for two in product(pieces, repeat=2)]
    messages += [b"{" + b",".join([TYPE, lane, *two]) + b"}" for two in product(pieces, repeat=2)]
    messages += [
        b"{" + b",".join([*two, lane]) + b"}" for two in product([TYPE, *pieces], repeat=2)
    ]
    messages += [
        b"{" + b",".join([TYPE, each, lane]) + end for each in odd for end in (b"} ", b"", b"}}")
    ]

    def results() -> list[tuple[bytes, bytes]]:
        return [(drop_stream_id(each), name_stream(each, 'a"é')) for each in messages]

    found = results()
    monkeypatch.setattr(socket_events, "_replace_stream_id", socket_events._rewrite_stream_id)
    assert found == results()


def test_response_of_a_request_as_an_error() -> None:
    body = b'{"error":{"type":"invalid_request_error","message":"No.","code":null}}'
    shown = {"content-type": "application/json", "retry-after": "1"}
    assert json.loads(error_message(400, body, shown)) == {
        "type": "error",
        "status": 400,
        "error": {"type": "invalid_request_error", "message": "No.", "code": None},
        "headers": {"retry-after": "1"},
    }
    plain = json.loads(error_message(502, b'{"detail":"Bad gateway"}', {}, "a"))
    assert plain == {
        "type": "error",
        "status": 502,
        "error": {"type": "server_error", "code": None, "message": "Bad gateway", "param": None},
        "stream_id": "a",
    }
    refused = json.loads(error_message(403, b"<html>", {}))["error"]
    assert (refused["type"], refused["message"]) == ("invalid_request_error", "the request failed")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"message": "Slow down."}, {}),  # Kong, API Gateway
        ({"errors": [{"code": 7003, "message": "Slow down."}], "success": False}, {}),  # Cloudflare
        ({"error": "Slow down.", "error_type": "overloaded"}, {}),  # text-generation-inference
        (
            {"object": "error", "message": "Slow down.", "type": "BadRequestError", "code": 400},
            {"type": "BadRequestError"},  # old vLLM
        ),
        (
            {"message": "Slow down.", "code": "slow_down", "param": "input", "type": "error"},
            {"code": "slow_down", "param": "input"},
        ),
    ],
)
def test_flat_error_of_a_response_is_nested(body: dict[str, Any], expected: dict[str, Any]) -> None:
    found = json.loads(error_message(429, json.dumps(body).encode(), {}))["error"]
    plain = {"type": "invalid_request_error", "code": None, "message": "Slow down.", "param": None}
    assert found == plain | expected


def test_headers_of_an_error_are_those_of_a_response() -> None:
    """Those of the connection and of a body are not, nor values that no header can have."""
    headers = {"Retry-After": 3, "x-a": True, "x-b": "c", "x-d": None, "x-e": "\r\nx: y"}
    others = {"content-encoding": "gzip", "Connection": "close", "set-cookie": "a", "no name": "x"}
    error = {"message": "No", "headers": headers | others}
    found = error_answer(json.dumps({"type": "error", "status": 500, "error": error}).encode())
    assert found.status == 500
    expected = {"retry-after": "3", "x-a": "true", "x-b": "c", "content-type": "application/json"}
    assert found.headers == expected
    assert json.loads(found.body) == {"error": {"message": "No"}}


# As server-sent events have it.
SLOW = {"code": "rate_limit_exceeded", "message": "Slow."}


@pytest.mark.parametrize(
    ("event", "status", "code", "error"),
    [
        ({"status": 429, "error": {"code": "slow"}}, 429, "slow", {"code": "slow"}),
        ({"status_code": 404, "error": {"code": 7}}, 404, "", {"code": 7}),
        (SLOW, 429, "rate_limit_exceeded", SLOW),
        ({"status": 200, "error": {}}, 502, "", {}),
        ({"status": 200, "error": "It broke."}, 502, "", {"message": "It broke."}),
        ({"status": 500, "error": 7, "headers": {"x-a": "b"}}, 500, "", {"error": 7}),
        ({"status": "429", "error": {"message": "x"}}, None, "", {"message": "x"}),
    ],
)
def test_error_event_is_the_response_that_it_stands_for(
    event: dict[str, object], status: int | None, code: str, error: object
) -> None:
    found = error_answer(json.dumps({"type": "error", **event}).encode())
    assert 400 <= found.status <= 599
    assert status is None or found.status == status
    assert (found.code, json.loads(found.body)) == (code, {"error": error})


FAILED = {"code": None, "message": "the request failed", "param": None, "sequence_number": 7}


@pytest.mark.parametrize(
    ("event", "flat"),
    [
        (
            {
                "status": 429,
                "headers": {"retry-after": "7"},
                "error": {**SLOW, "type": "rate_limit"},
            },
            {**SLOW, "param": None, "sequence_number": 7, "status": 429},
        ),
        (
            {"error": {"type": "server_error", "message": "No.", "param": "input", "resets_in": 3}},
            {"code": "server_error", "message": "No.", "param": "input", "resets_in": 3},
        ),
        (
            {**SLOW, "param": None, "sequence_number": 4, "stream_id": "a", "status_code": 503},
            {**SLOW, "param": None, "sequence_number": 4, "status": 503},
        ),
        ({"error": {"code": 7, "error": {"message": "x"}, "sequence_number": 1}}, {}),
        ({"error": 7, "sequence_number": "4"}, {}),
        ({"error": "It broke."}, {"message": "It broke."}),
        ({}, {}),
    ],
    ids=["nested", "other fields", "flat", "odd fields", "number", "text", "nothing"],
)
def test_error_of_server_sent_events_is_flat(
    event: dict[str, object], flat: dict[str, object]
) -> None:
    """As openai 3.54.0 declares it (`types/responses/response_error_event.py`)."""
    found = flat_error(json.dumps({"type": "error", **event}).encode(), 7)
    assert json.loads(found) == {"type": "error", **FAILED, **flat}


def test_message_that_is_no_error_is_one_all_the_same() -> None:
    assert json.loads(flat_error(b"\xff", 7)) == {"type": "error", **FAILED}
