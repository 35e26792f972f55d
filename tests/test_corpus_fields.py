"""Fields of the corpus that the decoder drops: those that no wire struct declares.

A field within the stream is dropped unless it is declared; those of the first and the
last chunks are kept.  A new one shows up here, to be read or to be listed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from support.streams.corpus import CorpusStream, corpus, needs_corpus, payloads

from streamnorm.dialects.openai_chat import wire

REVIEWED = {
    "chunk.created": "clock",
    "chunk.sla_metrics": "timing",
    "chunk.system_fingerprint": "repeated",
    "choice.content_filter_results": "safe",
    "delta.channel": "redundant",
    "delta.graph_data": "empty",
    "delta.index": "redundant",
    "delta.phase": "label",
    "delta.reasoning_encrypted": "flag",
    "delta.role": "constant",
    "delta.token_id": "tokenizer",
    "detail.id": "reference",
    "detail.index": "position",
    "detail.provider": "router",
}

_DETAIL = {"type", "text", "summary", "signature", "data", "format"}


@needs_corpus
def test_every_dropped_field_is_reviewed() -> None:
    found = {field for stream in corpus() for field in dropped(stream)}
    assert found == REVIEWED.keys()


@needs_corpus
def test_dropped_filter_results_are_all_negative() -> None:
    """Why they may be dropped: what a filter stops, it stops with a finish reason."""
    for stream in corpus():
        for choice in (c for chunk in chunks(stream) for c in chunk.get("choices") or ()):
            results = choice.get("content_filter_results") or {}
            if not choice.get("finish_reason"):
                assert not any(r.get("filtered") for r in results.values() if isinstance(r, dict))


def chunks(stream: CorpusStream) -> list[dict[str, Any]]:
    return [json.loads(data) for data in payloads(stream.body) if not data.startswith("[DONE]")]


def dropped(stream: CorpusStream) -> Iterator[str]:
    kept: list[dict[str, Any]] = []  # the chunks at both ends
    between: list[dict[str, Any]] = []
    for chunk in chunks(stream):
        choices = chunk.get("choices") or ()
        ends = not choices or any(choice.get("finish_reason") for choice in choices)
        (kept if ends or not kept else between).append(chunk)
        for choice in choices:
            yield from of_choice(choice)
    for chunk in between:
        for key in undeclared(chunk, wire.Chunk, wire.CHUNK_FIELDS):
            if all(chunk[key] != end.get(key) for end in kept):
                yield f"chunk.{key}"


def of_choice(choice: dict[str, Any]) -> Iterator[str]:
    last = bool(choice.get("finish_reason"))  # whose fields are kept
    if not last:
        yield from (f"choice.{k}" for k in undeclared(choice, wire.Choice, wire.CHOICE_FIELDS))
    delta = choice.get("delta") or {}
    known = wire.DELTA_FIELDS if last else frozenset[str]()
    yield from (f"delta.{key}" for key in undeclared(delta, wire.Delta, known) if not last)
    for call in delta.get("tool_calls") or ():
        yield from (f"call.{key}" for key in undeclared(call, wire.ToolCallDelta))
        function = call.get("function") or {}
        yield from (f"function.{key}" for key in undeclared(function, wire.Function))
    for detail in delta.get("reasoning_details") or ():
        yield from (f"detail.{key}" for key in detail.keys() - _DETAIL if detail[key] is not None)


def undeclared(
    value: dict[str, Any], declared: type, kept: frozenset[str] = frozenset()
) -> Iterator[str]:
    known = {*declared.__struct_fields__, *kept}  # type: ignore[attr-defined]  # a msgspec.Struct
    return (key for key, item in value.items() if key not in known and item is not None)
