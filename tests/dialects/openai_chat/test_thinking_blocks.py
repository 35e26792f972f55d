"""LiteLLM's fields: thinking blocks, signatures of calls, and `provider_specific_fields`.

The deltas and messages have the form in which LiteLLM 1.110.2 sends Anthropic's and Gemini's.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_chat.chunks import DONE, blocks_of, call, chunk, decode, opaques_of

from streamnorm import (
    Block,
    Citation,
    Message,
    Reasoning,
    RedactedReasoning,
    Text,
    ToolCall,
    Transcoder,
    accumulate,
    decode_message,
)

A = '{"a": 1}'


def thinking(*blocks: dict[str, Any], text: str = "") -> dict[str, Any]:
    """Return a delta of LiteLLM, which has the blocks twice and their text once more."""
    fields = {"thinking_blocks": list(blocks)}
    return {"reasoning_content": text, **fields, "provider_specific_fields": fields, "content": ""}


def thought(text: str, index: int = 0) -> dict[str, Any]:
    return thinking({"type": "thinking", "thinking": text, "index": index}, text=text)


def signed(signature: str, index: int = 0) -> dict[str, Any]:
    block = {"type": "thinking", "thinking": "", "signature": signature, "index": index}
    return thinking(block)


def redacted(data: str, index: int = 0) -> dict[str, Any]:
    return thinking({"type": "redacted_thinking", "data": data, "index": index})


def whole(**fields: Any) -> Message:
    """Return a whole answer, decoded."""
    choice = {"index": 0, "message": {"role": "assistant", **fields}, "finish_reason": "stop"}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "model": "m", "choices": [choice]}
    return decode_message(body, "openai_chat")


@pytest.mark.parametrize(
    ("deltas", "blocks"),
    [
        (
            (thought("a"), thought("b"), signed("s=="), {"content": "c"}),
            (Reasoning(("ab",), "s==", "anthropic"), Text("c")),
        ),
        (
            (redacted("r=="), redacted("q==", 1), {"content": "c"}),
            (
                RedactedReasoning("r==", "anthropic"),
                RedactedReasoning("q==", "anthropic"),
                Text("c"),
            ),
        ),
        # Anthropic signs thinking that it does not show.
        (
            (signed("s=="), {"content": "c"}, thought("d", 1), signed("t==", 1)),
            (
                Reasoning((), "s==", "anthropic"),
                Text("c"),
                Reasoning(("d",), "t==", "anthropic"),
            ),
        ),
        (
            (thought("a"), signed("s=="), {"tool_calls": [call(0, "x", "f", A)]}),
            (Reasoning(("a",), "s==", "anthropic"), ToolCall("x", "f", A)),
        ),
    ],
)
def test_thinking_is_decoded_with_its_signatures(
    deltas: tuple[dict[str, Any], ...], blocks: tuple[Block, ...]
) -> None:
    assert blocks_of(*deltas) == blocks


def test_signature_reaches_a_client_of_anthropic() -> None:
    transcoder = Transcoder("openai_chat", "anthropic")
    deltas = (thought("a"), signed("s=="), redacted("r==", 1), {"content": "c"})
    body = b"".join([*map(chunk, deltas), chunk({}, "stop"), DONE])
    written = b"".join(transcoder.feed(body) + transcoder.close())
    assert b'"delta":{"type":"signature_delta","signature":"s=="}' in written
    assert b'"content_block":{"type":"redacted_thinking","data":"r=="}' in written


def test_text_of_several_fields_is_read_once() -> None:
    """Behind OpenRouter the details may stand beside the blocks."""
    detail = {"type": "reasoning.text", "text": "a", "format": "anthropic-claude-v1", "index": 0}
    delta = {**thought("a"), "reasoning": "a", "reasoning_details": [detail]}
    assert blocks_of(delta) == (Reasoning(("a",)),)
    empty = {"thinking_blocks": [{"type": "thinking", "thinking": ""}]}
    assert blocks_of(thought("a"), {"reasoning_content": "b", **empty}) == (Reasoning(("ab",)),)
    assert blocks_of({**signed("s=="), "reasoning_content": "a"}) == (
        Reasoning(("a",), "s==", "anthropic"),
    )


def test_thinking_of_a_whole_answer() -> None:
    message = whole(
        content="c",
        reasoning_content="ab",
        thinking_blocks=[
            {"type": "thinking", "thinking": "a", "signature": "s=="},
            {"type": "redacted_thinking", "data": "r=="},
            {"type": "thinking", "thinking": "b", "signature": "t=="},
        ],
        provider_specific_fields={"citations": None, "thinking_blocks": []},
    )
    assert message.blocks == (
        Reasoning(("a",), "s==", "anthropic"),
        RedactedReasoning("r==", "anthropic"),
        Reasoning(("b",), "t==", "anthropic"),
        Text("c"),
    )
    assert message.opaque == ()


def test_what_openai_has_encrypted_is_of_openai() -> None:
    """LiteLLM tags the encrypted reasoning of the Responses API."""
    tag = "litellm_encrypted_reasoning:"
    assert blocks_of({"reasoning_content": "a"}, signed(f"{tag}e==")) == (
        Reasoning(("a",), "e==", "openai"),
    )
    # Without a summary it is the data of redacted thinking.
    assert blocks_of(redacted(f"{tag}e==")) == (RedactedReasoning("e==", "openai"),)


def test_signatures_of_gemini_are_of_google() -> None:
    blocks = [{"type": "thinking", "thinking": "a", "signature": "g=="}]
    for listed, issuer in ((["g==", 1], "google"), (["h=="], "anthropic"), ("g==", "anthropic")):
        fields = {"thought_signatures": listed}
        message = whole(thinking_blocks=blocks, provider_specific_fields=fields)
        assert message.blocks == (Reasoning(("a",), "g==", issuer),)


def test_unknown_block_is_opaque() -> None:
    block = {"type": "thought", "text": "a"}
    assert opaques_of({"thinking_blocks": [block]}) == [("thinking_blocks", block)]
    # Data is text.
    odd = {"type": "redacted_thinking", "data": 1}
    assert opaques_of({"thinking_blocks": [odd, 1]}) == [("thinking_blocks", odd)]


# Calls

SIGNATURE = "g" * 2000


@pytest.mark.parametrize(
    "fragment",
    [
        call(0, f"call_1__thought__{SIGNATURE}", "f", A),
        call(0, "call_1", "f", A, provider_specific_fields={"thought_signature": SIGNATURE}),
        call(
            0,
            f"call_1__thought__{SIGNATURE}",
            "f",
            A,
            provider_specific_fields={"thought_signature": SIGNATURE},
        ),
    ],
)
def test_signature_of_a_call_is_no_part_of_its_id(fragment: dict[str, Any]) -> None:
    """Those of Google are longer than any id may be."""
    signed_call = ToolCall("call_1", "f", A, signature=SIGNATURE, issuer="google")
    assert blocks_of({"tool_calls": [fragment]}) == (signed_call,)
    assert whole(tool_calls=[fragment]).blocks == (signed_call,)


@pytest.mark.parametrize("id", ["__thought__g", "call_1__thought__", "call_1__thought"])
def test_id_without_a_signature_is_an_id(id: str) -> None:
    assert blocks_of({"tool_calls": [call(0, id, "f", A)]}) == (ToolCall(id, "f", A),)


def test_signature_alone_signs_the_open_call() -> None:
    fields = {"thought_signature": "g=="}
    late = {"index": 0, "provider_specific_fields": fields}
    blocks = blocks_of({"tool_calls": [call(0, "c", "f", A)]}, {"tool_calls": [late]})
    assert blocks == (ToolCall("c", "f", A, signature="g==", issuer="google"),)


# Other fields

PAGE = {"type": "web_search_result_location", "url": "https://a.example", "title": "T"}
FOUND = Citation(
    "web_search_result_location",
    url="https://a.example",
    title="T",
    cited_text="w",
    extra={"encrypted_index": "E"},
)
PLACE = {
    "type": "char_location",
    "cited_text": "w",
    "document_index": 0,
    "document_title": "D",
    "start_char_index": 0,
    "end_char_index": 1,
    "file_id": None,
}
PLACED = Citation(
    "char_location",
    title="D",
    cited_text="w",
    extra={"document_index": 0, "start_char_index": 0, "end_char_index": 1},
)


def cited(citation: dict[str, Any]) -> dict[str, Any]:
    return {"content": "", "provider_specific_fields": {"citation": citation}}


def test_citations_of_anthropic_are_those_of_the_text() -> None:
    page = {**PAGE, "cited_text": "w", "encrypted_index": "E"}
    assert blocks_of({"content": "a"}, cited(page), cited(PLACE), {"content": "b"}) == (
        Text("ab", (FOUND, PLACED)),
    )
    # They come before the text that they belong to.
    blocks = blocks_of({"content": "a"}, thought("b"), cited(PLACE), {"content": "c"})
    assert blocks == (Text("a"), Reasoning(("b",)), Text("c", (PLACED,)))
    assert opaques_of(cited(PLACE)) == [("annotations", PLACE)]


def test_citations_of_a_whole_answer() -> None:
    page = {**PAGE, "cited_text": "w", "encrypted_index": "E", "supported_text": "a"}
    fields = {"citations": [[page], [PLACE]]}
    message = whole(content="ab", provider_specific_fields=fields)
    assert message.blocks == (Text("ab", (FOUND, PLACED)),)
    assert message.opaque == ()


def test_other_fields_are_opaque() -> None:
    known = {"stop_reason": "refusal", "thinking_blocks": None, "citations": None}
    assert opaques_of({"content": "a", "provider_specific_fields": known}) == []
    calls = {"web_search_calls": {"srvtoolu_1": {"status": "completed"}}}
    # Cohere's citations are no lists of lists.
    for fields in (calls, {"citations": [{"start": 0}]}, {"thought_signatures": ["g=="]}):
        expected = [("provider_specific_fields", fields)]
        assert opaques_of(
            {"content": "a", "provider_specific_fields": fields | known | fields}
        ) == (expected)
    assert opaques_of({"content": "a", "provider_specific_fields": "x"}) == []


def test_other_fields_behind_the_finish_revoke_nothing() -> None:
    fields = {"provider_specific_fields": {"container": {"id": "c"}}}
    decoded = decode(chunk({"content": "a"}), chunk({}, "stop"), chunk(fields))
    assert accumulate(decoded.events).stop_reason == "end_turn"
