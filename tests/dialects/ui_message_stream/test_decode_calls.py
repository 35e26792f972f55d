"""What is read of calls and their results; expectations by the reducer of `ai` 7.0.173."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.ui_message_stream.reader import (
    FINISH,
    START,
    STEP,
    UI,
    failure,
    middle,
    read,
    tool,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    JSONDelta,
    Limits,
    MessageStop,
    Opaque,
    ServerToolCall,
    ServerToolResult,
    SignatureDelta,
    Text,
    ToolCall,
    ToolResult,
    Transcoder,
)


def test_call_in_deltas_and_whole() -> None:
    assert middle(
        tool("input-start", dynamic=True),
        tool("input-delta", inputTextDelta='{"a"'),
        tool("input-delta", inputTextDelta=":1}"),
        tool(
            "input-available",
            input={"a": 1},
            providerMetadata={"google": {"thoughtSignature": "g"}},
        ),
    ) == [
        BlockStart(0, ToolCall("c", "f"), extra={"dynamic": True}),
        JSONDelta(0, '{"a"'),
        JSONDelta(0, ":1}"),
        SignatureDelta(0, "g", "google"),
        BlockStop(0),
    ]
    chunk = '{"type":"tool-input-available","toolCallId":"c","toolName":"f","input":{"n": 1.50}}'
    assert middle(chunk)[1] == JSONDelta(0, '{"n": 1.50}')
    lone = chunk.replace("1.50", '"\\ud800"')
    assert middle(lone)[1] == JSONDelta(0, '{"n":"\ufffd"}')


def test_call_of_the_client_ends_with_tool_use_until_it_has_a_result() -> None:
    call = tool("input-available", input={})
    events, _ = read(START, call, FINISH)
    assert events[-1] == MessageStop("tool_use", "stop")
    events, _ = read(START, call, tool("output-available", output="ok"), FINISH)
    assert events[-3:-1] == [BlockStart(1, ToolResult("c", (Text("ok"),))), BlockStop(1)]
    assert events[-1] == MessageStop("end_turn", "stop")


@pytest.mark.parametrize(
    ("chunk", "result"),
    [
        (
            tool("output-available", output={"a": 1}),
            ToolResult("c", (Text('{"a":1}'),), value='{"a":1}'),
        ),
        (tool("output-available", output=[1]), ToolResult("c", (Text("[1]"),))),
        (tool("output-error", errorText="no"), ToolResult("c", (Text("no"),), is_error=True)),
        (
            tool("output-denied"),
            ToolResult("c", (Text("Tool call execution denied."),), is_error=True),
        ),
    ],
)
def test_results(chunk: Any, result: ToolResult) -> None:
    assert middle(tool("input-available", input={}), chunk)[-2] == BlockStart(1, result)


@pytest.mark.parametrize("by_provider", [False, True])
@pytest.mark.parametrize(
    "output",
    [
        {"type": "tool-output-available", "output": "ok"},
        {"type": "tool-output-error", "errorText": "no"},
    ],
)
def test_result_of_a_call_with_an_empty_id_has_the_minted_one(
    output: dict[str, Any], by_provider: bool
) -> None:
    named = tool("input-available", input={}, toolCallId="", providerExecuted=by_provider)
    started, answered = (
        event.block
        for event in middle(named, {**output, "toolCallId": ""})
        if isinstance(event, BlockStart)
    )
    assert isinstance(started, ToolCall | ServerToolCall)
    assert isinstance(answered, ToolResult | ServerToolResult)
    assert answered.tool_call_id == started.id != ""


def test_preliminary_and_repeated_results_are_opaque() -> None:
    call = tool("input-start"), tool("output-available", output=1, preliminary=True)
    found = middle(*call, tool("output-available", output=2), tool("output-available", output=3))
    assert [type(event) for event in found] == [
        *(BlockStart, BlockStop, Opaque, BlockStart, BlockStop, Opaque),
    ]


def test_tool_of_the_provider() -> None:
    by_provider = {"providerExecuted": True}
    found = middle(
        tool("input-available", input={}, **by_provider),
        tool("output-available", output=[1], **by_provider),
    )
    assert found[0] == BlockStart(0, ServerToolCall("c", "f", kind="f"))
    assert found[3] == BlockStart(1, ServerToolResult("c", "f", [1]))


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ('{"type":"web_fetch_tool_result_error"}', {"type": "web_fetch_tool_result_error"}),
        ('[{"type":"text","text":"no"}]', [{"type": "text", "text": "no"}]),
        # Not as an encoder writes JSON.
        ('{"type": "x"}', '{"type": "x"}'),
        ('{"type"', '{"type"'),
        ("12", "12"),
        ("no", "no"),
    ],
)
def test_error_of_a_server_tool_is_its_result(text: str, content: object) -> None:
    by_provider = {"providerExecuted": True}
    found = middle(
        tool("input-available", input={}, **by_provider),
        tool("output-error", errorText=text, **by_provider),
    )
    assert found[3] == BlockStart(1, ServerToolResult("c", "f", content, is_error=True))


def test_call_of_a_server_tool_that_a_person_denied_has_failed() -> None:
    by_provider = {"providerExecuted": True}
    found = middle(
        tool("input-available", input={}, **by_provider), tool("output-denied", **by_provider)
    )
    assert found[3] == BlockStart(1, ServerToolResult("c", "f", None, is_error=True))


def test_error_of_an_input_is_a_failed_result() -> None:
    found = middle(tool("input-error", input='{"a', errorText="bad"))
    assert found[1:4] == [
        JSONDelta(0, '{"a'),
        BlockStop(0, is_unfinished=True),
        BlockStart(1, ToolResult("c", (Text("bad"),), is_error=True)),
    ]
    ours = "the arguments of the call are no JSON"
    deltas = tool("input-start"), tool("input-delta", inputTextDelta='{"a')
    assert len(middle(*deltas, tool("input-error", input='{"a', errorText=ours))) == 3
    # Its arguments are whole, and no tool has failed.
    refused = "the arguments of the call cannot be given to a page"
    assert middle(tool("input-error", input='{"__proto__":1}', errorText=refused))[1:] == [
        JSONDelta(0, '{"__proto__":1}'),
        BlockStop(0),
    ]
    found = middle(tool("input-error", input={}, errorText="bad", providerExecuted=True))
    assert found[-2] == BlockStart(1, ServerToolResult("c", "f", "bad", is_error=True))
    assert middle(tool("input-error", input="", errorText="bad"))[1] == BlockStop(
        0, is_unfinished=True
    )


def test_whole_input_that_a_server_refused_is_never_available_again() -> None:
    refused = tool("input-error", input={"a": 1}, errorText="bad")
    assert BlockStop(0, is_unfinished=True) in middle(refused)
    chunks = (json.dumps(each) for each in (START, STEP, refused, FINISH))
    written = Transcoder(UI, UI, verbatim=False)
    data = b"".join(written.feed("".join(f"data: {chunk}\n\n" for chunk in chunks).encode()))
    assert b"tool-input-available" not in data
    assert b"tool-input-error" in data


def test_id_of_a_call_may_be_used_again_in_a_later_step() -> None:
    call = tool("input-available", input={})
    found = middle(call, STEP, call, tool("output-available", output="x"))
    assert [event.index for event in found if isinstance(event, BlockStart)] == [0, 1, 2]
    events, _ = read(START, STEP, call, STEP, call, tool("output-available", output=1), FINISH)
    assert events[-1] == MessageStop("tool_use", "stop")


def test_input_other_than_its_deltas_is_noted() -> None:
    """The AI SDK validates, completes and repairs the input behind the deltas."""
    events, reader = read(
        START,
        tool("input-start"),
        tool("input-delta", inputTextDelta="[1]"),
        tool("input-available", input=[2]),
        FINISH,
    )
    assert events[1:4] == [BlockStart(0, ToolCall("c", "f")), JSONDelta(0, "[1]"), BlockStop(0)]
    assert [note.kind for note in reader.notes] == ["changed_arguments"]
    assert isinstance(reader.outcome, Completed)


def test_free_text_of_a_custom_tool() -> None:
    custom = BlockStart(0, ToolCall("c", "f", kind="custom"))
    assert middle(
        tool("input-start", inputEncoding="text"),
        tool("input-delta", inputTextDelta="a b"),
        tool("input-available", input="a b"),
    ) == [custom, JSONDelta(0, "a b"), BlockStop(0)]
    assert middle(tool("input-available", input="a b")) == [
        custom,
        JSONDelta(0, "a b"),
        BlockStop(0),
    ]
    assert middle(tool("input-available", input="a", providerExecuted=True)) == [
        BlockStart(0, ServerToolCall("c", "f", kind="f")),
        JSONDelta(0, '"a"'),
        BlockStop(0),
    ]


def test_call_that_the_bound_of_tokens_cut_has_no_result() -> None:
    cut = "the answer ended before the arguments of the call"
    assert middle(tool("input-start"), tool("input-error", input="", errorText=cut)) == [
        BlockStart(0, ToolCall("c", "f")),
        BlockStop(0),
    ]


def test_stored_input_is_bounded() -> None:
    limits = Limits(max_accumulated_bytes=2000)
    pieces = [tool("input-delta", inputTextDelta="x" * 40)] * 60
    assert failure(tool("input-start"), *pieces, limits=limits).kind == "too_large"


def test_signature_at_the_start_of_a_call_holds_to_its_end() -> None:
    start = tool("input-start", providerMetadata={"google": {"thoughtSignature": "g"}})
    assert middle(start, tool("input-available", input={})) == [
        BlockStart(0, ToolCall("c", "f")),
        JSONDelta(0, "{}"),
        SignatureDelta(0, "g", "google"),
        BlockStop(0),
    ]


def test_call_whose_input_never_came_is_unfinished() -> None:
    """The client executes no call before its input is available."""
    assert middle(tool("input-start"))[-1] == BlockStop(0, is_unfinished=True)
    error = "the arguments of the call ended early"
    ended = tool("input-error", input="", errorText=error)
    assert middle(tool("input-start"), ended)[-1] == BlockStop(0, is_unfinished=True)


def test_result_ends_a_call_whose_input_is_open() -> None:
    found = middle(tool("input-start"), tool("output-available", output="a"))
    assert found[:2] == [BlockStart(0, ToolCall("c", "f")), BlockStop(0)]


def test_refused_call_has_its_result() -> None:
    refused = tool("input-error", input={}, errorText="bad")
    found = middle(refused, tool("output-available", output=1))
    assert type(found[-1]) is Opaque


def test_result_may_say_that_the_provider_executed_the_call() -> None:
    call = tool("input-available", input={})
    own = middle(call, tool("output-available", output="x"))
    assert own[-2] == BlockStart(1, ToolResult("c", (Text("x"),)))
    provided = middle(call, tool("output-available", output="x", providerExecuted=True))
    assert provided[-2] == BlockStart(1, ServerToolResult("c", "f", "x"))


def test_metadata_of_a_call_that_is_stored_is_bounded() -> None:
    call = tool("input-start", providerMetadata={"x": {"y": "a" * 9000}})
    assert failure(call, limits=Limits(max_accumulated_bytes=9000)).kind == "too_large"
