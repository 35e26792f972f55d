"""The gate: status, content type and first bytes, under every chunking."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamnorm import Limits, StreamError
from streamnorm._core.failures import NOT_A_STREAM
from streamnorm._core.gate import Gate, judge
from streamnorm.codec import decoder

_DATA = Path(__file__).parents[1] / "data" / "sse_cases.json"
CASES: list[dict[str, Any]] = [
    case
    for case in json.loads((Path(__file__).parents[1] / "data" / "sse_cases.json").read_text())[
        "cases"
    ]
    if "content_type" in case
]
OPENAI_ERROR = b'{"error":{"message":"no such model","type":"invalid_request_error","code":"nope"}}'


def gate(
    status: int | None = 200, content_type: str | None = "application/json", **limits: int
) -> Gate:
    return Gate(
        status,
        content_type,
        judge_body=decoder("openai_chat").judge_body,
        limits=Limits(**limits),
    )


def run(gate: Gate, chunks: list[bytes]) -> bytes:
    """Feed a whole body, and return what went on."""
    passed = b"".join([gate.feed(chunk) for chunk in chunks])
    if gate.error is None:
        gate.close()
    return passed


@pytest.mark.parametrize(
    ("status", "content_type", "way"),
    [
        (200, "text/event-stream", "open"),
        (200, "Text/Event-Stream; charset=utf-8", "open"),
        (200, None, "open"),
        (200, "", "open"),
        (200, "text/plain", "open"),
        (200, "application/x-ndjson", "open"),
        (201, "text/event-stream", "open"),
        (299, "text/event-stream", "open"),
        (None, None, "open"),
        (200, "application/json", "sniff"),
        (200, "APPLICATION/JSON;charset=utf-8", "sniff"),
        (200, " application/json ; a=b", "sniff"),
        (200, "application/problem+json", "sniff"),
        (200, "text/json", "sniff"),
        (200, "text/html; charset=utf-8", "sniff"),
        (200, "application/xhtml+xml", "sniff"),
        (None, "text/html", "sniff"),
        (204, "text/event-stream", "collect"),
        (199, "text/event-stream", "collect"),
        (300, "text/event-stream", "collect"),
        (307, None, "collect"),
        (400, "text/event-stream", "collect"),
        (529, "application/json", "collect"),
    ],
)
def test_status_and_content_type_decide(
    status: int | None, content_type: str | None, way: str
) -> None:
    assert judge(status, content_type) == way


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_no_frame_of_a_rejected_case_becomes_an_event(case: dict[str, Any]) -> None:
    """JSON and HTML stay at the gate.  Other types go on, since servers name them, and
    what is no stream of a dialect is told by the decoder."""
    body = base64.b64decode(case["input_b64"])
    for chunks in ([body], [body[i : i + 1] for i in range(len(body))]):
        door = gate(200, case["content_type"])
        passed = run(door, chunks)
        if not case.get("rejects"):
            assert passed == body
        elif case["name"] in ("mime.json_error_body_200", "mime.html_body_200"):
            assert passed == b""
            assert door.error is not None
        else:
            reader = decoder()
            (event,) = reader.feed(passed) + reader.close()
            assert isinstance(event, StreamError)


@pytest.mark.parametrize("name", [b"data:", b"event:", b"id:", b"retry:", b":"])
@pytest.mark.parametrize("before", [b"", b"\n", b" \r\n\t\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
@pytest.mark.parametrize("content_type", ["application/json", "text/html"])
def test_stream_with_a_wrong_content_type_passes_unchanged(
    name: bytes, before: bytes, content_type: str
) -> None:
    body = before + name + b" x\n\n"
    for chunks in ([body], [body[i : i + 1] for i in range(len(body))]):
        door = gate(200, content_type)
        assert run(door, chunks) == body
        assert door.open
        assert door.error is None


def test_open_gate_buffers_nothing() -> None:
    door = gate(200, "text/event-stream")
    assert door.open
    assert door.feed(b"{") == b"{"
    door.close()
    door.abort()
    assert door.error is None


def test_gate_opens_at_the_first_decisive_byte() -> None:
    door = gate()
    assert [door.feed(piece) for piece in (b"\n", b"da", b"ta", b":", b"x")] == [
        b"",
        b"",
        b"",
        b"\ndata:",
        b"x",
    ]


@pytest.mark.parametrize("body", [b"dat", b"database: x\n\n", b"idle: x\n\n", b"DATA: x\n\n"])
def test_text_that_only_resembles_an_sse_field_is_no_stream(body: bytes) -> None:
    door = gate()
    assert run(door, [body]) == b""
    assert door.error == StreamError(
        "malformed", "plain text, expected an event stream", code=NOT_A_STREAM
    )


def test_json_that_reports_an_error_is_the_error_of_the_provider() -> None:
    door = gate()
    assert run(door, [OPENAI_ERROR[:20], OPENAI_ERROR[20:]]) == b""
    assert door.error == decoder("openai_chat").body_error(OPENAI_ERROR.decode())
    assert door.error.kind == "upstream"


def test_error_is_found_behind_a_byte_order_mark() -> None:
    door = gate()
    run(door, [b"\xef\xbb\xbf\n" + OPENAI_ERROR])
    assert door.error is not None
    assert door.error.message == "no such model"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"id":"chatcmpl-1","choices":[{"message":{"content":"hi"}}]}', "a JSON body"),
        (b"[1]", "a JSON body"),
        (b"<!doctype html><title>secret</title>", "an HTML page"),
        (b"\n<?xml version='1.0'?><Error>secret</Error>", "an XML body"),
        (b"upstream sent secret", "plain text"),
        (b"\x89PNG\r\n\x1a\n\0", "binary data"),
    ],
)
def test_body_that_reports_no_error_is_named_by_its_kind_only(body: bytes, found: str) -> None:
    door = gate(200, "text/html")
    run(door, [body])
    assert door.error is not None
    assert (door.error.kind, door.error.code) == ("malformed", NOT_A_STREAM)
    assert door.error.message.startswith(f"{found}, expected an event stream")
    assert "secret" not in door.error.message


def test_no_content_is_no_stream() -> None:
    door = gate(204, None)
    run(door, [])
    assert door.error == StreamError(
        "malformed", "an empty body, expected an event stream", code=NOT_A_STREAM
    )


def test_empty_body_is_left_to_the_decoder_as_truncated() -> None:
    door = gate(200, "application/json")
    run(door, [])
    assert door.open
    assert door.error is None


def test_blank_body_of_json_is_no_stream() -> None:
    door = gate(200, "application/json")
    run(door, [b" \n"])
    assert door.error is not None
    assert door.error.code == NOT_A_STREAM


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        (304, None),
        (400, False),
        (401, False),
        (404, False),
        (408, True),
        (409, True),
        (429, True),
        (500, True),
        (503, True),
        (529, True),
    ],
)
def test_error_status_without_a_body_is_an_error(status: int, retryable: bool | None) -> None:
    door = gate(status, "text/html")
    run(door, [b"<html>", b"sorry</html>"])
    assert door.error == StreamError(
        "upstream", f"HTTP {status} with an HTML page", status_hint=status, retryable=retryable
    )


def test_error_has_the_status_and_the_message_of_the_provider() -> None:
    door = gate(418, "application/json")
    run(door, [OPENAI_ERROR])
    assert door.error is not None
    assert (door.error.message, door.error.code) == ("no such model", "nope")
    assert (door.error.status_hint, door.error.retryable) == (418, False)


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        # Bedrock: the type stands in a header.
        ({"message": "Input is too long for requested model."}, "Input is too long", None),
        ({"Message": "User is not authorized", "__type": "x"}, "User is not authorized", None),
        (
            {"message": "Too many tokens", "type": "too_many_tokens_error", "code": "c"},
            "Too many tokens",
            "c",
        ),  # Cerebras
        ({"code": 20015, "message": "no such model", "data": None}, "no such model", "20015"),
        ({"error_code": "BAD_REQUEST", "message": "m"}, "m", "BAD_REQUEST"),  # Databricks
        ({"errors": [{"code": 5021, "message": "m"}], "success": False}, "m", "5021"),  # Cloudflare
    ],
    ids=["Bedrock", "AWS", "Cerebras", "SiliconFlow", "Databricks", "Cloudflare"],
)
def test_message_at_the_top_is_the_error_of_an_error_status(
    body: dict[str, Any], message: str, code: str | None
) -> None:
    refused = gate(400)
    run(refused, [json.dumps(body).encode()])
    assert refused.error is not None
    assert refused.error.message.startswith(message)
    assert (refused.error.kind, refused.error.code) == ("upstream", code)
    assert (refused.error.status_hint, refused.error.retryable) == (400, False)
    assert refused.refusal == json.dumps(body).encode()


@pytest.mark.parametrize("body", [b"{}", b'{"message":1}', b'{"errors":[]}', b'{"errors":["m"]}'])
def test_error_status_whose_body_has_no_message_says_the_status(body: bytes) -> None:
    refused = gate(400)
    run(refused, [body])
    assert refused.error is not None
    assert refused.error.message == "HTTP 400 with a JSON body"
    assert refused.refusal is None


def test_message_of_a_success_is_no_error() -> None:
    passed = gate(200)
    run(passed, [b'{"message":"pong"}'])
    assert passed.error is not None
    assert passed.error.code == NOT_A_STREAM


@pytest.mark.parametrize(
    ("status", "type", "retryable"),
    [
        (429, "rate_limit_error", True),
        (429, "insufficient_quota", False),  # the status alone would say that it may
        (503, "strange", True),
        (400, "server_error", False),
    ],
)
def test_error_is_retryable_unless_status_or_body_rules_it_out(
    status: int, type: str, retryable: bool
) -> None:
    door = gate(status, "application/json")
    run(door, [json.dumps({"error": {"message": "m", "type": type}}).encode()])
    assert door.error is not None
    assert door.error.retryable is retryable


def test_error_without_a_message_is_named_by_its_status() -> None:
    door = gate(500, "application/json")
    run(door, [b'{"error":{"message":"","type":"server_error"}}'])
    assert door.error is not None
    assert (door.error.message, door.error.code) == ("HTTP 500 with a JSON body", "server_error")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_named_as_one(status: int) -> None:
    """A base URL with http where the server demands https, or without its prefix."""
    door = gate(status, "text/html")
    run(door, [b"<html>moved to https://elsewhere.example</html>"])
    assert door.error is not None
    assert door.error.message == (
        f"HTTP {status} with an HTML page "
        "(a redirect, which is not followed: is the URL of the request right?)"
    )
    assert (door.error.code, door.error.status_hint) == ("redirect", status)


@pytest.mark.parametrize("status", [300, 304, 400])
def test_status_without_another_url_is_no_redirect(status: int) -> None:
    door = gate(status, "text/html")
    run(door, [b"<html>"])
    assert door.error is not None
    assert (door.error.message, door.error.code) == (f"HTTP {status} with an HTML page", None)


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("size", [1, 7, 64])
def test_body_is_read_up_to_its_bound(status: int, size: int) -> None:
    def fed(length: int) -> Gate:
        door = gate(status, "application/json", max_error_body_bytes=100)
        body = b"[" * length
        for start in range(0, length, size):
            assert door.feed(body[start : start + size]) == b""
        return door

    assert fed(99).error is None
    assert fed(100).error is None
    error = fed(101).error
    assert error is not None
    if status == 200:
        assert error.message.startswith("a JSON body, expected an event stream")
    else:
        assert error.message == "HTTP 500 with a JSON body"


def test_body_that_ends_at_its_bound_is_judged_whole() -> None:
    """One byte less of it is no JSON, and states no error."""
    body = b'{"error":{"message":"no"}}'
    for bound, code in ((len(body), None), (len(body) - 1, NOT_A_STREAM)):
        door = gate(200, "application/json", max_error_body_bytes=bound)
        run(door, [body])
        assert door.error is not None
        assert door.error.code == code


def test_leading_white_space_is_bounded() -> None:
    door = gate(200, "application/json", max_error_body_bytes=100)
    run(door, [b"\n"] * 101)
    assert door.error is not None
    assert door.error.code == NOT_A_STREAM


def test_broken_error_body_is_still_an_error_of_its_status() -> None:
    door = gate(503, "application/json")
    door.feed(OPENAI_ERROR[:20])
    door.abort()
    assert door.error == StreamError(
        "upstream", "HTTP 503 with a JSON body", status_hint=503, retryable=True
    )


@pytest.mark.parametrize("status", [None, 200, 204])
def test_broken_body_of_a_success_is_left_to_the_decoder(status: int | None) -> None:
    door = gate(status, "application/json")
    door.feed(b'{"err')
    door.abort()
    assert door.open
    assert door.error is None


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        (b' {"error":{"message":"no"}}', b' {"error":{"message":"no"}}'),
        (b'{"error":{"message":"at most"}}', b'{"error":{"message":"at most"}}'),
        (b'{"error":{"message":"at most"}} ', None),
        (b'{"error":{"message":"a longer one"}}', None),  # of which a part is not known
        (b"sorry", None),
        (b"", None),
    ],
)
def test_refusal_is_the_error_body_unchanged(body: bytes, refusal: bytes | None) -> None:
    door = gate(429, "application/json", max_error_body_bytes=31)
    assert door.feed(body) == b""
    if len(body) <= 31:
        assert door.refusal is None  # it may go on
    door.close()
    assert door.error is not None
    assert door.refusal == refusal


@given(
    status=st.sampled_from([None, 200, 204, 302, 429, 503]),
    content_type=st.sampled_from([None, "text/event-stream", "application/json", "text/html"]),
    body=st.lists(
        st.sampled_from([b"data", b":", b" ", b"\n", b"\xef\xbb\xbf", b"{", b"<", b"id", b"event"])
    ).map(b"".join),
    cuts=st.lists(st.integers(0, 60)),
)
@example(status=200, content_type="application/json", body=b"\ndata:", cuts=[1, 2, 3, 4, 5])
def test_chunking_does_not_change_the_verdict(
    status: int | None, content_type: str | None, body: bytes, cuts: list[int]
) -> None:
    """One verdict for every chunking, and what goes on is the body or nothing."""
    bounds = [0, *sorted(cut for cut in cuts if cut < len(body)), len(body)]
    whole, cut = gate(status, content_type), gate(status, content_type)
    passed = run(whole, [body])
    assert run(cut, [body[a:b] for a, b in pairwise(bounds)]) == passed
    assert (cut.open, cut.error) == (whole.open, whole.error)
    assert passed == (body if whole.open else b"")
    assert whole.open == (whole.error is None)


@pytest.mark.parametrize(
    "body",
    [
        b'data: {"error":{"message":"no key","type":"authentication_error"}}\n\n',
        b'event: error\r\ndata: {"error":{"message":"no key","code":"authentication_error"}}',
        b': hello\n\ndata: {"type":"authentication_error","message":"no key"}\n\ndata: [DONE]\n\n',
        b'data: {"type":"response.failed","response":{"status":"failed","error":'
        b'{"code":"authentication_error","message":"no key"}}}\n\n',
        b'data: {}\n\nevent: error\ndata: {"code":"authentication_error","message":"no key"}\n\n',
    ],
    ids=["data", "named", "flat", "response", "second"],
)
def test_error_in_the_events_of_an_error_response_is_the_error_of_the_provider(
    body: bytes,
) -> None:
    for content_type in ("text/event-stream", "text/plain"):
        door = gate(401, content_type)
        assert run(door, [body]) == b""
        assert door.error == StreamError(
            "upstream", "no key", "authentication_error", 401, retryable=False
        )
        # A client that reads JSON cannot read the body.
        assert door.refusal is None


def test_text_in_an_error_event_is_the_message() -> None:
    door = gate(503, "text/event-stream")
    run(door, [b"event: error\ndata: overloaded\n\n"])
    assert door.error == StreamError("upstream", "overloaded", None, 503, retryable=True)


@pytest.mark.parametrize("body", [b"data: [DONE]\n\n", b"data: {}\n\n", b": hello\n\n"])
def test_events_without_an_error_leave_the_status(body: bytes) -> None:
    door = gate(503, "text/event-stream")
    run(door, [body])
    assert door.error == StreamError(
        "upstream", "HTTP 503 with plain text", status_hint=503, retryable=True
    )


def test_body_that_cannot_be_decoded_is_described() -> None:
    door = gate(429, "application/json")
    door.abort("a content-encoding other than gzip and deflate, expected none")
    assert door.error is not None
    expected = "HTTP 429 with a content-encoding other than gzip and deflate, expected none"
    assert door.error.message == expected
    assert (door.error.status_hint, door.error.retryable) == (429, True)
