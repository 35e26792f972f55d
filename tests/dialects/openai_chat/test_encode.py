"""The Chat encoder, byte for byte as the API reference."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.openai_chat.payloads import HEAD, START, deltas, encode, payload

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    Image,
    JSONDelta,
    Loss,
    MessageStart,
    MessageStop,
    Opaque,
    OpaqueBlock,
    Ping,
    Reasoning,
    ReasoningDelta,
    Refusal,
    RefusalDelta,
    ServerToolCall,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
)
from streamnorm._core.text import tag_signature
from streamnorm.codec import encoder

FIRST = {"role": "assistant", "content": None}

SAID: list[Event] = [BlockStart(0, Text()), TextDelta(0, "hi"), BlockStop(0)]


def test_text_stream_is_written_byte_for_byte() -> None:
    writer = encoder("openai_chat")
    events = [
        START,
        BlockStart(0, Text()),
        TextDelta(0, 'Hi "you"\n'),
        TextDelta(0, "é\u2028"),
        BlockStop(0),
        UsageUpdate(Usage(9, 4)),
        MessageStop("end_turn", "end_turn"),
    ]
    head = (
        'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":0,"model":"gpt",'
        '"choices":['
    )
    assert b"".join([*map(writer.encode, events), writer.close()]).decode() == (
        f'{head}{{"index":0,"delta":{{"role":"assistant","content":null}},'
        '"finish_reason":null}]}\n\n'
        f'{head}{{"index":0,"delta":{{"content":"Hi \\"you\\"\\n"}},"finish_reason":null}}]}}\n\n'
        f'{head}{{"index":0,"delta":{{"content":"é\u2028"}},"finish_reason":null}}]}}\n\n'
        f'{head}{{"index":0,"delta":{{}},"finish_reason":"stop"}}]}}\n\n'
        f'{head}],"usage":{{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}}}\n\n'
        "data: [DONE]\n\n"
    )
    assert writer.losses == ()


# Deltas


def test_call_is_named_in_its_first_fragment_alone() -> None:
    assert deltas(
        BlockStart(0, ToolCall("functions.f:0", "f")),
        JSONDelta(0, '{"a":'),
        JSONDelta(0, "1}"),
        BlockStop(0),
    ) == [
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "functions.f:0",
                    "type": "function",
                    "function": {"name": "f", "arguments": ""},
                }
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
    ]


def test_calls_are_numbered_densely() -> None:
    encoded = deltas(
        *SAID,
        *(
            BlockStart(1, ToolCall("a", "f")),
            BlockStart(2, Text()),
            BlockStart(3, ToolCall("b", "g")),
        ),
        *(JSONDelta(3, "[]"), TextDelta(2, "x"), JSONDelta(1, "{}")),
    )
    calls = [delta["tool_calls"][0] for delta in encoded if "tool_calls" in delta]
    assert [call["index"] for call in calls] == [0, 1, 1, 0]


def test_call_without_arguments_gets_an_empty_object_at_its_stop() -> None:
    empty = {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}
    assert deltas(BlockStart(0, ToolCall("c", "f")), BlockStop(0))[1:] == [empty]
    null = {"tool_calls": [{"index": 0, "function": {"arguments": "null"}}]}
    called = (BlockStart(0, ToolCall("c", "f")), JSONDelta(0, "null"), BlockStop(0))
    assert deltas(*called)[1:] == [null]


def test_custom_tool_is_written_with_its_input() -> None:
    assert deltas(
        BlockStart(0, ToolCall("c", "f", kind="custom")), JSONDelta(0, "free"), BlockStop(0)
    ) == [
        {
            "tool_calls": [
                {"index": 0, "id": "c", "type": "custom", "custom": {"name": "f", "input": ""}}
            ]
        },
        {"tool_calls": [{"index": 0, "custom": {"input": "free"}}]},
    ]
    started = deltas(BlockStart(0, ToolCall("c", "f", kind="custom")), BlockStop(0))
    assert len(started) == 1  # nothing is no JSON, and need not be


@pytest.mark.parametrize(
    ("issuer", "value"),
    [
        ("google", "c2ln"),
        ("anthropic", tag_signature("c2ln", "anthropic")),
        (None, tag_signature("c2ln", None)),
    ],
)
@pytest.mark.parametrize(
    ("kind", "piece"),
    [("function", {"function": {"arguments": ""}}), ("custom", {"custom": {"input": ""}})],
)
def test_signature_of_a_call_is_written_in_the_field_of_gemini(
    issuer: str | None, value: str, kind: Any, piece: dict[str, Any]
) -> None:
    signed = deltas(
        BlockStart(0, ToolCall("c", "f", kind=kind)), SignatureDelta(0, "c2ln", issuer)
    )[1]
    extra = {"extra_content": {"google": {"thought_signature": value}}}
    assert signed == {"tool_calls": [{"index": 0, **piece, **extra}]}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_written_to_the_requested_field(field: Any) -> None:
    events = (BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), ReasoningDelta(0, "b", 1))
    assert deltas(*events, reasoning=field) == [{field: "a"}, {field: "\n\nb"}]


def test_refusal_is_written_to_its_field() -> None:
    assert deltas(BlockStart(0, Refusal()), RefusalDelta(0, "no")) == [{"refusal": "no"}]


def test_unsupported_block_fails_an_assertion() -> None:
    writer = encoder("openai_chat")
    writer.encode(START)
    with pytest.raises(AssertionError, match="Image passed the projection"):
        writer.render(BlockStart(0, Image(url="u")))


def test_blocks_of_other_dialects_are_dropped() -> None:
    for block in (
        ServerToolCall("s", "f", kind="mcp_tool_use"),
        OpaqueBlock("openai_chat", "k", "{}"),
    ):
        assert encode(BlockStart(0, block), BlockStop(0)) == []


# Choices


def test_each_choice_has_its_own_first_and_last_chunk() -> None:
    assert encode(
        *(BlockStart(0, Text(), 1), TextDelta(0, "b"), BlockStart(1, Text()), TextDelta(1, "a")),
        *(BlockStop(0), BlockStop(1), MessageStop("end_turn", choice=1)),
        *(MessageStop("max_tokens"), MessageStop("end_turn", choice=2)),
    ) == [
        *(payload(FIRST, choice=1), payload({"content": "b"}, choice=1), payload({"content": "a"})),
        *(
            payload({}, "stop", 1),
            payload({}, "length"),
            payload(FIRST, choice=2),
            payload({}, "stop", 2),
        ),
        "[DONE]",
    ]


def test_calls_are_numbered_in_each_choice() -> None:
    payloads = encode(*(BlockStart(n, ToolCall(f"c{n}", "f"), n % 2) for n in range(4)))
    calls = [
        (choice["index"], choice["delta"]["tool_calls"][0]["index"])
        for (choice,) in (payload["choices"] for payload in payloads)
        if "tool_calls" in choice["delta"]
    ]
    assert calls == [(0, 0), (1, 0), (0, 1), (1, 1)]


# The end


def test_usage_is_written_once_before_done() -> None:
    updates = (UsageUpdate(Usage(9, 1)), *SAID, UsageUpdate(Usage(9, 4)))
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    for stop in (MessageStop("end_turn"), MessageStop("end_turn", extra={"x": 1})):
        assert encode(*updates, stop)[1:] == [
            *(payload({}, "stop"), {**HEAD, "choices": [], "usage": usage}, "[DONE]"),
        ]
    assert encode(*updates, MessageStop("end_turn"), include_usage=False)[1:] == [
        *(payload({}, "stop"), "[DONE]"),
    ]


def test_unknown_usage_is_not_written() -> None:
    assert encode(*SAID, MessageStop("end_turn"))[1:] == [payload({}, "stop"), "[DONE]"]


def test_done_follows_success_alone() -> None:
    for last in ((), SAID, (*SAID, StreamError("truncated", "cut"))):
        assert "[DONE]" not in encode(*last)
    writer = encoder("openai_chat")
    for event in (START, MessageStop("end_turn")):
        writer.encode(event)
    assert writer.close() == b"data: [DONE]\n\n"
    assert writer.close() == b""


# Errors


def test_ping_is_a_comment() -> None:
    writer = encoder("openai_chat")
    assert writer.encode(Ping()) == writer.ping() == b": ping\n\n"


# Metadata of the source


def test_created_is_that_of_the_source() -> None:
    for created, written in [(170000, 170000), (3.0, 3), (1e400, 0), ("then", 0), (None, 0)]:
        for key in ("created", "created_at"):  # as Responses calls it
            start = MessageStart("chatcmpl-1", "gpt", {key: created})
            (last, _) = encode(MessageStop("end_turn"), start=start)
            assert (last["created"], type(last["created"])) == (written, int)


def test_extra_fields_are_written_to_the_same_dialect_alone() -> None:
    start = MessageStart("chatcmpl-1", "gpt", {"system_fingerprint": "fp", "created": 7})
    stop = MessageStop("end_turn", extra={"native_finish_reason": "STOP"})
    usage = UsageUpdate(Usage(9, 4, extra={"cost": 0.1}))
    without = json.dumps(encode(usage, stop, start=start))
    assert not any(word in without for word in ("fingerprint", "native", "cost"))
    writer = encoder("openai_chat", extras=True)
    wire = b"".join([*map(writer.encode, (start, usage, stop)), writer.close()])
    first, last, counts = (json.loads(f[6:]) for f in wire.split(b"\n\n")[:3])
    assert first["system_fingerprint"] == "fp"
    assert last["native_finish_reason"] == "STOP"
    assert counts["usage"]["cost"] == 0.1
    assert [chunk.get("system_fingerprint") for chunk in (last, counts)] == [None, None]
    assert first["created"] == last["created"] == counts["created"] == 7


@pytest.mark.parametrize(
    ("tier", "written"),
    [("standard", "default"), ("priority", "priority"), ("flex", "flex"), ("batch", None)],
)
def test_service_tier_is_written_in_the_vendor_s_terms(tier: str, written: str | None) -> None:
    stop, said = MessageStop("end_turn"), {"service_tier": tier}
    for events in (
        [MessageStart("chatcmpl-1", "gpt", said), stop],
        [START, UsageUpdate(Usage(1, 1, extra=said)), stop],
        [START, MessageStop("end_turn", extra=said)],
    ):
        for extras in (False, True):
            start, *rest = events
            assert isinstance(start, MessageStart)
            last = encode(*rest, start=start, extras=extras)[0]
            assert last.get("service_tier") == written
    writer = encoder("openai_chat")
    writer.encode(MessageStart("chatcmpl-1", "gpt", said))
    lost = (Loss("service_tier", tier, 1, "dropped"),) if written is None else ()
    assert writer.losses == lost


def test_opaque_fields_are_written_at_their_position() -> None:
    spoken = Opaque("openai_chat", "audio", '{"id":"a"}', 0)
    scored = Opaque("openai_chat", "logprobs", '{"content":[]}', 0)
    audio, scores = encode(*SAID[:2], spoken, scored)[1:]
    assert audio == payload({"audio": {"id": "a"}})
    (choice,) = scores["choices"]
    assert choice == {
        "index": 0,
        "delta": {},
        "logprobs": {"content": []},
        "finish_reason": None,
    }


def test_delta_writer_equals_render() -> None:
    for block, delta in [
        (Text(), TextDelta(0, 'a"é')),
        (Reasoning(), ReasoningDelta(0, 'a"é')),
        (Refusal(), RefusalDelta(0, 'a"é')),
        (ToolCall("c", "f"), JSONDelta(0, 'a"é')),
    ]:
        writer = encoder("openai_chat")
        for event in (START, BlockStart(0, block)):
            writer.encode(event)
        written = writer.encode(delta)
        assert writer.delta_writer(0)('a"é') == written
