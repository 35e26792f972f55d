"""Calls that wait for the client: an error where the target has no form for them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.streams.content import decode, transcode

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    EncodeError,
    Event,
    Failed,
    JSONDelta,
    Loss,
    Message,
    MessageStart,
    MessageStop,
    OpaqueBlock,
    Reasoning,
    ReasoningDelta,
    ServerToolCall,
    ServerToolResult,
    StreamError,
    Text,
    TextDelta,
    encode_message,
    project,
    translate_message,
)

WAITING: dict[str, dict[str, Any]] = {
    "apply_patch_call": {
        "call_id": "call_1",
        "operation": {"type": "delete_file", "path": "a.py"},
    },
    "computer_call": {
        "call_id": "call_1",
        "action": {"type": "screenshot"},
        "pending_safety_checks": [],
    },
    "local_shell_call": {
        "call_id": "call_1",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    },
    "mcp_approval_request": {"name": "ask", "server_label": "dice", "arguments": "{}"},
    "shell_call": {"call_id": "call_1", "action": {"commands": ["ls"]}},
    "tool_search_call": {"call_id": "call_1", "execution": "client", "arguments": {"q": "tea"}},
}
"""Fields of items that the client executes or approves."""

SERVED: dict[str, tuple[str, dict[str, Any]]] = {
    "a shell in the provider's container": (
        "shell_call",
        {
            "call_id": "call_1",
            "action": {"commands": ["ls"]},
            "environment": {"type": "container_reference", "container_id": "cntr_1"},
        },
    ),
    "a search of the provider's own": (
        "tool_search_call",
        {"call_id": None, "execution": "server", "arguments": {"paths": ["tea"]}},
    ),
    "a search": ("web_search_call", {"action": {"type": "search", "query": "tea"}}),
}

OTHERS = ("anthropic", "gemini", "openai_chat", "gemini_interactions")
OWN = "openai_responses"

each_kind = pytest.mark.parametrize("kind", WAITING)
each_target = pytest.mark.parametrize("target", OTHERS)


def response(*items: dict[str, Any]) -> dict[str, Any]:
    """Return a whole response with some items."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1790000000,
        "status": "completed",
        "model": "gpt-5.4",
        "output": [*items],
        "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    }


def item(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    status = {} if kind == "mcp_approval_request" else {"status": "completed"}
    return {"id": "it_1", "type": kind, **status, **fields}


def stream(*items: dict[str, Any]) -> bytes:
    """Return the stream of the same response."""
    whole = response(*items)
    payloads = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
    ]
    for index, each in enumerate(items):
        added = {"type": "response.output_item.added", "output_index": index, "item": each}
        payloads += [added, {**added, "type": "response.output_item.done"}]
    payloads.append({"type": "response.completed", "response": whole})
    frames = [
        f"event: {payload['type']}\ndata: {json.dumps({**payload, 'sequence_number': number})}\n\n"
        for number, payload in enumerate(payloads)
    ]
    return "".join(frames).encode()


def problem(kind: str, target: str) -> str:
    return f"{kind} waits for the client, expected a call that {target} has"


@each_target
@each_kind
def test_stream_with_a_call_for_the_client_ends_in_an_error(kind: str, target: str) -> None:
    out, run = transcode([stream(item(kind, WAITING[kind]))], OWN, target)
    assert run.outcome == Failed(
        StreamError("malformed", problem(kind, target), kind, 400, retryable=False)
    )
    (*_, last) = decode([out], target).events
    assert isinstance(last, StreamError)
    assert last.message == problem(kind, target)


@each_target
@each_kind
def test_whole_answer_with_a_call_for_the_client_is_refused(kind: str, target: str) -> None:
    with pytest.raises(EncodeError) as caught:
        translate_message(response(item(kind, WAITING[kind])), to=target, dialect=OWN)
    assert str(caught.value) == f"blocks: {problem(kind, target)}"


@each_kind
def test_call_for_the_client_passes_in_its_own_dialect(kind: str) -> None:
    _, run = transcode([stream(item(kind, WAITING[kind]))], OWN, OWN, model="other")
    assert isinstance(run.outcome, Completed)
    body = response(item(kind, WAITING[kind]))
    translated = translate_message(body, to=OWN, dialect=OWN, model="other").body
    assert translated["output"] == body["output"]


@each_target
def test_text_beside_the_call_does_not_complete_the_answer(target: str) -> None:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
    }
    items = (message, item("computer_call", WAITING["computer_call"]))
    _, run = transcode([stream(*items)], OWN, target)
    assert isinstance(run.outcome, Failed)
    with pytest.raises(EncodeError, match="computer_call waits for the client"):
        translate_message(response(*items), to=target, dialect=OWN)


@each_target
@pytest.mark.parametrize("case", SERVED)
def test_call_of_the_provider_alone_is_a_loss(case: str, target: str) -> None:
    kind, fields = SERVED[case]
    _, run = transcode([stream(item(kind, fields))], OWN, target)
    assert isinstance(run.outcome, Completed)
    assert [loss.feature for loss in run.losses] == ["server_tool"]
    whole = translate_message(response(item(kind, fields)), to=target, dialect=OWN)
    assert [loss.feature for loss in whole.losses] == ["server_tool"]


@each_target
def test_call_that_the_provider_has_answered_is_a_loss(target: str) -> None:
    """An older shell says no environment; what the provider has run has its output behind it."""
    output = {"id": "sho_1", "type": "shell_call_output", "call_id": "call_1", "output": []}
    items = (item("shell_call", WAITING["shell_call"]), output)
    assert isinstance(transcode([stream(*items)], OWN, target)[1].outcome, Completed)
    assert translate_message(response(*items), to=target, dialect=OWN).losses


def events_of(*blocks: Event, stop: MessageStop) -> list[Event]:
    return [MessageStart("m", "gpt"), *blocks, stop]


def test_cut_answer_explains_why_nobody_executes_the_call() -> None:
    call = ServerToolCall("cc_1", "computer_call", kind="computer_call")
    stop = MessageStop("max_tokens")
    events = events_of(BlockStart(0, call), BlockStop(0), stop=stop)
    assert project(events, "openai_chat")[0] == [MessageStart("m", "gpt"), stop]


def test_arguments_that_are_no_fields_hide_no_call() -> None:
    call = ServerToolCall("sh_1", "shell_call", kind="shell_call")
    blocks = (BlockStart(0, call), JSONDelta(0, "ls"), BlockStop(0))
    last = project(events_of(*blocks, stop=MessageStop("end_turn")), "openai_chat")[0][-1]
    assert isinstance(last, StreamError)
    assert last.code == "shell_call"


SEARCH = ServerToolCall("srvtoolu_1", "web_search", kind="server_tool_use")
RESULT = ServerToolResult("srvtoolu_1", "web_search_tool_result", [])
PAUSE = MessageStop("pause", "pause_turn")
THOUGHT: tuple[Event, ...] = (BlockStart(0, Reasoning()), ReasoningDelta(0, "hm"), BlockStop(0))
SEARCHED: tuple[Event, ...] = (*THOUGHT, BlockStart(1, SEARCH), BlockStop(1))
FOUND: tuple[Event, ...] = (BlockStart(2, RESULT), BlockStop(2))


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses"])
def test_answer_that_pauses_within_a_call_is_no_empty_success(target: str) -> None:
    expected = StreamError(
        "malformed", problem("server_tool_use", target), "server_tool_use", 400, retryable=False
    )
    assert project(events_of(*SEARCHED, stop=PAUSE), target)[0][-1] == expected
    message = Message(blocks=(Reasoning(("hm",)), SEARCH), stop_reason="pause")
    with pytest.raises(EncodeError, match="server_tool_use waits for the client"):
        encode_message(message, target)


@pytest.mark.parametrize(
    "blocks",
    [
        (*SEARCHED, *FOUND),
        (*SEARCHED, BlockStart(2, Text()), TextDelta(2, "I look."), BlockStop(2)),
        (BlockStart(0, OpaqueBlock("anthropic", "compaction", "{}")), BlockStop(0)),
    ],
    ids=["the result is there", "there is text", "nothing is called"],
)
def test_answer_that_pauses_otherwise_ends_with_a_loss(blocks: tuple[Event, ...]) -> None:
    projected, losses = project(events_of(*blocks, stop=PAUSE), "openai_chat")
    assert projected[-1] == MessageStop("end_turn", "pause_turn")
    assert Loss("stop_reason", "pause", 1, "written as end_turn") in losses


def test_paused_answer_passes_where_the_stop_reason_exists() -> None:
    assert project(events_of(*SEARCHED, stop=PAUSE), "gemini")[0][-1] == PAUSE


def test_text_without_characters_shows_nothing() -> None:
    events = events_of(*SEARCHED, BlockStart(2, Text()), BlockStop(2), stop=PAUSE)
    assert isinstance(project(events, "openai_chat")[0][-1], StreamError)


# Of several choices


def test_complete_choice_pauses_for_no_call_of_another_one() -> None:
    events = [
        MessageStart("m", "gpt"),
        BlockStart(0, ServerToolCall("s", "search", kind="server_tool_use")),
        JSONDelta(0, "{}"),
        BlockStop(0),
        BlockStart(1, Text(), choice=1),
        TextDelta(1, "Hi"),
        BlockStop(1),
        MessageStop("end_turn"),
        MessageStop("pause", choice=1),
    ]
    assert project(events, "openai_chat")[0][-2:] == [
        MessageStop("end_turn"),
        MessageStop("end_turn", choice=1),
    ]


def test_choice_that_is_cut_short_hides_no_call_of_another_one() -> None:
    text = [BlockStart(0, Text()), TextDelta(0, "Hi"), BlockStop(0)]
    call = [
        BlockStart(1, ServerToolCall("s", "ls", kind="local_shell_call"), choice=1),
        JSONDelta(1, "{}"),
        BlockStop(1),
    ]
    stops = [MessageStop("max_tokens"), MessageStop("end_turn", choice=1)]
    failed = project([MessageStart("m", "gpt"), *text, *call, *stops], "openai_chat")[0]
    assert isinstance(failed[-1], StreamError)
    assert failed[-1].code == "local_shell_call"
    assert not any(isinstance(event, MessageStop) for event in failed)


def test_pause_behind_a_choice_that_was_cut_short_is_no_error() -> None:
    """No error may follow the end of a choice."""
    events = [
        MessageStart("m", "gpt"),
        BlockStart(0, Text()),
        TextDelta(0, "Hi"),
        BlockStop(0),
        BlockStart(1, ServerToolCall("s", "search", kind="server_tool_use"), choice=1),
        JSONDelta(1, "{}"),
        BlockStop(1),
        MessageStop("max_tokens"),
        MessageStop("pause", choice=1),
    ]
    assert project(events, "openai_chat")[0][-2:] == [
        MessageStop("max_tokens"),
        MessageStop("end_turn", choice=1),
    ]


def test_choice_of_which_nothing_is_shown_fails_before_another_one_ends() -> None:
    call = [
        BlockStart(1, ServerToolCall("s", "ls", kind="local_shell_call"), choice=1),
        JSONDelta(1, "{}"),
        BlockStop(1),
    ]
    text = [BlockStart(0, Text()), TextDelta(0, "Hi"), BlockStop(0)]
    stops = [MessageStop("end_turn"), MessageStop("end_turn", choice=1)]
    start = MessageStart("m", "gpt")
    failed = project([start, *text, *call, *stops], "openai_chat")[0]
    assert isinstance(failed[-1], StreamError)
    assert failed[:-1] == [start, *text]
    # No error may follow the end of a choice.
    late = project([start, *text, stops[0], *call, stops[1]], "openai_chat")[0]
    assert late == [start, *text, *stops]
