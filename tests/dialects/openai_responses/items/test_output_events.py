"""Handlers of item events: alternative event types, odd values, unknown events."""

from __future__ import annotations

import pytest
from support.openai_responses.frames import (
    START,
    added,
    args,
    body,
    call,
    completed,
    decode,
    delta,
    event,
    messages,
    text,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    JSONDelta,
    Opaque,
    Reasoning,
    ReasoningDelta,
    Text,
    TextDelta,
)

DIALECT = "openai_responses"


@pytest.mark.parametrize("name", ["reasoning_text", "reasoning"])
def test_reasoning_deltas_have_two_event_types(name: str) -> None:
    end = event(f"response.{name}.done", output_index=0, content_index=0, text="ab")
    assert body(added(0, "reasoning"), delta(name, "a", content_index=0), end) == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), ReasoningDelta(0, "b")),
        BlockStop(0),
    ]


@pytest.mark.parametrize("name", ["reasoning_part", "content_part"])
def test_reasoning_parts_have_two_event_types(name: str) -> None:
    begun = event(
        f"response.{name}.added", output_index=0, part={"type": "reasoning_text", "text": "a"}
    )
    end = event(
        f"response.{name}.done", output_index=0, part={"type": "reasoning_text", "text": "ab"}
    )
    assert body(added(0, "reasoning"), begun, end) == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), ReasoningDelta(0, "b")),
        BlockStop(0),
    ]


def test_content_index_may_be_missing_or_no_integer() -> None:
    frames = [
        added(0, "message", **messages()),
        text("a", content_index=None),
        event("response.refusal.delta", output_index=0, content_index=-1, delta=""),
        event("response.output_text.delta", output_index=0, content_index="0", delta="b"),
    ]
    assert body(*frames)[1:-1] == [TextDelta(0, "a"), TextDelta(0, "b")]


def test_delta_that_is_no_string_is_ignored() -> None:
    frames = [event("response.output_text.delta", output_index=0, delta=3)]
    assert body(added(0, "message"), *frames) == []


@pytest.mark.parametrize(
    "type",
    [
        *("output_item.added", "output_item.done", "content_part.added", "content_part.done"),
        "output_text.annotation.added",
    ],
)
@pytest.mark.parametrize("nothing", ["missing", 3])
def test_event_without_its_object_is_ignored(type: str, nothing: object) -> None:
    fields = {} if nothing == "missing" else dict.fromkeys(("item", "part", "annotation"), nothing)
    assert body(event(f"response.{type}", output_index=0, **fields)) == []


def test_unknown_event_is_opaque_with_the_index_of_its_block() -> None:
    frames = [
        added(0, "message", **messages()),
        text("a"),
        added(1, "web_search_call", id="ws"),
        event("response.web_search_call.searching", output_index=1, obfuscation="x"),
        event("response.shell_call_command.delta", item_id="ws", delta="ls"),
        event("vendor:news", output_index=0),
        event("vendor:news", output_index=7),
    ]
    opaques = [event for event in body(*frames) if isinstance(event, Opaque)]
    searching = '{"type":"response.web_search_call.searching","output_index":1}'
    command = '{"type":"response.shell_call_command.delta","item_id":"ws","delta":"ls"}'
    assert opaques == [
        Opaque(DIALECT, "response.web_search_call.searching", searching, 1),
        Opaque(DIALECT, "response.shell_call_command.delta", command, 1),
        Opaque(DIALECT, "vendor:news", '{"type":"vendor:news","output_index":0}', 0),
        Opaque(DIALECT, "vendor:news", '{"type":"vendor:news","output_index":7}'),
    ]


def test_unknown_event_before_its_block_starts_has_no_index() -> None:
    frames = [added(0, "message", **messages()), event("response.audio.delta", output_index=0)]
    name = "response.audio.delta"
    assert body(*frames) == [Opaque(DIALECT, name, f'{{"type":"{name}","output_index":0}}')]


def test_unknown_event_with_the_keys_of_two_items_has_no_index() -> None:
    frames = [added(0, "web_search_call", id="a"), added(1, "web_search_call", id="b")]
    news = event("vendor:news", output_index=0, item_id="b")
    opaques = [event for event in body(*frames, news) if isinstance(event, Opaque)]
    assert [event.index for event in opaques] == [None]


def test_arguments_before_the_name_are_emitted_with_the_complete_item() -> None:
    frames = [
        args("{", 0),
        event("response.function_call_arguments.done", output_index=0, arguments="{}"),
    ]
    events = decode(START, *frames, completed({"type": "function_call", **call("{}")})).events
    assert [event for event in events if isinstance(event, JSONDelta)] == [JSONDelta(0, "{}")]


def test_done_text_without_a_start_is_emitted_whole() -> None:
    done = event("response.output_text.done", output_index=0, item_id="m", text="a")
    expected = [BlockStart(0, Text(), extra={"item_id": "m"}), TextDelta(0, "a"), BlockStop(0)]
    assert body(done) == expected
