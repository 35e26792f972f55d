"""Signatures go back to the vendor that signed an answer, through any client, and to no other.

An answer is given to a client in its dialect, as a body or as a stream; the client sends it back
in its next request, which goes to the same vendor or to another one.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from support.bedrock_converse.streams import corpus_messages
from support.bodies.checks import BODIES
from support.streams.content import decode, transcode
from support.streams.corpus import corpus, needs_corpus, recordings

from streamnorm import (
    Completed,
    Message,
    Reasoning,
    RedactedReasoning,
    Request,
    Text,
    ToolCall,
    accumulate,
    decode_request,
    encode_message,
    encode_request,
)

VENDORS = {
    "anthropic": "anthropic",
    "openai_responses": "openai",
    "gemini": "google",
    "bedrock_converse": "anthropic",
}
REFUSING = ("anthropic", "openai")  # reasoning that nothing follows
_MAX_BYTES = 300_000
_MIN_CHARS = 16  # of a signature that is found in no other text


def signatures(message: Message, vendor: str) -> set[str]:
    """Return the values that a vendor must get back.

    OpenAI and Anthropic refuse reasoning that nothing follows, of an answer that was cut.
    """
    found: set[str] = set()
    blocks = message.blocks
    while vendor in REFUSING and blocks and isinstance(blocks[-1], Reasoning):
        blocks = blocks[:-1]
    for block in blocks:
        match block:
            case RedactedReasoning(data, issuer) if issuer == vendor:
                found.add(data)
            case Text() | Reasoning() | ToolCall() if block.signature and block.issuer == vendor:
                found.add(block.signature)
            case _:
                pass
    return {value for value in found if len(value) >= _MIN_CHARS}


def signed_answers(dialect: str) -> Iterator[tuple[str, bytes, Message, set[str]]]:
    """Yield the signed answers of the corpus: name, stream, message and signatures."""
    for name, body, server in _streams(dialect):
        events, outcome, _ = decode([body], dialect, server=server)
        if isinstance(outcome, Completed):
            message = accumulate(events)
            signed = signatures(message, VENDORS[dialect])
            if signed and message.stop_reason is not None:
                yield name, body, message, signed


def _streams(dialect: str) -> Iterator[tuple[str, bytes, str | None]]:
    """Yield name, bytes and provider of the streams of the corpus."""
    if dialect == "bedrock_converse":
        yield from ((name, body, None) for name, _, body in corpus_messages())
        yield from ((each.name, each.body, None) for each in recordings(dialect))
        return
    for stream in corpus(dialect):
        if stream.bytes <= _MAX_BYTES:
            yield stream.name, stream.body, stream.provider


def next_request(answer: dict[str, Any], client: str) -> Request:
    """Return the request that a client sends after an answer, with results of its calls."""
    asked, told = {"role": "user", "content": "q"}, {"role": "user", "content": "go on"}
    match client:
        case "anthropic":
            blocks = answer["content"]
            results = [
                {"type": "tool_result", "tool_use_id": block["id"], "content": "r"}
                for block in blocks
                if block["type"] == "tool_use"
            ]
            said = {"role": "assistant", "content": blocks}
            user = {"role": "user", "content": [*results, {"type": "text", "text": "go on"}]}
            body = {"model": "m", "max_tokens": 9, "messages": [asked, said, user]}
        case "openai_chat":
            said = answer["choices"][0]["message"]
            outputs = [
                {"role": "tool", "tool_call_id": call["id"], "content": "r"}
                for call in said.get("tool_calls") or ()
            ]
            body = {"model": "m", "messages": [asked, said, *outputs, told]}
        case "openai_responses":
            outputs = [
                {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": "r"}
                for item in answer["output"]
                if item["type"] in ("function_call", "custom_tool_call")
            ]
            body = {"model": "m", "input": [asked, *answer["output"], *outputs, told]}
        case "bedrock_converse":
            said = answer["output"]["message"]
            ids = [block["toolUse"]["toolUseId"] for block in said["content"] if "toolUse" in block]
            results = [{"toolResult": {"toolUseId": id, "content": [{"text": "r"}]}} for id in ids]
            first, last = ({"role": "user", "content": [{"text": text}]} for text in ("q", "go on"))
            last["content"] = [*results, *last["content"]]
            body = {"messages": [first, said, last]}
        case "gemini_interactions":
            outputs = [
                {"type": "function_result", "call_id": step["id"], "result": "r"}
                for step in answer["steps"]
                if step["type"] == "function_call"
            ]
            first, last = (
                {"type": "user_input", "content": [{"type": "text", "text": text}]}
                for text in ("q", "go on")
            )
            body = {"model": "m", "input": [first, *answer["steps"], *outputs, last]}
        case _:
            content = answer["candidates"][0]["content"]
            answers = [
                {"functionResponse": {**part["functionCall"], "response": {"output": "r"}}}
                for part in content["parts"]
                if "functionCall" in part
            ]
            for part in answers:
                part["functionResponse"].pop("args", None)
            parts = [asked["content"], "go on"]
            first, last = ({"role": "user", "parts": [{"text": text}]} for text in parts)
            turn = [{"role": "user", "parts": answers}] if answers else []
            body = {"contents": [first, content, *turn, last]}
    return decode_request(json.dumps(body), client)


def answered(stream: bytes, message: Message, vendor: str, client: str, *, streamed: bool) -> Any:
    """Return the body that a client has of an answer."""
    if streamed:
        out, _ = transcode([stream], vendor, client)
        message = accumulate(decode([out], client).events)
    return encode_message(message, client).body


# Claude verifies its signatures on every platform, also behind Bedrock's own dialect, and Google
# in both of its APIs.
_ALSO_VERIFY = {
    "anthropic": ("bedrock_converse",),
    "bedrock_converse": ("anthropic",),
    "gemini": ("gemini_interactions",),
}


def is_in(signature: str, body: str, dialect: str) -> bool:
    """Return whether a body has a signature; Converse has redacted reasoning as Base64."""
    blob = b64encode(signature.encode()).decode()
    return json.dumps(signature)[1:-1] in body or (dialect == "bedrock_converse" and blob in body)


@needs_corpus
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("client", BODIES)
@pytest.mark.parametrize("vendor", VENDORS)
def test_signatures_reach_their_vendor_and_no_other(
    vendor: str, client: str, streamed: bool
) -> None:
    count = 0
    for name, stream, message, signed in signed_answers(vendor):
        count += 1
        body = answered(stream, message, vendor, client, streamed=streamed)
        request = next_request(body, client)
        if client != "openai_chat":  # which has no field for reasoning that is signed
            back = json.dumps(encode_request(request, vendor).body)
            assert all(is_in(signature, back, vendor) for signature in signed), name
        for other in BODIES:
            if other not in (vendor, client, *_ALSO_VERIFY.get(vendor, ())):
                sent = json.dumps(encode_request(request, other).body)
                assert not any(is_in(signature, sent, other) for signature in signed), name
    assert count >= (4 if vendor == "bedrock_converse" else 20)
