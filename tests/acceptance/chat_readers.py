"""What the official SDK makes of a Chat Completions stream, in the form of all its clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import groupby
from typing import Any, NamedTuple

import httpx2
import openai

from streamnorm import Message, Reasoning, RedactedReasoning, Refusal, Text, ToolCall

__all__ = [
    "Call",
    "Read",
    "Said",
    "Served",
    "Tokens",
    "neighbours_joined",
    "openai_chunks",
    "openai_helper",
    "proof_of",
    "said",
]


class Tokens(NamedTuple):
    """Tokens; 0 where nobody said."""

    input: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0
    reasoning: int = 0


class Call(NamedTuple):
    """A tool call."""

    id: str
    name: str
    arguments: str
    kind: str = "function"


class Said(NamedTuple):
    """What a client has of an answer.

    Attributes:
        kinds: What its parts are, in order; neighbours of one kind are one, calls apart.
        proofs: The texts of its reasoning that are signed, each with its signature, and what
            only its issuer can read, which has no text.
        call_proofs: Signatures of its calls.
        sources: Address and title of each source that its text cites.
        finish: Why it ended, in the words of Chat Completions.
    """

    id: str = ""
    model: str = ""
    kinds: tuple[str, ...] = ()
    text: str = ""
    reasoning: str = ""
    proofs: tuple[tuple[str, str], ...] = ()
    refusal: str = ""
    calls: tuple[Call, ...] = ()
    call_proofs: tuple[str, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    finish: str = ""
    tokens: Tokens = Tokens()

    def without(self, fields: Iterable[str]) -> Said:
        """Return all but these fields."""
        return self._replace(**{field: Said._field_defaults[field] for field in fields})


# What it should have


_FINISHES = {
    "end_turn": "stop",
    "max_tokens": "length",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def said(message: Message) -> Said:
    """Return what a message says, as Chat Completions can carry it."""
    blocks, usage = message.blocks, message.usage
    refusal = "".join(block.text for block in blocks if isinstance(block, Refusal))
    finish = _FINISHES[message.stop_reason or "end_turn"]
    proofs = [_proof(block) for block in blocks if isinstance(block, Reasoning | RedactedReasoning)]
    return Said(
        message.id,
        message.model,
        neighbours_joined(map(_kind, blocks)),
        message.text,
        "".join(block.text for block in blocks if isinstance(block, Reasoning)),
        tuple(proof for proof in proofs if proof[1]),
        refusal,
        tuple(
            Call(call.id, call.name, call.arguments or "{}" * (call.kind == "function"), call.kind)
            for call in message.tool_calls
        ),
        tuple(
            _sealed(call.signature, call.issuer, None, ("google",))
            for call in message.tool_calls
            if call.signature
        ),
        tuple(
            (source.url or "", source.title or "")
            for block in blocks
            if isinstance(block, Text)
            for source in block.citations
        ),
        # The refusal itself says why.
        "stop" if refusal and finish == "content_filter" else finish,
        Tokens(
            usage.input_tokens or 0,
            usage.output_tokens or 0,
            usage.cache_read_tokens or 0,
            usage.cache_write_tokens or 0,
            usage.reasoning_tokens or 0,
        ),
    )


def _proof(block: Reasoning | RedactedReasoning) -> tuple[str, str]:
    if isinstance(block, RedactedReasoning):
        return "", _sealed(block.data, block.issuer, block.id, ("anthropic",))
    known = ("anthropic", "google", "openai", "xai")
    return block.text, _sealed(block.signature, block.issuer, block.id, known)


def _sealed(value: str | None, issuer: str | None, id: str | None, known: tuple[str, ...]) -> str:
    """Return an opaque value, which names its issuer itself if nothing beside it can."""
    if not value or issuer in known:
        return value or ""
    return f"sn1-id.{issuer}.{id}.{value}" if id else f"sn1.{issuer or ''}.{value}"


def _kind(block: object) -> str:
    match block:
        case Text():
            return "text"
        case Reasoning() | RedactedReasoning():
            return "reasoning"
        case Refusal():
            return "refusal"
        case ToolCall():
            return "call"
        case _:
            raise AssertionError(block)


def neighbours_joined(kinds: Iterable[str]) -> tuple[str, ...]:
    runs = [list(run) for _, run in groupby(kinds)]
    return tuple(kind for run in runs for kind in (run if run[0] == "call" else run[:1]))


# What it has


class Served:
    """Answers every request with one stream."""

    def __init__(self) -> None:
        self.body = b""
        transport = httpx2.MockTransport(self._answer)
        self.http = httpx2.Client(transport=transport)
        self.async_http = httpx2.AsyncClient(transport=transport)
        self.client = openai.AsyncOpenAI(
            api_key="-", base_url="http://t", http_client=self.async_http, max_retries=0
        )

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        assert request.url.path == "/chat/completions"
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, content=self.body)

    async def aclose(self) -> None:
        """Close what was opened."""
        self.http.close()
        await self.async_http.aclose()


Read = Callable[[], Awaitable[Said]]
"""Reads the stream that is served."""


def openai_chunks(served: Served) -> Read:
    """Read with `create(stream=True)`, and add up as the SDK's helper should."""

    async def read() -> Said:
        create = served.client.chat.completions.create
        chunks = [chunk async for chunk in await create(model="m", messages=[], stream=True)]
        answer = Said(chunks[0].id, chunks[0].model)
        assert {(chunk.id, chunk.model, chunk.created, chunk.object) for chunk in chunks} == {
            (answer.id, answer.model, chunks[0].created, "chat.completion.chunk")
        }
        kinds: list[str] = []
        details: dict[int, dict[str, str]] = {}
        calls: list[Call] = []
        proofs: list[str] = []
        for choice in (choice for chunk in chunks for choice in chunk.choices if not choice.index):
            delta: dict[str, Any] = choice.delta.to_dict(mode="python")
            thought = _thought(delta)
            kinds += ["reasoning"] * bool(thought or delta.get("reasoning_details"))
            for detail in delta.get("reasoning_details") or ():
                whole = details.setdefault(detail["index"], {})
                whole.update({key: whole.get(key, "") + detail.get(key, "") for key in _PROOF})
            kinds += ["text"] * bool(delta.get("content"))
            kinds += ["refusal"] * bool(delta.get("refusal"))
            for piece in delta.get("tool_calls") or ():
                if piece["index"] == len(calls):
                    kinds.append("call")
                    calls.append(Call(piece["id"], "", "", piece["type"]))
                call = calls[piece["index"]]
                part = piece[call.kind]
                text = part.get("arguments" if call.kind == "function" else "input", "")
                calls[piece["index"]] = call._replace(
                    name=call.name + part.get("name", ""),
                    arguments=call.arguments + text,
                )
                proofs += filter(None, [proof_of(piece)])
            answer = answer._replace(
                text=answer.text + (delta.get("content") or ""),
                reasoning=answer.reasoning + thought,
                refusal=answer.refusal + (delta.get("refusal") or ""),
                sources=answer.sources + _sources(delta),
                finish=answer.finish + (choice.finish_reason or ""),
            )
        return answer._replace(
            kinds=neighbours_joined(kinds),
            proofs=_proofs(details.values()),
            calls=tuple(calls),
            call_proofs=tuple(proofs),
            tokens=_sum(_tokens(chunk.usage) for chunk in chunks),
        )

    return read


def openai_helper(served: Served) -> Read:
    """Read with `chat.completions.stream()`."""

    async def read() -> Said:
        async with served.client.chat.completions.stream(model="m", messages=[]) as stream:
            completion = await stream.get_final_completion()
        (choice, *_), usage = completion.choices, completion.usage
        message: dict[str, Any] = choice.message.to_dict(mode="python")
        assert message["role"] == "assistant"
        assert completion.object == "chat.completion"
        return Said(
            completion.id,
            completion.model,
            text=message.get("content") or "",
            reasoning=_thought(message),
            proofs=_proofs(message.get("reasoning_details") or ()),
            refusal=message.get("refusal") or "",
            calls=tuple(
                Call(call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in message.get("tool_calls") or ()
            ),
            call_proofs=tuple(filter(None, map(proof_of, message.get("tool_calls") or ()))),
            sources=_sources(message),
            finish=choice.finish_reason or "",
            tokens=_tokens(usage),
        )

    return read


def _thought(message: dict[str, Any]) -> str:
    told = message.get("reasoning_content") or message.get("reasoning") or ""
    return told + "".join(part.get("text", "") for part in message.get("reasoning_details") or ())


def _sources(message: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    notes = message.get("annotations") or ()
    cited = [note["url_citation"] for note in notes if note.get("url_citation")]
    return tuple((source["url"], source.get("title", "")) for source in cited)


_PROOF = ("text", "signature", "data")


def _proofs(details: Iterable[dict[str, Any]]) -> tuple[tuple[str, str], ...]:
    pairs = (
        (detail.get("text", ""), detail.get("signature", "") + detail.get("data", ""))
        for detail in details
    )
    return tuple(pair for pair in pairs if pair[1])


def proof_of(call: dict[str, Any]) -> str:
    return str((call.get("extra_content") or {}).get("google", {}).get("thought_signature", ""))


def _tokens(usage: openai.types.CompletionUsage | None) -> Tokens:
    if usage is None:
        return Tokens()
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    before, after = usage.prompt_tokens_details, usage.completion_tokens_details
    return Tokens(
        usage.prompt_tokens,
        usage.completion_tokens,
        (before and before.cached_tokens) or 0,
        (before and before.cache_write_tokens) or 0,
        (after and after.reasoning_tokens) or 0,
    )


def _sum(counts: Iterable[Tokens]) -> Tokens:
    return Tokens(*map(sum, zip(*counts, strict=True)))
