"""Requests of other clients as Anthropic and the clouds with its models accept them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from streamnorm import (
    Encoded,
    EncodeError,
    Loss,
    ReasoningOptions,
    decode_request,
    encode_request,
    translate_request,
)
from streamnorm.validation import validate_request

CONVERSE = "anthropic.claude-haiku-4-5-20251001-v1:0"
QUESTION = {"role": "user", "content": "q"}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
LOOP = [
    QUESTION,
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "r"},
]


def translated(
    body: dict[str, Any],
    model: str,
    server: str | None = None,
    dialect: str = "openai_chat",
) -> Encoded:
    """Return a request for a model of Anthropic, which the provider accepts."""
    path = f"/v1beta/models/{model}:generateContent" if dialect == "gemini" else None
    named = body if dialect == "gemini" else {**body, "model": model}
    encoded = translate_request(named, dialect=dialect, to="anthropic", server=server, path=path)
    found = validate_request(
        encoded.body, "anthropic", model=model, server=server, headers=encoded.headers
    )
    assert found == []
    return encoded


def features(encoded: Encoded) -> list[str]:
    return [loss.feature for loss in encoded.losses]


@pytest.mark.parametrize(
    ("model", "asked", "thinking", "effort", "lost"),
    [
        ("claude-sonnet-4-5", {"reasoning_effort": "high"}, 16_384, None, []),
        ("claude-opus-4-1", {"reasoning_effort": "xhigh"}, 24_000, None, []),
        (
            "claude-haiku-4-5",
            {"reasoning_effort": "high", "max_completion_tokens": 4096},
            3072,
            None,
            [],
        ),
        (
            "claude-haiku-4-5",
            {"reasoning_effort": "low", "max_completion_tokens": 2000},
            "disabled",
            None,
            ["reasoning"],
        ),
        ("claude-opus-4-6", {"reasoning_effort": "xhigh"}, "adaptive", "max", ["effort_changed"]),
        ("claude-opus-5", {"reasoning_effort": "minimal"}, "adaptive", "low", ["effort_changed"]),
        ("claude-opus-5-5", {"reasoning_effort": "none"}, None, "low", ["effort_changed"]),
        ("claude-3-5-sonnet-20241022", {"reasoning_effort": "low"}, None, None, ["reasoning"]),
    ],
)
def test_effort_is_what_the_model_has(
    model: str, asked: dict[str, Any], thinking: object, effort: str | None, lost: list[str]
) -> None:
    encoded = translated({"messages": [QUESTION], **asked}, model)
    value = encoded.body.get("thinking")
    if isinstance(thinking, int):
        assert value == {"type": "enabled", "budget_tokens": thinking}
    else:
        assert value == (None if thinking is None else {"type": thinking})
    assert encoded.body.get("output_config") == (None if effort is None else {"effort": effort})
    assert [name for name in features(encoded) if name != "max_tokens_defaulted"] == lost


def test_small_budget_of_gemini_is_raised_to_the_least() -> None:
    config = {"thinkingConfig": {"thinkingBudget": 512}, "maxOutputTokens": 4096}
    body = {"contents": [{"role": "user", "parts": [{"text": "q"}]}], "generationConfig": config}
    encoded = translated(body, "claude-sonnet-4-5", dialect="gemini")
    assert encoded.body["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    assert features(encoded) == ["budget_changed"]


def test_thinking_is_switched_off_in_a_running_tool_loop() -> None:
    """anomalyco/opencode#3077."""
    body = {"messages": LOOP, "tools": [FUNCTION], "reasoning_effort": "high"}
    encoded = translated(body, "claude-sonnet-4-5")
    assert encoded.body["thinking"] == {"type": "disabled"}
    assert "reasoning" in features(encoded)
    adaptive = translated(body, "claude-opus-4-6")
    assert adaptive.body["thinking"] == {"type": "adaptive"}


def test_sampling_is_dropped_where_the_model_thinks() -> None:
    body = {"messages": [QUESTION], "temperature": 0.5, "reasoning_effort": "high"}
    for server, model in ((None, "claude-opus-5"), ("copilot", "claude-opus-4.6")):
        encoded = translated(body, model, server)
        assert "temperature" not in encoded.body
        assert "temperature" in features(encoded)
    default = translated({**body, "temperature": 1}, "claude-opus-4.6", "copilot")
    assert default.body["temperature"] == 1


def test_forced_choice_is_weakened_beside_a_budget() -> None:
    """can1357/oh-my-pi#341."""
    tool = {"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}
    body = {
        "contents": [{"role": "user", "parts": [{"text": "q"}]}],
        "tools": [tool],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {"thinkingConfig": {"thinkingBudget": 2048}},
    }
    encoded = translated(body, "claude-opus-4.6", "copilot", "gemini")
    assert encoded.body["tool_choice"] == {"type": "auto"}
    assert "tool_choice_weakened" in features(encoded)


@pytest.mark.parametrize(
    ("server", "model", "is_kept"),
    [
        (None, "claude-haiku-4-5", True),
        (None, "claude-opus-4-6", False),
        (None, "claude-fable-5", False),
        ("vertex", "claude-opus-4-8", False),
        ("copilot", "claude-sonnet-4.5", True),
        ("copilot", "claude-sonnet-4.6", False),
    ],
)
def test_prefill_is_dropped_where_it_is_refused(
    server: str | None, model: str, is_kept: bool
) -> None:
    """cortexkit/magic-context#511, vybestack/llxprt-code#3695."""
    body = {"messages": [QUESTION, {"role": "assistant", "content": "So:"}]}
    encoded = translated(body, model, server)
    assert len(encoded.body["messages"]) == 1 + is_kept
    assert ("prefill_dropped" in features(encoded)) is not is_kept


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
BEGUN = {"messages": [QUESTION, {"role": "assistant", "content": '{"a":'}]}


@pytest.mark.parametrize(
    ("to", "model"),
    [
        ("anthropic", "claude-haiku-4-5"),
        ("bedrock_converse", CONVERSE),
    ],
)
def test_prefill_is_dropped_beside_a_schema_of_the_answer(to: str, model: str) -> None:
    """Structured outputs: "Message Prefilling: Incompatible with JSON outputs"."""
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
    body = {**BEGUN, "model": model, "response_format": form}
    encoded = translate_request(body, dialect="openai_chat", to=to)
    assert [message["role"] for message in encoded.body["messages"]] == ["user"]
    assert "string" in str(encoded.body.get("output_config") or encoded.body["outputConfig"])
    lost = Loss("prefill_dropped", "messages", 1, "refused beside a schema of the answer")
    assert lost in encoded.losses
    with pytest.raises(EncodeError, match="no messages"):
        translate_request({**body, "messages": BEGUN["messages"][1:]}, dialect="openai_chat", to=to)
    # Without a schema in the request the answer is continued.
    for other in ({}, {"response_format": {"type": "text"}}):
        made = translate_request({**BEGUN, "model": model, **other}, dialect="openai_chat", to=to)
        assert len(made.body["messages"]) == 2


def test_schema_that_is_not_written_drops_no_prefill() -> None:
    """A schema that cannot be enforced is a loss of its own."""
    many = {f"p{number}": {"type": "string"} for number in range(25)}  # one optional too many
    form = {"name": "x", "schema": {"type": "object", "properties": many}}
    body = {**BEGUN, "response_format": {"type": "json_schema", "json_schema": form}}
    encoded = translated(body, "claude-haiku-4-5")
    assert len(encoded.body["messages"]) == 2
    assert "output_config" not in encoded.body
    assert "schema_dropped" in features(encoded)


def test_reasoning_is_off_for_an_answer_that_is_continued() -> None:
    encoded = translated({**BEGUN, "reasoning_effort": "high"}, "claude-haiku-4-5")
    assert len(encoded.body["messages"]) == 2
    details = [loss.detail for loss in encoded.losses if loss.feature == "reasoning"]
    assert details == ["switched off for the answer that is continued"]
    encoded = translated({"messages": LOOP, "reasoning_effort": "high"}, "claude-haiku-4-5")
    details = [loss.detail for loss in encoded.losses if loss.feature == "reasoning"]
    assert details == ["switched off until the tool calls are answered"]


@pytest.mark.parametrize("to", ["anthropic", "bedrock_converse"])
def test_reasoning_stays_on_in_a_loop_that_begins_with_thinking(to: str) -> None:
    """Claude's turns, as thinking is not interleaved: thinking and a call, a call, the answer."""
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "EqMBCkYIARgCKkBtb2Nr"}

    def step(number: int, *before: dict[str, Any]) -> list[dict[str, Any]]:
        id = f"toolu_{number}"
        call = {"type": "tool_use", "id": id, "name": "f", "input": {}}
        result = {"type": "tool_result", "tool_use_id": id, "content": "r"}
        return [
            {"role": "assistant", "content": [*before, call]},
            {"role": "user", "content": [result]},
        ]

    for loop, is_on in (
        ([QUESTION, *step(1, thought), *step(2)], True),
        ([QUESTION, *step(1), *step(2, thought)], False),
        ([QUESTION, *step(1, thought), {"role": "assistant", "content": "a"}, *step(2)], True),
        (
            [
                QUESTION,
                *step(1, thought),
                {"role": "assistant", "content": "a"},
                QUESTION,
                *step(2),
            ],
            False,
        ),
    ):
        request = decode_request(
            {"model": "m", "max_tokens": 20_000, "messages": loop}, "anthropic"
        )
        # As a client of another dialect sends it, whose reasoning has the signature.
        messages = tuple(structs.replace(message, source=None) for message in request.messages)
        asked = structs.replace(
            request,
            source=None,
            model="claude-sonnet-4-5" if to == "anthropic" else CONVERSE,
            messages=messages,
            reasoning=ReasoningOptions(effort="high"),
        )
        encoded = encode_request(asked, to)
        assert not validate_request(encoded.body, to, model=asked.model)
        off = Loss("reasoning", "request", 1, "switched off until the tool calls are answered")
        assert (off in encoded.losses) is not is_on


@pytest.mark.parametrize("server", [None, "vertex"])
def test_budget_in_place_of_the_adaptive_mode_is_off_in_a_loop_without_thinking(
    server: str | None,
) -> None:
    """A model in the adaptive mode calls tools without thinking; a budget refuses such a loop."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "r"}
    signed = {"type": "thinking", "thinking": "Hm.", "signature": "EqMBCkYIARgCKkBtb2Nr"}
    for before, thinking in ([], "disabled"), ([signed], "enabled"):
        loop = [
            QUESTION,
            {"role": "assistant", "content": [*before, call]},
            {"role": "user", "content": [result]},
        ]
        body = {"model": "claude-opus-5", "max_tokens": 20_000, "messages": loop}
        body |= {"thinking": {"type": "adaptive"}}
        request = decode_request(body, "anthropic")
        # As a gateway does whose fallback is another model.
        other = structs.replace(request, model="claude-haiku-4-5")
        encoded = encode_request(other, "anthropic", server=server)
        assert encoded.body["thinking"]["type"] == thinking
        assert not validate_request(
            encoded.body, "anthropic", model="claude-haiku-4-5", server=server
        )
        off = Loss("reasoning", "request", 1, "switched off until the tool calls are answered")
        assert (off in encoded.losses) is (thinking == "disabled")


def test_empty_texts_are_dropped() -> None:
    body = {
        "messages": [
            {"role": "system", "content": "  "},
            {
                "role": "user",
                "content": [{"type": "text", "text": ""}, {"type": "text", "text": "q"}],
            },
        ]
    }
    encoded = translated(body, "claude-opus-5")
    assert "system" not in encoded.body
    assert encoded.body["messages"] == [QUESTION]


def test_stops_of_white_space_are_dropped() -> None:
    """BerriAI/litellm#3286."""
    encoded = translated({"messages": [QUESTION], "stop": ["\n\n", "END"]}, "claude-opus-4-5")
    assert encoded.body["stop_sequences"] == ["END"]
    assert "stop_dropped" in features(encoded)


@pytest.mark.parametrize("user", ["ann@example.com", "+49 30 1234567"])
def test_personal_names_of_end_users_are_hashed(user: str) -> None:
    """BerriAI/litellm#10106."""
    encoded = translated({"messages": [QUESTION], "user": user}, "claude-opus-4-5")
    assert len(encoded.body["metadata"]["user_id"]) == 64
    assert "user_hashed" in features(encoded)


def test_pdf_is_a_document() -> None:
    """expectedparrot/edsl#2057."""
    url = {"url": "data:application/pdf;base64,JVBERi0="}
    body = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": url}]}]}
    encoded = translated(body, "claude-opus-5")
    (block,) = encoded.body["messages"][0]["content"]
    assert block["type"] == "document"
    assert block["source"] == {
        "type": "base64",
        "media_type": "application/pdf",
        "data": "JVBERi0=",
    }


def test_instructions_in_a_row_are_one_message() -> None:
    """maximhq/bifrost#3945."""
    told = [{"role": "system", "content": text} for text in ("s", "t")]
    encoded = translated({"messages": [QUESTION, *told]}, "claude-opus-5")
    assert [message["role"] for message in encoded.body["messages"]] == ["user", "system"]
    assert Loss("messages_merged", "messages", 1, "instructions joined") in encoded.losses


def test_mark_within_a_result_moves_to_it() -> None:
    """caozhiyuan/copilot-api#241."""
    mark = {"mode": "explicit"}
    body = {
        "input": [
            {"role": "user", "content": "q"},
            {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": [
                    {"type": "input_text", "text": "r", "prompt_cache_breakpoint": mark},
                    {"type": "input_text", "text": "s"},
                ],
            },
        ],
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
    }
    encoded = translated(body, "claude-opus-5", dialect="openai_responses")
    (result,) = encoded.body["messages"][2]["content"]
    assert result["cache_control"] == {"type": "ephemeral"}
    assert all("cache_control" not in block for block in result["content"])
    assert "cache_mark_moved" in features(encoded)


DETAIL = {"type": "reasoning.text", "text": "hm", "format": "anthropic-claude-v1", "index": 0}
THOUGHT = {"role": "assistant", "reasoning_details": [{**DETAIL, "signature": "eA=="}]}


@pytest.mark.parametrize(
    ("server", "model"),
    [
        (None, "claude-haiku-4-5"),
        ("bedrock", "anthropic.claude-haiku-4-5-20251001-v1:0"),
        ("vertex", "claude-haiku-4-5@20251001"),
    ],
)
@pytest.mark.parametrize("after", [[], [QUESTION]])
def test_reasoning_alone_is_not_sent(after: list[Any], server: str | None, model: str) -> None:
    encoded = translated({"messages": [QUESTION, THOUGHT, *after]}, model, server)
    assert [message["role"] for message in encoded.body["messages"]] == ["user"] * (1 + len(after))
    assert {"reasoning_dropped", "empty_message_dropped"} <= {*features(encoded)}
