"""Calls that an agent has executed, in streams of pages: no client of a provider executes them."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from support.streams.content import decode, transcode_in_any_chunks

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Completed,
    Conversation,
    EncodeError,
    Event,
    Failed,
    InputMessage,
    JSONDelta,
    Limits,
    Loss,
    LossyEncoding,
    Message,
    MessageStart,
    MessageStop,
    Opaque,
    Reasoning,
    ReasoningDelta,
    Request,
    ServerToolCall,
    ServerToolResult,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Transcoder,
    accumulate,
    encode_message,
    project,
    run_tools,
)
from streamnorm._core.codec.framing import SSE
from streamnorm._core.json import compact
from streamnorm._core.limits import OBJECT_BYTES, StoredBytes
from streamnorm._core.losses import Losses
from streamnorm._core.losses.executed_calls import ExecutedCalls
from streamnorm.codec import encoder

PROVIDERS = (
    "openai_chat",
    "anthropic",
    "openai_responses",
    "gemini",
    "gemini_interactions",
    "bedrock_converse",
)
each_provider = pytest.mark.parametrize("target", PROVIDERS)
DROPPED = (
    Loss("executed_call", "ToolCall", 1, "dropped"),
    Loss("executed_call", "ToolResult", 1, "dropped"),
)


def frames(*values: dict[str, Any]) -> list[bytes]:
    return [b"data: " + compact(value).encode() + b"\n\n" for value in values]


def ui_text(id: str, text: str) -> list[dict[str, Any]]:
    return [
        {"type": "text-start", "id": id},
        {"type": "text-delta", "id": id, "delta": text},
        {"type": "text-end", "id": id},
    ]


def ui_call(id: str) -> list[dict[str, Any]]:
    return [
        {"type": "tool-input-start", "toolCallId": id, "toolName": "look"},
        {"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": '{"at":'},
        {"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": "1}"},
        {"type": "tool-input-available", "toolCallId": id, "toolName": "look", "input": {"at": 1}},
    ]


def ui_result(id: str) -> dict[str, Any]:
    return {"type": "tool-output-available", "toolCallId": id, "output": "snow"}


def ui_stream(*values: dict[str, Any], reason: str = "stop") -> list[bytes]:
    start = ({"type": "start", "messageId": "m"}, {"type": "start-step"})
    end = ({"type": "finish-step"}, {"type": "finish", "finishReason": reason})
    return [*frames(*start, *values, *end), b"data: [DONE]\n\n"]


def ag_ui_call(id: str) -> list[dict[str, Any]]:
    return [
        {"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "look"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": '{"at":1}'},
        {"type": "TOOL_CALL_END", "toolCallId": id},
    ]


def ag_ui_result(id: str) -> dict[str, Any]:
    fields = {"messageId": f"r{id}", "toolCallId": id, "content": "snow"}
    return {"type": "TOOL_CALL_RESULT", **fields}


def ag_ui_text(id: str, text: str) -> list[dict[str, Any]]:
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text},
        {"type": "TEXT_MESSAGE_END", "messageId": id},
    ]


def ag_ui_stream(*values: dict[str, Any]) -> list[bytes]:
    ids = {"threadId": "t", "runId": "m"}
    return frames({"type": "RUN_STARTED", **ids}, *values, {"type": "RUN_FINISHED", **ids})


EXECUTED = {
    "ui_message_stream": ui_stream(
        *ui_text("0", "I look. "), *ui_call("c"), ui_result("c"), *ui_text("1", "Snow.")
    ),
    "ag_ui": ag_ui_stream(
        *ag_ui_text("a", "I look. "), *ag_ui_call("c"), ag_ui_result("c"), *ag_ui_text("b", "Snow.")
    ),
}
each_page = pytest.mark.parametrize("page", EXECUTED)


def written(
    chunks: list[bytes], page: str, target: str, **options: Any
) -> tuple[Transcoder, Message]:
    """Return a transcoder that has read a page's stream, and the message that a client reads."""
    out, transcoder = transcode_in_any_chunks(chunks, page, target, **options)
    return transcoder, read(out, target)


def executed(losses: tuple[Loss, ...]) -> tuple[Loss, ...]:
    return tuple(loss for loss in losses if loss.feature == "executed_call")


def read(out: bytes, dialect: str) -> Message:
    return accumulate(decode([out], dialect).events)


@each_provider
@each_page
def test_executed_call_reaches_no_client_of_a_provider(page: str, target: str) -> None:
    transcoder, message = written(EXECUTED[page], page, target)
    assert (message.text, message.tool_calls) == ("I look. Snow.", ())
    assert message.stop_reason == "end_turn"
    assert isinstance(transcoder.outcome, Completed)
    assert executed(transcoder.losses) == DROPPED


@each_provider
@each_page
def test_whole_answer_has_no_executed_call(page: str, target: str) -> None:
    message = read(b"".join(EXECUTED[page]), page)
    assert message.tool_calls == ()
    assert [type(block) for block in message.blocks] == [Text, ToolCall, ToolResult, Text]
    whole = encode_message(message, target)
    assert executed(whole.losses) == DROPPED
    assert "look" not in compact(whole.body).replace("I look", "")


@each_provider
def test_call_that_nobody_has_executed_reaches_the_client(target: str) -> None:
    chunks = ui_stream(
        *ui_call("c"), *ui_call("d"), ui_result("c"), *ui_text("0", "One."), reason="tool-calls"
    )
    transcoder, message = written(chunks, "ui_message_stream", target)
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("look", '{"at":1}')]
    assert (message.text, message.stop_reason) == ("One.", "tool_use")
    assert executed(transcoder.losses) == DROPPED


def ui_approval(id: str) -> dict[str, Any]:
    return {"type": "tool-approval-request", "approvalId": f"a{id}", "toolCallId": id}


def ag_ui_interrupt(id: str) -> list[bytes]:
    interrupt = {"id": "i", "reason": "tool_call", "toolCallId": id}
    *begun, _ = ag_ui_stream(*ag_ui_text("a", "May I?"), *ag_ui_call(id))
    outcome = {"type": "interrupt", "interrupts": [interrupt]}
    ids = {"threadId": "t", "runId": "m"}
    return [*begun, *frames({"type": "RUN_FINISHED", **ids, "outcome": outcome})]


UNAPPROVED = {
    "ui_message_stream": ui_stream(
        *ui_text("0", "May I?"), *ui_call("c"), ui_approval("c"), reason="tool-calls"
    ),
    "ag_ui": ag_ui_interrupt("c"),
}


@each_provider
@pytest.mark.parametrize("page", UNAPPROVED)
def test_call_that_a_person_has_to_approve_reaches_no_client_of_a_provider(
    page: str, target: str
) -> None:
    transcoder, message = written(UNAPPROVED[page], page, target)
    assert (message.text, message.tool_calls) == ("May I?", ())
    assert message.stop_reason != "tool_use"
    assert isinstance(transcoder.outcome, Completed)
    assert Loss("unapproved_call", "ToolCall", 1, "dropped") in transcoder.losses


@each_provider
def test_calls_beside_one_that_awaits_approval_wait_with_it(target: str) -> None:
    chunks = ui_stream(
        *ui_call("c"), *ui_call("d"), ui_approval("d"), *ui_text("0", "May I?"), reason="tool-calls"
    )
    transcoder, message = written(chunks, "ui_message_stream", target)
    assert (message.text, message.tool_calls) == ("May I?", ())
    assert Loss("unapproved_call", "ToolCall", 2, "dropped") in transcoder.losses


def test_whole_answer_of_an_agent_lacks_the_call_that_awaits_approval() -> None:
    chunks = ui_stream(
        *(*ui_call("c"), ui_result("c"), *ui_call("d"), ui_approval("d")), reason="tool-calls"
    )
    whole = encode_message(read(b"".join(chunks), "ui_message_stream"), "openai_chat")
    assert "tool_calls" not in whole.body["choices"][0]["message"]
    assert Loss("unapproved_call", "ToolCall", 1, "dropped") in whole.losses


def test_call_that_was_approved_and_executed_is_one_of_the_agent() -> None:
    chunks = ui_stream(
        *(*ui_call("c"), ui_approval("c"), ui_result("c"), *ui_call("d")), reason="tool-calls"
    )
    transcoder, message = written(chunks, "ui_message_stream", "anthropic")
    assert [call.id for call in message.tool_calls] == ["d"]
    assert executed(transcoder.losses) == DROPPED


def test_request_for_approval_of_an_unknown_call_is_an_event_of_the_page() -> None:
    chunks = ui_stream(*ui_call("c"), ui_approval("other"), reason="tool-calls")
    _, message = written(chunks, "ui_message_stream", "anthropic")
    assert [call.id for call in message.tool_calls] == ["c"]


@pytest.mark.parametrize("page", UNAPPROVED)
def test_page_shows_the_call_that_awaits_approval(page: str) -> None:
    """The request for approval itself, too, if the page speaks the same dialect."""
    for target in UNAPPROVED:
        out, _ = transcode_in_any_chunks(UNAPPROVED[page], page, target)
        assert [call.id for call in read(out, target).tool_calls] == ["c"]
        if target == page == "ui_message_stream":
            assert out == b"".join(UNAPPROVED[page])


def test_text_is_written_as_soon_as_no_call_waits() -> None:
    transcoder = Transcoder("ui_message_stream", "openai_chat")
    chunks = iter(EXECUTED["ui_message_stream"])
    outs = [b"".join(transcoder.feed(chunk)) for chunk in chunks]
    shown = [out for out in outs if b'"content":"' in out]
    assert [b"I look. " in shown[0], b"Snow." in shown[1], len(shown)] == [True, True, 2]
    # Each in the read of its own delta: the third chunk after `start`, and that after the result.
    assert [at for at, out in enumerate(outs) if b'"content":"' in out] == [3, 11]


def test_text_that_began_before_the_call_goes_on() -> None:
    begun, *_ = ui_text("0", "")
    delta = {"type": "text-delta", "id": "0", "delta": "I "}
    chunks = ui_stream(begun, delta, *ui_call("c"), delta, {"type": "text-end", "id": "0"})
    transcoder = Transcoder("ui_message_stream", "openai_chat")
    outs = [b"".join(transcoder.feed(chunk)) for chunk in chunks]
    assert [at for at, out in enumerate(outs) if b'"content":"I ' in out] == [3, 8]


def test_held_deltas_are_joined_beside_what_stands_between_them() -> None:
    stored = StoredBytes(10_000)
    calls = ExecutedCalls(True, Losses(), stored)
    citation = CitationDelta(1, Citation("https://example.com/"))
    events = [
        *(BlockStart(0, ToolCall("c", "look")), JSONDelta(0, "{"), JSONDelta(0, "}")),
        *(BlockStart(1, Text()), TextDelta(1, "a"), TextDelta(1, "b"), citation),
        *(TextDelta(1, "c"), BlockStart(2, Reasoning()), ReasoningDelta(2, "d", 0)),
        *(ReasoningDelta(2, "e", 0), ReasoningDelta(2, "f", 1), BlockStop(0), BlockStop(1)),
    ]
    assert [out for event in events for out in calls.push(event)] == []
    sink = calls.held_sink(ReasoningDelta(2, "", 1))
    assert sink is not None
    sink("g")
    stop = MessageStop("tool_use")
    assert calls.push(stop) == [
        *(BlockStart(0, ToolCall("c", "look")), JSONDelta(0, "{}"), BlockStop(0)),
        *(BlockStart(1, Text()), TextDelta(1, "ab"), citation, TextDelta(1, "c"), BlockStop(1)),
        *(BlockStart(2, Reasoning()), ReasoningDelta(2, "de", 0), ReasoningDelta(2, "fg", 1)),
        stop,
    ]
    assert stored.left == stored.bound
    assert calls.held_sink(TextDelta(1, "")) is None


def test_executed_call_has_no_sink_while_another_is_held() -> None:
    calls = ExecutedCalls(True, Losses(), StoredBytes())
    for event in [
        *(BlockStart(0, ToolCall("c", "look")), BlockStart(1, ToolCall("d", "look"))),
        BlockStart(2, ToolResult("c")),
    ]:
        assert calls.push(event) == []
    assert calls.held_sink(JSONDelta(0, "")) is None
    assert calls.held_sink(JSONDelta(1, "")) is not None


def test_ids_of_results_are_counted_once() -> None:
    stored = StoredBytes(10_000)
    calls = ExecutedCalls(True, Losses(), stored)
    for index in range(2):
        calls.push(BlockStart(index, ToolResult("c1")))
        assert stored.bound - stored.left == 2 + OBJECT_BYTES


def test_what_is_discarded_is_not_counted() -> None:
    stored = StoredBytes(10_000)
    calls = ExecutedCalls(True, Losses(), stored)
    for event in [BlockStart(0, ToolCall("c", "look")), JSONDelta(0, "{}")]:
        calls.push(event)
    assert stored.left < stored.bound
    calls.discard()
    assert stored.left == stored.bound


def test_nothing_waits_after_the_end_of_a_choice() -> None:
    calls = ExecutedCalls(True, Losses(), StoredBytes())
    calls.push(BlockStart(0, ToolCall("c", "look")))
    calls.push(MessageStop("tool_use"))
    text = BlockStart(1, Text(), choice=1)
    assert calls.push(text) == [text]


def test_same_dialect_keeps_executed_calls() -> None:
    for page, chunks in EXECUTED.items():
        transcoder, message = written(chunks, page, page)
        assert [type(block) for block in message.blocks] == [Text, ToolCall, ToolResult, Text]
        assert executed(transcoder.losses) == ()


@each_page
def test_the_other_page_shows_executed_calls(page: str) -> None:
    (other,) = EXECUTED.keys() - {page}
    _, message = written(EXECUTED[page], page, other)
    assert [type(block) for block in message.blocks] == [Text, ToolCall, ToolResult, Text]


def test_failed_stream_drops_what_is_held() -> None:
    chunks = [*ui_stream(*ui_call("c"))[:-3], *frames({"type": "error", "errorText": "no"})]
    transcoder, message = written(chunks, "ui_message_stream", "openai_chat")
    assert isinstance(transcoder.outcome, Failed)
    assert (message.blocks, message.stop_reason) == ((), None)
    (held,) = [loss for loss in transcoder.losses if loss.feature == "held"]
    assert (held.where, held.count) == ("failed stream", 1)


@pytest.mark.parametrize("keeps", [True, False])
def test_held_calls_are_bounded(keeps: bool) -> None:
    chunks = ui_stream(*(value for number in range(60) for value in ui_call(f"c{number}")))
    limits = Limits(max_accumulated_bytes=20_000)
    transcoder = Transcoder("ui_message_stream", "gemini", limits=limits, keep_message=keeps)
    outs = [b"".join(transcoder.feed(chunk)) for chunk in chunks] + transcoder.close()
    assert isinstance(outcome := transcoder.outcome, Failed)
    assert outcome.error.code == "max_accumulated_bytes"
    assert b"max_accumulated_bytes" in b"".join(outs) or b"expected at most" in b"".join(outs)


def test_strict_transcoder_refuses_an_executed_call() -> None:
    transcoder = Transcoder("ui_message_stream", "anthropic", strict=True)
    with pytest.raises(LossyEncoding, match="executed_call in ToolCall would be lost"):
        transcoder.feed(b"".join(frames(*ui_call("c"), ui_result("c"))))


def block(index: int, start: Any, *deltas: Event) -> list[Event]:
    return [BlockStart(index, start), *deltas, BlockStop(index)]


CALL = block(0, ToolCall("c", "look"), JSONDelta(0, "{}"))
RESULT = block(1, ToolResult("c", (Text("snow"),)))
TEXT = block(2, Text(), TextDelta(2, "Snow."))
STOP = MessageStop("end_turn")


def test_projection_of_a_list_knows_its_results() -> None:
    events, losses = project([MessageStart("m"), *CALL, *RESULT, *TEXT, STOP], "anthropic")
    numbered = block(0, Text(), TextDelta(0, "Snow."))
    assert events == [MessageStart("m"), *numbered, STOP]
    assert executed(losses) == DROPPED


def test_opaque_event_of_an_executed_call_goes_with_it() -> None:
    opaque = Opaque("ui_message_stream", "n", "{}", 0)
    kept = Opaque("ag_ui", "o", "{}", 2)
    events = [MessageStart("m"), *CALL, opaque, *RESULT, *TEXT, kept, STOP]
    whole = encode_message(accumulate(events), "openai_chat")
    assert [(loss.feature, loss.where) for loss in whole.losses] == [
        ("executed_call", "ToolCall"),
        ("executed_call", "ToolResult"),
        ("opaque", "ag_ui o"),
    ]


@each_provider
def test_encoder_that_has_written_an_executed_call_fails(target: str) -> None:
    writer = encoder(target)
    for event in [MessageStart("m"), *CALL, *RESULT, *TEXT]:
        writer.encode(event)
    out = writer.encode(STOP) + writer.close()
    *_, error = decode([out], target, framing=SSE).events
    assert isinstance(error, StreamError)
    assert "was executed" in error.message


def test_executed_call_is_not_executed_again() -> None:
    message = accumulate([MessageStart("m"), *CALL, *RESULT, *TEXT, STOP])
    assert message.tool_calls == ()
    assert anyio.run(run_tools, message, {"look": lambda: "again"}) == ()
    open_call = ToolCall("d", "look", "{}")
    (result,) = anyio.run(run_tools, [*message.blocks, open_call], {"look": lambda: "done"})
    assert (result.tool_call_id, result.content) == ("d", (Text("done"),))


@each_page
def test_conversation_gets_each_step_as_a_message(page: str) -> None:
    conversation = Conversation(Request(model="m", messages=(InputMessage("user", (Text("q"),)),)))
    with conversation.append_stream(dialect=page) as answer:
        answer.feed(b"".join(EXECUTED[page]))
    assert conversation.open_tool_calls() == ()
    roles = [(message.role, len(message.blocks)) for message in conversation.request.messages]
    assert roles == [("user", 1), ("assistant", 2), ("user", 1), ("assistant", 1)]
    conversation.append(InputMessage("user", (Text("more"),)))
    messages = conversation.dump("openai_chat").body["messages"]
    assert [message["role"] for message in messages] == [
        *("user", "assistant", "tool", "assistant", "user")
    ]


def test_conversation_refuses_a_result_of_no_call_as_a_whole() -> None:
    conversation = Conversation(Request(model="m", messages=(InputMessage("user", (Text("q"),)),)))
    stray = block(1, ToolResult("other", (Text("snow"),)))
    message = accumulate([MessageStart("m"), *CALL, *stray, *TEXT, STOP])
    with pytest.raises(EncodeError, match="result of tool call 'other'"):
        conversation.append(message)
    assert conversation.open_tool_calls() == ()
    assert len(conversation.request.messages) == 1
    conversation.append(accumulate([MessageStart("m"), *CALL, MessageStop("tool_use")]))
    assert [call.id for call in conversation.open_tool_calls()] == ["c"]


def test_conversation_waits_for_the_calls_that_are_left() -> None:
    conversation = Conversation(Request(model="m", messages=(InputMessage("user", (Text("q"),)),)))
    second = block(1, ToolCall("d", "look"), JSONDelta(1, "{}"))
    result = block(2, ToolResult("c", (Text("snow"),)))
    stop = MessageStop("tool_use")
    conversation.append(accumulate([MessageStart("m"), *CALL, *second, *result, stop]))
    assert [call.id for call in conversation.open_tool_calls()] == ["d"]
    conversation.append_tool_result("d", "rain")
    *_, first, last = conversation.dump("openai_chat").body["messages"]
    assert (first["content"], last["content"]) == ("snow", "rain")


@each_provider
def test_result_may_come_before_its_call(target: str) -> None:
    early, late = block(0, ToolResult("c", (Text("snow"),))), block(1, ToolCall("c", "look"))
    events, losses = project([MessageStart("m"), *early, *late, STOP], target)
    assert [type(event) for event in events] == [MessageStart, MessageStop]
    assert executed(losses) == DROPPED[::-1]


@each_provider
def test_second_result_of_a_call_changes_nothing(target: str) -> None:
    again = block(2, ToolResult("c", (Text("rain"),)))
    text = block(3, Text(), TextDelta(3, "Snow."))
    events, losses = project([MessageStart("m"), *CALL, *RESULT, *again, *text, STOP], target)
    assert [type(event.block) for event in events if isinstance(event, BlockStart)] == [Text]
    assert [loss.count for loss in executed(losses)] == [1, 2]


EXECUTED_BY_PROVIDER = {
    "gemini": "functionResponse",
    "gemini_interactions": "function_result_step",
    "openai_responses": "function_call_output",
}


@pytest.mark.parametrize("kind", [*EXECUTED_BY_PROVIDER.values(), "custom_tool_call_output"])
def test_result_of_the_provider_answers_a_call_whatever_its_kind(kind: str) -> None:
    result = block(1, ServerToolResult("c", kind, {"type": kind}))
    events = [MessageStart("m"), *CALL, *result, *TEXT, STOP]
    message = accumulate(events)
    dropped = (DROPPED[0], Loss("executed_call", "ServerToolResult", 1, "dropped"))
    assert message.tool_calls == ()
    whole = encode_message(message, "openai_chat")
    assert "look" not in str(whole.body)
    assert executed(whole.losses) == dropped
    projected, losses = project(events, "openai_chat")
    assert accumulate(projected).blocks == (Text("Snow."),)
    assert executed(losses) == dropped


def test_result_of_the_provider_without_an_id_answers_no_call() -> None:
    result = ServerToolResult("", "codeExecutionResult", {})
    message = Message("m", "model", (ToolCall("", "look", "{}"), result), "tool_use")
    assert [call.name for call in message.tool_calls] == ["look"]
    assert executed(encode_message(message, "openai_chat").losses) == ()


@pytest.mark.parametrize(("dialect", "kind"), EXECUTED_BY_PROVIDER.items())
def test_conversation_goes_on_behind_a_call_that_the_provider_executed(
    dialect: str, kind: str
) -> None:
    chat = Conversation(Request(model="m", messages=(InputMessage("user", (Text("Snow?"),)),)))
    content = {"type": kind, "call_id": "c", "output": "snow"}
    result = ServerToolResult("c", kind, content)
    call = ToolCall("c", "look", '{"at":1}')
    chat.append(Message("m", "m", (call, result, Text("Snow.")), "end_turn"), dialect=dialect)
    assert chat.open_tool_calls() == ()
    chat.append(InputMessage("user", (Text("And now?"),)))
    body = chat.dump(dialect).body
    history = body.get("input") or body["contents"]
    assert "look" in str(history)
    assert "snow" in str(history)
    assert "look" not in str(chat.dump("anthropic").body)


def test_page_gets_the_call_of_the_provider_without_its_signature() -> None:
    losses = Losses()
    calls = ExecutedCalls(False, losses, StoredBytes(), to_page=True)
    start = BlockStart(0, ToolCall("c", "look"))
    for event in (start, JSONDelta(0, "{}"), SignatureDelta(0, "s", "google"), BlockStop(0)):
        assert calls.push(event) == []
    result = BlockStart(1, ServerToolResult("c", "functionResponse", {}))
    server_call = BlockStart(0, ServerToolCall("c", "look"))
    assert calls.push(result) == [server_call, JSONDelta(0, "{}"), BlockStop(0), result]
    assert losses.list() == (Loss("signature", "ServerToolCall", 1, "dropped"),)
