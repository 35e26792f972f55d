"""Whole responses, token counts and model lists, in both directions.

https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse (read 2026-11-23).  A
response is read as a stream of one chunk, and written from the events of a projected message.

https://ai.google.dev/api/tokens and https://ai.google.dev/api/models (read 2026-11-23).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from msgspec import Struct, structs

from streamnorm._core.blocks import Block, Citation, Reasoning, ServerToolCall, Text, ToolCall
from streamnorm._core.bodies.fields import get_object, require_count
from streamnorm._core.bodies.models import google_models
from streamnorm._core.bodies.token_count import TokenCount
from streamnorm._core.bodies.tool_calls import arguments_object
from streamnorm._core.codec import CountCodec, ReadContext, Written
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Event,
    Failed,
    JSONDelta,
    MessageStart,
    MessageStop,
    Opaque,
    ReasoningDelta,
    SignatureDelta,
    StreamError,
    TextDelta,
    Truncated,
    Usage,
    UsageUpdate,
)
from streamnorm._core.failures import FailedAnswer
from streamnorm._core.json import compact, count_of, dumps
from streamnorm._core.losses import Losses
from streamnorm._core.losses.projection import Projector
from streamnorm._core.messages import Message, came_from, message_events
from streamnorm._core.text import Signed
from streamnorm.dialects.gemini.content import (
    CHUNK_LEVEL_FIELDS,
    block_reason,
    citations_to_wire,
    merge_citations,
    merge_metadata,
    opaque_to_wire,
    signature_to_wire,
)
from streamnorm.dialects.gemini.decode import GeminiDecoder
from streamnorm.dialects.gemini.encode import complete_part
from streamnorm.dialects.gemini.outcome import stop_reason_to_wire, usage_to_wire
from streamnorm.dialects.gemini.tool_calls import server_call_to_wire, tool_call_to_wire
from streamnorm.dialects.gemini.traits import CAPABILITIES
from streamnorm.dialects.gemini.wire import DIALECT, MODIFIERS, to_camel
from streamnorm.sse import Frame

# The extra fields of a message do not name their dialect; fields of these names are Google's.
_CANDIDATE_FIELDS = frozenset(
    {"finishMessage", "safetyRatings", "urlContextMetadata", "avgLogprobs", "tokenCount"}
    | {"continuationToken"}
)
_USAGE_FIELDS = frozenset(
    {"promptTokensDetails", "candidatesTokensDetails", "cacheTokensDetails", "trafficType"}
    | {"toolUsePromptTokensDetails", "toolUsePromptTokenCount", "totalTokenCount", "serviceTier"}
)
_OWN_FIELDS = CHUNK_LEVEL_FIELDS | _CANDIDATE_FIELDS | _USAGE_FIELDS | MODIFIERS
# Other dialects, the Interactions API among them, have other fields of citations.
_OWN_CAPABILITIES = structs.replace(CAPABILITIES, citation_fields=True)


def read_response(body: dict[str, Any], context: ReadContext) -> list[Event]:
    """Return the events that a stream of the same response would give.

    Raises:
        DecodeError: The body is no response of Gemini, or has no finish reason.
    """
    decoder = GeminiDecoder(server=context.server, limits=context.limits)
    events = [*decoder.feed_frame(Frame("message", compact(body))), *decoder.close()]
    match decoder.outcome:
        case Failed(error) if error.kind != "upstream":
            raise DecodeError(f"{error.message}, expected a response", path="$")
        case Truncated():
            if isinstance(events[0], MessageStart):
                raise DecodeError("no finish reason, expected one", path="$.candidates")
            raise DecodeError("no candidates, expected some", path="$.candidates")
        case _:
            return events


def write_response(message: Message, created: float | None, losses: Losses) -> dict[str, Any]:
    """Return a message as a response.

    Args:
        message: The message.
        created: Creation time in seconds since 1970; None = the message's own `createTime`.
        losses: Losses of the projection.

    Raises:
        EncodeError: The message has not ended, a value nests too deep, or a number of arguments
            is beyond a double.
    """
    if message.stop_reason is None:
        raise EncodeError(
            "message without a stop reason, expected one that has ended", path="stop_reason"
        )
    writer = _ResponseWriter(losses, is_own=came_from(message, DIALECT))
    for event in message_events(message):
        writer.push(event)
    try:
        body: dict[str, Any] = json.loads(dumps(writer.response(message, created)))
    except RecursionError as exc:
        raise EncodeError("value that nests too deep, expected less", path="blocks") from exc
    return body


def revise_response(
    body: dict[str, Any], model: str | None, created: float | None
) -> dict[str, Any]:
    """Return a response with its model and creation time replaced; None replaces nothing."""
    body = body if model is None else {**body, "modelVersion": model}
    return body if created is None else {**body, "createTime": _time_to_wire(created)}


def _time_to_wire(created: float) -> str:
    return datetime.fromtimestamp(created, UTC).isoformat().replace("+00:00", "Z")


class _OpenBlock(Struct):
    """A block that has started and not stopped, with its content so far.

    Attributes:
        block: Unified block of the start.
        extra: Google's fields of the part.
        text: Text or arguments so far.
        signature: Signature as it is written.
        citations: Citations of the text.
        part: Number of the part.
        start: First character of the block in the part.
    """

    block: Block
    extra: dict[str, Any]
    text: str = ""
    signature: str | None = None
    citations: list[Citation] = []
    part: int = 0
    start: int = 0


class _ResponseWriter:
    """Encoder of one message, which collects projected events as parts."""

    def __init__(self, losses: Losses, *, is_own: bool) -> None:
        self._losses = losses
        self._projector = Projector(_OWN_CAPABILITIES if is_own else CAPABILITIES, losses)
        self._projector.vendor_fields.carried = _OWN_FIELDS
        self._metadata: dict[str, Any] = {}  # fields of the candidate that are no citations
        self._parts: list[dict[str, Any]] = []
        self._open: dict[int, _OpenBlock] = {}
        self._part_of: dict[int, int] = {}  # by index of a text block
        self._texts: dict[int, list[str]] = {}  # by number of the part
        self._chars: dict[int, int] = {}  # length of the text, by number of the part
        self._cited: list[_OpenBlock] = []
        self._usage = Usage()
        self._end: MessageStop | StreamError = MessageStop("other")  # replaced by the last event

    def push(self, event: Event) -> None:
        """Add an event of the message."""
        for passed in self._projector.push(event):
            self._write(passed)

    def _write(self, event: Event) -> None:
        match event:
            case BlockStart(index, block, _, extra):
                own = _select_fields(extra, MODIFIERS)
                self._open[index] = _OpenBlock(block, own)
                part = complete_part(block, extra, own, is_own=False)
                if part is not None:
                    self._parts.append(part)
            case TextDelta(index, text) | ReasoningDelta(index, text) | JSONDelta(index, text):
                self._open[index].text += text
            case SignatureDelta(index, signature, issuer, id):
                wire = signature_to_wire(Signed(signature, issuer, id), extras=False)
                self._open[index].signature = wire
            case CitationDelta(index, citation):
                self._open[index].citations.append(citation)
            case BlockStop(index):
                self._stop(index, self._open.pop(index))
            case UsageUpdate(usage):
                self._usage = usage
            case Opaque():
                self._add_opaque(event)
            case StreamError() if not self._projector.withdrawn_calls:
                raise FailedAnswer(event)
            case MessageStop() | StreamError():
                self._end = event
            case _:
                pass

    def _add_opaque(self, event: Opaque) -> None:
        """Add an opaque event's data to the candidate or the parts; else count a loss."""
        target, fields = opaque_to_wire(event)
        if target == "candidate":  # a stream repeats metadata that has grown: the last is complete
            self._metadata |= fields
        elif target == "part":
            self._parts.append({"text": "", **fields})
        else:
            self._losses.add("opaque", event.name, "no field, dropped")

    def _stop(self, index: int, block: _OpenBlock) -> None:
        is_withdrawn = index in self._projector.withdrawn_calls
        match block.block:
            case Text() | Reasoning():
                self._stop_text(index, block)
            case ToolCall() as call if not is_withdrawn:
                # A stream passes on, as text, what no decoded body can hold.
                whole = structs.replace(call, arguments=block.text)
                arguments = compact(arguments_object(whole, "error", self._losses, "blocks"))
                part = tool_call_to_wire(call, arguments, block.signature)
                self._parts.append({**part, **block.extra})
            case ServerToolCall() as call if not is_withdrawn:
                self._parts.append({**server_call_to_wire(call, block.text), **block.extra})
            case _:
                pass

    def _stop_text(self, index: int, block: _OpenBlock) -> None:
        """Add a block's text as a part, or to the part of the earlier block it is merged with."""
        before = self._projector.merged.get(index)
        if before is None:
            thought = {"thought": True} if isinstance(block.block, Reasoning) else {}
            block.part = len(self._parts)
            self._parts.append({"text": "", **thought})
        else:
            block.part = self._part_of[before]
        self._part_of[index] = block.part
        self._texts.setdefault(block.part, []).append(block.text)
        block.start = self._chars.get(block.part, 0)
        self._chars[block.part] = block.start + len(block.text)
        if block.signature is not None:
            self._parts[block.part]["thoughtSignature"] = block.signature
        if block.citations:
            self._cited.append(block)

    def response(self, message: Message, created: float | None) -> dict[str, Any]:
        """Return the response body of the message whose events were pushed."""
        for number, texts in self._texts.items():
            self._parts[number]["text"] = "".join(texts)
        chunk = _select_fields(message.extra, CHUNK_LEVEL_FIELDS)
        chunk |= _select_fields(message.stop_extra, CHUNK_LEVEL_FIELDS)
        if created is not None:
            chunk["createTime"] = _time_to_wire(created)
        body: dict[str, Any] = {"responseId": message.id} if message.id else {}
        if message.model:
            body["modelVersion"] = message.model
        raw = message.raw_stop_reason
        if self._parts or not raw or raw != block_reason(chunk):  # else the prompt was blocked
            body["candidates"] = [self._candidate(message)]
        if self._usage != Usage():
            extra = _select_fields(self._usage.extra, _USAGE_FIELDS)
            usage = structs.replace(self._usage, extra=extra or None)
            body["usageMetadata"] = usage_to_wire(usage, extras=True)
        return {**body, **chunk}

    def _candidate(self, message: Message) -> dict[str, Any]:
        parts = self._parts or [{"text": ""}]
        candidate: dict[str, Any] = {
            "index": 0,
            **_select_fields(message.stop_extra, _CANDIDATE_FIELDS),
        }
        end = self._end
        if isinstance(end, StreamError):
            candidate |= {"finishReason": end.code, "finishMessage": end.message}
        else:
            candidate["finishReason"] = stop_reason_to_wire(end)
        cited = merge_metadata(self._citations(), self._metadata)
        return {**candidate, "content": {"role": "model", "parts": parts}, **cited}

    def _citations(self) -> dict[str, Any]:
        starts = [0]  # first byte of each part in all text: `citationMetadata` counts from there
        for part in self._parts:
            text = "" if "thought" in part else part.get("text", "")
            starts.append(starts[-1] + len(text.encode("utf-8", "replace")))
        cited: list[tuple[int, dict[str, Any]]] = []
        for block in self._cited:
            # A citation without an end ends with its block, also where the part goes on.
            text = self._parts[block.part]["text"][: block.start + len(block.text)]
            start = starts[block.part]
            fields = citations_to_wire(block.citations, text, block.start, start, extras=True)
            cited.append((block.part, fields))
        return merge_citations(cited)


def _select_fields(fields: dict[str, Any] | None, names: frozenset[str]) -> dict[str, Any]:
    """Return the fields whose names are in `names`."""
    return {name: item for name, item in (fields or {}).items() if name in names}


_REQUEST, _CACHED = "generateContentRequest", "cachedContentTokenCount"
_VERSION = "/v1beta/"


class _Count(CountCodec, frozen=True):
    """Codec of `countTokens`."""

    def read_request(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the request in `generateContentRequest`, or the body if this field is missing.

        Vertex AI has the fields of the request at the top level, as `generateContent` has them.
        """
        request = get_object(to_camel(body), _REQUEST)
        return body if request is None else request

    def write_request(self, written: Written) -> Written:
        resource, _, _ = written.path.rpartition(":")
        if not resource:
            raise EncodeError("no model, expected one", path="model")
        # At the top level the Gemini API reads `contents` alone: tools and the system
        # instruction count only within `generateContentRequest`.
        model = unquote(resource.removeprefix(_VERSION))
        body = {_REQUEST: {"model": model, **written.body}}
        return structs.replace(written, body=body, path=f"{resource}:countTokens")

    def read_count(self, body: dict[str, Any]) -> TokenCount:
        wire = to_camel(body)
        return TokenCount(require_count(wire, self.tokens), count_of(wire.get(_CACHED)))

    def write_count(self, count: TokenCount) -> dict[str, Any]:
        cached = count.cached_tokens
        return super().write_count(count) | ({} if cached is None else {_CACHED: cached})


COUNT = _Count(tokens="totalTokens")

MODELS = google_models(DIALECT)
