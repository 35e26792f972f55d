"""The projector, for Anthropic: each kind of loss by hand, and the laws."""

from __future__ import annotations

import pytest

from streamnorm import (
    Block,
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Document,
    Event,
    Image,
    JSONDelta,
    LocalProtocolError,
    Loss,
    LossyEncoding,
    MessageStart,
    MessageStop,
    Opaque,
    OpaqueBlock,
    Ping,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    Refusal,
    RefusalDelta,
    ServerToolCall,
    ServerToolResult,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    UnknownDialect,
    Usage,
    UsageUpdate,
    accumulate,
    project,
)
from streamnorm._core.losses import Capabilities, Losses
from streamnorm._core.losses.projection import Projector
from streamnorm._registry import capabilities

START = MessageStart("m", "gpt")
EVERYTHING = Capabilities(
    dialect="utopia",
    identity=True,
    choices=True,
    boundaries=True,
    overlapping=(),
    blank_text=True,
    refusal=True,
    reasoning=True,
    reasoning_parts=True,
    redacted_reasoning=True,
    redacted_as_signature_of=None,
    signed=(Text, Reasoning, ToolCall),
    custom_tools=True,
    namespaces=True,
    unfinished_calls=True,
    null_arguments=True,
    broken_arguments=True,
    server_tools=("",),
    media=(OpaqueBlock,),
    file_urls=True,
    citations=frozenset({"k"}),
    url_citation=None,
    cited_texts=frozenset({"k"}),
    not_round_tripped=frozenset(),
    stop_reasons=frozenset({"other"}),
    native_stop_reasons=frozenset(),
    unnamed_stop_sequence=True,
    service_tiers={},
    usage="always",
    cache_write=True,
    reasoning_tokens=True,
    excess_reasoning=True,
)
USAGE = UsageUpdate(Usage(1, 2))
STOP = MessageStop("end_turn")


def projected(*body: Event, stop: Event = STOP) -> tuple[list[Event], tuple[Loss, ...]]:
    """Project blocks between a start and a stop, and return what is between them."""
    events, losses = project([START, *body, USAGE, stop], "anthropic")
    assert events[0] == START
    assert events[-2:-1] == [USAGE]
    return events[1:-2], losses


def block(index: int, block: Block, *deltas: Event) -> list[Event]:
    return [BlockStart(index, block), *deltas, BlockStop(index)]


CARRIED: dict[str, list[Event]] = {
    "text": block(0, Text(), TextDelta(0, "a"), TextDelta(0, " ")),
    "reasoning": block(0, Reasoning(), ReasoningDelta(0, "a"), SignatureDelta(0, "s", "x")),
    "redacted reasoning": block(0, RedactedReasoning("x", "google")),
    "call": block(0, ToolCall("c", "f"), JSONDelta(0, '{"a":'), JSONDelta(0, "null}")),
    "call without arguments": block(0, ToolCall("c", "f")),
    "its own opaque block": block(0, OpaqueBlock("anthropic", "x", "{}")),
    "its own opaque event": [Opaque("anthropic", "x", "{}"), Ping()],
}


@pytest.mark.parametrize("body", CARRIED.values(), ids=CARRIED)
def test_supported_blocks_pass_unchanged(body: list[Event]) -> None:
    assert projected(*body) == (body, ())


LOST: dict[str, tuple[list[Event], list[Event], Loss]] = {
    "refusal becomes text": (
        block(0, Refusal(), RefusalDelta(0, "no"), RefusalDelta(0, " way")),
        block(0, Text(), TextDelta(0, "no"), TextDelta(0, " way")),
        Loss("refusal", "block", 1, "written as text"),
    ),
    "parts are joined": (
        block(
            *(0, Reasoning(), ReasoningDelta(0, "a"), ReasoningDelta(0, "b")),
            *(ReasoningDelta(0, "c", 1), ReasoningDelta(0, "d", 1), ReasoningDelta(0, "e", 2)),
        ),
        block(
            *(0, Reasoning(), ReasoningDelta(0, "a"), ReasoningDelta(0, "b")),
            *(ReasoningDelta(0, "\n\nc"), ReasoningDelta(0, "d"), ReasoningDelta(0, "\n\ne")),
        ),
        Loss("reasoning_parts", "block", 2, "joined by a blank line"),
    ),
    "first part that is not the first is no join": (
        block(0, Reasoning(), ReasoningDelta(0, "a", 3)) + block(1, Text()),
        block(0, Reasoning(), ReasoningDelta(0, "a")),
        Loss("whitespace_text", "block", 1, "dropped"),
    ),
    "text of white space alone": (
        block(0, Text(), TextDelta(0, "\n"), TextDelta(0, " \t")),
        [],
        Loss("whitespace_text", "block", 1, "dropped"),
    ),
    "custom tool": (
        block(0, ToolCall("c", "f", kind="custom"), JSONDelta(0, 'a"\n'), JSONDelta(0, "é\\")),
        block(
            *(0, ToolCall("c", "f"), JSONDelta(0, '{"input":"'), JSONDelta(0, 'a\\"\\n')),
            *(JSONDelta(0, "é\\\\"), JSONDelta(0, '"}')),
        ),
        Loss("custom_tool", "block", 1, "written as a function of one string"),
    ),
    "arguments that are null": (
        block(0, ToolCall("c", "f"), JSONDelta(0, "null")),
        block(0, ToolCall("c", "f")),
        Loss("null_arguments", "tool call", 1, "written as {}"),
    ),
    "citation": (
        block(0, Text(), TextDelta(0, "a"), CitationDelta(0, Citation("url_citation"))),
        block(0, Text(), TextDelta(0, "a")),
        Loss("citations", "url_citation", 1, "dropped"),
    ),
    "server tool call": (
        block(0, ServerToolCall("s", "search"), JSONDelta(0, "{}")) + block(1, Reasoning()),
        block(0, Reasoning()),
        Loss("server_tool", "ServerToolCall", 1, "dropped"),
    ),
    "server tool result": (
        block(0, ServerToolResult("s", "k")),
        [],
        Loss("server_tool", "ServerToolResult", 1, "dropped"),
    ),
    "opaque block of another": (
        block(0, OpaqueBlock("gemini", "k", "{}"), Opaque("gemini", "n", "{}", 0)),
        [],
        Loss("opaque_block", "OpaqueBlock", 1, "dropped"),
    ),
    "image": (block(0, Image(url="u")), [], Loss("media", "Image", 1, "dropped")),
    "document": (block(0, Document(title="t")), [], Loss("media", "Document", 1, "dropped")),
    "tool result": (
        block(0, ToolResult("c")),
        [],
        Loss("executed_call", "ToolResult", 1, "dropped"),
    ),
    "opaque event of another": (
        [Opaque("openai_chat", "logprobs", "{}"), Opaque("openai_chat", "logprobs", "{}")],
        [],
        Loss("opaque", "openai_chat logprobs", 2, "dropped"),
    ),
}


@pytest.mark.parametrize(("body", "left", "loss"), LOST.values(), ids=LOST)
def test_unsupported_features_are_counted(body: list[Event], left: list[Event], loss: Loss) -> None:
    events, losses = projected(*body)
    assert events == left
    assert losses == (loss,)


@pytest.mark.parametrize(
    ("target", "left"), [("gemini", "The snow."), ("gemini_interactions", None)]
)
def test_cited_text_is_counted_where_its_citation_has_no_place_for_it(
    target: str, left: str | None
) -> None:
    def cited(text: str | None) -> list[Event]:
        document = Citation("retrievedContext", "gs://d", cited_text=text)
        return block(0, Text(), TextDelta(0, "a"), CitationDelta(0, document))

    events, losses = project([START, *cited("The snow."), STOP], target)
    assert events[1:-1] == cited(left)
    dropped = Loss("citations", "cited text", 1, "dropped")
    assert losses == (() if left else (dropped,))


@pytest.mark.parametrize(("body", "left", "loss"), LOST.values(), ids=LOST)
def test_loss_is_refused_where_none_is_allowed(
    body: list[Event], left: list[Event], loss: Loss
) -> None:
    projector = Projector(capabilities("anthropic"), Losses(strict=True))
    with pytest.raises(LossyEncoding, match=f"{loss.feature} in {loss.where} would be lost"):
        list(map(projector.push, [START, *body, USAGE, STOP]))


def test_dialect_that_carries_everything_loses_nothing() -> None:
    losses = Losses()
    projector = Projector(EVERYTHING, losses)
    events: list[Event] = [
        *(START, *block(0, Refusal(), RefusalDelta(0, "no")), BlockStart(1, Text(), 1)),
        *(TextDelta(1, " "), CitationDelta(1, Citation("k")), SignatureDelta(1, "s"), BlockStop(1)),
        *block(2, Reasoning(), ReasoningDelta(2, "a"), ReasoningDelta(2, "b", 1)),
        *block(3, ToolCall("c", "f", kind="custom"), JSONDelta(3, '"')),
        *block(4, ToolCall("d", "f"), JSONDelta(4, "null"), SignatureDelta(4, "s")),
        *block(5, ServerToolCall("s", "f"), JSONDelta(5, "{}")),
        *(Opaque("utopia", "x", "{}"), USAGE, MessageStop("other"), MessageStop("other", choice=1)),
    ]
    assert [passed for event in events for passed in projector.push(event)] == events
    assert losses.list() == ()


def test_deltas_of_a_dropped_block_are_dropped() -> None:
    dropped: list[Event] = [
        *(BlockStart(0, Text(), 1), BlockStart(1, Reasoning(), 1)),
        BlockStart(2, ToolCall("c", "f"), 1),
        *(TextDelta(0, "a"), CitationDelta(0, Citation("k")), SignatureDelta(0, "s")),
        *(ReasoningDelta(1, "b"), JSONDelta(2, "null"), Opaque("anthropic", "x", "{}", 2)),
        *(BlockStop(0), BlockStop(1), BlockStop(2), MessageStop("end_turn", choice=1)),
    ]
    events, losses = project([START, USAGE, *dropped, STOP], "anthropic")
    assert events == [START, USAGE, STOP]
    assert losses == (Loss("choices", "choice 1", 3, "dropped"),)


def test_leading_white_space_is_held_until_the_first_word() -> None:
    start = BlockStart(0, Text(), extra={"item_id": "msg_1"})
    body: list[Event] = [start, TextDelta(0, "\n"), TextDelta(0, " a"), TextDelta(0, " ")]
    assert projected(*body, BlockStop(0)) == (
        [start, TextDelta(0, "\n a"), TextDelta(0, " "), BlockStop(0)],
        (),
    )


def test_opaque_data_of_a_text_that_never_starts_loses_its_index() -> None:
    own = Opaque("anthropic", "x", "{}", 0)
    events, _ = projected(*block(0, Text(), own), *block(1, Text(), TextDelta(1, "a")))
    assert events == [Opaque("anthropic", "x", "{}"), *block(0, Text(), TextDelta(0, "a"))]


def test_blocks_after_a_dropped_one_move_up() -> None:
    events, _ = projected(
        *block(0, Image(url="u")),
        *(BlockStart(1, ToolCall("c", "f")), BlockStart(2, ToolCall("d", "g"))),
        *(JSONDelta(2, "[]"), JSONDelta(1, "{}"), BlockStop(2), BlockStop(1)),
    )
    assert events == [
        *(BlockStart(0, ToolCall("c", "f")), BlockStart(1, ToolCall("d", "g"))),
        *(JSONDelta(1, "[]"), JSONDelta(0, "{}"), BlockStop(1), BlockStop(0)),
    ]


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "gemini", "gemini_interactions"])
def test_namespace_is_lost_where_names_stand_alone(dialect: str) -> None:
    namespaced = block(0, ToolCall("c", "get", namespace="crm"), JSONDelta(0, "{}"))
    written, losses = project([START, USAGE, *namespaced, MessageStop("tool_use")], dialect)
    assert written[2] == BlockStart(0, ToolCall("c", "get"))
    assert losses == (Loss("namespace", "tool call", 1, "dropped"),)


def test_namespace_is_carried_by_responses() -> None:
    namespaced = block(0, ToolCall("c", "get", namespace="crm"), JSONDelta(0, "{}"))
    events = [START, USAGE, *namespaced, MessageStop("tool_use")]
    assert project(events, "openai_responses") == (events, ())


def test_second_call_with_an_id_loses_its_namespace_too() -> None:
    calls = [
        *block(0, ToolCall("c", "get", namespace="crm")),
        *block(1, ToolCall("c", "get", namespace="crm")),
    ]
    events, losses = projected(*calls)
    second = events[2]
    assert isinstance(second, BlockStart)
    assert isinstance(second.block, ToolCall)
    assert second.block.id != "c"
    assert second.block.namespace is None
    assert [(loss.feature, loss.count) for loss in losses] == [
        *(("namespace", 2), ("duplicate_id", 1)),
    ]


UNFINISHED = [
    BlockStart(0, ToolCall("c", "f", kind="custom")),
    JSONDelta(0, "*** Beg"),
    BlockStop(0, is_unfinished=True),
]


def test_mark_of_unfinished_text_is_carried_by_responses_and_lost_in_chat() -> None:
    events = [START, USAGE, *UNFINISHED, MessageStop("max_tokens")]
    assert project(events, "openai_responses") == (events, ())
    written, losses = project(events, "openai_chat")
    assert written == [*events[:4], BlockStop(0), events[-1]]
    assert losses == (Loss("unfinished_call", "tool call", 1, "written as if it were complete"),)


def test_unfinished_text_is_a_string_without_an_end_where_it_is_wrapped() -> None:
    events = [START, USAGE, *UNFINISHED, MessageStop("max_tokens")]
    written, losses = project(events, "anthropic")
    assert accumulate(written).tool_calls[0].arguments == '{"input":"*** Beg'
    assert [loss.feature for loss in losses] == ["custom_tool"]
    dropped, losses = project(events, "gemini")
    assert accumulate(dropped).tool_calls == ()
    assert [loss.feature for loss in losses] == ["custom_tool", "broken_arguments"]


def test_failed_stream_loses_nothing_more() -> None:
    events: list[Event] = [START, BlockStart(0, Text()), StreamError("transport", "reset")]
    assert project(events, "anthropic") == ([START, events[-1]], ())


def test_stream_that_breaks_the_grammar_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="block 1 starts, expected 0"):
        project([START, BlockStart(1, Text())], "anthropic")


def test_unknown_dialect_is_refused() -> None:
    with pytest.raises(UnknownDialect, match="no dialect 'klingon', expected one of"):
        project([], "klingon")


def test_call_withdrawn_beside_an_earlier_block_leaves_that_block_as_it_is() -> None:
    target = capabilities("gemini")
    assert target is not None
    projector = Projector(target, Losses())
    events = [
        START,
        BlockStart(0, Text()),
        TextDelta(0, "a"),
        BlockStart(1, ToolCall("c", "f")),
        JSONDelta(1, "no object"),
        BlockStop(1),
        TextDelta(0, "b"),
        BlockStop(0),
    ]
    passed = [out for event in events for out in projector.push(event)]
    assert [out for out in passed if isinstance(out, TextDelta)] == [
        TextDelta(0, "a"),
        TextDelta(0, "b"),
    ]
    assert list(projector.withdrawn_calls) == [1]


def test_second_call_of_one_id_gets_an_id_of_its_own() -> None:
    """A result names its call by the id alone."""
    calls: list[Event] = [
        event
        for index in range(3)
        for event in (BlockStart(index, ToolCall("c", f"f{index}")), BlockStop(index))
    ]
    events, losses = project([START, *calls, MessageStop("tool_use")], "anthropic")
    blocks = accumulate(events).tool_calls
    assert blocks[0].id == "c"
    assert len({call.id for call in blocks}) == 3
    assert Loss("duplicate_id", "tool call", 2, "written with an id of its own") in losses


def test_calls_of_two_choices_may_have_one_id() -> None:
    calls: list[Event] = [
        event
        for choice in range(2)
        for event in (BlockStart(choice, ToolCall("c", "f"), choice), BlockStop(choice))
    ]
    ends: list[Event] = [MessageStop("tool_use", choice=choice) for choice in range(2)]
    events, losses = project([START, *calls, *ends], "openai_chat")
    assert [event.block.id for event in events if isinstance(event, BlockStart)] == ["c", "c"]
    assert "duplicate_id" not in {loss.feature for loss in losses}
