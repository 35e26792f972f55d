"""What a Gemini stream says, as the official client reads it and as we do.

The client adds nothing up, so that its chunks are added up here, by what the API says of
parts: those of one kind continue each other, unless a signature stands between them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import httpx
from google import genai
from google.genai import types
from pydantic import ValidationError

from streamnorm import Message, Reasoning, RedactedReasoning, Text, ToolCall, Usage
from streamnorm._core.text import tag_redacted_reasoning, tag_signature

__all__ = ["Client", "Said", "Source", "client", "our_words", "sdk_words"]

URL = "http://model.test"
REQUEST: Any = {"model": "gemini-2.5-flash", "contents": "Say hello."}


class Source(NamedTuple):
    """What a text names: the address, and the words that rest on it."""

    url: str | None
    title: str | None
    words: str


class Said(NamedTuple):
    """What a whole stream says.

    Attributes:
        parts: Text, thoughts and calls, each with its signature.
        counts: Prompt, answer, cached and thoughts; None where nothing is told.
    """

    id: str | None
    model: str | None
    parts: list[tuple[Any, ...]]
    sources: list[Source]
    finish: str | None
    counts: tuple[int, int, int | None, int | None] | None


class Client:
    """The official client; every request is answered with one stream."""

    def __init__(self) -> None:
        self._body = b""
        options = types.HttpOptions(
            base_url=URL,
            client_args={"transport": httpx.MockTransport(self._answer)},
            async_client_args={"transport": httpx.MockTransport(self._answer_async)},
        )
        self._client = genai.Client(api_key="-", http_options=options)
        self._loop = asyncio.new_event_loop()

    def _answer(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path.endswith(":streamGenerateContent")
        assert request.url.query == b"alt=sse"
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, content=self._body)

    async def _answer_async(self, request: httpx.Request) -> httpx.Response:
        return self._answer(request)

    def chunks(self, body: bytes) -> list[types.GenerateContentResponse]:
        """Return what the synchronous client makes of a stream."""
        self._body = body
        return list(self._client.models.generate_content_stream(**REQUEST))

    def async_chunks(self, body: bytes) -> list[types.GenerateContentResponse]:
        """Return what the asynchronous client makes of a stream."""
        self._body = body
        return self._loop.run_until_complete(self._async_chunks())

    async def _async_chunks(self) -> list[types.GenerateContentResponse]:
        stream = await self._client.aio.models.generate_content_stream(**REQUEST)
        return [chunk async for chunk in stream]


@cache
def client() -> Client:
    """Return the one client of all tests."""
    return Client()


# As the client reads it


def sdk_words(chunks: list[types.GenerateContentResponse]) -> Said:
    """Return what the chunks say, added up."""
    parts: list[list[Any]] = []
    sources: list[Source] = []
    finish = None
    for chunk in chunks:
        assert chunk.candidates is not None
        assert len(chunk.candidates) == 1
        candidate = chunk.candidates[0]
        assert candidate.index == 0
        assert candidate.content is not None
        assert candidate.content.role == "model"
        for part in candidate.content.parts or ():
            _add(parts, part)
        if candidate.grounding_metadata is not None:
            sources += _sources(candidate.grounding_metadata, parts[-1][1])
        if candidate.finish_reason is not None:
            assert chunk is chunks[-1]
            finish = candidate.finish_reason.value
    ids = {chunk.response_id for chunk in chunks}
    models = {chunk.model_version for chunk in chunks}
    assert (len(ids), len(models)) == (1, 1)
    told = [_sdk_counts(chunk.usage_metadata) for chunk in chunks if chunk.usage_metadata]
    assert len(told) <= 1
    return Said(
        *(ids.pop(), models.pop()),
        [tuple(part) for part in parts],
        *(sources, finish),
        told[0] if told else None,
    )


def _add(parts: list[list[Any]], part: types.Part) -> None:
    call, signature = part.function_call, part.thought_signature
    fields = part.model_fields_set - {"thought", "thought_signature"}
    if call is not None:
        assert fields == {"function_call"}
        assert isinstance(call.args, dict)
        parts.append(["call", call.name, call.args, call.id, signature])
        return
    assert fields == {"text"}
    kind = "thought" if part.thought else "text"
    if not part.text and signature is None:
        return
    last = parts[-1] if parts else ["call"]
    redacted = (signature or b"").startswith(b"sn1-redacted.")  # which belongs to no text
    goes_on = last[0] != "call" and last[-1] is None and not redacted
    # A signature without text ends the part before it, unless it is marked as a thought's.
    if not goes_on or ((part.text or part.thought) and last[0] != kind):
        last = [kind, "", None]
        parts.append(last)
    last[1] += part.text
    last[-1] = signature


def _sources(told: types.GroundingMetadata, text: str) -> list[Source]:
    """Return the sources of a text; their places are counted in its bytes."""
    sources: list[Source] = []
    for support in told.grounding_supports or ():
        segment = support.segment
        assert segment is not None
        cut = text.encode()[segment.start_index or 0 : segment.end_index]
        assert cut.decode() == segment.text
        for number in support.grounding_chunk_indices or ():
            web = (told.grounding_chunks or ())[number].web
            assert web is not None
            sources.append(Source(web.uri, web.title, cut.decode()))
    return sources


def _sdk_counts(
    usage: types.GenerateContentResponseUsageMetadata,
) -> tuple[int, int, int | None, int | None]:
    prompt, answer = usage.prompt_token_count or 0, usage.candidates_token_count or 0
    assert usage.total_token_count == prompt + answer + (usage.thoughts_token_count or 0)
    return prompt, answer, usage.cached_content_token_count, usage.thoughts_token_count


# As we do


_FINISHES = {
    "end_turn": "STOP",
    "tool_use": "STOP",
    "max_tokens": "MAX_TOKENS",
    "refusal": "SAFETY",
    "pause": "CONTINUATION",
    "other": "OTHER",
}


def our_words(message: Message, ids: Mapping[str, str | None] | None = None) -> Said:
    """Return what a projected message should say to a client.

    Args:
        message: The message.
        ids: The id that came with each signature: that of reasoning that was joined to a text
            stands in the stream alone.
    """
    parts: list[tuple[Any, ...]] = []
    sources: list[Source] = []
    for block in message.blocks:
        match block:
            case Text(text, citations, signature, issuer):
                parts.append(
                    ("text", text, _seal(signature, issuer, (ids or {}).get(signature or "")))
                )
                sources += [Source(c.url, c.title, text[c.start : c.end]) for c in citations]
            case Reasoning(signature=signature, issuer=issuer, id=id):
                parts.append(("thought", block.text, _seal(signature, issuer, id)))
            case RedactedReasoning(data, issuer, id):
                parts.append(("thought", "", tag_redacted_reasoning(data, issuer, id).encode()))
            case ToolCall(id, name, arguments, signature=signature, issuer=issuer):
                args = json.loads(arguments if arguments.strip() else "{}")
                parts.append(("call", name, args, id, _seal(signature, issuer)))
            case _:
                raise AssertionError(block)
    finish = None if message.stop_reason is None else _FINISHES[message.stop_reason]
    counts = _our_counts(message.usage)
    return Said(message.id or None, message.model or None, parts, sources, finish, counts)


def _our_counts(usage: Usage) -> tuple[int, int, int | None, int | None] | None:
    if usage == Usage():
        return None
    output, thoughts = usage.output_tokens or 0, usage.reasoning_tokens
    if thoughts is not None:  # a part of the output, though some servers say more
        thoughts = min(thoughts, output)
    answer = output - (thoughts or 0)
    return usage.input_tokens or 0, answer, usage.cache_read_tokens, thoughts


def _seal(signature: str | None, issuer: str | None, id: str | None = None) -> bytes | None:
    """Return the bytes of a signature: those of Google's own, or a value that names another."""
    if signature is None:
        return None
    if issuer == "google" and signature:
        with suppress(ValidationError):  # what the client refuses cannot go out as it is
            return types.Part.model_validate({"thought_signature": signature}).thought_signature
    return tag_signature(signature, issuer, id).encode()
