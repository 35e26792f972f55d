"""What an SDK for Node should make of a projected message, in the form that its script tells.

Blocks that only one dialect has are left out on both sides.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from streamnorm import (
    Block,
    Document,
    Image,
    Message,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    Text,
    ToolCall,
)
from streamnorm._core.text import escape_id, tag_redacted_reasoning, tag_signature, untag_signature

__all__ = [
    "Words",
    "ai_chat",
    "ai_gemini",
    "ai_messages",
    "ai_responses",
    "chat",
    "chat_helper",
    "messages",
    "responses",
    "tidied",
]

Words = dict[str, Any]
_Tag = Callable[[str, str | None, str | None], str]
_Seal = Callable[[str | None, str | None, str | None, _Tag], str | None]


def tidied(words: Words) -> Words:
    """Return words without what is null, and with 0 for tokens that nobody counted."""
    told = {key: value for key, value in words.items() if value is not None}
    told["blocks"] = [
        {key: _opened(item) if key == "signature" else item for key, item in block.items()}
        for block in (
            {key: item for key, item in block.items() if key != "signature" or item}
            for block in told["blocks"]
        )
    ]
    told["sources"] = [(s.get("url"), s.get("title") or "") for s in told["sources"]]
    told["usage"] = {count: told["usage"].get(count) or 0 for count in _COUNTS}
    return told


def _opened(signature: str) -> str:
    """Return a signature of OpenAI without the id that it is bound to.

    It is written as it is under that id, which these words do not have, else tagged.
    """
    signed = untag_signature(signature)
    return signature if signed is None or signed.issuer != "openai" else signed.signature


_COUNTS = ("input", "output", "cached", "written", "reasoning")


def _told(message: Message, blocks: list[Words], finish: str | None) -> Words:
    usage = message.usage
    return {
        "id": message.id or None,  # for none, clients have words of their own
        "model": message.model or None,
        "blocks": blocks,
        "sources": [
            {"url": source.url, "title": source.title}
            for block in message.blocks
            if isinstance(block, Text)
            for source in block.citations
            if source.url is not None
        ],
        "finish": finish,
        "usage": {
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "cached": usage.cache_read_tokens,
            "written": usage.cache_write_tokens,
            "reasoning": usage.reasoning_tokens,
        },
    }


def _blocks(message: Message, seal: _Seal) -> list[Words]:
    return [words for block in message.blocks for words in _block(block, seal)]


def _block(block: Block, seal: _Seal) -> list[Words]:
    match block:
        case Text(text, _, signature, issuer):
            proof = seal(signature, issuer, None, tag_signature)
            return [{"kind": "text", "text": text, "signature": proof}]
        case Refusal(text):
            return [{"kind": "refusal", "text": text}]
        case Reasoning(signature=signature, issuer=issuer, id=id):
            proof = seal(signature, issuer, id, tag_signature)
            return [{"kind": "reasoning", "text": block.text, "signature": proof}]
        case RedactedReasoning(data, issuer, id):
            proof = seal(data, issuer, id, tag_redacted_reasoning)
            return [{"kind": "reasoning", "text": "", "signature": proof}]
        case ToolCall(id, name, arguments, "custom"):
            return [{"kind": "custom", "id": id, "name": name, "input": arguments}]
        case ServerToolCall(_, name, arguments, "custom_tool_call"):
            held = json.loads(arguments)  # as xAI tells what it ran itself
            called = {"id": held["call_id"], "input": held["input"]}
            return [{"kind": "custom", "name": name, **called}]
        case ToolCall(id, name, arguments, signature=signature, issuer=issuer):
            words = {"kind": "call", "id": id, "name": name, "input": _parsed(arguments)}
            return [{**words, "signature": seal(signature, issuer, None, tag_signature)}]
        case _:
            return []


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments.strip() or "{}")
    except ValueError:
        return arguments


def _sealed_for(vendor: str) -> _Seal:
    """Return what becomes of a signature: another vendor's names who issued it."""

    def seal(signature: str | None, issuer: str | None, id: str | None, tag: _Tag) -> str | None:
        return signature if signature is None or issuer == vendor else tag(signature, issuer, id)

    return seal


def _sealed_for_anthropic(
    signature: str | None, issuer: str | None, id: str | None, _: _Tag
) -> str | None:
    """Return the same where reasoning that may not be seen has a place of its own."""
    return _sealed_for("anthropic")(signature, issuer, id, tag_signature)


# By the official SDKs


_CHAT_FINISHES = {
    "end_turn": "stop",
    "max_tokens": "length",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def chat(message: Message) -> Words:
    """Return a message as Chat Completions tells it."""
    finish = _CHAT_FINISHES[message.stop_reason or "end_turn"]
    if finish == "content_filter" and any(isinstance(b, Refusal) for b in message.blocks):
        finish = "stop"  # the refusal itself says why
    return _told(message, _blocks(message, _sealed_for("google")), finish)


def chat_helper(message: Message) -> Words:
    """Return what its helper adds up: one text; of reasoning it keeps but the last piece."""
    told = chat(message)
    texts = [_joined(told["blocks"], kind) for kind in ("text", "refusal")]
    calls = [block for block in told["blocks"] if block["kind"] == "call"]
    return {**told, "blocks": [*(text for text in texts if text["text"]), *calls]}


def _joined(blocks: list[Words], kind: str) -> Words:
    return {"kind": kind, "text": "".join(b["text"] for b in blocks if b["kind"] == kind)}


def responses(message: Message) -> Words:
    """Return a message as Responses tells it."""
    kinds = {type(block) for block in message.blocks}
    finish = "completed"
    if message.stop_reason == "max_tokens":
        finish = "max_output_tokens"
    elif message.stop_reason == "refusal" and (Refusal not in kinds or ToolCall in kinds):
        finish = "content_filter"
    return _told(message, _blocks(message, _sealed_for("openai")), finish)


def messages(message: Message) -> Words:
    """Return a message as Anthropic Messages tells it."""
    reason, raw, usage = message.stop_reason, message.raw_stop_reason, message.usage
    known = ("model_context_window_exceeded", "compaction", "pause_turn")
    told = _told(message, _messages_blocks(message), raw if raw in known else reason)
    cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    told["usage"]["input"] = (usage.input_tokens or 0) - cached
    told["stop_sequence"] = message.stop_sequence
    return told


def _messages_blocks(message: Message) -> list[Words]:
    return [
        {**words, "id": escape_id(words["id"])} if words["kind"] == "call" else words
        for words in _blocks(message, _sealed_for_anthropic)
    ]


# By the AI SDK


_AI_FINISHES = {
    "max_tokens": "length",
    "tool_use": "tool-calls",
    "refusal": "content-filter",
    "other": "other",
}


def _ai(message: Message, blocks: list[Words], finishes: dict[str, str] = _AI_FINISHES) -> Words:
    return _told(message, blocks, finishes.get(message.stop_reason or "", "stop"))


def _stopped_for_calls(told: Words) -> Words:
    """Return words of a provider that looks for calls itself."""
    calls = any(block["kind"] == "call" for block in told["blocks"])
    return {**told, "finish": "tool-calls"} if calls and told["finish"] == "stop" else told


def ai_chat(message: Message) -> Words:
    """Return what its provider of Chat Completions reads: no reasoning, and one text."""
    text = [b for b in message.blocks if isinstance(b, Text | Refusal)]
    calls = [b for b in _blocks(message, _nothing) if b["kind"] == "call"]
    whole = {"kind": "text", "text": "".join(block.text for block in text)}
    return _ai(message, [whole, *calls] if text else calls)


def _nothing(*_: object) -> None:
    return None


def ai_responses(message: Message) -> Words:
    """Return what its provider of Responses reads: a block for each summary."""
    blocks: list[Words] = []
    for block in message.blocks:
        (*before, last) = block.parts or ("",) if isinstance(block, Reasoning) else ("",)
        blocks += [{"kind": "reasoning", "text": part} for part in before]
        for words in _block(block, _sealed_for("openai")):
            if isinstance(block, Reasoning):
                words["text"] = last
            blocks.append({**words, "kind": _AI_KINDS.get(words["kind"], words["kind"])})
    return _stopped_for_calls(_ai(message, blocks))


_AI_KINDS = {"refusal": "text", "custom": "call"}


def ai_messages(message: Message) -> Words:
    """Return what its provider of Anthropic Messages reads."""
    return _ai(message, _messages_blocks(message))


def ai_gemini(message: Message) -> Words:
    """Return what its provider of Gemini reads.

    A signature behind a thought is a thought of its own to it, and one behind a text, be it a
    thought's, that of all the text till something else comes.
    """
    blocks: list[Words] = []
    text: Words | None = None  # which goes on
    for block in message.blocks:
        if isinstance(block, Image | Document):
            text = None
        for words in _block(block, _sealed_in_base64):
            signature = words.get("signature")
            if words["kind"] == "reasoning" and words["text"] and signature:
                blocks.append({**words, "signature": None})
                words["text"], text = "", None
            bare = words["kind"] == "reasoning" and not words["text"]
            if text is not None and (bare or words["kind"] == "text"):
                text["text"] += words["text"]
                text["signature"] = signature or text["signature"]
                continue
            blocks.append(words)
            text = words if words["kind"] == "text" else None
    # A pause is a continuation to Gemini, which this takes for what was too long.
    return _stopped_for_calls(_ai(message, blocks, {**_AI_FINISHES, "pause": "length"}))


def _sealed_in_base64(
    signature: str | None, issuer: str | None, id: str | None, tag: _Tag
) -> str | None:
    """Return a signature as Gemini takes it: bytes, which a made-up one may not be."""
    if signature is None:
        return None
    if issuer == "google" and len(signature) % 4 == 0:
        with suppress(ValueError):
            plain = signature.translate(_URLSAFE)
            # Google would give back no other form of the same bytes.
            if b64encode(b64decode(plain, validate=True)).decode() == plain:
                return signature
    return b64encode(tag(signature, issuer, id).encode()).decode()


_URLSAFE = str.maketrans("-_", "+/")
