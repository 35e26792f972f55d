"""Fields of the corpus that the Anthropic decoder drops: those that it neither reads nor keeps.

Those of a message, of a block's start, of usage and of the end are kept; a piece of a block
is text and no more.  A new field there shows up here, to be read or to be listed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from support.streams.corpus import corpus, needs_corpus, payloads, recordings

REVIEWED = {
    "thinking_delta.estimated_tokens": "a guess at what usage tells in the end",
}

EVENT = {"type", "index", "delta", "content_block", "message"}
PIECES = {
    "text_delta": {"type", "text"},
    "thinking_delta": {"type", "thinking"},
    "input_json_delta": {"type", "partial_json"},
    "signature_delta": {"type", "signature"},
    "citations_delta": {"type", "citation"},
}


@needs_corpus
def test_every_dropped_field_is_reviewed() -> None:
    bodies = [stream.body for stream in corpus("anthropic")]
    assert {field for body in bodies for field in dropped(body)} == REVIEWED.keys()


def test_recordings_drop_no_other_field() -> None:
    bodies = [recording.body for recording in recordings("anthropic")]
    assert {field for body in bodies for field in dropped(body)} <= REVIEWED.keys()


def dropped(body: bytes) -> Iterator[str]:
    for event in events(body):
        kind = str(event.get("type"))
        if kind == "message_start" or kind.startswith("content_block_"):
            known = EVENT if kind not in UNKNOWN else event.keys()
            yield from (f"{kind}.{key}" for key in event.keys() - known)
        delta = event.get("delta")
        if kind == "content_block_delta" and isinstance(delta, dict):
            piece = str(delta.get("type"))
            # One of an unknown type is kept whole.
            unknown = delta.keys() - PIECES.get(piece, delta.keys())
            yield from (f"{piece}.{key}" for key in unknown)


UNKNOWN = {"content_block_progress"}
"""Events that are kept whole, since nobody knows them."""


def events(body: bytes) -> Iterator[dict[str, Any]]:
    for payload in payloads(body.decode(errors="replace").encode()):  # one is cut in a character
        try:
            value = json.loads(payload)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value
