"""Signatures of calls and texts on reasoning blocks that carry them."""

from __future__ import annotations

import pytest

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    Image,
    JSONDelta,
    Loss,
    LossyEncoding,
    MessageStart,
    MessageStop,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    ServerToolCall,
    SignatureDelta,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
    project,
)
from streamnorm.codec import encoder

BEGIN: list[Event] = [MessageStart("m", "x"), UsageUpdate(Usage(1, 1))]
STOP = MessageStop("tool_use")
SIGNED = ToolCall("a.b", "f", signature="s.1", issuer="google")
OF_CALL = "sn1-of.a%2eb.google.s.1"
OF_TEXT = "sn1-of..google.s.1"

each_carrying = pytest.mark.parametrize("dialect", ["anthropic", "openai_responses"])


def projected(
    *body: Event, to: str, reasoning: str = "reasoning_details"
) -> tuple[list[Event], list[str]]:
    """Return what a dialect gets of blocks, and what it loses."""
    events, losses = project([*BEGIN, *body, STOP], to, reasoning=reasoning)  # type: ignore[arg-type]
    return events[len(BEGIN) : -1], [f"{loss.feature} {loss.where}" for loss in losses]


def carrier(index: int, value: str) -> list[Event]:
    return [BlockStart(index, Reasoning()), SignatureDelta(index, value), BlockStop(index)]


def call(index: int, *deltas: Event, block: ToolCall = SIGNED) -> list[Event]:
    return [BlockStart(index, block), *deltas, BlockStop(index)]


UNSIGNED = ToolCall("a.b", "f")


@each_carrying
def test_signature_of_a_call_is_carried_before_it(dialect: str) -> None:
    plain = call(1, JSONDelta(1, "{}"), block=UNSIGNED)
    assert projected(*call(0, JSONDelta(0, "{}")), to=dialect) == (
        [*carrier(0, OF_CALL), *plain],
        [],
    )


@each_carrying
def test_late_signature_is_carried_after_its_call(dialect: str) -> None:
    late = SignatureDelta(0, "s.1", "google")
    body = call(0, JSONDelta(0, "{"), late, JSONDelta(0, "}"), block=UNSIGNED)
    plain = call(0, JSONDelta(0, "{"), JSONDelta(0, "}"), block=UNSIGNED)
    assert projected(*body, to=dialect) == ([*plain, *carrier(1, OF_CALL)], [])


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses", "openai_chat"])
def test_signature_of_a_text_is_carried_after_it(dialect: str) -> None:
    text: list[Event] = [BlockStart(0, Text()), TextDelta(0, "a")]
    signed = [*text, SignatureDelta(0, "s.1", "google"), BlockStop(0)]
    assert projected(*signed, to=dialect) == (
        [*text, BlockStop(0), *carrier(1, OF_TEXT)],
        [],
    )


def test_without_reasoning_signatures_are_not_carried() -> None:
    text: list[Event] = [BlockStart(0, Text()), TextDelta(0, "a")]
    signed = [*text, SignatureDelta(0, "s.1", "google"), BlockStop(0)]
    assert projected(*signed, to="openai_chat", reasoning="reasoning") == (
        [*text, BlockStop(0)],
        ["signature Text"],
    )
    events, losses = project([*BEGIN, *call(0), STOP], "anthropic", reasoning=None)
    assert events[2:-1] == call(0, block=UNSIGNED)
    assert losses == (Loss("signature", "ToolCall", 1, "dropped"),)


@pytest.mark.parametrize("dialect", ["gemini", "ui_message_stream"])
def test_signature_of_an_image_stays_on_it(dialect: str) -> None:
    signed: list[Event] = [
        BlockStart(0, Image("image/png", "AAAA", signature="s", issuer="google")),
        BlockStop(0),
    ]
    assert projected(*signed, to=dialect) == (signed, [])


def test_signature_of_an_image_is_lost_where_images_are_not_signed() -> None:
    signed = Image("image/png", "AAAA", signature="s", issuer="google")
    plain: list[Event] = [BlockStart(0, Image("image/png", "AAAA")), BlockStop(0)]
    assert projected(BlockStart(0, signed), BlockStop(0), to="gemini_interactions") == (
        plain,
        ["signature Image"],
    )
    assert projected(*plain, to="gemini_interactions") == (plain, [])


@pytest.mark.parametrize("dialect", ["gemini", "openai_chat"])
def test_carried_signature_returns_to_its_call(dialect: str) -> None:
    carried = [*carrier(0, OF_CALL), *call(1, JSONDelta(1, "{}"), block=UNSIGNED)]
    signature = SignatureDelta(0, "s.1", "google")
    assert projected(*carried, to=dialect) == (
        call(0, signature, JSONDelta(0, "{}"), block=UNSIGNED),
        [],
    )


def test_signature_in_a_start_becomes_a_delta() -> None:
    signature = SignatureDelta(0, "s.1", "google")
    assert projected(*call(0), to="gemini") == (call(0, signature, block=UNSIGNED), [])


def test_carried_signature_returns_to_text() -> None:
    assert projected(*carrier(0, OF_TEXT), to="gemini") == (
        [BlockStart(0, Text()), SignatureDelta(0, "s.1", "google"), BlockStop(0)],
        [],
    )


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses"])
@pytest.mark.parametrize("value", [OF_CALL, OF_TEXT])
def test_carrier_passes_if_the_target_cannot_sign_the_block(dialect: str, value: str) -> None:
    assert projected(*carrier(0, value), to=dialect) == (carrier(0, value), [])


def test_reasoning_with_text_is_never_dropped() -> None:
    body: list[Event] = [BlockStart(0, Reasoning()), ReasoningDelta(0, "hm")]
    of_text, of_call = (SignatureDelta(0, value) for value in (OF_TEXT, OF_CALL))
    assert projected(*body, of_text, BlockStop(0), to="gemini") == (
        [*body, of_text, BlockStop(0)],
        [],
    )
    assert projected(*body, of_call, BlockStop(0), *call(1, block=UNSIGNED), to="gemini") == (
        [*body, BlockStop(0), *call(1, SignatureDelta(1, "s.1", "google"), block=UNSIGNED)],
        [],
    )


def test_signature_with_an_issuer_is_no_carrier() -> None:
    body: list[Event] = [
        *(BlockStart(0, Reasoning()), SignatureDelta(0, OF_CALL, "anthropic"), BlockStop(0)),
    ]
    assert projected(*body, to="gemini") == (body, [])


def test_carried_signature_without_a_later_call_is_lost() -> None:
    body = [*call(0, block=UNSIGNED), *carrier(1, OF_CALL)]
    assert projected(*body, to="gemini") == (call(0, block=UNSIGNED), ["signature ToolCall"])
    writer = encoder("gemini", strict=True)
    for event in (*BEGIN, *body):
        writer.encode(event)
    with pytest.raises(LossyEncoding, match="signature in ToolCall"):
        writer.encode(STOP)


# Signatures of reasoning before a call, as Google's Interactions API has them.

PROOF = SignatureDelta(0, "s.1", "google")
SIGNS_REASONING = ("anthropic", "gemini_interactions", "openai_responses")


def thought(*deltas: Event, choice: int = 0) -> list[Event]:
    return [BlockStart(0, Reasoning(), choice), *deltas, BlockStop(0)]


def test_signature_of_reasoning_is_of_the_call_behind_it_where_calls_alone_are_signed() -> None:
    hm = ReasoningDelta(0, "Hm.")
    calls = [*call(1, JSONDelta(1, "{}"), block=UNSIGNED), *call(2, block=ToolCall("c", "g"))]
    signed = SignatureDelta(1, "s.1", "google")
    written = [
        *call(1, signed, JSONDelta(1, "{}"), block=UNSIGNED),
        *call(2, block=ToolCall("c", "g")),
    ]
    chat = {"to": "openai_chat", "reasoning": "reasoning"}
    assert projected(*thought(hm, PROOF), *calls, **chat) == ([*thought(hm), *written], [])
    # Chat Completions has no place for reasoning without text.
    found = call(0, PROOF, block=UNSIGNED)
    assert projected(*thought(PROOF), *call(1, block=UNSIGNED), **chat) == (found, [])


def test_signature_of_reasoning_is_of_the_call_behind_it_too_where_both_are_signed() -> None:
    """Gemini CLI sends calls back, and no thoughts."""
    calls = call(1, block=UNSIGNED)
    signed = call(1, SignatureDelta(1, "s.1", "google"), block=UNSIGNED)
    assert projected(*thought(PROOF), *calls, to="gemini") == ([*thought(PROOF), *signed], [])
    # Written for an API that signs reasoning alone, the signature stands there once.
    twice = ToolCall("a.b", "f", signature="s.1", issuer="google")
    for dialect in SIGNS_REASONING:
        body = [*thought(PROOF), *call(1, block=twice)]
        assert projected(*body, to=dialect) == ([*thought(PROOF), *calls], [])
    for dialect in (*SIGNS_REASONING, "openai_chat"):
        assert projected(*thought(PROOF), *calls, to=dialect) == ([*thought(PROOF), *calls], [])


@pytest.mark.parametrize(
    "behind",
    [
        [],
        [BlockStart(1, Text()), TextDelta(1, "a"), BlockStop(1), *call(2, block=UNSIGNED)],
    ],
    ids=["nothing", "text"],
)
def test_signature_of_reasoning_without_a_call_directly_behind_it_is_lost(
    behind: list[Event],
) -> None:
    body = [*thought(ReasoningDelta(0, "Hm."), PROOF), *behind]
    passed = [*thought(ReasoningDelta(0, "Hm.")), *behind]
    assert projected(*body, to="openai_chat", reasoning="reasoning") == (
        passed,
        ["signature Reasoning"],
    )
    assert projected(*body, to="gemini") == (body, [])


def test_call_has_its_own_signature_and_none_of_another_choice_or_vendor() -> None:
    chat = {"to": "openai_chat", "reasoning": "reasoning"}
    own = call(1, SignatureDelta(1, "s.2", "google"), block=UNSIGNED)
    signed = call(1, block=ToolCall("a.b", "f", signature="s.2", issuer="google"))
    assert projected(*thought(PROOF), *signed, to="gemini") == ([*thought(PROOF), *own], [])
    hm = ReasoningDelta(0, "Hm.")
    lost = ["signature Reasoning"]
    assert projected(*thought(hm, PROOF), *signed, **chat) == ([*thought(hm), *own], lost)
    other: list[Event] = [BlockStart(1, UNSIGNED, 1), BlockStop(1)]
    assert projected(*thought(hm, PROOF), *other, **chat) == ([*thought(hm), *other], lost)
    foreign = thought(hm, SignatureDelta(0, "s", "anthropic"))
    unsigned = call(1, block=UNSIGNED)
    assert projected(*foreign, *unsigned, **chat) == ([*thought(hm), *unsigned], lost)


def test_signature_in_a_delta_of_a_call_replaces_the_signature_of_the_reasoning() -> None:
    chat = {"to": "openai_chat", "reasoning": "reasoning"}
    hm = ReasoningDelta(0, "Hm.")
    own = call(1, SignatureDelta(1, "s.2", "google"), JSONDelta(1, "{}"), block=UNSIGNED)
    assert projected(*thought(hm, PROOF), *own, to="gemini") == ([*thought(hm, PROOF), *own], [])
    assert projected(*thought(hm, PROOF), *own, **chat) == (
        [*thought(hm), *own],
        ["signature Reasoning"],
    )


@pytest.mark.parametrize("late", [False, True])
def test_signature_that_reasoning_and_call_share_is_written_once(*, late: bool) -> None:
    hm = ReasoningDelta(0, "Hm.")
    signature, arguments = SignatureDelta(1, "s.1", "google"), JSONDelta(1, "{}")
    deltas = (arguments, signature) if late else (signature, arguments)
    body = [*thought(hm, PROOF), *call(1, *deltas, block=UNSIGNED)]
    signed = call(1, signature, arguments, block=UNSIGNED)
    plain = call(1, arguments, block=UNSIGNED)
    assert projected(*body, to="gemini") == ([*thought(hm, PROOF), *signed], [])
    assert projected(*body, to="openai_chat", reasoning="reasoning") == (
        [*thought(hm), *signed],
        [],
    )
    for dialect in SIGNS_REASONING:
        assert projected(*body, to=dialect) == ([*thought(hm, PROOF), *plain], [])


def test_signature_that_reasoning_and_start_of_a_call_share_is_not_lost() -> None:
    hm = ReasoningDelta(0, "Hm.")
    body = [*thought(hm, PROOF), *call(1)]
    signed = call(1, SignatureDelta(1, "s.1", "google"), block=UNSIGNED)
    assert projected(*body, to="openai_chat", reasoning="reasoning") == (
        [*thought(hm), *signed],
        [],
    )


BROKEN = call(1, JSONDelta(1, "["), block=ToolCall("b", "f"))


@pytest.mark.parametrize(
    "between",
    [
        [BlockStart(1, Text()), BlockStop(1)],
        BROKEN,
        [BlockStart(1, ServerToolCall("s", "f", kind="toolCall")), JSONDelta(1, "["), BlockStop(1)],
    ],
    ids=["empty text", "withdrawn call", "withdrawn server call"],
)
def test_block_that_is_not_written_separates_no_call_from_its_reasoning(
    between: list[Event],
) -> None:
    body = [*thought(PROOF), *between, *call(2, JSONDelta(2, "{}"), block=UNSIGNED)]
    signed = [SignatureDelta(1, "s.1", "google"), JSONDelta(1, "{}")]
    written = [*thought(PROOF), *call(1, *signed, block=UNSIGNED)]
    events, _ = project([*BEGIN, *body, MessageStop("max_tokens")], "gemini")
    assert events[len(BEGIN) : -1] == written


@pytest.mark.parametrize("own", [False, True])
def test_signature_of_a_withdrawn_call_is_of_the_open_call_behind_it(*, own: bool) -> None:
    signature = SignatureDelta(3, "s.2", "google")
    start, *rest = call(3, *([signature] if own else []), JSONDelta(3, "{}"), block=UNSIGNED)
    empty: list[Event] = [BlockStart(2, Text()), BlockStop(2)]
    body = [*thought(PROOF), *BROKEN[:-1], *empty, start, *rest[:-2], BROKEN[-1], *rest[-2:]]
    signed = [SignatureDelta(1, "s.2" if own else "s.1", "google"), JSONDelta(1, "{}")]
    events, _ = project([*BEGIN, *body, MessageStop("max_tokens")], "gemini")
    assert events[len(BEGIN) : -1] == [*thought(PROOF), *call(1, *signed, block=UNSIGNED)]


def test_signature_without_text_that_readers_find_on_the_reasoning_is_of_the_call_too() -> None:
    hm = ReasoningDelta(0, "Hm.")
    bare: list[Event] = [
        *(BlockStart(1, Text()), SignatureDelta(1, "s.1", "google"), BlockStop(1)),
    ]
    signed = call(1, SignatureDelta(1, "s.1", "google"), block=UNSIGNED)
    written = [*thought(hm, PROOF), *signed]
    assert projected(*thought(hm), *bare, *call(2, block=UNSIGNED), to="gemini") == (
        written,
        ["boundaries Reasoning"],
    )
    assert projected(*written, to="gemini") == (written, [])


def test_dropped_choice_has_no_carriers() -> None:
    body: list[Event] = [
        *call(0, block=UNSIGNED),
        *(BlockStart(1, SIGNED, 1), BlockStop(1)),
        *(BlockStart(2, Text(), 1), SignatureDelta(2, "s"), BlockStop(2)),
    ]
    assert projected(*body, to="anthropic") == (
        call(0, block=UNSIGNED),
        ["choices choice 1"],
    )


@pytest.mark.parametrize(
    ("dialect", "vendor"), [("openai_responses", "openai"), ("gemini", "google")]
)
def test_redacted_reasoning_of_the_issuer_is_written_as_a_signature(
    dialect: str, vendor: str
) -> None:
    extra = {"id": 1}
    body: list[Event] = [BlockStart(0, RedactedReasoning("x", vendor), extra=extra), BlockStop(0)]
    start, signature = BlockStart(0, Reasoning(), extra=extra), SignatureDelta(0, "x", vendor)
    assert projected(*body, to=dialect) == ([start, signature, BlockStop(0)], [])
    other: list[Event] = [BlockStart(0, RedactedReasoning("x", "anthropic")), BlockStop(0)]
    assert projected(*other, to=dialect) == (other, [])
