"""What is written as `ConverseStream`, as botocore reads it."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from support.bedrock_converse.frames import START, delta, end, exception, payload, stop, text
from support.bedrock_converse.reader import read
from support.streams.content import decode, encode

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    Failed,
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
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Transcoder,
    Usage,
    UsageUpdate,
    project,
)
from streamnorm.codec import EVENTSTREAM, SSE, encoder
from streamnorm.eventstream import EventStreamDecoder
from streamnorm.sse import SSEDecoder

START_EVENT = {"messageStart": {"role": "assistant"}}
NO_USAGE = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}


def written(*events: Event, **options: Any) -> list[dict[str, Any]]:
    """Return the events between start and end that botocore reads."""
    data, _ = encode(
        [MessageStart(), *events, MessageStop("end_turn")], "bedrock_converse", **options
    )
    reading = read(data)
    assert reading.error is None
    assert reading.events[0] == START_EVENT
    return reading.events[1:-2]


def last(*events: Event, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `messageStop` and `metadata`."""
    data, _ = encode([MessageStart(), *events], "bedrock_converse", **options)
    stopped, tokens = read(data).events[-2:]
    return stopped["messageStop"], tokens["metadata"]


def delta_of(index: int, **delta: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}


def stop_of(index: int) -> dict[str, Any]:
    return {"contentBlockStop": {"contentBlockIndex": index}}


def test_bytes_are_those_of_bedrock() -> None:
    data, _ = encode(
        [
            MessageStart("id", "model"),
            *(BlockStart(0, Text()), TextDelta(0, 'a"é'), BlockStop(0)),
            *(UsageUpdate(Usage(12, 3)), MessageStop("end_turn")),
        ],
        "bedrock_converse",
    )
    messages = EventStreamDecoder().feed(data)
    assert [list(message.headers) for message in messages] == [
        [":event-type", ":content-type", ":message-type"]
    ] * 5
    assert [(message.text(":event-type"), message.payload.decode()) for message in messages] == [
        ("messageStart", '{"role":"assistant"}'),
        ("contentBlockDelta", '{"contentBlockIndex":0,"delta":{"text":"a\\"é"}}'),
        ("contentBlockStop", '{"contentBlockIndex":0}'),
        ("messageStop", '{"stopReason":"end_turn"}'),
        (
            "metadata",
            '{"metrics":{"latencyMs":0},'
            '"usage":{"inputTokens":12,"outputTokens":3,"totalTokens":15}}',
        ),
    ]
    assert {message.text(":content-type") for message in messages} == {"application/json"}
    assert {message.text(":message-type") for message in messages} == {"event"}


def test_text_has_no_start() -> None:
    assert written(BlockStart(0, Text()), TextDelta(0, "a"), TextDelta(0, "b"), BlockStop(0)) == [
        *(delta_of(0, text="a"), delta_of(0, text="b"), stop_of(0))
    ]


def test_blank_text_is_left_out() -> None:
    assert written(BlockStart(0, Text()), TextDelta(0, " "), BlockStop(0)) == []


def test_reasoning_and_its_signature_are_written() -> None:
    assert written(
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "a"),
        SignatureDelta(0, "S", "anthropic"),
        BlockStop(0),
    ) == [
        delta_of(0, reasoningContent={"text": "a"}),
        delta_of(0, reasoningContent={"signature": "S"}),
        stop_of(0),
    ]


def test_empty_blocks_open_by_a_delta() -> None:
    """A stop of a block that never opened would be an error of clients."""
    assert written(
        *(BlockStart(0, Reasoning()), BlockStop(0)),
        *(BlockStart(1, Reasoning()), SignatureDelta(1, "S", "anthropic"), BlockStop(1)),
        *(BlockStart(2, ToolCall("c", "f")), BlockStop(2)),
    ) == [
        *(delta_of(0, reasoningContent={"text": ""}), stop_of(0)),
        *(delta_of(1, reasoningContent={"signature": "S"}), stop_of(1)),
        {
            "contentBlockStart": {
                "contentBlockIndex": 2,
                "start": {"toolUse": {"toolUseId": "c", "name": "f"}},
            }
        },
        *(delta_of(2, toolUse={"input": "{}"}), stop_of(2)),
    ]


def test_foreign_signature_is_tagged() -> None:
    found = written(BlockStart(0, Reasoning()), SignatureDelta(0, "G", "google"), BlockStop(0))
    assert found[0] == delta_of(0, reasoningContent={"signature": "sn1.google.G"})


@pytest.mark.parametrize(
    ("block", "blob"),
    [
        (RedactedReasoning("EtkECk", "anthropic"), b"EtkECk"),
        (RedactedReasoning("EtkECk", "openai"), b"sn1.openai.EtkECk"),
        (RedactedReasoning("sn1-blob./w==", "anthropic"), b"\xff"),
    ],
)
def test_redacted_reasoning_is_a_blob(block: RedactedReasoning, blob: bytes) -> None:
    found = written(BlockStart(0, block), BlockStop(0))
    assert found == [delta_of(0, reasoningContent={"redactedContent": blob}), stop_of(0)]


@pytest.mark.parametrize(
    ("id", "wire"),
    [
        ("functions.get_weather:0", "functions.get_weather:0"),
        ("call|1", "snid_call_7c1"),
        ("snid_x", "snid_snid_5fx"),
    ],
)
def test_id_has_only_letters_of_its_pattern(id: str, wire: str) -> None:
    found = written(BlockStart(0, ToolCall(id, "f")), JSONDelta(0, '{"a":1}'), BlockStop(0))
    assert found[0]["contentBlockStart"]["start"]["toolUse"]["toolUseId"] == wire
    assert found[1] == delta_of(0, toolUse={"input": '{"a":1}'})


def test_tools_of_the_server_are_written() -> None:
    content = [{"json": {"a": 1}}]
    result = ServerToolResult("s", "toolResult", content)
    found = written(
        *(BlockStart(0, ServerToolCall("s", "g", kind="toolUse")), JSONDelta(0, "{}")),
        *(BlockStop(0), BlockStart(1, result, extra={"type": "x_result"}), BlockStop(1)),
        extras=True,
    )
    assert [event["contentBlockStart"]["start"] for event in (found[0], found[3])] == [
        {"toolUse": {"toolUseId": "s", "name": "g", "type": "server_tool_use"}},
        {"toolResult": {"toolUseId": "s", "type": "x_result"}},
    ]
    assert found[4] == delta_of(1, toolResult=content)


def test_failed_result_of_the_server_says_so() -> None:
    result = ServerToolResult("s", "toolResult", [], is_error=True)
    start = written(BlockStart(0, result), BlockStop(0))[0]["contentBlockStart"]["start"]
    assert start == {"toolResult": {"toolUseId": "s", "status": "error"}}


@pytest.mark.parametrize(
    ("citation", "wire"),
    [
        (
            Citation("url_citation", "https://a.org", "A", "text", 0, 4),
            {
                "location": {"web": {"url": "https://a.org"}},
                "sourceContent": [{"text": "text"}],
                "title": "A",
            },
        ),
        (
            Citation("documentPage", extra={"location": {"documentIndex": 1}, "source": "d"}),
            {"location": {"documentPage": {"documentIndex": 1}}, "source": "d"},
        ),
        (Citation("searchResultLocation"), {"location": {"searchResultLocation": {}}}),
        (Citation("citationsContent", title="t"), {"title": "t"}),
    ],
)
def test_citation_is_written(citation: Citation, wire: dict[str, Any]) -> None:
    found = written(
        BlockStart(0, Text()), TextDelta(0, "a"), CitationDelta(0, citation), BlockStop(0)
    )
    assert found[1] == delta_of(0, citation=wire)


def test_image_is_written_by_its_bytes() -> None:
    data = b64encode(b"\x89PNG").decode()
    found = written(BlockStart(0, Image("image/png", data)), BlockStop(0))
    assert found == [
        {"contentBlockStart": {"contentBlockIndex": 0, "start": {"image": {"format": "png"}}}},
        *(delta_of(0, image={"source": {"bytes": b"\x89PNG"}}), stop_of(0)),
    ]


def test_unprojected_block_is_refused() -> None:
    writer = encoder("bedrock_converse")
    with pytest.raises(AssertionError, match="Image passed the projection"):
        writer.render(BlockStart(0, Image("image/png", url="https://a.org/a.png")))


def test_image_by_its_url_is_lost() -> None:
    events = [MessageStart(), BlockStart(0, Image("image/png", url="https://a.org/a.png"))]
    data, losses = encode([*events, BlockStop(0), MessageStop("end_turn")], "bedrock_converse")
    assert read(data).events[0] == START_EVENT
    assert len(read(data).events) == 3
    assert [loss.feature for loss in losses] == ["media", "usage_unknown", "usage_unknown"]


@pytest.mark.parametrize(
    ("data", "frames"),
    [
        (
            '{"start":{"newer":{"a":1}},\n"deltas":[{"newer":"b"}]}',
            [
                ("contentBlockStart", {"start": {"newer": {"a": 1}}}),
                ("contentBlockDelta", {"delta": {"newer": "b"}}),
            ],
        ),
        (
            '{"start":null,"deltas":[{"newer":"b"}]}',
            [("contentBlockDelta", {"delta": {"newer": "b"}})],
        ),
        ("{}", []),
    ],
)
def test_opaque_block_is_written_back(data: str, frames: list[tuple[str, Any]]) -> None:
    block = OpaqueBlock("bedrock_converse", "newer", data)
    events = [MessageStart(), BlockStart(0, block), BlockStop(0), MessageStop("end_turn")]
    out, _ = encode(events, "bedrock_converse", extras=True)
    messages = [
        (m.text(":event-type"), json.loads(m.payload)) for m in EventStreamDecoder().feed(out)
    ]
    assert messages[1 : 1 + len(frames)] == [
        (name, {"contentBlockIndex": 0, **fields}) for name, fields in frames
    ]
    assert messages[1 + len(frames)][0] == "contentBlockStop"


def test_opaque_event_is_written_back_with_its_index() -> None:
    new = Opaque("bedrock_converse", "n\new", '{"contentBlockIndex":7,\n"x":1}', 1)
    other = Opaque("bedrock_converse", "newer", "[1]", 1)
    out, _ = encode(
        [
            *(MessageStart(), BlockStart(0, Text()), BlockStop(0)),  # which is left out
            *(BlockStart(1, Text()), TextDelta(1, "a"), new, other, BlockStop(1)),
            Opaque(
                "bedrock_converse", "contentBlockDelta", '{"contentBlockIndex":7,"delta":{"x":1}}'
            ),
            Opaque("bedrock_converse", "last", '{"contentBlockIndex":7}'),
            MessageStop("end_turn"),
        ],
        "bedrock_converse",
    )
    found = {m.text(":event-type"): json.loads(m.payload) for m in EventStreamDecoder().feed(out)}
    assert found["n ew"] == {"contentBlockIndex": 0, "x": 1}
    assert found["newer"] == [1]
    assert found["contentBlockDelta"] == {"contentBlockIndex": 0, "delta": {"text": "a"}}
    assert found["last"] == {"contentBlockIndex": 7}


def test_delta_of_a_newer_kind_is_written_in_a_block_that_has_begun() -> None:
    data = '{"contentBlockIndex":0,"delta":{"newer":1}}'
    new = Opaque("bedrock_converse", "contentBlockDelta", data, 0)
    for before, losses in (
        ([TextDelta(0, "a")], []),
        ([], [("opaque", "bedrock_converse contentBlockDelta")]),
    ):
        writer = encoder("bedrock_converse")
        events = [MessageStart(), BlockStart(0, Text()), *before, new, BlockStop(0)]
        out = b"".join(map(writer.encode, events))
        assert (b'"newer":1' in out) == (not losses)
        found = [(loss.feature, loss.where) for loss in writer.losses]
        assert [each for each in found if each[0] == "opaque"] == losses


def newer(index: int) -> Opaque:
    data = '{"contentBlockIndex":7,"delta":{"newer":1}}'
    return Opaque("bedrock_converse", "contentBlockDelta", data, index)


def test_delta_of_a_newer_kind_never_opens_a_block() -> None:
    """The kind of a text or reasoning is the kind of its first delta."""
    new = {"SDK_UNKNOWN_MEMBER": {"name": "newer"}}
    call = {"toolUse": {"toolUseId": "c", "name": "f"}}
    assert written(
        *(BlockStart(0, Text()), newer(0), TextDelta(0, "a"), newer(0), BlockStop(0)),
        *(BlockStart(1, Reasoning()), newer(1), BlockStop(1)),
        *(BlockStart(2, ToolCall("c", "f")), newer(2), BlockStop(2)),
    ) == [
        *(delta_of(0, text=""), delta_of(0, **new), delta_of(0, text="a"), delta_of(0, **new)),
        *(stop_of(0), delta_of(1, reasoningContent={"text": ""}), delta_of(1, **new), stop_of(1)),
        {"contentBlockStart": {"contentBlockIndex": 2, "start": call}},
        *(delta_of(2, **new), delta_of(2, toolUse={"input": "{}"}), stop_of(2)),
    ]


def test_half_a_character_before_a_delta_of_a_newer_kind_stays_a_text() -> None:
    """The second half never comes: the text is written behind the delta."""
    half = payload("contentBlockDelta", rb'{"contentBlockIndex":0,"delta":{"text":"\ud83d"}}')
    body = b"".join([START, half, delta(0, newer=1), stop(0), end()])
    transcoder = Transcoder("bedrock_converse", "bedrock_converse", verbatim=False)
    again = decode([*transcoder.feed(body), *transcoder.close()], "bedrock_converse").events
    assert again == decode([body], "bedrock_converse").events
    assert TextDelta(0, "\ufffd") in again


def test_tokens_are_always_written() -> None:
    assert last(MessageStop("end_turn")) == (
        {"stopReason": "end_turn"},
        {"usage": NO_USAGE, "metrics": {"latencyMs": 0}},
    )


def test_tokens_of_the_cache_are_apart() -> None:
    counted = last(UsageUpdate(Usage(17, 2, 10, 4)), MessageStop("end_turn"))[1]
    assert counted["usage"] == {
        "inputTokens": 3,
        "outputTokens": 2,
        "totalTokens": 19,
        "cacheReadInputTokens": 10,
        "cacheWriteInputTokens": 4,
    }


def test_end_of_the_same_dialect_is_written_back() -> None:
    extra = {
        "additionalModelResponseFields": {"stop_sequence": "END"},
        "metrics": {"latencyMs": 500},
        "trace": {"promptRouter": {"invokedModelId": "m"}},
        "service_tier": "priority",
    }
    stopped, tokens = last(
        UsageUpdate(Usage(1, 2, extra={"cacheDetails": []})),
        MessageStop("stop_sequence", "stop_sequence", "END", extra=extra),
        extras=True,
    )
    assert stopped == {
        "stopReason": "stop_sequence",
        "additionalModelResponseFields": {"stop_sequence": "END"},
    }
    assert tokens["metrics"] == {"latencyMs": 500}
    assert tokens["trace"] == {"promptRouter": {"invokedModelId": "m"}}
    assert tokens["serviceTier"] == {"type": "priority"}
    assert tokens["usage"]["cacheDetails"] == []


def test_stop_sequence_and_tier_of_another_dialect_are_written() -> None:
    stop_event = MessageStop("stop_sequence", "stop_sequence", "END")
    stopped, tokens = last(UsageUpdate(Usage(1, 2, extra={"service_tier": "auto"})), stop_event)
    assert stopped["additionalModelResponseFields"] == {"stop_sequence": "END"}
    assert tokens["serviceTier"] == {"type": "default"}


@pytest.mark.parametrize(
    ("reason", "raw", "wire"),
    [
        ("max_tokens", "model_context_window_exceeded", "model_context_window_exceeded"),
        ("max_tokens", "length", "max_tokens"),
        ("refusal", "guardrail_intervened", "guardrail_intervened"),
        ("refusal", "content_filter", "content_filtered"),
        ("other", "malformed_model_output", "malformed_model_output"),
        ("other", "new", "end_turn"),
        ("pause", "pause_turn", "end_turn"),
    ],
)
def test_stop_reason_is_written(reason: Any, raw: str, wire: str) -> None:
    assert last(MessageStop(reason, raw))[0]["stopReason"] == wire


def test_id_model_and_reasoning_tokens_are_lost() -> None:
    events = [
        *(MessageStart("msg_1", "claude"), UsageUpdate(Usage(1, 5, None, None, 3))),
        MessageStop("end_turn"),
    ]
    passed, losses = project(events, "bedrock_converse")
    assert passed[:2] == [MessageStart(), UsageUpdate(Usage(1, 5))]
    assert [(loss.feature, loss.where) for loss in losses] == [
        ("identity", "message_start"),
        ("usage", "reasoning_tokens"),
    ]
    assert project([MessageStart("", "")], "bedrock_converse")[1] == ()
    # Every stream of another dialect has an id: a strict encoder is not ended by its loss.
    assert encoder("bedrock_converse", strict=True).encode(MessageStart("msg_1", "claude"))


def test_ping_has_no_form() -> None:
    assert encoder("bedrock_converse").ping() == b""
    assert written(Ping()) == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StreamError("upstream", "m", "rate_limit_error", 429), "throttlingException"),
        (StreamError("upstream", "m", "overloaded_error", 529), "throttlingException"),
        (StreamError("upstream", "m", None, 503), "serviceUnavailableException"),
        (StreamError("upstream", "m", None, 500), "internalServerException"),
        (StreamError("upstream", "m", None, 502), "internalServerException"),
        (StreamError("upstream", "m", None, 400), "validationException"),
        (StreamError("upstream", "m", None, 403), "validationException"),
        # An exception of InvokeModel alone.
        (StreamError("upstream", "m", None, 408), "modelStreamErrorException"),
        (StreamError("upstream", "m"), "modelStreamErrorException"),
        (StreamError("truncated", "m"), "modelStreamErrorException"),
        (StreamError("upstream", "prompt is too long: 9 tokens", None, 400), "validationException"),
    ],
)
def test_error_is_an_exception(error: StreamError, code: str) -> None:
    data, _ = encode([MessageStart(), error], "bedrock_converse")
    reading = read(data)
    assert (reading.events, reading.error) == ([START_EVENT], code)
    back = decode([data], "bedrock_converse").outcome
    assert isinstance(back, Failed)
    assert back.error.code == code
    if error.status_hint == 408:
        assert back.error.status_hint == 408


def test_error_body_names_the_type() -> None:
    write = encoder("bedrock_converse").error_body
    assert write(StreamError("upstream", "m", None, 429)) == (
        b'{"__type":"ThrottlingException","message":"m"}'
    )
    assert b'"InternalServerException"' in write(StreamError("truncated", "m"))
    assert b'"ValidationException"' in write(StreamError("upstream", "m", None, 422))
    long = write(StreamError("upstream", "maximum context length is 9", None, 400))
    assert b"Input is too long for requested model: maximum context" in long
    known = StreamError("upstream", "Input is too long for requested model.", None, 400)
    assert write(known) == (
        b'{"__type":"ValidationException","message":"Input is too long for requested model."}'
    )


# In a transcoder


HELLO = (START, text(0, "Hel"), text(0, "lo"), stop(0), end())


def run(
    body: bytes, source: str, target: str, size: int, **options: Any
) -> tuple[bytes, Transcoder]:
    transcoder = Transcoder(source, target, **options)
    out = [
        each for at in range(0, len(body), size) for each in transcoder.feed(body[at : at + size])
    ]
    return b"".join([*out, *transcoder.close()]), transcoder


@pytest.mark.parametrize("size", [1, 50, 100_000])
def test_stream_passes_byte_for_byte(size: int) -> None:
    body = b"".join(HELLO)
    out, transcoder = run(body, "bedrock_converse", "bedrock_converse", size)
    assert out == body
    assert transcoder.untouched
    assert transcoder.ping() == b""
    failed = b"".join(HELLO[:2]) + exception("throttlingException", message="m")
    assert run(failed, "bedrock_converse", "bedrock_converse", size)[0] == failed


@pytest.mark.parametrize("size", [1, 50, 100_000])
@pytest.mark.parametrize("verbatim", [True, False])
def test_cut_ends_with_an_exception(size: int, verbatim: bool) -> None:
    passed = b"".join(HELLO[:2])
    out, _ = run(
        passed + HELLO[2][:30], "bedrock_converse", "bedrock_converse", size, verbatim=verbatim
    )
    reading = read(out)
    assert reading.error == "modelStreamErrorException"
    assert reading.events == read(passed).events


def test_call_of_a_server_and_its_result_have_one_id() -> None:
    found = written(
        BlockStart(0, ServerToolCall("a/b", "search", kind="toolUse")),
        BlockStop(0),
        BlockStart(1, ServerToolResult("a/b", "toolResult", [])),
        BlockStop(1),
    )
    starts = [e["contentBlockStart"]["start"] for e in found if "contentBlockStart" in e]
    assert starts[0]["toolUse"]["toolUseId"] == starts[1]["toolResult"]["toolUseId"]


def test_other_name_of_an_image_type_is_that_of_the_api() -> None:
    found = written(BlockStart(0, Image("image/jpg", "AAAA")), BlockStop(0))
    assert found[0]["contentBlockStart"]["start"] == {"image": {"format": "jpeg"}}


def test_messages_become_server_sent_events() -> None:
    out, transcoder = run(
        b"".join(HELLO), "bedrock_converse", "bedrock_converse", 64, to_framing=SSE
    )
    assert transcoder.untouched
    assert out.startswith(b'event: messageStart\ndata: {"role":"assistant","p":"abcdefgh"}\n\n')
    again, _ = run(
        out, "bedrock_converse", "bedrock_converse", 64, framing=SSE, to_framing=EVENTSTREAM
    )
    assert read(again) == read(b"".join(HELLO))


def test_unknown_delta_of_a_text_that_stays_empty_is_lost() -> None:
    """At the index of no block it would open one."""
    delta = Opaque("bedrock_converse", "contentBlockDelta", '{"delta":{"newer":1}}', 0)
    events = [MessageStart(), BlockStart(0, Text()), delta, BlockStop(0)]
    events += [Opaque("bedrock_converse", "contentBlockDelta", '{"delta":{"newer":1}}')]
    written, losses = encode([*events, MessageStop("end_turn")], "bedrock_converse")
    assert b"newer" not in written
    assert Loss("opaque", "bedrock_converse contentBlockDelta", 2, "dropped") in losses


def test_latency_is_no_loss_for_others() -> None:
    stop = MessageStop("end_turn", extra={"metrics": {"latencyMs": 7}, "trace": {"a": 1}})
    _, losses = encode([MessageStart("m", "x"), stop], "anthropic")
    assert [loss.where for loss in losses if loss.feature == "extra"] == ["trace"]


def test_deltas_are_lines_where_the_framing_is_that_of_lines() -> None:
    frames = [START, text(0, "a"), text(0, "b"), text(0, "c"), text(0, '"é"'), stop(0), end()]
    transcoder = Transcoder("bedrock_converse", "bedrock_converse", to_framing=SSE, verbatim=False)
    written = b"".join(piece for frame in frames for piece in transcoder.feed(frame))
    deltas = [
        json.loads(frame.data)["delta"]["text"]
        for frame in SSEDecoder().feed(written)
        if frame.event == "contentBlockDelta"
    ]
    assert deltas == ["a", "b", "c", '"é"']
