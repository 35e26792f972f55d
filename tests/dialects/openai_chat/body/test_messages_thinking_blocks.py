"""History for LiteLLM, and from its clients: thinking blocks and signatures of calls.

What LiteLLM 1.110.2 makes of these messages for Anthropic and Gemini was observed with a server
behind it.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from support.openai_chat.requests import asked, body_of, message, read, read_message, write

from streamnorm import (
    DecodeError,
    Encoded,
    InputBlock,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Request,
    Text,
    ToolCall,
    ToolResult,
    decode_request,
    encode_request,
)

SIGNED = Reasoning(("Hm.",), "s==", "anthropic")
REDACTED = RedactedReasoning("r==", "anthropic")
HIDDEN = Reasoning((), "t==", "anthropic")
THINKING = [
    {"type": "thinking", "thinking": "Hm.", "signature": "s=="},
    {"type": "redacted_thinking", "data": "r=="},
    {"type": "thinking", "thinking": "", "signature": "t=="},
]
SIGNATURE = "g" * 2000
LONG_ID = f"call_1__thought__{SIGNATURE}"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def assistant(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", **fields}


def function(id: str, **more: Any) -> dict[str, Any]:
    inner = {"name": "f", "arguments": "{}"}
    return {"id": id, "type": "function", "function": inner, **more}


def for_litellm(model: str, *blocks: InputBlock) -> Encoded:
    """Return the request of an Anthropic client, for LiteLLM."""
    turns = (
        message("user", Text("Hi")),
        message("assistant", *blocks),
        message("user", Text("Go")),
    )
    return encode_request(replace(asked(*turns), model=model), "openai_chat", server="litellm")


def test_thinking_goes_back_as_litellm_reads_it() -> None:
    encoded = for_litellm("claude-opus-4-6", SIGNED, REDACTED, HIDDEN, Text("Hello"))
    value = {"reasoning_content": "Hm.", "thinking_blocks": THINKING, "content": "Hello"}
    assert encoded.body["messages"][1] == assistant(**value)
    assert encoded.losses == ()
    assert read_message(assistant(**value)).blocks == (SIGNED, REDACTED, HIDDEN, Text("Hello"))


def test_thinking_behind_text_stays_in_its_place() -> None:
    """Anthropic verifies it there, and LiteLLM writes `thinking_blocks` before the text."""
    call = ToolCall("c1", "f", "{}")
    turns = (
        message("user", Text("Hi")),
        message("assistant", SIGNED, Text("Hello"), HIDDEN, call),
        message("user", ToolResult("c1", (Text("5"),))),
    )
    request = asked(*turns, tools=called().tools)
    named = replace(request, model="claude-opus-4-6")
    value = encode_request(named, "openai_chat", server="litellm").body["messages"][1]
    thinking = [THINKING[0], THINKING[2]]
    assert value == assistant(
        reasoning_content="Hm.",
        thinking_blocks=thinking,
        content=[thinking[0], {"type": "text", "text": "Hello"}, thinking[1]],
        tool_calls=[function("c1")],
    )
    assert read_message(value).blocks == (SIGNED, Text("Hello"), HIDDEN, call)
    # Other models may not know such parts.
    value = encode_request(request, "openai_chat", server="litellm").body["messages"][1]
    assert (value["content"], value["thinking_blocks"]) == ("Hello", thinking)


def test_redacted_thinking_alone_has_no_text() -> None:
    body = write(asked(message("assistant", REDACTED, Text("Hi"))), reasoning_form="blocks")
    assert body["messages"] == [assistant(thinking_blocks=[THINKING[1]], content="Hi")]


def test_unsigned_reasoning_is_text() -> None:
    """Providers behind LiteLLM that sign nothing read `reasoning_content`."""
    encoded = for_litellm("deepseek-reasoner", Reasoning(("Hm.",)), Text("Hello"))
    assert encoded.body["messages"][1] == assistant(reasoning_content="Hm.", content="Hello")
    encoded = for_litellm("an-alias", Reasoning(("A",)), SIGNED, Text("Hello"))
    unsigned = {"type": "thinking", "thinking": "A"}
    value = {"reasoning_content": "A\n\nHm.", "thinking_blocks": [unsigned, THINKING[0]]}
    assert encoded.body["messages"][1] == assistant(**value, content="Hello")
    # LiteLLM would drop it for Anthropic.
    encoded = for_litellm("claude-opus-4-6", Reasoning(("Hm.",)), Text("Hello"))
    assert encoded.body["messages"][1] == assistant(content="Hello")
    assert [loss.feature for loss in encoded.losses] == ["reasoning_dropped"]


def test_reasoning_of_openai_goes_back_under_the_tag_of_litellm() -> None:
    blocks = (Reasoning(("Hm.",), "e==", "openai"), RedactedReasoning("f==", "openai"))
    encoded = for_litellm("gpt-5.2", *blocks, Text("Hello"))
    tag = "litellm_encrypted_reasoning:"
    thinking = [
        {"type": "thinking", "thinking": "Hm.", "signature": f"{tag}e=="},
        {"type": "redacted_thinking", "data": f"{tag}f=="},
    ]
    value = encoded.body["messages"][1]
    assert value["thinking_blocks"] == thinking
    assert read_message(value).blocks == (*blocks, Text("Hello"))


@pytest.mark.parametrize("issuer", ["mistral", None])
def test_signature_that_litellm_does_not_know_is_tagged(issuer: str | None) -> None:
    block = Reasoning(("Hm.",), "m==", issuer)
    (value,) = write(asked(message("assistant", block, Text("Hi"))), reasoning_form="blocks")[
        "messages"
    ]
    assert value["thinking_blocks"][0]["signature"].startswith("sn1.")
    assert read_message(value).blocks == (block, Text("Hi"))


def test_thinking_of_a_client_of_litellm_reaches_anthropic() -> None:
    """As the client repeats the message that LiteLLM has sent."""
    sent = {"reasoning_content": "Hm.", "thinking_blocks": THINKING, "content": "Hello"}
    body = body_of(
        {"role": "user", "content": "Hi"}, assistant(**sent), {"role": "user", "content": "Go"}
    )
    encoded = encode_request(decode_request(body, "openai_chat"), "anthropic")
    text = {"type": "text", "text": "Hello"}
    assert encoded.body["messages"][1] == assistant(content=[*THINKING, text])
    assert encode_request(decode_request(body, "openai_chat"), "openai_chat").body == body


def test_thinking_within_the_content_is_reasoning() -> None:
    """LiteLLM joins it with `thinking_blocks`."""
    hello, world = ({"type": "text", "text": text} for text in ("Hello", "World"))
    content = [THINKING[0], hello, *THINKING[1:], world]
    blocks = (SIGNED, Text("Hello"), REDACTED, HIDDEN, Text("World"))
    assert read_message(assistant(content=content)).blocks == blocks
    for fields in ({"thinking_blocks": THINKING[1:]}, {"reasoning_content": "Hm."}):
        assert read_message(assistant(**fields, content=content)).blocks == blocks
    other = {"type": "redacted_thinking", "data": "q=="}
    both = assistant(thinking_blocks=[other, *THINKING], content=content)
    assert read_message(both).blocks == (RedactedReasoning("q==", "anthropic"), *blocks)
    request = decode_request(body_of(assistant(content=content)), "openai_chat")
    encoded = encode_request(request, "anthropic")
    assert encoded.body["messages"][-1] == assistant(content=content)
    assert encode_request(request, "openai_chat").body["messages"] == [assistant(content=content)]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},  # Mistral's
        {"type": "redacted_thinking", "data": None},
    ],
)
def test_other_thinking_within_the_content_is_opaque(part: dict[str, Any]) -> None:
    (block,) = read_message(assistant(content=[part])).blocks
    assert isinstance(block, OpaqueBlock)


def test_unknown_block_stays_as_it_is() -> None:
    block = {"type": "thought", "text": "a"}
    part = read_message(assistant(thinking_blocks=[*THINKING, block], content="Hi"))
    assert part.extra == {"openai_chat": {"thinking_blocks": [block]}}


def test_no_list_of_blocks_is_an_error() -> None:
    with pytest.raises(DecodeError) as failure:
        read(body_of(assistant(thinking_blocks="x", content="Hi")))
    assert failure.value.path == "$.messages[0].thinking_blocks"


# Calls

CALLED = (
    {"role": "user", "content": "Hi"},
    assistant(content=None, tool_calls=[function(LONG_ID)]),
    {"role": "tool", "tool_call_id": LONG_ID, "content": "5"},
)
CALL = ToolCall("call_1", "f", "{}", signature=SIGNATURE, issuer="google")


def called() -> Request:
    return decode_request(body_of(*CALLED, tools=[TOOL]), "openai_chat")


def test_signature_in_an_id_is_read() -> None:
    assert called().messages[1].blocks == (CALL,)
    assert called().messages[2].blocks == (ToolResult("call_1", (Text("5"),)),)
    (content,) = [
        content
        for content in encode_request(called(), "gemini").body["contents"]
        if content["role"] == "model"
    ]
    assert content["parts"][0]["thoughtSignature"] == SIGNATURE


def test_ids_of_a_request_for_the_same_dialect_stay_as_they_are() -> None:
    encoded = encode_request(called(), "openai_chat")
    assert encoded.body["messages"] == list(CALLED)


def test_call_and_result_have_one_id_where_messages_are_written_anew() -> None:
    request = called()
    changed = replace(asked(*request.messages, tools=request.tools), model="gemini-3-pro")
    body = encode_request(changed, "openai_chat", server="litellm").body
    fields = {"provider_specific_fields": {"thought_signature": SIGNATURE}}
    assert body["messages"][1]["tool_calls"] == [function("call_1", **fields)]
    assert body["messages"][2]["tool_call_id"] == "call_1"


def test_signature_of_a_call_goes_back_as_litellm_reads_it() -> None:
    turns = (
        message("user", Text("Hi")),
        message("assistant", CALL),
        message("user", ToolResult("call_1", (Text("5"),))),
    )
    request = replace(asked(*turns, tools=called().tools), model="gemini-3-pro")
    encoded = encode_request(request, "openai_chat", server="litellm")
    fields = {"provider_specific_fields": {"thought_signature": SIGNATURE}}
    assert encoded.body["messages"][1]["tool_calls"] == [function("call_1", **fields)]
    assert encoded.losses == ()
    assert read_message(encoded.body["messages"][1]).blocks == (CALL,)


def test_signature_stands_beside_unknown_fields_of_its_call() -> None:
    fields = {"thought_signature": "g==", "other": 1}
    call = function("call_1", provider_specific_fields=fields)
    (block,) = read_message(assistant(tool_calls=[call])).blocks
    assert isinstance(block, ToolCall)
    assert (block.signature, block.extra) == (
        "g==",
        {"openai_chat": {"provider_specific_fields": fields}},
    )
    # Of the two places the one of Google's own endpoint is read.
    google = {"extra_content": {"google": {"thought_signature": "h=="}}}
    fields = {"thought_signature": "g=="}
    call = function("call_1", provider_specific_fields=fields, **google)
    (block,) = read_message(assistant(tool_calls=[call])).blocks
    assert isinstance(block, ToolCall)
    assert (block.signature, block.extra) == ("h==", None)
