"""The encoder of AG-UI, by the rules that its clients enforce."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    Image,
    JSONDelta,
    LimitExceeded,
    Limits,
    MessageStart,
    MessageStop,
    Opaque,
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
    ToolResult,
    Usage,
    UsageUpdate,
)
from streamnorm._core.codec import RunEncoder
from streamnorm.codec import encoder

START = MessageStart("m", "fast-1")
END = MessageStop("end_turn")
RUN = {"threadId": "thread-m", "runId": "m"}
STARTED = {"type": "RUN_STARTED", **RUN, "metadata": {"messageId": "m", "model": "fast-1"}}
FINISHED = {"type": "RUN_FINISHED", **RUN, "metadata": {"stopReason": "end_turn"}}


def encode(*events: Event) -> bytes:
    writer = encoder("ag_ui")
    return b"".join([writer.encode(event) for event in events]) + writer.close()


def payloads(data: bytes) -> list[dict[str, Any]]:
    frames = data.decode().split("\n\n")
    assert frames.pop() == ""
    assert all(frame.startswith("data: ") for frame in frames)
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


def written(*events: Event) -> list[dict[str, Any]]:
    """Return the payloads between the first and the last event of a run."""
    first, *rest, last = payloads(encode(START, *events, END))
    assert (first, last) == (STARTED, FINISHED)
    return rest


def text(index: int, value: str) -> list[Event]:
    return [BlockStart(index, Text()), TextDelta(index, value), BlockStop(index)]


def call(index: int, id: str, *arguments: str) -> list[Event]:
    deltas = [JSONDelta(index, part) for part in arguments]
    return [BlockStart(index, ToolCall(id, "f")), *deltas, BlockStop(index)]


def test_text_is_a_message() -> None:
    assert written(*text(0, "Hi")) == [
        {"type": "TEXT_MESSAGE_START", "messageId": "m-1", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m-1", "delta": "Hi"},
        {"type": "TEXT_MESSAGE_END", "messageId": "m-1"},
    ]


def test_rule_11_nothing_follows_the_terminal() -> None:
    for end in (END, StreamError("truncated", "cut")):
        data = encode(START, end)
        assert b"[DONE]" not in data
        assert payloads(data)[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")


def test_rule_12_frames_end_by_two_line_feeds() -> None:
    data = encode(START, *text(0, "a\r\nb\u2028"), END)
    assert b"\r" not in data
    assert data.count(b"\n") == 2 * data.count(b"data: ")


def test_rule_13_an_error_leaves_everything_open() -> None:
    data = encode(START, BlockStart(0, ToolCall("c", "f")), StreamError("upstream", "no", "busy"))
    assert [each["type"] for each in payloads(data)] == [
        *("RUN_STARTED", "TOOL_CALL_START", "RUN_ERROR"),
    ]
    assert payloads(data)[-1] == {"type": "RUN_ERROR", "message": "no", "code": "busy"}


def test_rule_14_the_run_has_the_ids_of_the_request() -> None:
    writer = encoder("ag_ui")
    writer.response_fields = {"threadId": "t9", "runId": "r9"}
    data = b"".join([writer.encode(event) for event in (START, *text(0, "a"), END)])
    first, message, *_, last = payloads(data)
    assert (first["threadId"], first["runId"]) == (last["threadId"], last["runId"]) == ("t9", "r9")
    assert message["messageId"] == "r9-1"


def test_rule_14_a_lone_error_may_come_first() -> None:
    assert payloads(encode(StreamError("transport", "lost"))) == [
        {"type": "RUN_ERROR", "message": "lost", "code": "transport"}
    ]


def test_rule_15_calls_share_the_message_of_the_text_before_them() -> None:
    starts = [
        (each["type"], each.get("parentMessageId"))
        for each in written(*text(0, "a"), *call(1, "c", "{}"), *call(2, "d", "{}"))
        if each["type"] == "TOOL_CALL_START"
    ]
    assert starts == [("TOOL_CALL_START", "m-1")] * 2


def test_rule_15_calls_without_text_share_one_new_message() -> None:
    parents = {
        each["parentMessageId"]
        for each in written(*call(0, "c", "{}"), *call(1, "d", "{}"))
        if each["type"] == "TOOL_CALL_START"
    }
    assert parents == {"m-1"}


def test_rule_16_no_two_messages_have_one_id() -> None:
    events = written(
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), ReasoningDelta(0, "b", 1)),
        *(BlockStop(0), *text(1, "a"), *call(2, "c", "{}"), *text(3, "b")),
    )
    starts = ("TEXT_MESSAGE_START", "REASONING_MESSAGE_START")
    ids = [each["messageId"] for each in events if each["type"] in starts]
    assert ids == ["m-1.0", "m-1.1", "m-2", "m-3"]


def test_rule_17_a_cut_is_an_error() -> None:
    *_, last = payloads(encode(START, StreamError("truncated", "cut")))
    assert last == {"type": "RUN_ERROR", "message": "cut", "code": "truncated"}


def test_rule_18_usage_is_an_array_without_nulls() -> None:
    data = encode(START, UsageUpdate(Usage(9, 4, cache_read_tokens=2)), END)
    assert payloads(data)[-1]["usage"] == [
        {
            "model": "fast-1",
            "inputTokens": 9,
            "outputTokens": 4,
            "cachedInputTokens": 2,
            "totalTokens": 13,
        }
    ]
    assert b"null" not in data


def test_an_unknown_total_is_left_out() -> None:
    data = encode(MessageStart("m"), UsageUpdate(Usage(None, 4)), StreamError("upstream", "no"))
    assert payloads(data)[-1]["usage"] == [{"outputTokens": 4}]


def test_rule_19_reasoning_has_its_role_and_a_message_for_each_part() -> None:
    assert written(
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "a"),
        ReasoningDelta(0, "b", 1),
        SignatureDelta(0, "sig", "anthropic"),
        BlockStop(0),
    ) == [
        {"type": "REASONING_START", "messageId": "m-1"},
        {"type": "REASONING_MESSAGE_START", "messageId": "m-1.0", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "m-1.0", "delta": "a"},
        # The client sends the messages back without their span.
        {
            "type": "REASONING_MESSAGE_END",
            "messageId": "m-1.0",
            "metadata": {"isContinued": True},
        },
        {"type": "REASONING_MESSAGE_START", "messageId": "m-1.1", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "m-1.1", "delta": "b"},
        {
            "type": "REASONING_ENCRYPTED_VALUE",
            "subtype": "message",
            "entityId": "m-1.1",
            "encryptedValue": "sn1.anthropic.sig",
        },
        {"type": "REASONING_MESSAGE_END", "messageId": "m-1.1"},
        {"type": "REASONING_END", "messageId": "m-1"},
    ]


def test_rule_20_a_run_that_waits_for_the_client_is_a_plain_success() -> None:
    *_, last = payloads(encode(START, *call(0, "c", "{}"), MessageStop("tool_use")))
    assert last == {"type": "RUN_FINISHED", **RUN, "metadata": {"stopReason": "tool_use"}}


@pytest.mark.parametrize(
    ("block", "value"),
    [
        (RedactedReasoning("x", "anthropic"), "sn1-redacted.anthropic.x"),
        (Reasoning(), "sn1.anthropic.x"),
    ],
)
def test_a_value_without_text_has_a_message_to_stand_on(block: Any, value: str) -> None:
    signature = [SignatureDelta(0, "x", "anthropic")] if isinstance(block, Reasoning) else []
    events = written(BlockStart(0, block), *signature, BlockStop(0))
    assert [each["type"] for each in events] == [
        *("REASONING_START", "REASONING_MESSAGE_START", "REASONING_ENCRYPTED_VALUE"),
        *("REASONING_MESSAGE_END", "REASONING_END"),
    ]
    assert (events[2]["entityId"], events[2]["encryptedValue"]) == ("m-1.0", value)


def test_empty_reasoning_is_an_empty_span() -> None:
    events = written(BlockStart(0, Reasoning()), BlockStop(0))
    assert [each["type"] for each in events] == ["REASONING_START", "REASONING_END"]


def test_signatures_of_texts_and_calls_name_what_they_sign() -> None:
    events = written(
        *(BlockStart(0, Text()), TextDelta(0, "a"), SignatureDelta(0, "s", "google")),
        *(BlockStop(0), BlockStart(1, ToolCall("c", "f", signature="z", issuer="google"))),
        *(JSONDelta(1, "{}"), BlockStop(1)),
    )
    values = [each for each in events if each["type"] == "REASONING_ENCRYPTED_VALUE"]
    assert [(each["subtype"], each["entityId"], each["encryptedValue"]) for each in values] == [
        ("message", "m-1", "sn1.google.s"),
        ("tool-call", "c", "sn1.google.z"),
    ]


def test_call_without_arguments_has_an_object() -> None:
    assert written(*call(0, "c"))[1] == {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}"}


def test_provider_executed_calls_are_marked_and_always_answered() -> None:
    server = [BlockStart(0, ServerToolCall("s", "search", kind="x_use")), BlockStop(0)]
    mark = {"providerExecuted": True, "kind": "x_use"}
    answered = written(*server, BlockStart(1, ServerToolResult("s", "x_result", [1])), BlockStop(1))
    assert answered[0]["metadata"] == mark
    assert [each for each in answered if each["type"] == "TOOL_CALL_RESULT"] == [
        {
            "type": "TOOL_CALL_RESULT",
            "messageId": "m-2",
            "toolCallId": "s",
            "content": "[1]",
            "metadata": {"providerExecuted": True, "kind": "x_result", "isJson": True},
            "role": "tool",
        }
    ]
    assert [each["content"] for each in written(*server) if "content" in each] == [""]


def test_citations_stand_at_the_end_of_their_message() -> None:
    cited = CitationDelta(0, Citation("url_citation", "https://a.test", "A", None, 0, 1))
    events = written(BlockStart(0, Text()), TextDelta(0, "a"), cited, BlockStop(0))
    assert events[-1]["metadata"] == {
        "citations": [{"url": "https://a.test", "title": "A", "start": 0, "end": 1}]
    }


def test_stop_sequence_stands_beside_the_reason() -> None:
    *_, last = payloads(encode(START, MessageStop("stop_sequence", None, "END")))
    assert last["metadata"] == {"stopReason": "stop_sequence", "stopSequence": "END"}


def test_keep_alive_is_a_comment() -> None:
    assert encode(START, Ping()).endswith(b": keep-alive\n\n")


def test_events_of_the_dialect_are_written_back_on_one_line() -> None:
    data = encode(START, Opaque("ag_ui", "STATE_DELTA", '{"type":"STATE_DELTA",\n"delta":[]}'), END)
    assert payloads(data)[1] == {"type": "STATE_DELTA", "delta": []}


def test_fields_of_the_same_dialect_are_written_back() -> None:
    writer = encoder("ag_ui", extras=True)
    start = MessageStart("m", extra={"threadId": "t", "parentRunId": "p"})
    named = BlockStart(0, Text(), extra={"name": "Ann"})
    data = b"".join([writer.encode(event) for event in (start, named, BlockStop(0), END)])
    first, message, *_ = payloads(data)
    assert (first["threadId"], first["parentRunId"], message["name"]) == ("t", "p", "Ann")


def test_error_body_is_what_the_client_shows() -> None:
    body = encoder("ag_ui").error_body(StreamError("upstream", "no", "busy"))
    assert json.loads(body) == {"message": "no", "code": "busy"}


def test_a_block_without_a_form_never_passes_the_projection() -> None:
    start = BlockStart(0, Image("image/png", "AA=="))
    assert payloads(encode(START, start, BlockStop(0), END)) == [STARTED, FINISHED]
    with pytest.raises(AssertionError, match="Image passed the projection"):
        encoder("ag_ui").render(start)


def test_deltas_of_one_part_share_its_message() -> None:
    events = written(
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), ReasoningDelta(0, "b")),
        BlockStop(0),
    )
    assert [each["type"] for each in events].count("REASONING_MESSAGE_START") == 1


def test_delta_writer_equals_the_event() -> None:
    for block, delta in ((Text(), TextDelta), (ToolCall("c", "f"), JSONDelta)):
        writer, other = encoder("ag_ui"), encoder("ag_ui")
        for event in (START, BlockStart(0, block), delta(0, '"')):
            assert writer.encode(event) == other.encode(event)
        write = writer.delta_writer(0)
        for text in ("é", '"'):
            assert write(text) == other.encode(delta(0, text))
        for event in (BlockStop(0), END):
            assert writer.encode(event) == other.encode(event)


def test_stored_arguments_are_bounded() -> None:
    writer = encoder("ag_ui", limits=Limits(max_accumulated_bytes=1_000))
    for event in (START, BlockStart(0, ToolCall("c", "f")), JSONDelta(0, '"' + "a" * 700)):
        writer.encode(event)
    with pytest.raises(LimitExceeded):
        writer.encode(JSONDelta(0, "a" * 300))


def test_result_of_a_client_tool_answers_its_call() -> None:
    """Otherwise a client takes the call for its own, and runs it a second time."""
    result = ToolResult("c", (Text("it "), Text("snows")))
    events = written(*call(0, "c", "{}"), BlockStart(1, result), BlockStop(1))
    assert events[-1] == {
        "type": "TOOL_CALL_RESULT",
        "messageId": "m-2",
        "toolCallId": "c",
        "content": "it snows",
        "role": "tool",
    }


def test_result_of_an_unknown_call_follows_a_call_which_the_thread_needs() -> None:
    """OpenAI's results of a shell name an id that their call has beside its own."""
    result = ServerToolResult("call_s", "shell_call_output", "x")
    blocks = [BlockStart(0, result), BlockStop(0), BlockStart(1, result), BlockStop(1)]
    start, arguments, stop, answer, again = written(*blocks)
    assert start == {
        "type": "TOOL_CALL_START",
        "toolCallId": "call_s",
        "toolCallName": "shell_call_output",
        "parentMessageId": "m-1",
        "metadata": {"providerExecuted": True, "kind": ""},
    }
    assert arguments == {"type": "TOOL_CALL_ARGS", "toolCallId": "call_s", "delta": "{}"}
    assert stop == {"type": "TOOL_CALL_END", "toolCallId": "call_s"}
    assert answer["type"] == again["type"] == "TOOL_CALL_RESULT"
    nameless = ServerToolResult("c", "")
    first, *_ = written(BlockStart(0, nameless), BlockStop(0))
    assert first["toolCallName"] == "tool"


def test_failed_result_of_the_provider_is_marked() -> None:
    block = ServerToolResult("c", "k", {"type": "web_search_tool_result_error"}, is_error=True)
    metadata = written(BlockStart(0, block), BlockStop(0))[-1]["metadata"]
    assert metadata == {"providerExecuted": True, "kind": "k", "isJson": True, "isError": True}


def test_result_of_a_call_of_the_thread_stands_alone() -> None:
    for result in (ToolResult("c"), ServerToolResult("c", "k")):
        for earlier, count in (({"c": False}, 1), ({"d": True}, 4), (None, 1)):
            if earlier is None and isinstance(result, ServerToolResult):
                continue  # it seldom is of an answer before
            writer = encoder("ag_ui")
            assert isinstance(writer, RunEncoder)
            writer.earlier_calls = earlier
            writer.encode(START)
            assert writer.encode(BlockStart(0, result)).count(b"data: ") == count


CUT_RESULT = {
    "type": "TOOL_CALL_RESULT",
    "toolCallId": "d",
    "content": "the answer ended before the arguments of the call",
    "metadata": {"isError": True, "isCut": True},
    "role": "tool",
}


def test_call_that_was_cut_before_its_arguments_has_failed() -> None:
    """Anthropic stops a call that the bound of tokens cut before its first argument.

    The client executes a call without a result.
    """
    blocks = [*call(0, "c"), *call(1, "d")]
    writer = encoder("ag_ui", page_client="ag-ui@1")
    data = b"".join(map(writer.encode, [START, *blocks, MessageStop("max_tokens")]))
    *events, result, last = payloads(data)
    assert result == {**CUT_RESULT, "messageId": "m-2"}
    assert last["outcome"] == {"type": "success", "pendingToolCallIds": ["c"]}
    assert [each["type"] for each in events].count("TOOL_CALL_RESULT") == 0


@pytest.mark.parametrize("reason", ["tool_use", "max_tokens"])
def test_call_whose_arguments_are_no_json_has_failed(reason: Any) -> None:
    """Whether they end early or the model wrote them so."""
    blocks = [*call(0, "d", '{"a', '":'), *call(1, "c", '{"a', '":1}')]
    writer = encoder("ag_ui", page_client="ag-ui@1")
    data = b"".join(map(writer.encode, [START, *blocks, MessageStop(reason)]))
    *events, result, last = payloads(data)
    broken = {**CUT_RESULT, "content": "the arguments of the call are no JSON"}
    assert result == {**broken, "messageId": "m-2"}
    assert last["outcome"] == {"type": "success", "pendingToolCallIds": ["c"]}
    written_arguments = [each["delta"] for each in events if each["type"] == "TOOL_CALL_ARGS"]
    assert "".join(written_arguments) == '{"a":{"a":1}'


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        (call(0, "d"), "tool_use"),
        (call(0, "d", "{}"), "max_tokens"),
        (call(0, "d", " "), "tool_use"),
        ([*call(0, "d"), *text(1, "x")], "max_tokens"),
        ([BlockStart(0, ServerToolCall("d", "f")), BlockStop(0)], "max_tokens"),
        ([*call(0, "d"), BlockStart(1, ToolResult("d")), BlockStop(1)], "max_tokens"),
    ],
)
def test_call_that_was_not_cut_has_not_failed(blocks: list[Event], reason: Any) -> None:
    assert b"isCut" not in encode(START, *blocks, MessageStop(reason))


def test_cut_call_of_a_run_has_failed_unless_the_agent_answers_it() -> None:
    for own in (True, False):
        writer = encoder("ag_ui")
        assert isinstance(writer, RunEncoder)
        b"".join(map(writer.encode, [START, *call(0, "d")]))
        assert writer.end_answer(MessageStop("max_tokens")) == b""
        if own:
            writer.encode(BlockStart(1, ToolResult("d", (Text("Not run."),), is_error=True)))
            writer.encode(BlockStop(1))
        assert (b'"isCut":true' in writer.begin_step(MessageStart())) != own
        assert b"isCut" not in writer.encode(END)


def test_json_of_a_result_is_marked() -> None:
    for value, marks in (('{"a":1}', {"isJson": True}), ("{}", None)):
        result = ToolResult("c", (Text('{"a":1}'),), value=value)
        found = written(*call(0, "c", "{}"), BlockStart(1, result), BlockStop(1))[-1]
        assert (found["content"], found.get("metadata")) == ('{"a":1}', marks)


def test_failed_result_is_marked_and_its_images_are_counted() -> None:
    result = ToolResult("c", (Text("no"), Image("image/png", "QUJD")), is_error=True)
    writer = encoder("ag_ui")
    events = [START, *call(0, "c", "{}"), BlockStart(1, result), BlockStop(1), END]
    *_, found, _ = payloads(b"".join(map(writer.encode, events)))
    assert (found["content"], found["metadata"]) == ("no", {"isError": True})
    assert [(loss.feature, loss.where) for loss in writer.losses] == [("media", "ToolResult")]


def test_count_beyond_javascript_is_left_out() -> None:
    """`@ag-ui/client` 1.0.0 refuses the event for it."""
    usage = Usage(2**53, 2)
    last = payloads(encode(START, UsageUpdate(usage), END))[-1]
    assert last["usage"] == [{"model": "fast-1", "outputTokens": 2}]


def test_event_without_a_type_is_a_loss() -> None:
    writer = encoder("ag_ui", extras=True)
    writer.encode(START)
    assert writer.encode(Opaque("ag_ui", "message", '{"foo":1}')) == b""
    assert [loss.feature for loss in writer.losses] == ["opaque"]


def test_fields_that_a_citation_alone_has_stay() -> None:
    citation = Citation("url_citation", "https://u", extra={"x": 1})
    block = [BlockStart(0, Text()), TextDelta(0, "a"), CitationDelta(0, citation), BlockStop(0)]
    assert written(*block)[-1]["metadata"] == {
        "citations": [{"url": "https://u", "extra": {"x": 1}}]
    }


def test_answers_of_a_run_have_messages_and_usage_of_their_own() -> None:
    writer = encoder("ag_ui", model=None)
    assert isinstance(writer, RunEncoder)
    first = [START, *call(0, "c", "{}"), UsageUpdate(Usage(3, 1))]
    data = b"".join(map(writer.encode, first))
    assert writer.end_answer(MessageStop("tool_use")) == b""
    data += writer.begin_step(MessageStart("n", "large-1"))
    second = [*call(1, "d", "{}"), UsageUpdate(Usage(4, 2))]
    data += b"".join(map(writer.encode, second))
    data += writer.begin_step(MessageStart("o", "fast-1")) + writer.encode(UsageUpdate(Usage(5)))
    *events, last = payloads(data + writer.encode(END))
    parents = [each["parentMessageId"] for each in events if "parentMessageId" in each]
    assert parents == ["m-1", "m-2"]
    assert last["usage"] == [
        {"model": "fast-1", "inputTokens": 8, "outputTokens": 1, "totalTokens": 9},
        {"model": "large-1", "inputTokens": 4, "outputTokens": 2, "totalTokens": 6},
    ]


RESULT = [BlockStart(2, ToolResult("c", (Text("1"),))), BlockStop(2)]


@pytest.mark.parametrize(
    ("events", "pending"),
    [([], []), (call(0, "c", "{}") + call(1, "d", "{}"), ["c", "d"])],
)
def test_rule_20_newer_client_gets_the_calls_that_wait(
    events: list[Event], pending: list[str]
) -> None:
    """0.0.57 and 0.0.59 fail at `pendingToolCallIds`."""
    outcome = {"type": "success", **({"pendingToolCallIds": pending} if pending else {})}
    for version, client in (("1.0", None), ("1.2", None), (None, "ag-ui@1")):
        writer = encoder("ag_ui", page_client=client)
        writer.response_fields = {} if version is None else {"protocolVersion": version}
        data = b"".join([writer.encode(event) for event in [START, *events, END]])
        assert payloads(data)[-1]["outcome"] == outcome
    for version, client in (("0.1", None), (None, None), ("1.0", "ag-ui@0")):
        writer = encoder("ag_ui", page_client=client)
        writer.response_fields = {} if version is None else {"protocolVersion": version}
        data = b"".join([writer.encode(event) for event in [START, *events, END]])
        assert "outcome" not in payloads(data)[-1]


CANCELLED = StreamError("upstream", "the user has stopped the run", "cancelled")


def test_newer_client_reads_that_a_run_was_cancelled() -> None:
    """Everything is ended before it: `src/verify/verify.ts` of `@ag-ui/client` 1.0.0."""
    writer = encoder("ag_ui", page_client="ag-ui@1")
    thought = [BlockStart(0, Reasoning()), ReasoningDelta(0, "Hm.")]
    events = [START, *thought, BlockStart(1, Text()), TextDelta(1, "It"), CANCELLED]
    *_, span, message, finished = payloads(b"".join(map(writer.encode, events)))
    assert (span["type"], message["type"]) == ("REASONING_END", "TEXT_MESSAGE_END")
    assert finished == {"type": "RUN_FINISHED", **RUN, "outcome": {"type": "cancelled"}}


@pytest.mark.parametrize(
    ("client", "events"),
    [
        ("ag-ui@0", [START, *text(0, "It")]),
        ("ag-ui@1", []),
        # The end of a call would say that its arguments are whole.
        ("ag-ui@1", [START, BlockStart(0, ToolCall("c", "f")), JSONDelta(0, '{"a')]),
    ],
)
def test_other_cancelled_runs_are_errors(client: str, events: list[Event]) -> None:
    writer = encoder("ag_ui", page_client=client)
    *_, last = payloads(b"".join(map(writer.encode, [*events, CANCELLED])))
    assert (last["type"], last["code"]) == ("RUN_ERROR", "cancelled")


def test_answered_calls_do_not_wait() -> None:
    writer = encoder("ag_ui", page_client="ag-ui@1")
    events = [START, *call(0, "c", "{}"), *call(1, "d", "{}"), *RESULT, END]
    last = payloads(b"".join(map(writer.encode, events)))[-1]
    assert last["outcome"] == {"type": "success", "pendingToolCallIds": ["d"]}


def test_call_that_the_provider_has_answered_does_not_wait() -> None:
    """Google executes some calls of functions itself, which only the result says."""
    for arguments in ("{}", '{"a'):
        writer = encoder("ag_ui", page_client="ag-ui@1")
        answered = [BlockStart(1, ServerToolResult("c", "functionResponse", 1)), BlockStop(1)]
        data = b"".join(map(writer.encode, [START, *call(0, "c", arguments), *answered, END]))
        *events, last = payloads(data)
        assert last["outcome"] == {"type": "success"}
        assert [each["type"] for each in events].count("TOOL_CALL_RESULT") == 1


def test_outcome_of_the_same_dialect_stays() -> None:
    writer = encoder("ag_ui", page_client="ag-ui@1", extras=True)
    writer.encode(START)
    outcome = {"type": "interrupt", "interrupts": [{"id": "i", "reason": "r"}]}
    stop = MessageStop("pause", "interrupt", extra={"outcome": outcome})
    assert payloads(writer.encode(stop))[-1]["outcome"] == outcome


def test_other_clients_are_refused() -> None:
    with pytest.raises(ValueError, match=r"page_client 'ai@7', expected one of ag-ui@0, ag-ui@1"):
        encoder("ag_ui", page_client="ai@7")
