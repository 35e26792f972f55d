"""Reasoning, citations and opaque fields, in both directions.

https://openrouter.ai/docs/use-cases/reasoning-tokens (read 2026-11-21): OpenRouter's
`reasoning_details`.  https://docs.litellm.ai/docs/reasoning_content and LiteLLM 1.110.2 (read
2026-12-01): LiteLLM's `thinking_blocks`.  Other servers send `<think>` tags within text.
Citations are the `annotations` of a delta and of a whole message.  Fields of a chunk that no
unified event carries are opaque.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from streamnorm._core.blocks import Citation, Reasoning, RedactedReasoning
from streamnorm._core.events import Opaque
from streamnorm._core.json import (
    FAST_ERRORS,
    compact,
    is_array,
    is_object,
    objects_of,
    string_of,
)
from streamnorm._core.limits import OBJECT_BYTES, StoredBytes, text_bytes, value_bytes
from streamnorm._core.text import Signed, tag_signature, untag_signature
from streamnorm.dialects.openai_chat.wire import DELTA_FIELDS, SIDE_FIELDS, Delta

_ISSUERS = {
    "anthropic-claude-v1": "anthropic",
    "openai-responses-v1": "openai",
    "azure-openai-responses-v1": "openai",
    "xai-responses-v1": "xai",
    "google-gemini-v1": "google",
}
_FORMATS = {
    "anthropic": "anthropic-claude-v1",
    "google": "google-gemini-v1",
    "openai": "openai-responses-v1",
    "xai": "xai-responses-v1",
}
ENCRYPTING_ISSUERS = frozenset({"openai", "xai"})
"""Issuers that encrypt reasoning, and bind it to the id of its item."""
_ANTHROPIC_FORMAT = {"anthropic": _FORMATS["anthropic"]}
_UNKNOWN_FORMAT = "unknown"
# LiteLLM's own tag of what OpenAI's Responses API has encrypted.
_LITELLM_ENCRYPTED = "litellm_encrypted_reasoning:"
_TYPES = frozenset({"reasoning.text", "reasoning.summary", "reasoning.encrypted"})


class EncryptedReasoning(Struct):
    """Reasoning that only its issuer can read."""

    signed: Signed
    owner: object  # id of the detail; at Google, the id of a tool call
    is_block: bool  # as at Anthropic; elsewhere the data may sign reasoning or a call


class ReasoningDetail(Struct):
    """Content of a `reasoning_details` or `thinking_blocks` entry, or of a plain field.

    Attributes:
        text: Text of the detail.
        signature: Signature of the text with the same index.
        encrypted: Reasoning that only its issuer can read.
        opaque: The entry, if all of its content is unknown.
        signed_index: Index of the detail if the vendor signs the text at an index; else None.
        entry: The entry; None for a plain field.
        field: Field that has the entry.
    """

    text: str
    signature: Signed | None = None
    encrypted: EncryptedReasoning | None = None
    opaque: dict[str, Any] | None = None
    signed_index: int | None = None
    entry: dict[str, Any] | None = None
    field: Literal["reasoning_details", "thinking_blocks"] = "reasoning_details"


def reasoning_from_wire(delta: Delta) -> list[ReasoningDetail]:
    """Return the reasoning in a delta; text that several fields repeat is returned once."""
    details = [
        _detail_from_wire(detail) for detail in delta.reasoning_details or () if is_object(detail)
    ]
    if delta.thinking_blocks and not details:
        signatures = _google_signatures(delta.provider_specific_fields)
        details = [
            _thinking_from_wire(block, signatures) for block in objects_of(delta.thinking_blocks)
        ]
    # vLLM has renamed the first to the second, and gateways send both
    # (vllm/reasoning-under-two-names).
    text = delta.reasoning_content or delta.reasoning
    # OpenRouter repeats the text of the details in `reasoning`, LiteLLM that of its blocks in
    # `reasoning_content`.
    if text and not any(detail.text for detail in details):
        details.insert(0, ReasoningDetail(text))
    return details


def _detail_from_wire(detail: dict[str, Any]) -> ReasoningDetail:
    kind = detail.get("type")
    text = detail.get("text") or detail.get("summary")
    if not isinstance(text, str):
        text = ""
    signature, encrypted = None, None
    value = detail.get("signature")
    if isinstance(value, str) and value:
        signature = untag_signature(value) or _untagged_signature(value, detail)
    data = detail.get("data")
    if kind == "reasoning.encrypted" and isinstance(data, str) and data:
        tagged = untag_signature(data)
        signed = tagged or _untagged_signature(data, detail)
        # Anthropic's redacted thinking is a block of the history; others' data signs what stands
        # beside it.
        is_block = tagged is not None or signed.issuer == "anthropic"
        encrypted = EncryptedReasoning(signed, detail.get("id"), is_block)
    is_named = isinstance(kind, str) and kind in _TYPES
    # OpenRouter, Avian and Vercel's gateway begin and end with an empty detail of a known type.
    is_known = text or signature is not None or encrypted is not None or is_named
    # Anthropic alone signs text; the others encrypt reasoning beside its summary.
    index = detail.get("index") if _issuer_of(detail) == "anthropic" else None
    return ReasoningDetail(
        text,
        signature,
        encrypted,
        None if is_known else detail,
        index if type(index) is int else None,
        detail,
    )


def _thinking_from_wire(block: dict[str, Any], google: frozenset[str]) -> ReasoningDetail:
    """Return an entry of `thinking_blocks`: a thinking block in the form of Anthropic.

    Args:
        block: The entry.
        google: Signatures of the message that Google has issued.
    """
    field: Literal["thinking_blocks"] = "thinking_blocks"
    match block:
        case {"type": "redacted_thinking", "data": str(data)} if data:
            signed = _read_signed_thinking(data, google)
            # What OpenAI encrypts belongs to the summary before it.
            is_block = signed.issuer != "openai"
            encrypted = EncryptedReasoning(signed, None, is_block)
            return ReasoningDetail("", encrypted=encrypted, entry=block, field=field)
        case {"type": "thinking"}:
            value = string_of(block, "signature")
            signature = _read_signed_thinking(value, google) if value else None
            text = string_of(block, "thinking")
            return ReasoningDetail(text, signature, entry=block, field=field)
        case _:
            return ReasoningDetail("", opaque=block, entry=block, field=field)


def _read_signed_thinking(value: str, google: frozenset[str]) -> Signed:
    """Return the signature or the data of a thinking block, with its issuer."""
    if (tagged := untag_signature(value)) is not None:
        return tagged
    if value.startswith(_LITELLM_ENCRYPTED):
        return Signed(value.removeprefix(_LITELLM_ENCRYPTED), "openai", None)
    return Signed(value, "google" if value in google else "anthropic", None)


THINKING_PARTS = frozenset({"thinking", "redacted_thinking"})
"""Types of the parts of an assistant's content that may be thinking."""


def thinking_of_part(part: dict[str, Any]) -> Reasoning | RedactedReasoning | None:
    """Return a part of an assistant's content in the form of Anthropic's thinking; else None.

    LiteLLM reads it as an entry of `thinking_blocks`.
    """
    # Mistral's thinking parts hold a list of parts.
    if part.get("type") == "thinking" and not isinstance(part.get("thinking"), str):
        return None
    detail = _thinking_from_wire(part, frozenset())
    if detail.encrypted is not None:
        return RedactedReasoning(*detail.encrypted.signed)
    if detail.opaque is not None:
        return None
    return Reasoning((detail.text,) if detail.text else (), *(detail.signature or ()))


def thinking_to_wire(block: Reasoning | RedactedReasoning) -> dict[str, Any]:
    """Return reasoning as an entry of `thinking_blocks`."""
    if isinstance(block, RedactedReasoning):
        signed = Signed(block.data, block.issuer, block.id)
        return {"type": "redacted_thinking", "data": _write_thinking_signature(signed)}
    value = {"type": "thinking", "thinking": block.text}
    if block.signature is not None:
        signed = Signed(block.signature, block.issuer, block.id)
        value["signature"] = _write_thinking_signature(signed)
    return value


def _write_thinking_signature(signed: Signed) -> str:
    """Return a signature as LiteLLM reads it; those of vendors that it does not know are tagged."""
    if signed.issuer in ("anthropic", "google"):
        return signed.signature
    # OpenAI accepts encrypted reasoning without the id of its item.
    if signed.issuer == "openai":
        return _LITELLM_ENCRYPTED + signed.signature
    return tag_signature(*signed)


def _google_signatures(fields: object) -> frozenset[str]:
    """Return the signatures that LiteLLM lists beside the thinking blocks of Gemini."""
    listed = fields.get("thought_signatures") if is_object(fields) else None
    if not is_array(listed):
        return frozenset()
    return frozenset(item for item in listed if isinstance(item, str))


def _issuer_of(detail: dict[str, Any]) -> str | None:
    """Return the issuer that a detail's `format` names."""
    return _ISSUERS.get(str(detail.get("format")))


def _untagged_signature(value: str, detail: dict[str, Any]) -> Signed:
    """Return an untagged signature with the issuer that its detail's `format` names."""
    issuer = _issuer_of(detail)
    # OpenAI refuses encrypted reasoning under another id than that of its item.
    id = string_of(detail, "id") if issuer in ENCRYPTING_ISSUERS else ""
    return Signed(value, issuer, id or None)


class ReasoningDetails:
    """Encoder of one choice's `reasoning_details` entries, which numbers the entries.

    Accumulators join details of one index field by field: a field sent twice is doubled.
    """

    def __init__(self) -> None:
        self._count = 0

    def text_frame(self) -> tuple[bytes, bytes]:
        """Begin a reasoning block; return the bytes before and after the text in its deltas."""
        head = b'"reasoning_details":[{"type":"reasoning.text","index":%d,"text":'
        return head % self._begin(), b"}]"

    def text_to_wire(self, text: str) -> dict[str, Any]:
        """Begin a reasoning block; return a reasoning detail with its text."""
        return {"type": "reasoning.text", "index": self._begin(), "text": text}

    def signature_to_wire(self, signed: Signed) -> dict[str, Any]:
        """Return a reasoning detail that signs the latest block."""
        # The index of the text that it signs: accumulators join the two to one detail.
        detail = {"type": "reasoning.text", "index": self._count - 1}
        return detail | _signed_field("signature", signed, _FORMATS)

    def redacted_to_wire(self, signed: Signed) -> dict[str, Any]:
        """Return a reasoning detail with redacted reasoning.

        Values of other vendors than Anthropic are tagged: untagged, they would be decoded as
        the signature of the reasoning before them.
        """
        detail = {"type": "reasoning.encrypted", "index": self._begin()}
        return detail | _signed_field("data", signed, _ANTHROPIC_FORMAT)

    def encrypted_to_wire(self, text: str, signed: Signed) -> list[dict[str, Any]]:
        """Return the reasoning details of encrypted reasoning, for the vendor that issued it.

        OpenRouter makes an item of the Responses API of its summary and its encrypted content.
        """
        index = self._begin()
        encrypted = {"type": "reasoning.encrypted", "index": index}
        encrypted |= _signed_field("data", signed, _FORMATS)
        if not text:
            return [encrypted]
        summary = {"type": "reasoning.summary", "index": index, "summary": text}
        return [summary | {"format": encrypted["format"]}, encrypted]

    def call_signature_to_wire(
        self, call_id: str, signature: str, issuer: str | None
    ) -> dict[str, Any]:
        """Return a reasoning detail that signs a call."""
        detail = {"type": "reasoning.encrypted", "index": self._begin(), "id": call_id}
        return detail | _signed_field("data", Signed(signature, issuer, None), _FORMATS)

    def _begin(self) -> int:
        """Begin a reasoning block, and return its index in `reasoning_details`."""
        self._count += 1
        return self._count - 1


def _signed_field(field: str, signed: Signed, formats: dict[str, str]) -> dict[str, Any]:
    """Return a signature and its `format` as fields; tag the signature if no format fits."""
    value, issuer, id = signed
    if issuer not in formats:
        return {field: tag_signature(*signed), "format": _UNKNOWN_FORMAT}
    bound = {} if id is None else {"id": id}
    return {field: value, "format": formats[issuer], **bound}


_Parts: TypeAlias = list[tuple[Literal["text", "reasoning"], str]]

_OPEN, _CLOSE = "<think>", "</think>"
_MAX_BLANK_CHARS = 1024


class ThinkTags:
    """Splitter of text in `<think>` tags (reasoning) from other text.

    Raw model servers leave the tags in the text.  The opening tag counts only at the start of
    a choice, after a bounded amount of white space; a later tag is text.  Only a possible part
    of a tag is held.
    """

    def __init__(self) -> None:
        self._state: Literal["before", "inside", "after"] = "before"
        self._held = ""

    def feed(self, text: str) -> _Parts:
        """Return the pieces of text so far that are certainly reasoning or certainly other text."""
        # A tag later in the answer is text that talks of tags.
        if self._state == "after":
            return [("text", text)]
        text, self._held = self._held + text, ""
        if self._state == "before":
            return self._feed_before(text)
        return self._feed_inside(text)

    def close(self) -> _Parts:
        """Return the held text at the end of the stream."""
        held, self._held = self._held, ""
        if not held:
            return []
        # What looked like the beginning of a tag was text.
        return [("reasoning" if self._state == "inside" else "text", held)]

    def _feed_before(self, text: str) -> _Parts:
        start = text.lstrip()
        if len(text) - len(start) <= _MAX_BLANK_CHARS:
            if start.startswith(_OPEN):
                self._state = "inside"
                return self._feed_inside(start[len(_OPEN) :])
            if _OPEN.startswith(start):
                self._held = text
                return []
        self._state = "after"
        return [("text", text)]

    def _feed_inside(self, text: str) -> _Parts:
        reasoning, tag, rest = text.partition(_CLOSE)
        if tag:
            self._state = "after"
            parts: _Parts = [("reasoning", reasoning), ("text", rest)]
            return [part for part in parts if part[1]]
        held = next((n for n in range(len(_CLOSE) - 1, 0, -1) if text.endswith(_CLOSE[:n])), 0)
        reasoning, self._held = text[: len(text) - held], text[len(text) - held :]
        return [("reasoning", reasoning)] if reasoning else []


def citation_from_wire(annotation: object, *, in_first_text: bool) -> Citation | None:
    """Return an annotation as a citation; None if it must stay opaque.

    Args:
        annotation: An entry of `delta.annotations`.
        in_first_text: Whether the cited text is the first of the choice.  Only then the
            vendor's offsets, which count over the whole message, count within the block.
    """
    if not is_object(annotation) or not isinstance(kind := annotation.get("type"), str):
        return None
    # The vendor nests the fields under the name of the kind (openai/url-citations).
    inner = annotation.get(kind)
    rest = dict(inner) if is_object(inner) else {k: v for k, v in annotation.items() if k != "type"}

    def pop(key: str, kind: type) -> Any:
        return rest.pop(key) if type(rest.get(key)) is kind else None

    return Citation(
        kind,
        url=pop("url", str),
        title=pop("title", str),
        # OpenRouter (openrouter/citations-with-the-words-of-the-source).
        cited_text=pop("content", str),
        # Without the length of the texts before, an offset into the message names no character
        # here.
        start=pop("start_index", int) if in_first_text else None,
        end=pop("end_index", int) if in_first_text else None,
        extra={key: value for key, value in rest.items() if value is not None} or None,
    )


# Anthropic's citations of documents name the title of the document.
_DOCUMENT_KINDS = frozenset({"char_location", "content_block_location", "page_location"})
# What stands elsewhere in the same message.
_REPEATED = frozenset({"stop_reason", "thinking_blocks"})


def split_provider_fields(delta: Delta) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the citations in LiteLLM's `provider_specific_fields`, and its unknown fields.

    Anthropic's citations stand there as they are, one in a delta, in a message a list of them
    for each text block.
    """
    if not is_object(delta.provider_specific_fields):
        return [], {}
    rest = {
        name: value
        for name, value in delta.provider_specific_fields.items()
        if value is not None and name not in _REPEATED
    }
    # Those of calls and of thinking are read there.
    if delta.tool_calls or delta.thinking_blocks:
        rest.pop("thought_signatures", None)
    citations: list[dict[str, Any]] = []
    if is_object(rest.get("citation")):
        citations.append(rest.pop("citation"))
    if is_array(listed := rest.get("citations")) and all(map(is_array, listed)):
        citations += [item for group in rest.pop("citations") for item in objects_of(group)]
    return citations, rest


def provider_citation_from_wire(citation: dict[str, Any]) -> Citation:
    """Return one of Anthropic's citations, which LiteLLM passes on; it covers its block."""
    kind = string_of(citation, "type")
    rest = {key: value for key, value in citation.items() if value is not None}

    def pop(key: str) -> str | None:
        return rest.pop(key) if isinstance(rest.get(key), str) else None

    title = pop("document_title" if kind in _DOCUMENT_KINDS else "title")
    url, cited_text = pop("url"), pop("cited_text")
    # `supported_text` repeats the text of the block.
    extra = {key: rest[key] for key in rest if key not in ("type", "supported_text")}
    return Citation(kind, url=url, title=title, cited_text=cited_text, extra=extra or None)


def content_digest(message: Any) -> str:
    """Return a digest of a whole message's content."""
    from hashlib import sha256  # few servers send whole messages, and it takes milliseconds to load

    known = message if is_object(message) else {}
    content = {key: item for key in _CONTENT_FIELDS if (item := known.get(key))}
    return sha256(compact(content).encode(errors="replace")).hexdigest()


_CONTENT_FIELDS = sorted(DELTA_FIELDS - {"role"})
NO_CONTENT = content_digest({})
"""Digest of a message without content."""


class Annotations:
    """Collector of one choice's annotations, which are written at the end of the choice.

    The Python SDK's accumulator raises at a second list without indexes, and a citation
    without offsets ends where its block does.

    Args:
        stored: Counter of what the encoder stores.
    """

    def __init__(self, stored: StoredBytes) -> None:
        self._stored = stored
        self._characters = 0
        self._starts: dict[int, int] = {}  # by block, within the text of the choice
        self._ends: dict[int, int] = {}
        self._cited: list[tuple[int, Citation]] = []
        self._opaque: list[Any] = []

    def start_block(self, index: int) -> None:
        """Record the start of a text block."""
        self._starts[index] = self._characters

    def stop_block(self, index: int, characters: int) -> None:
        """Record the stop and the length of a text block."""
        self._characters += characters
        self._ends[index] = self._characters

    def add(self, index: int, citation: Citation) -> None:
        """Add a citation of a text block."""
        self._stored.add(OBJECT_BYTES + text_bytes(compact(citation)))
        self._cited.append((index, citation))

    def add_opaque(self, annotation: Any) -> None:
        """Add an annotation that was decoded as `Opaque`."""
        self._stored.add(value_bytes(annotation))
        self._opaque.append(annotation)

    def to_wire(self) -> list[Any]:
        """Return all annotations, with offsets in the choice's whole text."""
        return [*(self._to_wire(*cited) for cited in self._cited), *self._opaque]

    def _to_wire(self, index: int, citation: Citation) -> dict[str, Any]:
        start = self._starts[index]
        fields = {
            # The reference counts within the whole message, of which `start` is the beginning of
            # the block.
            "start_index": start + (citation.start or 0),
            "end_index": self._ends.get(index) if citation.end is None else start + citation.end,
            "url": citation.url,
            # The reference requires the title of a page.
            "title": citation.title or ("" if citation.kind == "url_citation" else None),
            "content": citation.cited_text,
        }
        known = {key: value for key, value in fields.items() if value is not None}
        return {"type": citation.kind, citation.kind: {**(citation.extra or {}), **known}}


OPAQUE_DELTA_FIELDS = ("audio", "executed_tools", "images")
"""Fields of a delta that become an `Opaque` of their name."""

_Position: TypeAlias = Literal["chunk", "choice", "delta", "end"]


def opaque_to_wire(
    event: Opaque, counts: dict[str, int] | None = None
) -> tuple[_Position, dict[str, Any]] | None:
    """Return an opaque event's position in a chunk and its field; None if chunks lack this field.

    Annotations belong to the end of the choice, where all of them are written.

    Args:
        event: The event.
        counts: Numbers of entries that the choice has in each list of its message, to which
            those of the event are added; None for no entries.
    """
    name = event.name
    if name not in ("annotations", "logprobs", *SIDE_FIELDS, *OPAQUE_DELTA_FIELDS):
        return None
    try:
        value: Any = msgspec.json.decode(event.data)
    except FAST_ERRORS:
        return None
    # One list at the end of the choice, as for citations.
    if name == "annotations":
        return "end", {name: value}
    if name == "logprobs":
        return "choice", {name: value}
    if name in OPAQUE_DELTA_FIELDS and (name not in SIDE_FIELDS or are_generated(event, value)):
        counts = {} if counts is None else counts
        indexed = _add_indexes(value, counts.get(name, 0))
        counts[name] = counts.get(name, 0) + len(indexed if is_array(indexed) else ())
        return "delta", {name: indexed}
    return "chunk", {name: value}


def are_generated(event: Opaque, images: Any) -> bool:
    """Return whether the model has generated images; those of a search belong to the chunk.

    https://openrouter.ai/docs/features/multimodal/image-generation (read 2026-11-30): a generated
    image has a `type`, which Perplexity's images of a search lack.
    """
    return event.index is not None or any("type" in image for image in objects_of(images))


def _add_indexes(value: Any, first: int) -> Any:
    """Return a list with an `index` in each object.

    Accumulators require it, and join the texts of two objects with one index: a later image of
    an answer continues the numbers.
    """
    if not is_array(value):
        return value
    return [
        {"index": number, **item} if is_object(item) else item
        for number, item in enumerate(value, first)
    ]
