"""The decoder of AG-UI."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Completed,
    Event,
    Failed,
    JSONDelta,
    MessageStart,
    MessageStop,
    Opaque,
    OpaqueBlock,
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
    ToolResult,
    Truncated,
    Usage,
    UsageUpdate,
)
from streamnorm._core.codec import Decoder
from streamnorm.codec import decoder

RUN = {"threadId": "t", "runId": "r"}
STARTED = {"type": "RUN_STARTED", **RUN}
FINISHED = {"type": "RUN_FINISHED", **RUN}
START = MessageStart("r", "", {"threadId": "t"})
SPAN = {"type": "REASONING_START", "messageId": "s"}
SPAN_END = {"type": "REASONING_END", "messageId": "s"}


def frames(*payloads: Any) -> bytes:
    return b"".join([b"data: %b\n\n" % json.dumps(each).encode() for each in payloads])


def decode(*payloads: Any) -> tuple[list[Event], Decoder]:
    reader = decoder("ag_ui")
    return [*reader.feed(frames(*payloads)), *reader.close()], reader


def within(*payloads: Any) -> tuple[list[Event], list[str]]:
    """Return the events between start and stop of a run that completes, and the notes."""
    (first, *events, last), reader = decode(STARTED, *payloads, FINISHED)
    assert first == START
    assert isinstance(last, MessageStop)
    return events, [note.kind for note in reader.notes]


def failure(*payloads: Any) -> StreamError:
    events, reader = decode(STARTED, *payloads, FINISHED)
    assert isinstance(reader.outcome, Failed)
    assert events[-1] == reader.outcome.error
    return reader.outcome.error


def text(type: str, id: str = "a", **fields: Any) -> dict[str, Any]:
    return {"type": f"TEXT_MESSAGE_{type}", "messageId": id, **fields}


def call(type: str, id: str = "c", **fields: Any) -> dict[str, Any]:
    return {"type": f"TOOL_CALL_{type}", "toolCallId": id, **fields}


def reasoning(type: str, id: str = "q", **fields: Any) -> dict[str, Any]:
    role = {"role": "reasoning"} if type == "START" else {}
    return {"type": f"REASONING_MESSAGE_{type}", "messageId": id, **role, **fields}


def value(entity: str, content: str, subtype: str = "message") -> dict[str, Any]:
    fields = {"subtype": subtype, "entityId": entity, "encryptedValue": content}
    return {"type": "REASONING_ENCRYPTED_VALUE", **fields}


TEXT = [text("START"), text("CONTENT", delta="Hi"), text("END")]
TEXT_EVENTS = [BlockStart(0, Text()), TextDelta(0, "Hi"), BlockStop(0)]


def test_claims_of_pydantic_ai_are_no_signature() -> None:
    claim = value("c", '{"pydantic_ai":{"tool_kind":"x"}}', "tool-call")
    events, notes = within(call("START", toolCallName="f"), claim, call("END"))
    assert notes == []
    assert [type(event) for event in events] == [BlockStart, Opaque, BlockStop]
    assert json.loads(events[1].data) == claim


def test_text() -> None:
    assert within(*TEXT) == (TEXT_EVENTS, [])


def test_messages_and_calls_may_overlap() -> None:
    assert within(
        *(text("START"), call("START", toolCallName="f"), text("CONTENT", delta="a")),
        *(call("ARGS", delta="{"), text("CONTENT", delta="b"), call("ARGS", delta="}")),
        *(text("END"), call("END")),
    ) == (
        [
            BlockStart(0, Text()),
            BlockStart(1, ToolCall("c", "f")),
            TextDelta(0, "a"),
            JSONDelta(1, "{"),
            TextDelta(0, "b"),
            JSONDelta(1, "}"),
            BlockStop(0),
            BlockStop(1),
        ],
        [],
    )


def test_run_follows_messages_and_calls_that_alternate() -> None:
    pieces = [text("CONTENT", delta="a"), text("CONTENT", "b", delta="b"), call("ARGS", delta="1")]
    begun = [text("START"), text("START", "b"), call("START", toolCallName="f")]
    events, notes = within(
        *(*begun, *pieces, *pieces, *reversed(pieces)), text("END"), text("END", "b"), call("END")
    )
    assert notes == []
    texts = {0: "", 1: ""}
    for event in events:
        if isinstance(event, TextDelta):
            texts[event.index] += event.text
    assert texts == {0: "aaa", 1: "bbb"}
    assert [event for event in events if isinstance(event, JSONDelta)] == [JSONDelta(2, "1")] * 3


def test_ids_of_several_lengths_alternate_for_longer_than_templates_are_learned() -> None:
    pieces = [text("CONTENT", "x", delta="a"), text("CONTENT", "xxx", delta="b")]
    begun, ended = ([text(name, "x"), text(name, "xxx")] for name in ("START", "END"))
    events, notes = within(*begun, *pieces * 20, *ended)
    assert notes == []
    texts = {0: "", 1: ""}
    for event in events:
        if isinstance(event, TextDelta):
            texts[event.index] += event.text
    assert texts == {0: "a" * 20, 1: "b" * 20}


@pytest.mark.parametrize(
    "payloads",
    [
        (text("START"), *[text("CONTENT", delta="a")] * 3, text("END"), text("CONTENT", delta="b")),
        (
            *(call("START", toolCallName="f"), *[call("ARGS", delta="1")] * 3),
            *(call("END"), call("ARGS", delta="2")),
        ),
    ],
    ids=["text", "arguments"],
)
def test_run_extends_nothing_that_has_ended(payloads: tuple[dict[str, Any], ...]) -> None:
    assert failure(*payloads).kind == "malformed"


def test_messages_of_one_span_are_parts() -> None:
    events, _ = within(
        *(SPAN, reasoning("START"), reasoning("CONTENT", delta="a"), reasoning("END")),
        *(reasoning("START", "q2"), reasoning("CONTENT", "q2", delta="b"), reasoning("END", "q2")),
        *(value("q2", "sn1.anthropic.sig"), SPAN_END),
    )
    assert events == [
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "a"),
        ReasoningDelta(0, "b", 1),
        SignatureDelta(0, "sig", "anthropic"),
        BlockStop(0),
    ]


def test_a_message_outside_of_a_span_ends_with_the_next_block() -> None:
    events, _ = within(
        *(reasoning("START"), reasoning("CONTENT", delta="a"), reasoning("END")),
        *(value("q", '{"signature":"x","provider_name":"openai","id":"i"}'), *TEXT),
        *(reasoning("START", "z"), reasoning("CONTENT", "z", delta="b"), reasoning("END", "z")),
    )
    assert events == [
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "a"),
        SignatureDelta(0, "x", "openai", "i"),
        BlockStop(0),
        BlockStart(1, Text()),
        TextDelta(1, "Hi"),
        BlockStop(1),
        BlockStart(2, Reasoning()),
        ReasoningDelta(2, "b"),
        BlockStop(2),
    ]


def test_redacted_reasoning_is_whole() -> None:
    events, _ = within(
        SPAN, reasoning("START"), value("q", "sn1-redacted.anthropic.x"), reasoning("END"), SPAN_END
    )
    assert events == [BlockStart(0, RedactedReasoning("x", "anthropic")), BlockStop(0)]


def test_value_of_a_bare_span_is_an_empty_block() -> None:
    events, _ = within(SPAN, value("s", "x"), value("s", "x"), value("s", ""), SPAN_END)
    assert events == [BlockStart(0, Reasoning()), SignatureDelta(0, "x"), BlockStop(0)]


def test_second_value_and_text_after_a_value_are_blocks_of_their_own() -> None:
    events, _ = within(
        *(SPAN, reasoning("START"), reasoning("CONTENT", delta="a"), value("q", "x")),
        *(value("q", "y"), reasoning("CONTENT", delta="b"), reasoning("END"), SPAN_END),
        *(text("START"), value("a", "z"), text("CONTENT", delta="c"), text("END")),
    )
    kinds = [type(each.block) for each in events if isinstance(each, BlockStart)]
    assert kinds == [Reasoning, Reasoning, Reasoning, Text, Text]
    assert [each.signature for each in events if isinstance(each, SignatureDelta)] == [*"xyz"]


def test_value_of_an_ended_message_is_a_block_of_its_own() -> None:
    events, notes = within(*TEXT, value("a", "x"))
    assert events[3:] == [BlockStart(1, Reasoning()), SignatureDelta(1, "x"), BlockStop(1)]
    assert notes == ["late_signature"]


def test_value_of_a_call() -> None:
    start = call("START", toolCallName="f")
    events, notes = within(
        start,
        value("c", "x", "tool-call"),
        value("c", "x", "tool-call"),
        call("END"),
        value("c", "y", "tool-call"),
    )
    assert events == [BlockStart(0, ToolCall("c", "f")), SignatureDelta(0, "x"), BlockStop(0)]
    assert notes == ["resent_signature", "late_signature"]


def test_thinking_events_are_read_as_reasoning() -> None:
    events, notes = within(
        {"type": "THINKING_START"},
        {"type": "THINKING_TEXT_MESSAGE_START"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "a"},
        {"type": "THINKING_TEXT_MESSAGE_END"},
        {"type": "THINKING_END"},
    )
    assert events == [BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), BlockStop(0)]
    assert notes == ["deprecated_event"]


def test_chunks_are_expanded() -> None:
    events, _ = within(
        text("CHUNK", delta="a"),
        text("CHUNK", delta="b"),
        {"type": "TEXT_MESSAGE_CHUNK", "delta": "c"},
        {"type": "RAW", "event": 1},
        {"type": "TEXT_MESSAGE_CHUNK"},
        text("CHUNK", delta=""),
        text("CHUNK", "a2", delta="d"),
        call("CHUNK", toolCallName="f", delta="{}"),
        reasoning("CHUNK", delta="e"),
        {"type": "STATE_DELTA", "delta": []},
    )
    assert events == [
        BlockStart(0, Text()),
        *(TextDelta(0, "a"), TextDelta(0, "b"), TextDelta(0, "c")),
        Opaque("ag_ui", "RAW", '{"type":"RAW","event":1}'),
        *(BlockStop(0), BlockStart(1, Text()), TextDelta(1, "d"), BlockStop(1)),
        *(BlockStart(2, ToolCall("c", "f")), JSONDelta(2, "{}"), BlockStop(2)),
        *(BlockStart(3, Reasoning()), ReasoningDelta(3, "e")),
        Opaque("ag_ui", "STATE_DELTA", '{"type":"STATE_DELTA","delta":[]}'),
        BlockStop(3),
    ]


def test_answered_call_awaits_nobody() -> None:
    (*_, last), _ = decode(
        *(STARTED, call("START", toolCallName="f"), call("END")),
        *(call("RESULT", content="ok", messageId="m"), FINISHED),
    )
    assert last == MessageStop("end_turn")
    (*_, last), _ = decode(STARTED, call("START", toolCallName="f"), call("END"), FINISHED)
    assert last == MessageStop("tool_use")


@pytest.mark.parametrize("mark", [{}, {"providerExecuted": True, "kind": "k"}])
def test_result_of_a_call_with_an_empty_id_has_the_minted_one(mark: dict[str, Any]) -> None:
    named = call("START", "", toolCallName="f", metadata=mark)
    result = call("RESULT", "", content="ok", messageId="m", metadata=mark)
    events, notes = within(named, call("END", ""), result)
    started, answered = (e.block for e in events if isinstance(e, BlockStart))
    assert isinstance(started, ToolCall | ServerToolCall)
    assert isinstance(answered, ToolResult | ServerToolResult)
    assert answered.tool_call_id == started.id != ""
    assert notes == ["minted_id"]


@pytest.mark.parametrize("content", ['{"a":', '1,"value":2', "", "a"])
def test_result_of_the_provider_that_is_no_json_stays_text(content: str) -> None:
    marks = {"providerExecuted": True, "kind": "k", "isJson": True}
    events, _ = within(call("RESULT", "s", content=content, metadata=marks))
    assert events[0] == BlockStart(0, ServerToolResult("s", "k", content))


def test_results() -> None:
    other = {"type": "image", "source": {}}
    content = [{"type": "text", "text": "a"}, other, 1]
    events, notes = within(
        call("START", toolCallName="f"),
        call("RESULT", content=content),
        call("RESULT", "of-an-earlier-run", content="b"),
        call("RESULT", "j", content='{"a":1}', metadata={"isJson": True}),
        call("START", "pyd_ai_builtin|x", toolCallName="g"),
        call("END", "pyd_ai_builtin|x"),
        call("RESULT", "pyd_ai_builtin|x", content="c"),
        call(
            "RESULT",
            "s",
            content="[1]",
            metadata={"providerExecuted": True, "kind": "k", "isJson": True},
        ),
        call("RESULT", "u", content="", metadata={"providerExecuted": True, "isUnanswered": True}),
        call("RESULT", "v", content="cut", metadata={"isError": True, "isCut": True}),
    )
    parts = (
        Text("a"),
        OpaqueBlock(dialect="ag_ui", kind="image", data='{"type":"image","source":{}}'),
        OpaqueBlock(dialect="ag_ui", kind="", data="1"),
    )
    blocks = [each.block for each in events if isinstance(each, BlockStart)]
    assert blocks == [
        ToolCall("c", "f"),
        ToolResult("c", parts),
        ToolResult("of-an-earlier-run", (Text("b"),)),
        ToolResult("j", (Text('{"a":1}'),), value='{"a":1}'),
        ServerToolCall("pyd_ai_builtin|x", "g"),
        ServerToolResult("pyd_ai_builtin|x", "", "c"),
        ServerToolResult("s", "k", [1]),
    ]
    assert notes == ["missing_block_stop"]


def test_marked_call_is_the_providers() -> None:
    mark = {"providerExecuted": True, "kind": "k"}
    events, _ = within(call("START", toolCallName="f", metadata=mark), call("END"))
    assert events[0] == BlockStart(0, ServerToolCall("c", "f", kind="k"))


def test_citations_of_a_message() -> None:
    entry = {"url": "u", "title": "t", "citedText": "x", "start": 0, "end": 2}
    events, _ = within(text("START"), text("END", metadata={"citations": [entry]}))
    citation = Citation("url_citation", "u", "t", "x", 0, 2)
    assert events == [BlockStart(0, Text()), CitationDelta(0, citation), BlockStop(0)]


def test_messages_of_other_roles_are_no_part_of_the_answer() -> None:
    events, _ = within(text("START", role="user"), text("CONTENT", delta="a"), text("END"))
    assert [type(each) for each in events] == [Opaque] * 3


def test_usage_is_the_sum_of_its_entries() -> None:
    counts = [{"inputTokens": 3, "outputTokens": 1}, {"inputTokens": 2, "reasoningTokens": 1}, 0]
    events, reader = decode(STARTED, {**FINISHED, "usage": counts})
    usage = Usage(5, 1, reasoning_tokens=1)
    assert events == [START, UsageUpdate(usage), MessageStop("end_turn")]
    assert reader.outcome == Completed("end_turn", usage)


def test_metadata_of_the_run() -> None:
    events, _ = decode(
        {**STARTED, "metadata": {"messageId": "m", "model": "fast"}},
        {**FINISHED, "metadata": {"stopReason": "max_tokens", "stopSequence": "x"}},
    )
    assert events[0] == MessageStart("m", "fast", {"threadId": "t"})
    assert events[1] == MessageStop("max_tokens", "max_tokens", "x")


def test_run_error_is_the_end() -> None:
    error = {"type": "RUN_ERROR", "message": "no", "code": "busy", "usage": [{"inputTokens": 1}]}
    events, _ = decode(STARTED, text("START"), error, FINISHED)
    assert events[2:] == [UsageUpdate(Usage(1)), StreamError("upstream", "no", "busy")]
    assert decode(error)[0] == [StreamError("upstream", "no", "busy")]


def test_cancelled_run_is_no_success() -> None:
    (*_, last), _ = decode(STARTED, {**FINISHED, "outcome": {"type": "cancelled"}})
    assert last == StreamError("upstream", "the run was cancelled", "cancelled")


def test_cut_run_is_truncated() -> None:
    _, reader = decode(STARTED, *TEXT)
    assert isinstance(reader.outcome, Truncated)


@pytest.mark.parametrize("payload", [FINISHED, {"error": {"message": "no"}}])
def test_last_frame_may_lack_its_blank_line(payload: dict[str, Any]) -> None:
    reader = decoder("ag_ui")
    events = [*reader.feed(frames(STARTED, payload)[:-2]), *reader.close()]
    assert type(events[-1]) is (MessageStop if payload is FINISHED else StreamError)


@pytest.mark.parametrize(
    ("payloads", "kind"),
    [
        ([text("START"), text("CONTENT", delta="Hi")], "missing_block_stop"),
        ([*TEXT, text("END")], "extra_block_stop"),
        ([call("END")], "extra_block_stop"),
        ([reasoning("END")], "extra_block_stop"),
        ([SPAN, reasoning("START"), SPAN_END], "missing_block_stop"),
        ([reasoning("START", role=None)], "missing_role"),
        ([SPAN_END], ""),
        (["[DONE]"], ""),
    ],
)
def test_harmless_deviations_are_notes(payloads: list[Any], kind: str) -> None:
    _, notes = within(*payloads)
    assert kind in notes or not kind


def test_missing_ids_of_the_run_are_notes() -> None:
    _, reader = decode({"type": "RUN_STARTED"}, FINISHED)
    assert [(note.kind, note.where) for note in reader.notes] == [
        *(("missing_id", "threadId"), ("missing_id", "runId")),
    ]


NAMED = call("START", toolCallName="f")


@pytest.mark.parametrize(
    ("payloads", "message"),
    [
        ([STARTED], "second RUN_STARTED, expected the end of the run"),
        ([text("START"), text("START")], "a text message starts twice, expected its end first"),
        ([text("CONTENT", delta="a")], "text of no open message, expected one of its id"),
        ([call("ARGS", delta="a")], "arguments of no open call, expected one of its id"),
        (
            [NAMED, call("END"), NAMED],
            "second call of one id, expected another id",
        ),
        ([NAMED], "RUN_FINISHED with 1 open calls, expected none"),
        (
            [reasoning("CONTENT", delta="a")],
            "reasoning of no open message, expected one of its id",
        ),
        (
            [SPAN, reasoning("START"), reasoning("START", "z")],
            "a reasoning message starts in another one, expected its end first",
        ),
        ([text("START"), text("CONTENT", delta=1)], "delta is an integer, expected a string"),
        ([text("CHUNK", "", delta="a")], "first chunk without messageId, expected one"),
        ([call("START", toolCallName=None)], "toolCallName is null, expected a string"),
        ([call("RESULT", "", content="a")], "result without toolCallId, expected one"),
    ],
)
def test_runs_against_the_protocol_are_malformed(payloads: list[Any], message: str) -> None:
    assert failure(*payloads) == StreamError("malformed", message)


def test_first_event_starts_the_run() -> None:
    (error,), _ = decode(*TEXT)
    assert error == StreamError("malformed", "an event before RUN_STARTED, expected that first")


def test_payload_without_a_type_is_an_error_or_opaque() -> None:
    events, _ = within({"x": 1})
    assert events == [Opaque("ag_ui", "message", '{"x":1}')]
    assert failure({"error": {"message": "no"}}) == StreamError("upstream", "no")


def test_half_a_character_waits_for_the_other_half() -> None:
    def raw(delta: str) -> bytes:
        return b'data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"%b"}\n\n' % (
            delta.encode()
        )

    reader = decoder("ag_ui")
    data = [frames(STARTED, text("START")), raw("\\ud83d"), raw("\\ude00"), raw("\\ud83d")]
    events = [each for part in data for each in reader.feed(part)]
    events += reader.feed(frames(text("END"), FINISHED))
    assert events[2:-1] == [TextDelta(0, "\U0001f600"), TextDelta(0, "\ufffd"), BlockStop(0)]


def test_frame_without_json_is_malformed_and_done_is_a_note() -> None:
    reader = decoder("ag_ui")
    events = reader.feed(frames(STARTED) + b"data: [DONE]\n\ndata: hello\n\n")
    assert events == [START, StreamError("malformed", "no JSON in 5 characters")]
    assert [note.kind for note in reader.notes] == ["stray_done"]


def test_content_event_closes_the_lane_of_a_chunk() -> None:
    error = failure(text("CHUNK", delta="a"), text("CONTENT", delta="b"))
    assert error.message == "text of no open message, expected one of its id"


def test_redacted_value_outside_of_a_span() -> None:
    events, _ = within(value("q", "sn1-redacted.anthropic.x"))
    assert events == [BlockStart(0, RedactedReasoning("x", "anthropic")), BlockStop(0)]


def test_empty_delta_is_no_event() -> None:
    assert within(*TEXT[:2], text("CONTENT", delta=""), TEXT[2]) == (TEXT_EVENTS, [])


def test_marked_result_of_parts_keeps_them() -> None:
    events, _ = within(call("RESULT", content=[1], metadata={"providerExecuted": True}))
    assert events[0] == BlockStart(0, ServerToolResult("c", "", [1]))


def test_empty_reasoning_is_a_block() -> None:
    events, _ = within(
        SPAN, reasoning("START"), reasoning("CONTENT", delta=""), reasoning("END"), SPAN_END
    )
    assert events == [BlockStart(0, Reasoning()), BlockStop(0)]


@pytest.mark.parametrize("size", [1, 7, 64])
def test_any_chunking_gives_the_same_events(size: int) -> None:
    data = frames(
        *(STARTED, SPAN, reasoning("START"), reasoning("CONTENT", delta="a")),
        *(reasoning("CONTENT", delta="b"), reasoning("END"), SPAN_END, *TEXT),
        *(call("START", toolCallName="f"), call("ARGS", delta="{"), call("ARGS", delta="}")),
        *(call("END"), text("CHUNK", "z", delta="a"), text("CHUNK", "z", delta="b"), FINISHED),
    )
    whole, parts = decoder("ag_ui"), decoder("ag_ui")
    events: list[Event] = []
    for start in range(0, len(data), size):
        events += parts.feed(data[start : start + size])
    assert events == whole.feed(data)


def test_run_that_waits_for_a_person_pauses() -> None:
    outcome = {"type": "interrupt", "interrupts": [{"id": "i", "reason": "approve"}]}
    events, _ = decode(STARTED, {**FINISHED, "outcome": outcome, "result": 5})
    assert events[-1] == MessageStop("pause", "interrupt", extra={"outcome": outcome, "result": 5})


def test_failed_result_is_read_from_its_mark() -> None:
    result = {"type": "TOOL_CALL_RESULT", "messageId": "x", "toolCallId": "c", "content": "no"}
    events, _ = within({**result, "metadata": {"isError": True}})
    assert events[0] == BlockStart(0, ToolResult("c", (Text("no"),), is_error=True))


def test_chunk_of_another_role_keeps_its_type() -> None:
    """The clients fail at an event without one."""
    chunk = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "u", "role": "user", "delta": "x"}
    events, _ = within(chunk)
    found = [json.loads(event.data) for event in events if isinstance(event, Opaque)]
    assert [each["type"] for each in found] == [
        f"TEXT_MESSAGE_{part}" for part in ("START", "CONTENT", "END")
    ]


def test_one_id_is_of_one_role() -> None:
    user = text("START", role="user")
    assert failure(text("START", role="assistant"), user).kind == "malformed"
    assert failure(user, text("START", role="assistant")).kind == "malformed"


def test_half_a_character_in_another_field_is_cleaned() -> None:
    started = b'data: {"type":"RUN_STARTED","threadId":"t","runId":"r","delta":"\\ud800"}\n\n'
    (event,) = decoder("ag_ui").feed(started)
    assert event == MessageStart("r", "", {"threadId": "t", "delta": "\ufffd"})


def test_fields_that_a_citation_alone_has_are_read() -> None:
    metadata = {"citations": [{"url": "https://u", "extra": {"x": 1}}]}
    events, _ = within(text("START"), text("CONTENT", delta="a"), text("END", metadata=metadata))
    assert events[2] == CitationDelta(0, Citation("url_citation", "https://u", extra={"x": 1}))


def test_loose_reasoning_ends_before_a_call() -> None:
    events, _ = within(
        *(reasoning("START"), reasoning("CONTENT", delta="a"), reasoning("END")),
        *(call("START", toolCallName="f"), call("END")),
    )
    assert events == [
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "a"),
        BlockStop(0),
        BlockStart(1, ToolCall("c", "f")),
        BlockStop(1),
    ]


def test_reasoning_ends_with_its_span() -> None:
    messages = reasoning("START"), reasoning("CONTENT", delta="a"), reasoning("END")
    events, notes = within(SPAN, *messages, SPAN_END, *TEXT)
    assert notes == []
    assert events[1:4] == [ReasoningDelta(0, "a"), BlockStop(0), BlockStart(1, Text())]
