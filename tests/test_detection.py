"""The dialect of frames, of whole bodies, and of paths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs
from support.bodies.request_corpus import needs_requests, real_requests
from support.example_dialect.dialect import TELEGRAPH
from support.example_dialect.registration import registered

from streamnorm import detect
from streamnorm._registry import DIALECTS, detect_body, detect_path
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
    (Frame("interaction.created", '{"interaction":{"id":"i"}}'), "gemini_interactions"),
    (Frame("message", '{"event_type":"step.stop","index":0}'), "gemini_interactions"),
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
    with registered(TELEGRAPH):
        yield


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
    with registered(TELEGRAPH, other):
        assert detect(ASKED) is None


def test_body_of_a_variant_with_bodies_is_its_own() -> None:
    variant = structs.replace(TELEGRAPH, name="semaphore", aliases=(), variant_of="gemini")
    with registered(variant):
        assert detect(ASKED) == "semaphore"


HI = [{"role": "user", "content": "Hello"}]
CHAT = {"model": "m", "messages": HI}

REQUESTS: list[tuple[dict[str, Any], str | None]] = [
    ({"model": "m", "input": "q"}, None),
    ({"model": "m", "input": "q", "generation_config": {"seed": 1}}, "gemini_interactions"),
    ({"model": "m", "input": {"type": "text", "text": "q"}}, "gemini_interactions"),
    ({"model": "m", "input": [{"type": "user_input", "content": []}]}, "gemini_interactions"),
    (
        {
            "model": "m",
            "input": [
                {"type": "function_call", "id": "c", "name": "f", "arguments": {}},
                {"type": "function_result", "call_id": "c", "result": "r"},
            ],
        },
        "gemini_interactions",
    ),
    ({**CHAT, "max_completion_tokens": 9}, "openai_chat"),
    ({**CHAT, "messages": [{"role": "system", "content": "Be brief."}, *HI]}, "openai_chat"),
    ({**CHAT, "tools": [{"type": "function", "function": {"name": "f"}}]}, "openai_chat"),
    (
        {**CHAT, "messages": [*HI, {"role": "tool", "tool_call_id": "c", "content": "1"}]},
        "openai_chat",
    ),
    ({**CHAT, "max_tokens": 9, "system": "Be brief."}, "anthropic"),
    ({**CHAT, "max_tokens": 9, "tools": [{"name": "f", "input_schema": {}}]}, "anthropic"),
    (
        {
            **CHAT,
            "max_tokens": 9,
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "c", "content": "1"}],
                }
            ],
        },
        "anthropic",
    ),
    ({**CHAT, "anthropic_version": "vertex-2023-10-16"}, "anthropic"),
    ({"model": "m", "input": "Hello", "instructions": "Be brief."}, "openai_responses"),
    (
        {
            "model": "m",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}],
        },
        "openai_responses",
    ),
    ({"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}, "gemini"),
    ({"contents": [{"parts": [{"text": "Hello"}]}]}, "gemini"),
    # Of Chat Completions or of Messages.
    (CHAT, None),
    ({**CHAT, "max_tokens": 9, "temperature": 1, "stream": True}, None),
    (
        {**CHAT, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]},
        None,
    ),
    # Of Responses or of Interactions, of embeddings, of completions, of none.
    ({"model": "m", "input": "Hello"}, None),
    ({"model": "m", "input": ["Hello"], "dimensions": 256}, None),
    ({"model": "m", "prompt": "Hello"}, None),
    ({"contents": []}, None),
    ({"messages": None, "contents": 1, "input": {}}, None),
]

RESPONSES: list[tuple[dict[str, Any], str | None]] = [
    ({"object": "chat.completion", "choices": []}, "openai_chat"),
    ({"object": "response", "output": []}, "openai_responses"),
    (
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
        "anthropic",
    ),
    ({"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}, "gemini"),
    ({"promptFeedback": {"blockReason": "SAFETY"}}, "gemini"),
    # Every vendor has errors of this form.
    ({"error": {"message": "no key"}}, None),
    ({"object": "text_completion", "choices": [{"text": "Hi"}]}, None),
    ({"object": "list", "data": []}, None),
    ({"object": "chat.completion.chunk", "choices": []}, None),
]


@pytest.mark.parametrize(
    ("body", "name"),
    [*REQUESTS, *RESPONSES],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else value,
)
def test_dialect_is_detected_by_a_body_or_is_not_guessed(
    body: dict[str, Any], name: str | None
) -> None:
    assert detect(body) == name
    kind: Any = "request" if (body, name) in REQUESTS else "response"
    other: Any = "response" if kind == "request" else "request"
    assert detect_body(body, kind) == name
    assert detect_body(body, other) is None


@needs_requests
@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "openai_responses", "gemini"])
def test_request_of_a_real_client_is_taken_for_no_other_dialect(dialect: str) -> None:
    found = [detect(request.body) for request in real_requests(dialect)]
    assert {*found} <= {dialect, None}
    assert found.count(dialect) > 0.7 * len(found)


@pytest.mark.usefixtures("telegraph")
def test_dialect_is_detected_by_a_path() -> None:
    assert detect_path("/v1/chat/completions") == "openai_chat"
    assert detect_path("/telegraph/fast-1/send") == "telegraph"
    assert detect_path("/v1/models") is None
