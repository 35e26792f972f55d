"""`Run`: the ids of calls, and which result belongs to which call."""

from __future__ import annotations

import pytest
from support.frontend.runs import (
    AG,
    BOTH,
    UI,
    calls,
    chunks_of,
    result,
    says,
    types_of,
    whole,
    write,
)
from support.streams.content import decode

from streamnorm import (
    Block,
    BlockStart,
    BlockStop,
    Event,
    Failed,
    InputMessage,
    JSONDelta,
    Limits,
    LocalProtocolError,
    MessageStart,
    MessageStop,
    Request,
    ServerToolCall,
    ServerToolResult,
    StopReason,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    accumulate,
    decode_request,
)
from streamnorm.frontend import Run
from streamnorm.validation import validate


@BOTH
def test_id_of_a_call_is_used_once_in_a_run(to: str) -> None:
    """Providers number calls from 0; AG-UI's clients append to the call of a used id."""
    answer = [*calls("call_0", "call_1"), result("call_0", "1"), result("call_1", "2")]
    chunks = whole(to, *answer, *answer, *answer, *says("Done."))
    ids = [each["toolCallId"] for each in chunks if "toolCallId" in each]
    assert [*dict.fromkeys(ids)] == [
        *("call_0", "call_1", "call_0-2", "call_1-2", "call_0-3", "call_1-3"),
    ]
    results = [
        chunk["toolCallId"]
        for chunk in chunks
        if chunk["type"] in ("tool-output-available", "TOOL_CALL_RESULT")
    ]
    assert results == [*dict.fromkeys(ids)]


def test_id_that_a_call_got_is_not_given_again() -> None:
    chunks = whole(UI, *calls("a"), *calls("a"), *calls("a-2"), *says("Done."))
    starts = [each["toolCallId"] for each in chunks if each["type"] == "tool-input-start"]
    assert starts == ["a", "a-2", "a-2-2"]


def test_failed_tool_is_an_error_of_its_call() -> None:
    failed = result("c", "no such city", is_error=True)
    ui = whole(UI, *calls("c"), [failed], *says("Sorry."))
    assert {"type": "tool-output-error", "toolCallId": "c", "errorText": "no such city"} in ui
    ag = whole(AG, *calls("c"), [failed], *says("Sorry."))
    (written,) = [chunk for chunk in ag if chunk["type"] == "TOOL_CALL_RESULT"]
    assert (written["content"], written["metadata"]) == ("no such city", {"isError": True})


@BOTH
def test_result_is_written_while_other_tools_still_run(to: str) -> None:
    run = Run(to)
    write(run, *calls("a", "b"))
    assert types_of(write(run, result("b", "2")))[-1] in (
        "tool-output-available",
        "TOOL_CALL_RESULT",
    )
    assert write(run, result("a", "1"))


@BOTH
def test_result_may_come_before_its_answer_ends(to: str) -> None:
    *answer, usage, stop = calls("a")
    late = [BlockStart(1, Text()), TextDelta(1, "…"), BlockStop(1)]
    run = Run(to)
    write(run, *answer, result("a", "1"), *late, usage, stop)
    run.finish()
    kinds = [type(block).__name__ for block in run.message.blocks]
    assert kinds == ["ToolCall", "ToolResult", "Text"]


def test_tool_of_the_provider_may_be_answered_in_a_later_step() -> None:
    """Anthropic pauses a turn, and goes on with it in the next answer."""
    paused: list[Event] = [
        MessageStart("msg_1", "m-1"),
        BlockStart(0, ServerToolCall("s", "web_search", kind="server_tool_use")),
        BlockStop(0),
        MessageStop("pause"),
    ]
    found = ServerToolResult("s", "web_search_tool_result", [])
    resumed = [MessageStart("msg_2", "m-1"), BlockStart(0, found), BlockStop(0)]
    chunks = whole(UI, *paused, *resumed, MessageStop("end_turn"))
    outputs = [chunk for chunk in chunks if chunk["type"] == "tool-output-available"]
    assert [(each["toolCallId"], each["providerExecuted"]) for each in outputs] == [("s", True)]
    assert types_of(chunks).count("tool-input-available") == 1


@BOTH
def test_id_of_an_earlier_call_of_the_chat_is_not_given_again(to: str) -> None:
    """Clients take them for one call: Kimi K2 numbers the calls of a tool from 0."""
    blocks = (ToolCall("f:0", "f", "{}"), ServerToolCall("f:1", "g", "{}", "g"))
    earlier = InputMessage("assistant", blocks), InputMessage("user", (result("f:0", "1"),))
    run = Run(to, request=Request(messages=earlier))
    chunks = write(run, *calls("f:0", "f:1", "f:2"), result("f:0", "2"))
    ids = [chunk["toolCallId"] for chunk in chunks if "toolCallId" in chunk]
    assert [*dict.fromkeys(ids)] == ["f:0-2", "f:1-2", "f:2"]
    assert ids[-1] == "f:0-2"


@BOTH
def test_results_of_calls_of_one_id_belong_to_them_in_order(to: str) -> None:
    chunks = whole(to, *calls("c", "c"), [result("c", "1"), result("c", "2")], *says("Done."))
    given = {
        chunk["toolCallId"]: chunk.get("output") or chunk["content"]
        for chunk in chunks
        if chunk["type"] in ("tool-output-available", "TOOL_CALL_RESULT")
    }
    assert given == {"c": "1", "c-2": "2"}


def test_results_are_of_the_calls_of_the_last_answer() -> None:
    """An agent may leave calls of an answer without results."""
    chunks = whole(UI, *calls("c", "c"), *calls("c"), result("c", "3"), *says("Done."))
    assert [each["toolCallId"] for each in chunks if "output" in each] == ["c-3"]


@BOTH
def test_call_without_an_id_gets_one(to: str) -> None:
    chunks = whole(to, *calls(""), result("", "1"), *calls(""), result("", "2"), *says("Done."))
    ids = [each["toolCallId"] for each in chunks if "toolCallId" in each]
    assert [*dict.fromkeys(ids)] == ["call", "call-2"]


@BOTH
def test_call_without_a_name_is_an_error_of_the_run(to: str) -> None:
    """A page sends back no such call."""
    run = Run(to)
    last = write(run, MessageStart(), BlockStart(0, ToolCall("c", "")))[-1]
    assert last["type"] in ("error", "RUN_ERROR")
    assert run.outcome == Failed(StreamError("malformed", "a call without a name, expected one"))


# What a page sends after its tool has answered: the call c stands in the message that goes on, and
# b in an earlier one.
EARLIER = (
    InputMessage("user", (Text("Hi"),)),
    InputMessage("assistant", (ToolCall("b", "f", "{}"),)),
    InputMessage("user", (result("b", "1"),)),
    InputMessage("user", (Text("And now?"),)),
    InputMessage("assistant", (ToolCall("c", "f", "{}"),)),
)


@pytest.mark.parametrize(("to", "known"), [(UI, {"c"}), (AG, {"b", "c"})])
def test_result_has_a_call_before_it(to: str, known: set[str]) -> None:
    """`useChat` fails at a result whose call is not in its message; AG-UI's in no thread."""
    for id in ("a", "b", "c"):
        run = Run(to, request=Request(messages=EARLIER), ids={"messageId": "page-1"})
        chunks = write(run, result(id, "x"))
        starts = {"tool-input-start", "tool-input-available", "TOOL_CALL_START"}
        assert bool(starts & {*types_of(chunks)}) == (id not in known), id
        assert chunks[-1]["toolCallId"] == id


@BOTH
def test_result_of_a_shell_names_another_id_than_its_call(to: str) -> None:
    """OpenAI's: the client knows no call of it, also in a message that is continued."""
    shell = [
        MessageStart("msg_1", "m-1"),
        BlockStart(0, ServerToolCall("sh1", "shell", kind="shell_call")),
        JSONDelta(0, '{"a":1}'),
        BlockStop(0),
        BlockStart(1, ServerToolResult("call_sh1", "shell_call_output", {"out": 1})),
        BlockStop(1),
        MessageStop("end_turn"),
    ]
    run = Run(to, ids={"messageId": "page-1"})
    body = b"".join([run.write(event) for event in shell]) + run.finish()
    assert not validate(body, to)
    blocks = accumulate(decode([body], to).events).blocks
    names = {block.id: block.name for block in blocks if isinstance(block, ServerToolCall)}
    assert names == {"sh1": "shell", "call_sh1": "shell_call_output"}
    results = [block.content for block in blocks if isinstance(block, ServerToolResult)]
    assert {"out": 1} in results


@BOTH
def test_result_of_a_call_that_is_open_is_refused(to: str) -> None:
    """Half a call would be shown as done."""
    run = Run(to)
    write(run, MessageStart(), BlockStart(0, ToolCall("c", "f")), JSONDelta(0, '{"a'))
    problem = "result of an open call, expected the end of the call"
    with pytest.raises(LocalProtocolError, match=problem):
        run.write(result("c", "r"))
    with pytest.raises(LocalProtocolError, match=problem):
        run.write(BlockStart(1, result("c", "r")))
    write(run, BlockStop(0))
    assert write(run, result("c", "r"))


def test_approved_calls_of_a_continued_message_are_answered_first() -> None:
    chunks = whole(UI, [result("c", "sent")], *says("Done."), messageId="page-1")
    assert types_of(chunks)[:5] == [
        *("start", "start-step", "tool-output-available", "finish-step", "start-step"),
    ]


PAID = result("c1", "paid")


def written_past(input: object = 1, kind: str = "tool-pay") -> Request:
    """Return the request of a page whose user approved a call and wrote on."""
    call = {"type": kind, "toolName": "pay", "toolCallId": "c1", "input": input}
    approved = {"state": "approval-responded", "approval": {"id": "q", "approved": True}}
    messages = [
        {"role": "user", "parts": [{"type": "text", "text": "pay"}]},
        {"role": "assistant", "parts": [{"type": "step-start"}, {**call, **approved}]},
        {"role": "user", "parts": [{"type": "text", "text": "go"}]},
    ]
    return decode_request({"id": "c", "messages": messages}, UI)


@pytest.mark.parametrize(
    ("input", "arguments"), [({"n": 1}, '{"n":1}'), ("print(1)", '"print(1)"'), (None, "null")]
)
def test_call_of_an_earlier_message_is_repeated_for_its_result(
    input: object, arguments: str
) -> None:
    """The client finds the call of a result in the current message alone.

    It executes a call whose input is available, and this one was executed.
    """
    run = Run(UI, request=written_past(input))
    body = b"".join(map(run.write, [PAID, *says("Paid.")])) + run.finish()
    assert chunks_of(body)[2:6] == [
        {
            "type": "tool-input-start",
            "toolCallId": "c1",
            "toolName": "pay",
            "providerMetadata": {"streamnorm": {"isRepeated": True}},
        },
        {"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": arguments},
        {"type": "tool-output-available", "toolCallId": "c1", "output": "paid"},
        {"type": "finish-step"},
    ]
    assert run.losses == ()
    assert not validate(body, UI)
    read = decode([body], UI)
    call = ToolCall("c1", "pay", arguments)
    assert accumulate(read.events).blocks == (call, PAID, Text("Paid."))
    assert read.notes == ()


def test_result_of_the_provider_repeats_no_call_of_the_client() -> None:
    """OpenAI's results of a shell name an id that their call has beside its own."""
    shell = ServerToolResult("c1", "shell_call_output", {"out": 1})
    answer = [MessageStart(), BlockStart(0, shell), BlockStop(0), MessageStop("end_turn")]
    run = Run(UI, request=written_past())
    body = b"".join(map(run.write, answer)) + run.finish()
    chunk = chunks_of(body)[2]
    assert (chunk["toolName"], chunk["providerExecuted"]) == ("shell_call_output", True)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("tool_use", "tool-input-available"), ("max_tokens", "tool-input-error")],
)
def test_call_without_arguments_is_settled_by_the_end_of_its_answer(
    reason: StopReason, expected: str
) -> None:
    """The bound of tokens may have cut it before its first argument."""
    run = Run(UI)
    call = [MessageStart("m", "m-1"), BlockStart(0, ToolCall("c", "f")), BlockStop(0)]
    assert types_of(write(run, *call))[-1] == "tool-input-start"
    assert types_of(write(run, MessageStop(reason))) == [expected]
    failed = result("c", "Not executed: cut off.", is_error=True)
    assert types_of(write(run, failed)) == ["tool-output-error"]
    assert "tool-input-available" not in types_of(chunks_of(run.finish()))


def test_cut_call_without_arguments_is_never_a_call_of_the_client() -> None:
    """AG-UI's client executes a call without a result once the run has ended."""
    for items in ([], [result("c", "Not executed: cut off.", is_error=True)], says("Sorry.")):
        run = Run(AG)
        call = [MessageStart("m", "m-1"), BlockStart(0, ToolCall("c", "f")), BlockStop(0)]
        body = b"".join(map(run.write, [*call, MessageStop("max_tokens"), *items])) + run.finish()
        results = [each for each in chunks_of(body) if each["type"] == "TOOL_CALL_RESULT"]
        assert [each["metadata"]["isError"] for each in results] == [True]


def turn(*blocks: Block, reason: StopReason = "end_turn") -> list[Event]:
    """Return an answer of Google's in which it may execute functions itself."""
    events: list[Event] = [MessageStart("r", "gemini-3", extra={"turnToken": "v1"})]
    for index, block in enumerate(blocks):
        events += [BlockStart(index, block), BlockStop(index)]
        if isinstance(block, ToolCall):
            events.insert(-1, JSONDelta(index, '{"city":"Oslo"}'))
    return [*events, MessageStop(reason)]


STARTS = ("tool-input-start", "TOOL_CALL_START")
RESULTS = ("tool-output-available", "TOOL_CALL_RESULT")
SNOW = ServerToolResult("s", "functionResponse", {"snow": True})


@BOTH
def test_call_that_google_has_executed_is_none_of_the_page(to: str) -> None:
    """`useChat` executes a call whose input is available, unless the provider has (`onToolCall`).

    With `mcpServers` only the result, in a later chunk, shows that the client is not asked
    (js-genai's recordings of server-side MCP).
    """
    answer = turn(ToolCall("s", "snow"), SNOW, ToolCall("c", "weather"), reason="tool_use")
    chunks = whole(to, *answer, result("c", "sunny"), *says("Sun."))
    starts = {each["toolCallId"]: each for each in chunks if each["type"] in STARTS}
    marks = {id: each.get("metadata", each).get("providerExecuted") for id, each in starts.items()}
    assert marks == {"s": True, "c": None}
    for each in chunks:
        if each["type"] == "tool-input-available":
            assert each.get("providerExecuted", False) == (each["toolCallId"] == "s")
    results = [each["toolCallId"] for each in chunks if each["type"] in RESULTS]
    assert results == ["s", "c"]


@BOTH
def test_call_of_the_page_in_such_an_answer_is_written_at_its_end(to: str) -> None:
    run = Run(to)
    *answer, stop = turn(ToolCall("c", "weather"), reason="tool_use")
    assert not any(each.get("toolCallId") == "c" for each in write(run, *answer))
    assert [each["toolCallId"] for each in write(run, stop)] == ["c", "c", "c"]
    assert run.message.tool_calls == (ToolCall("c", "weather", '{"city":"Oslo"}'),)
    # The next answer, of another provider, holds nothing.
    written = write(run, result("c", "sunny"), *calls("d")[:-2])
    assert "d" in [each.get("toolCallId") for each in written]


@BOTH
def test_held_call_is_lost_with_its_answer(to: str) -> None:
    run = Run(to)
    body = b"".join(map(run.write, turn(ToolCall("c", "weather"))[:-1]))
    body += run.fail(StreamError("upstream", "overloaded"))
    assert b"weather" not in body
    assert isinstance(run.outcome, Failed)
    assert [(loss.feature, loss.where) for loss in run.losses] == [
        ("extra", "turnToken"),
        ("held", "failed stream"),
    ]


def test_held_calls_are_bounded() -> None:
    run = Run(UI, limits=Limits(max_accumulated_bytes=1000))
    *answer, _ = turn(*[ToolCall(f"c{number}", "weather") for number in range(20)])
    written: list[bytes] = []
    while run.outcome is None:
        written.append(run.write(answer[len(written)]))
    assert b"weather" not in b"".join(written)
    assert isinstance(run.outcome, Failed)
    assert run.outcome.error.code == "max_accumulated_bytes"
