"""Content blocks of `ConverseStream`."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from support.bedrock_converse.frames import (
    START,
    decode,
    delta,
    end,
    event,
    events_of,
    notes_of,
    outcome_of,
    payload,
    start,
    stop,
    text,
    tool,
    tool_input,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Completed,
    Event,
    Failed,
    Image,
    JSONDelta,
    Limits,
    Opaque,
    OpaqueBlock,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    SignatureDelta,
    Text,
    TextDelta,
    ToolCall,
)
from streamnorm._core.text import tag_signature

BLOB = b64encode(b"EtkECk").decode()


def blocks(*messages: bytes, **options: Any) -> list[Event]:
    """Return the events between the start and the end of a legal message."""
    events, outcome, _ = decode(START, *messages, end(), **options)
    assert isinstance(outcome, Completed)
    return events[1:-2]


def problem(*messages: bytes) -> str:
    outcome = outcome_of(START, *messages)
    assert isinstance(outcome, Failed), outcome
    assert outcome.error.kind == "malformed"
    return outcome.error.message


def reason(index: int, **content: Any) -> bytes:
    return delta(index, reasoningContent=content)


def opaque(data: object, index: int | None = None) -> Opaque:
    text = json.dumps(data, separators=(",", ":"))
    return Opaque("bedrock_converse", "contentBlockDelta", text, index)


# Text and reasoning


def test_empty_text_opens_a_block() -> None:
    assert blocks(text(0, ""), text(0, ""), stop(0)) == [BlockStart(0, Text()), BlockStop(0)]


def test_indexes_are_keys() -> None:
    """Nova gives each delta a block of its own, and leaves gaps."""
    found = blocks(text(27, "a"), stop(27), text(29, "b"), stop(29))
    assert [type(e) for e in found] == [BlockStart, TextDelta, BlockStop] * 2
    assert found[3] == BlockStart(1, Text())


def test_blocks_may_overlap() -> None:
    found = blocks(text(1, "a"), text(0, "b"), text(1, "c"), stop(0), stop(1))
    assert found[2:5] == [BlockStart(1, Text()), TextDelta(1, "b"), TextDelta(0, "c")]


def test_reasoning_is_signed() -> None:
    found = blocks(reason(0, text="a"), reason(0, signature="S=="), stop(0))
    assert found == [
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "a"),
        SignatureDelta(0, "S==", "anthropic"),
        BlockStop(0),
    ]


def test_block_may_have_a_signature_alone() -> None:
    found = blocks(reason(0, signature="S=="), stop(0))
    assert found[1] == SignatureDelta(0, "S==", "anthropic")


def test_signature_names_its_issuer() -> None:
    tagged = tag_signature("G", "google")
    assert blocks(reason(0, signature=tagged), stop(0))[1] == SignatureDelta(0, "G", "google")


def test_signature_seals_what_precedes_it() -> None:
    found = blocks(
        *(reason(0, text="a"), reason(0, signature="1"), reason(0, signature="")),
        *(reason(0, signature="1"), reason(0, text="b"), reason(0, signature="2")),
        *(reason(0, signature="3"), reason(0, text=""), stop(0)),
    )
    assert found == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), SignatureDelta(0, "1", "anthropic")),
        *(BlockStop(0), BlockStart(1, Reasoning()), ReasoningDelta(1, "b")),
        *(SignatureDelta(1, "2", "anthropic"), BlockStop(1), BlockStart(2, Reasoning())),
        *(SignatureDelta(2, "3", "anthropic"), BlockStop(2)),
    ]
    assert notes_of(START, reason(0, signature="1"), reason(0, signature="1"), stop(0), end()) == [
        "resent_signature"
    ]


def test_halves_of_characters_are_joined() -> None:
    found = blocks(
        payload("contentBlockDelta", rb'{"contentBlockIndex":0,"delta":{"text":"a\ud83d"}}'),
        payload("contentBlockDelta", rb'{"contentBlockIndex":0,"delta":{"text":"\ude00b"}}'),
        payload("contentBlockDelta", rb'{"contentBlockIndex":0,"delta":{"text":"\ud83d"}}'),
        stop(0),
    )
    assert found[1:] == [TextDelta(0, "a"), TextDelta(0, "😀b"), TextDelta(0, "�"), BlockStop(0)]


def test_halves_of_characters_in_an_input_are_joined() -> None:
    first = rb'{"contentBlockIndex":0,"delta":{"toolUse":{"input":"\ud83d"}}}'
    found = blocks(tool(0), payload("contentBlockDelta", first), stop(0))
    assert found[1:] == [JSONDelta(0, "\N{REPLACEMENT CHARACTER}"), BlockStop(0)]


def test_signature_covers_half_a_character() -> None:
    half = rb'{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"\ud83d"}}}'
    found = blocks(payload("contentBlockDelta", half), reason(0, signature="S"), stop(0))
    assert found[1:3] == [ReasoningDelta(0, "�"), SignatureDelta(0, "S", "anthropic")]


def test_redacted_reasoning_is_the_vendors_text() -> None:
    found = blocks(reason(0, redactedContent=BLOB), stop(0))
    assert found == [BlockStart(0, RedactedReasoning("EtkECk", "anthropic")), BlockStop(0)]


def test_pieces_of_a_blob_are_joined_as_bytes() -> None:
    pieces = [b64encode(piece).decode() for piece in (b"Etk", b"E", b"Ck")]
    found = blocks(*(reason(0, redactedContent=piece) for piece in pieces), stop(0))
    assert found[0] == BlockStart(0, RedactedReasoning("EtkECk", "anthropic"))


@pytest.mark.parametrize("blob", [b"\xff\x00", b"sn1-blob.AA=="])
def test_blob_that_is_no_text_stays_base64(blob: bytes) -> None:
    encoded = b64encode(blob).decode()
    found = blocks(reason(0, redactedContent=encoded), stop(0))
    assert found[0] == BlockStart(0, RedactedReasoning(f"sn1-blob.{encoded}", "anthropic"))


def test_readable_and_redacted_reasoning_may_share_a_block() -> None:
    found = blocks(
        reason(0, text="a"), reason(0, redactedContent=BLOB), reason(0, text="b"), stop(0)
    )
    assert found == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), BlockStop(0)),
        *(BlockStart(1, RedactedReasoning("EtkECk", "anthropic")), BlockStop(1)),
        *(BlockStart(2, Reasoning()), ReasoningDelta(2, "b"), BlockStop(2)),
    ]
    assert notes_of(
        START, reason(0, text="a"), reason(0, redactedContent=BLOB), stop(0), end()
    ) == ["mixed_block"]


def test_unknown_reasoning_is_opaque() -> None:
    found = blocks(reason(4, newer=1), reason(4, text="a"), stop(4))
    new = {"contentBlockIndex": 4, "delta": {"reasoningContent": {"newer": 1}}}
    assert found[:3] == [BlockStart(0, Reasoning()), opaque(new, 0), ReasoningDelta(0, "a")]


# Tools


def test_input_may_be_missing() -> None:
    assert blocks(tool(0), stop(0)) == [BlockStart(0, ToolCall("tooluse_1", "f")), BlockStop(0)]


def test_escaped_id_is_restored() -> None:
    assert blocks(tool(0, "snid_a_7cb"), stop(0))[0] == BlockStart(0, ToolCall("a|b", "f"))


def test_id_may_be_missing() -> None:
    found = blocks(tool(0, ""), stop(0), tool(1, ""), stop(1))
    first, second = (e.block for e in found if isinstance(e, BlockStart))
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert first.id.startswith("call_")
    assert first.id != second.id


def test_tool_of_the_server_is_no_call_of_the_client() -> None:
    shown = [{"json": {"stdOut": "7"}}, {"text": "x"}]
    found = blocks(
        *(tool(0, "s", "nova_code_interpreter", type="server_tool_use"), tool_input(0, "{}")),
        *(
            stop(0),
            start(1, toolResult={"toolUseId": "s", "type": "x_result", "status": "success"}),
        ),
        *(delta(1, toolResult=shown[:1]), delta(1, toolResult=shown[1:]), stop(1)),
    )
    assert found == [
        BlockStart(0, ServerToolCall("s", "nova_code_interpreter", kind="toolUse")),
        *(JSONDelta(0, "{}"), BlockStop(0)),
        BlockStart(
            1,
            ServerToolResult("s", "toolResult", shown),
            extra={"type": "x_result", "status": "success"},
        ),
        BlockStop(1),
    ]


def test_text_of_another_block_is_malformed() -> None:
    assert (
        problem(tool(0), text(0, "a")) == "delta of text in another block, expected one of its kind"
    )
    assert problem(text(0, "a"), reason(0, text="b")).startswith("delta of reasoning in another")
    stray = "input of no open toolUse, expected one at its index"
    assert problem(tool_input(0, "{}")) == stray
    assert problem(text(0, "a"), tool_input(0, "{}")) == stray


def test_second_call_of_one_id_is_malformed() -> None:
    assert problem(tool(0), stop(0), tool(1)) == "second call of one id, expected another id"


def test_call_without_a_name_is_malformed() -> None:
    assert problem(tool(0, name="")) == "toolUse without a name, expected one"


# Unions and indexes


def test_start_without_a_member_says_nothing() -> None:
    assert blocks(start(0), text(0, "a"), stop(0)) == blocks(text(0, "a"), stop(0))
    assert blocks(event("contentBlockStart", contentBlockIndex=0), text(0, "a"), stop(0))


def test_delta_without_a_member_says_nothing() -> None:
    assert blocks(delta(0), text(0, "a"), delta(0), stop(0)) == blocks(text(0, "a"), stop(0))
    assert blocks(reason(0), text(0, "a"), stop(0)) == blocks(text(0, "a"), stop(0))


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ((start(0, toolUse={}, image={}),), "start with 2 members, expected one"),
        ((delta(0, text="a", image={}),), "delta with 2 members, expected one"),
        ((reason(0, text="a", signature="b"),), "reasoningContent with 2 members, expected one"),
        ((delta(0, text=1),), "text is an integer, expected a string"),
        ((text(0, "a"), stop(0), text(0, "b")), "a block begins at an index in use"),
        ((text(0, "a"), tool(0)), "a block begins at an index in use"),
        ((start(0, image={"format": "png"}), tool(0)), "a block begins at an index in use"),
        ((reason(0, redactedContent="?"), stop(0)), "a blob of 1 characters, expected Base64"),
    ],
)
def test_broken_block_is_malformed(messages: tuple[bytes, ...], message: str) -> None:
    assert problem(*messages).startswith(message)


def test_stops_may_be_missing_or_extra() -> None:
    events, _, notes = decode(START, text(0, "a"), tool(1), stop(9), end())
    assert events[-4:-2] == [BlockStop(0), BlockStop(1)]
    assert [(note.kind, note.count) for note in notes] == [
        ("extra_block_stop", 1),
        ("missing_block_stop", 2),
    ]


# Images, and blocks that no unified one stands for


def test_image_is_whole() -> None:
    pieces = [b64encode(piece).decode() for piece in (b"\x89P", b"NG")]
    found = blocks(
        start(0, image={"format": "png"}),
        *(delta(0, image={"source": {"bytes": piece}}) for piece in pieces),
        stop(0),
    )
    assert found == [
        BlockStart(0, Image("image/png", b64encode(b"\x89PNG").decode())),
        BlockStop(0),
    ]


@pytest.mark.parametrize(
    "delta_of",
    [
        {"source": {"s3Location": {"uri": "s3://b/k"}}},
        {"error": {"message": "no"}},
        "?",
    ],
)
def test_other_image_is_opaque(delta_of: object) -> None:
    begin = {"image": {"format": "png"}}
    found = blocks(start(0, **begin), delta(0, image=delta_of), stop(0))
    data = json.dumps({"start": begin, "deltas": [{"image": delta_of}]}, separators=(",", ":"))
    assert found[0] == BlockStart(0, OpaqueBlock("bedrock_converse", "image", data))


def test_image_without_data_is_opaque() -> None:
    found = blocks(start(0, image={"format": "png"}), stop(0))
    block = found[0].block if isinstance(found[0], BlockStart) else None
    assert isinstance(block, OpaqueBlock)


def test_unknown_block_is_opaque() -> None:
    found = blocks(start(0, newer={"a": 1}), delta(0, newer="b"), delta(0, text="c"), stop(0))
    data = '{"start":{"newer":{"a":1}},"deltas":[{"newer":"b"},{"text":"c"}]}'
    assert found == [BlockStart(0, OpaqueBlock("bedrock_converse", "newer", data)), BlockStop(0)]
    found = blocks(delta(0, newer="b"), stop(0))
    data = '{"start":null,"deltas":[{"newer":"b"}]}'
    assert found[0] == BlockStart(0, OpaqueBlock("bedrock_converse", "newer", data))


def test_result_of_another_form_is_opaque() -> None:
    found = blocks(start(0, toolResult={"toolUseId": "s"}), delta(0, toolResult="x"), stop(0))
    block = found[0].block if isinstance(found[0], BlockStart) else None
    assert isinstance(block, OpaqueBlock)
    assert block.kind == "toolResult"


def test_unknown_delta_of_a_known_block_is_opaque() -> None:
    found = blocks(text(0, "a"), delta(0, newer=1), stop(0))
    assert found[2] == opaque({"contentBlockIndex": 0, "delta": {"newer": 1}}, 0)


def test_stored_bytes_are_bounded() -> None:
    limits = Limits(max_accumulated_bytes=1000)
    for messages in (
        (start(0, newer="x" * 2000),),
        (start(0, newer="x"), *(delta(0, newer="y" * 100) for _ in range(20))),
        (reason(0, signature="x" * 2000),),
        tuple(start(index, newer=1) for index in range(100)),
    ):
        outcome = outcome_of(START, *messages, limits=limits)
        assert isinstance(outcome, Failed)
        assert outcome.error.code == "max_accumulated_bytes"
    released = [each for n in range(50) for each in (reason(n, signature="x" * 200), stop(n))]
    assert blocks(*released, limits=limits)


# Citations


def test_citation_may_come_before_its_text() -> None:
    """ruby_llm's recording."""
    cited = {
        "title": "facts",
        "source": "doc-1",
        "sourceContent": [{"text": "Ruby "}, {"text": "was made."}],
        "location": {"documentChar": {"documentIndex": 0, "start": 0, "end": 73}},
    }
    found = blocks(delta(0, citation=cited), text(0, "a"), stop(0))
    citation = Citation(
        "documentChar",
        title="facts",
        cited_text="Ruby was made.",
        extra={"source": "doc-1", "location": {"documentIndex": 0, "start": 0, "end": 73}},
    )
    assert found[:3] == [BlockStart(0, Text()), CitationDelta(0, citation), TextDelta(0, "a")]


@pytest.mark.parametrize(
    ("cited", "citation"),
    [
        (
            {"location": {"web": {"url": "https://a.org", "domain": "a.org"}}},
            Citation("web", url="https://a.org", extra={"location": {"domain": "a.org"}}),
        ),
        ({"title": "t"}, Citation("citationsContent", title="t")),
        (
            {"location": {"web": {"url": "https://a.org"}}},
            Citation("web", url="https://a.org"),
        ),
        ({"location": {}}, Citation("citationsContent")),
        ({"location": {"newer": 1}}, Citation("newer")),
    ],
)
def test_citation_is_read(cited: dict[str, Any], citation: Citation) -> None:
    assert CitationDelta(0, citation) in events_of(START, delta(0, citation=cited), stop(0), end())
