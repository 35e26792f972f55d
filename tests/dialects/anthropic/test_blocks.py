"""The blocks of one message: as the API sends them, and with the faults of others."""

from __future__ import annotations

import json

import pytest
from support.anthropic.frames import (
    STOP,
    block,
    body,
    decode,
    delta,
    end,
    message,
    start,
    stop,
    text,
)
from support.openai_chat.chunks import anonymous

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    JSONDelta,
    Limits,
    MessageStop,
    Note,
    OpaqueBlock,
    Reasoning,
    ReasoningDelta,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
)

ARGUMENTS = {"q": "é", "n": [1, 2.50]}


def call(index: int, *pieces: str, **fields: object) -> bytes:
    """Return a client's call."""
    named = {"id": f"toolu_{index}", "name": "find", "input": {}, **fields}
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return b"".join([block(index, "tool_use", **named), *deltas, stop(index)])


def notes(*frames: bytes) -> dict[str, int]:
    """Return what was forgiven in a stream's blocks."""
    return {note.kind: note.count for note in decode(start(), *frames, end(), STOP).notes}


# Text


def test_empty_deltas_are_no_events() -> None:
    pieces = [delta(0, "text_delta", text=piece) for piece in ("", "a", None, "", "b")]
    assert body(block(0, "text", text=""), *pieces, delta(0, "text_delta"), stop(0)) == [
        *(BlockStart(0, Text()), TextDelta(0, "a"), TextDelta(0, "b"), BlockStop(0)),
    ]


def test_text_of_the_start_precedes_the_deltas() -> None:
    frames = [block(0, "text", text="He"), delta(0, "text_delta", text="llo"), stop(0)]
    assert body(*frames) == [
        *(BlockStart(0, Text()), TextDelta(0, "He"), TextDelta(0, "llo"), BlockStop(0)),
    ]
    assert notes(*frames) == {}


@pytest.mark.parametrize("between", [b"", delta(0, "text_delta", text="")])
def test_first_delta_that_repeats_the_text_of_the_start_is_ignored(between: bytes) -> None:
    """As MiniMax sends it."""
    again = delta(0, "text_delta", text="He")
    frames = [block(0, "text", text="He"), between, again, again, stop(0)]
    assert body(*frames) == [
        *(BlockStart(0, Text()), TextDelta(0, "He"), TextDelta(0, "He"), BlockStop(0)),
    ]
    assert notes(*frames) == {"resent_text": 1}


def test_citations_arrive_in_the_start_or_by_deltas() -> None:
    wire = {"type": "char_location", "document_index": 0, "document_title": "D", "cited_text": "c"}
    source = Citation("char_location", None, "D", "c", extra={"document_index": 0})
    cited = delta(0, "citations_delta", citation=wire)
    assert body(
        block(0, "text", text="a", citations=[wire]),
        *(delta(0, "text_delta", text="b"), cited, stop(0)),
    ) == [
        *(BlockStart(0, Text()), TextDelta(0, "a"), CitationDelta(0, source)),
        *(TextDelta(0, "b"), CitationDelta(0, source), BlockStop(0)),
    ]


def test_half_a_surrogate_pair_is_held_for_the_other_half() -> None:
    halves = [delta(0, "text_delta", text=half) for half in ("a\ud83d", "\ude00b", "\ud83d")]
    assert body(block(0, "text", text=""), *halves, stop(0))[1:-1] == [
        *(TextDelta(0, "a"), TextDelta(0, "😀b"), TextDelta(0, "�")),
    ]
    split = [delta(0, "input_json_delta", partial_json=half) for half in ('"\ud83d', '\ude00"')]
    assert body(block(0, "tool_use", id="c", name="f"), *split, stop(0))[1:-1] == [
        *(JSONDelta(0, '"'), JSONDelta(0, '😀"')),
    ]


# Thinking


def test_signature_follows_the_thinking_it_signs() -> None:
    frames = [
        block(0, "thinking", thinking="", signature=""),
        *(delta(0, "thinking_delta", thinking=piece) for piece in ("a", "", "b")),
        delta(0, "signature_delta", signature="c2ln"),
        stop(0),
    ]
    assert body(*frames) == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), ReasoningDelta(0, "b")),
        *(SignatureDelta(0, "c2ln", "anthropic"), BlockStop(0)),
    ]
    assert notes(*frames) == {}


def test_signature_in_the_start_is_emitted_at_the_stop() -> None:
    opening = block(0, "thinking", thinking="a", signature="c2ln")
    more = delta(0, "thinking_delta", thinking="b")
    assert body(opening, more, stop(0)) == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), ReasoningDelta(0, "b")),
        *(SignatureDelta(0, "c2ln", "anthropic"), BlockStop(0)),
    ]


def test_signature_delta_replaces_the_signature_in_the_start() -> None:
    opening = block(0, "thinking", thinking="", signature="b2xk")
    events = body(opening, delta(0, "signature_delta", signature="bmV3"), stop(0))
    assert events[1:-1] == [SignatureDelta(0, "bmV3", "anthropic")]


def test_repeated_signature_is_ignored() -> None:
    signed = delta(0, "signature_delta", signature="c2ln")
    empty = delta(0, "signature_delta", signature="")
    frames = [block(0, "thinking", thinking="a"), empty, signed, signed, empty, stop(0)]
    assert body(*frames)[2:-1] == [SignatureDelta(0, "c2ln", "anthropic")]
    assert notes(*frames) == {"resent_signature": 1}


def test_thinking_after_a_signature_starts_a_new_block() -> None:
    frames = [
        block(0, "thinking", thinking="a"),
        delta(0, "signature_delta", signature="c2ln"),
        delta(0, "thinking_delta", thinking="b"),
        delta(0, "thinking_delta", thinking="c\ud83d"),
        delta(0, "signature_delta", signature="b3Ro"),
        delta(0, "signature_delta", signature="bGFzdA=="),
        stop(0),
    ]
    assert body(*frames) == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a")),
        *(SignatureDelta(0, "c2ln", "anthropic"), BlockStop(0)),
        *(BlockStart(1, Reasoning()), ReasoningDelta(1, "b"), ReasoningDelta(1, "c")),
        *(ReasoningDelta(1, "�"), SignatureDelta(1, "b3Ro", "anthropic"), BlockStop(1)),
        *(BlockStart(2, Reasoning()), SignatureDelta(2, "bGFzdA==", "anthropic"), BlockStop(2)),
    ]


# Calls


def test_input_is_assembled_from_its_deltas() -> None:
    assert body(call(0, "", '{"a":', " 1}")) == [
        *(BlockStart(0, ToolCall("toolu_0", "find")), JSONDelta(0, '{"a":')),
        *(JSONDelta(0, " 1}"), BlockStop(0)),
    ]


@pytest.mark.parametrize("fields", [{}, {"input": {}}, {"input": ""}, {"input": None}])
def test_call_without_input_has_no_json_delta(fields: dict[str, object]) -> None:
    frames = [block(0, "tool_use", id="c", name="f", **fields), stop(0)]
    assert body(*frames) == [BlockStart(0, ToolCall("c", "f")), BlockStop(0)]


@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use", "mcp_tool_use"])
def test_input_in_the_start_keeps_its_source_text(kind: str) -> None:
    written = '{ "q" : "\\u00e9",  "n":[1, 2.50] }'
    opening = block(0, kind, id="c", name="f", input=ARGUMENTS)
    opening = opening.replace(json.dumps(ARGUMENTS).encode(), written.encode())
    assert written.encode() in opening
    assert body(opening, stop(0))[1:] == [JSONDelta(0, written), BlockStop(0)]
    assert body(opening, delta(0, "input_json_delta", partial_json=""), stop(0))[1:] == [
        *(JSONDelta(0, written), BlockStop(0)),
    ]


def test_input_deltas_replace_the_input_in_the_start() -> None:
    opening = block(0, "tool_use", id="c", name="f", input=ARGUMENTS)
    piece = delta(0, "input_json_delta", partial_json='{"q":"')
    assert body(opening, piece, stop(0))[1:] == [JSONDelta(0, '{"q":"'), BlockStop(0)]


def test_input_in_the_start_may_be_a_string_of_json() -> None:
    opening = block(0, "tool_use", id="c", name="f", input='{"q":1}')
    assert body(opening, stop(0))[1:] == [JSONDelta(0, '{"q":1}'), BlockStop(0)]


def test_input_with_nan_in_the_start_is_serialized_anew() -> None:
    opening = block(0, "tool_use", id="c", name="f", input={"q": float("nan"), "n": 1})
    assert body(opening, stop(0))[1:] == [JSONDelta(0, '{"q":null,"n":1}'), BlockStop(0)]


def test_input_of_a_block_in_message_start_keeps_its_source_text() -> None:
    first = {"type": "tool_use", "id": "a", "name": "f", "input": {"q": 1}}
    other = {"type": "tool_use", "id": "b", "name": "f", "input": {"q": 2}}
    whole = start(content=[first, other]).replace(b'{"q": 1}', b'{"q":1e0}')
    assert message(whole, STOP).blocks == (
        *(ToolCall("a", "f", '{"q":1e0}'), ToolCall("b", "f", '{"q": 2}')),
    )
    # Where its own text cannot be had it is written again.
    odd = whole.replace(b'"content": [', b'"content": ["\\ud83d", ')
    assert message(odd, STOP).blocks == (
        *(ToolCall("a", "f", '{"q":1.0}'), ToolCall("b", "f", '{"q":2}')),
    )


def test_call_without_an_id_gets_a_deterministic_one() -> None:
    frames = [call(0, id=""), call(1, id=None), block(2, "server_tool_use", name="f"), stop(2)]
    blocks = message(start(), *frames, end(), STOP).blocks
    ids = [getattr(block, "id", "") for block in blocks]
    assert all(anonymous(id) for id in ids)
    assert len(set(ids)) == 3
    assert blocks == message(start(), *frames, end(), STOP).blocks
    assert notes(*frames) == {"minted_id": 3}


# Blocks that are known once their delta is here


def test_compaction_starts_with_its_delta() -> None:
    frames = [
        block(0, "compaction", content=None, signature="s"),
        delta(0, "compaction_delta", content="so far", encrypted_content=None),
        stop(0),
        *(block(1, "compaction", content=None), stop(1)),
    ]
    whole = '{"type":"compaction","content":"so far","signature":"s"}'
    assert body(*frames) == [
        *(BlockStart(0, OpaqueBlock("anthropic", "compaction", whole)), BlockStop(0)),
        BlockStart(
            1, OpaqueBlock("anthropic", "compaction", '{"type":"compaction","content":null}')
        ),
        BlockStop(1),
    ]


# Why it ended, as far as the blocks decide


@pytest.mark.parametrize(
    ("frames", "word", "reason"),
    [
        ([call(0, "{}")], "end_turn", "tool_use"),
        ([call(0, "{}")], None, "tool_use"),
        ([call(0, "")], None, "tool_use"),
        ([call(0, '{"a')], None, "other"),
        ([call(0, '{"a')], "tool_use", "tool_use"),
        ([call(0, '{"a'), call(1, "{}")], None, "other"),
        ([call(0, '{"a')], "max_tokens", "max_tokens"),
        ([text(0, "a")], "tool_use", "end_turn"),
        ([block(0, "server_tool_use", id="s", name="f"), stop(0)], "tool_use", "end_turn"),
    ],
)
def test_client_tool_calls_decide_the_stop_reason(
    frames: list[bytes], word: str | None, reason: str
) -> None:
    stopped = decode(start(), *frames, end(word), STOP).events[-1]
    assert stopped == MessageStop(reason, word)  # type: ignore[arg-type]  # one of the reasons


# Limits


@pytest.mark.parametrize(
    ("limit", "make"),
    [
        ("max_blocks", lambda n: [text(i, "a") for i in range(n)]),
        ("max_blocks", lambda n: [block(0, "text"), *[stop(0), block(0, "text")] * (n - 1)]),
        ("max_tool_calls", lambda n: [call(i) for i in range(n)]),
        ("max_id_chars", lambda n: [call(0, id="é" * n)]),
        ("max_id_chars", lambda n: [call(0, name="é" * n)]),
        ("max_id_chars", lambda n: [block(0, "mcp_tool_use", id="m", name="é" * n), stop(0)]),
    ],
)
def test_limits_of_blocks_are_exact(limit: str, make: object) -> None:
    for size in (9, 10, 11):
        frames = make(size)  # type: ignore[operator]  # a function
        decoded = decode(start(), *frames, end(), STOP, limits=Limits(**{limit: 10}))
        if size <= 10:
            assert isinstance(decoded.events[-1], MessageStop)
        else:
            error = StreamError("too_large", f"{limit} of 10 passed", code=limit)
            assert decoded.events[-1] == error


def test_notes_name_the_kind_of_block() -> None:
    decoded = decode(start(), delta(0, "text_delta", text="a"), call(1, id=""), end(), STOP)
    assert decoded.notes == (*(Note("misplaced_delta", "Text"), Note("minted_id", "tool call")),)
