"""The dialect of frames, of whole bodies, and of paths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs
from support.telegraph import TELEGRAPH

from streamnorm import detect
from streamnorm._detection import detect_body, detect_path
from streamnorm._registry import DIALECTS, register
from streamnorm.sse import Frame

DETECTED: list[tuple[Frame, str | None]] = [
    (Frame("message", '{"choices":[]}'), "openai_chat"),
    (
        Frame("message", '{"choices":[{"delta":{"content":"\\ud83d"},"logprobs":NaN}]}'),
        "openai_chat",
    ),
    (Frame("message", '{"object":"chat.completion.chunk"}'), "openai_chat"),
    (Frame("message", "[DONE]"), "openai_chat"),
    (Frame("message", '{"error":{"message":"m","type":"x"}}'), "openai_chat"),
    (Frame("message", '{"object":"error","message":"m","type":"BadRequestError"}'), "openai_chat"),
    (Frame("message", '{"detail":"m"}'), "openai_chat"),
    (Frame("message", '[{"error":{"code":1}}]'), "openai_chat"),
    (Frame("error", "out of memory"), "openai_chat"),
    (Frame("error", '{"message":"m"}'), "openai_chat"),
    (Frame("message_start", '{"type":"message_start","message":{}}'), "anthropic"),
    (Frame("message", '{"type":"ping"}'), "anthropic"),
    (Frame("error", '{"type":"error","error":{"type":"overloaded_error"}}'), "anthropic"),
    (Frame("message", '{"choices":[]}\n{"choices":[]}\n[DONE]'), "openai_chat"),
    (Frame("message", '{\n"choices":\n[]}'), "openai_chat"),
    (Frame("message", '{\n"a":1}'), None),
    (Frame("message", "{}"), None),
    (Frame("message", '{"type":"response.created"}'), "openai_responses"),
    (
        Frame("error", '{"type":"error","sequence_number":1,"error":{"message":"m"}}'),
        "openai_responses",
    ),
    (Frame("message", '{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}'), "gemini"),
    (Frame("message", '{"promptFeedback":{"blockReason":"SAFETY"}}'), "gemini"),
    (Frame("message", '{"error":null}'), None),
    (Frame("message", "[1]"), None),
    (Frame("message", "5"), None),
    (Frame("message", '"choices"'), None),
    (Frame("message", "{broken"), None),
    (Frame("message", ""), None),
]


@pytest.mark.parametrize(
    ("frame", "name"), DETECTED, ids=lambda value: getattr(value, "data", value)
)
def test_dialect_is_detected_by_a_frame(frame: Frame, name: str | None) -> None:
    assert detect(frame) == name


def test_error_of_anthropic_is_not_recognised_as_chat() -> None:
    error = Frame("error", '{"type":"error","error":{"message":"m"}}')
    assert not DIALECTS["openai_chat"].recognises(error)


# Whole bodies

ASKED: dict[str, Any] = {"telegraph": "ask", "model": "fast-1", "say": []}
ANSWERED: dict[str, Any] = {"telegraph": "answer", "blocks": [], "reason": "end_turn"}


@pytest.fixture
def telegraph() -> Iterator[None]:
    remove = register(TELEGRAPH)
    yield
    remove()


@pytest.mark.usefixtures("telegraph")
@pytest.mark.parametrize("body", [ASKED, ANSWERED], ids=["request", "response"])
def test_dialect_is_detected_by_a_body_in_every_form(body: dict[str, Any]) -> None:
    text = json.dumps(body)
    for form in (body, text, f" {text}\n", text.encode()):
        assert detect(form) == "telegraph"


@pytest.mark.usefixtures("telegraph")
def test_body_is_detected_as_what_it_is_expected_to_be() -> None:
    assert detect_body(ASKED, "request") == detect_body(ANSWERED, "response") == "telegraph"
    assert detect_body(ASKED, "response") is detect_body(ANSWERED, "request") is None
    assert detect_body(ASKED) == detect_body(ANSWERED) == "telegraph"


@pytest.mark.usefixtures("telegraph")
@pytest.mark.parametrize(
    "body",
    [
        "",
        b"",
        "ask",
        "[]",
        '[{"telegraph":"ask"}]',
        '{"telegraph":"ask"',
        '{"telegraph":"ask"}{}',
        b'{"telegraph":"ask","\xff":1}',
        'data: {"telegraph":"ask"}\n\n',
        "{}",
        {},
        {"telegraph": ["ask"]},
        '{"telegraph":"ask","a":' + "[" * 200 + "]" * 200 + "}",
        "[" * 100_000,
    ],
    ids=lambda value: str(value)[:30],
)
def test_body_that_is_none_or_of_no_dialect_is_not_detected(body: Any) -> None:
    assert detect(body) is None


def test_body_that_two_dialects_may_have_is_not_detected() -> None:
    other = structs.replace(TELEGRAPH, name="semaphore", aliases=())
    removals = [register(dialect) for dialect in (TELEGRAPH, other)]
    try:
        assert detect(ASKED) is None
    finally:
        for remove in removals:
            remove()


def test_body_of_a_variant_is_detected_as_the_dialect_it_is_a_variant_of() -> None:
    variant = structs.replace(TELEGRAPH, name="semaphore", aliases=(), variant_of="telegraph")
    removals = [register(dialect) for dialect in (TELEGRAPH, variant)]
    try:
        assert detect(ASKED) == "telegraph"
    finally:
        for remove in removals:
            remove()


@pytest.mark.usefixtures("telegraph")
def test_dialect_is_detected_by_a_path() -> None:
    assert detect_path("/v1/chat/completions") == "openai_chat"
    assert detect_path("/telegraph/fast-1/send") == "telegraph"
    assert detect_path("/v1/models") is None
