"""Fields of the corpus that the Responses decoder drops: those that it neither reads nor keeps.

Those of a response and of the start of an item are kept, and events that the decoder does
not know are kept whole; a piece of an item is text and no more.  A new field there shows
up here, to be read or to be listed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from support.streams.corpus import corpus, needs_corpus, payloads, recordings

from streamnorm.dialects.openai_responses import wire

REVIEWED = {
    "response.code_interpreter_call_code.delta.obfuscation": "padding",
    "response.function_call_arguments.delta.obfuscation": "padding",
    "response.function_call_arguments.done.name": "the item has it",
    "response.mcp_call_arguments.delta.obfuscation": "padding",
    "response.output_text.delta.obfuscation": "padding",
    "response.reasoning_summary_text.delta.obfuscation": "padding",
    "response.shell_call_command.delta.obfuscation": "padding",
    "response.apply_patch_call_operation_diff.delta.obfuscation": "padding",
}

REVIEWED_OF_RECORDINGS = {
    "response.custom_tool_call_input.delta.call_id": "the item has it",
    "response.custom_tool_call_input.delta.obfuscation": "padding",
}
"""Those that only recordings show, as ChatGPT's own back end sends them."""

REVIEWED_LATE = {
    "function_call.item_id": "its place, on the item by mistake",
    "function_call.output_index": "its place, on the item by mistake",
    "function_call.sequence_number": "its place, on the item by mistake",
    "reasoning.format": "who sealed it, read for the issuer of the signature",
}
"""Fields of items that only their ends have."""

PLACE = {"type", "sequence_number", "output_index", "item_id"}
READ = {
    kind: {*struct.__struct_encode_fields__, "type"} for struct, kind in wire.DELTA_TYPES.items()
} | {
    "response.output_item.added": PLACE | {"item"},
    "response.output_item.done": PLACE | {"item"},
    "response.content_part.added": PLACE | {"content_index", "part"},
    "response.content_part.done": PLACE | {"content_index", "part"},
    "response.output_text.done": PLACE | {"content_index", "text", "logprobs"},
    # The sources of a text are numbered in the order in which they come.
    "response.output_text.annotation.added": (
        PLACE | {"content_index", "annotation_index", "annotation"}
    ),
    "response.refusal.delta": PLACE | {"content_index", "delta"},
    "response.refusal.done": PLACE | {"content_index", "refusal"},
    "response.reasoning_part.added": PLACE | {"content_index", "part"},
    "response.reasoning_part.done": PLACE | {"content_index", "part"},
    "response.reasoning_text.done": PLACE | {"content_index", "text"},
    "response.reasoning_summary_part.added": PLACE | {"summary_index", "part"},
    "response.reasoning_summary_part.done": PLACE | {"summary_index", "part"},
    "response.reasoning_summary_text.done": PLACE | {"summary_index", "text"},
    "response.function_call_arguments.done": PLACE | {"arguments"},
    "response.custom_tool_call_input.delta": PLACE | {"delta"},
    "response.custom_tool_call_input.done": PLACE | {"input"},
}
PARTS = {
    "output_text": {"type", "text", "annotations", "logprobs"},
    "refusal": {"type", "refusal"},
    "reasoning_text": {"type", "text"},
    "summary_text": {"type", "text"},
}
ENDS = {
    "message": {"id", "status", "content"},
    "reasoning": {"id", "type", "status", "content", "summary", "encrypted_content"},
    "function_call": {"id", "status", "arguments"},
    "custom_tool_call": {"id", "status", "input"},
}
"""Fields read of complete items; items of other types are stored whole."""


@needs_corpus
def test_every_dropped_field_is_reviewed() -> None:
    bodies = [stream.body for stream in corpus("openai_responses")]
    assert {field for body in bodies for field in dropped(body)} == REVIEWED.keys()


@needs_corpus
def test_every_dropped_field_of_a_done_item_is_reviewed() -> None:
    bodies = [stream.body for stream in corpus("openai_responses")]
    assert {field for body in bodies for field in late(body)} == REVIEWED_LATE.keys()


def test_recordings_drop_no_other_field() -> None:
    bodies = [recording.body for recording in recordings("openai_responses")]
    found = {field for body in bodies for field in dropped(body)}
    assert found - REVIEWED.keys() == REVIEWED_OF_RECORDINGS.keys()
    assert {field for body in bodies for field in late(body)} <= REVIEWED_LATE.keys()


def test_fields_accepted_on_the_run_are_listed() -> None:
    """Log probabilities, too: a delta that has some is left to the general reader."""
    place = {"type", "delta", "sequence_number", "output_index", "item_id"}
    fast = {kind: READ[kind] for kind in wire.DELTA_TYPES.values()}
    assert fast == {
        "response.output_text.delta": place | {"content_index", "logprobs"},
        "response.function_call_arguments.delta": place,
        "response.reasoning_summary_text.delta": place | {"summary_index"},
        "response.reasoning_text.delta": place | {"content_index"},
    }


def dropped(body: bytes) -> Iterator[str]:
    for event in events(body):
        kind = str(event.get("type"))
        # One of an unknown type is kept, but for its padding.
        known = READ.get(kind, event.keys() - {"obfuscation"})
        if not kind.startswith("response.") or "response" in event:
            continue
        yield from (f"{kind}.{key}" for key in present_fields(event) - known)
        part = event.get("part")
        if isinstance(part, dict):
            piece = str(part.get("type"))
            yield from (
                f"{piece}.{key}" for key in present_fields(part) - PARTS.get(piece, part.keys())
            )


def late(body: bytes) -> Iterator[str]:
    """Yield the fields of ends of items that their starts do not have with the same value."""
    starts: dict[Any, dict[str, Any]] = defaultdict(dict)
    for event in events(body):
        item, place = event.get("item"), event.get("output_index")
        if not isinstance(item, dict):
            continue
        if event.get("type") == "response.output_item.added":
            starts[place] = item
            continue
        known = ENDS.get(str(item.get("type")), item.keys())
        for key in present_fields(item) - known:
            if starts[place].get(key) != item[key]:
                yield f"{item['type']}.{key}"


def present_fields(value: dict[str, Any]) -> set[str]:
    return {key for key, item in value.items() if item is not None}


def events(body: bytes) -> Iterator[dict[str, Any]]:
    for payload in payloads(body):
        try:
            value = json.loads(payload)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value
