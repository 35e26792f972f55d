"""Required and optional fields of each event.

botocore 1.44.5, `bedrock-runtime/2023-09-30/service-2.json` (read 2026-11-23).  Additional fields
are legal, as the padding `p`.  A union has exactly one member, and one of the model: boto3 raises
at two, and drops one that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamnorm._core.json import is_object
from streamnorm._core.shapes import (
    ANYTHING,
    COUNT,
    NAME,
    OBJECT,
    TEXT,
    Shape,
    array,
    object_of,
    problems,
    word,
)
from streamnorm.dialects.bedrock_converse import wire


def union_of(members: Mapping[str, Shape]) -> Shape:
    """Return the shape of an object with exactly one of some members."""

    def inside(value: dict[str, object], where: str) -> Iterator[str]:
        if len(value) != 1:
            yield f"{where} has {len(value)} members, expected one"
            return
        ((name, member),) = value.items()
        if name not in members:
            # By its length alone: a name that is wrong may be any text of the payload.
            yield f"{where} is unknown in {len(name)} characters, expected a member of the union"
        else:
            yield from problems(members[name], member, f"{where}.{name}")

    return Shape("an object", is_object, inside)


_RANGE = {"start": COUNT, "end": COUNT}
_LOCATION = union_of(
    {
        "web": object_of({}, {"url": TEXT, "domain": TEXT}),
        **dict.fromkeys(
            ("documentChar", "documentPage", "documentChunk"),
            object_of({}, {"documentIndex": COUNT, **_RANGE}),
        ),
        "searchResultLocation": object_of({}, {"searchResultIndex": COUNT, **_RANGE}),
    }
)
_CITATION = object_of(
    {},
    {
        "title": TEXT,
        "source": TEXT,
        "sourceContent": array(object_of({}, {"text": TEXT})),
        "location": _LOCATION,
    },
)
_SOURCE = union_of({"bytes": TEXT, "s3Location": object_of({"uri": TEXT})})

START = union_of(
    {
        "toolUse": object_of({"toolUseId": NAME, "name": NAME}, {"type": TEXT}),
        "toolResult": object_of(
            {"toolUseId": NAME}, {"type": TEXT, "status": word("success", "error")}
        ),
        "image": object_of({"format": word("png", "jpeg", "gif", "webp")}),
    }
)
"""What a `contentBlockStart` begins."""

DELTAS: dict[str, Shape] = {
    "text": TEXT,
    "toolUse": object_of({"input": TEXT}),
    "toolResult": array(union_of({"text": TEXT, "json": ANYTHING})),
    "reasoningContent": union_of({"text": TEXT, "signature": TEXT, "redactedContent": TEXT}),
    "citation": _CITATION,
    "image": object_of({}, {"source": _SOURCE, "error": object_of({}, {"message": TEXT})}),
}
"""Members of a `delta`."""

_USAGE = object_of(
    {"inputTokens": COUNT, "outputTokens": COUNT, "totalTokens": COUNT},
    {
        "cacheReadInputTokens": COUNT,
        "cacheWriteInputTokens": COUNT,
        "cacheDetails": array(object_of({"ttl": TEXT, "inputTokens": COUNT})),
    },
)

STOP_REASONS = (
    *("end_turn", "tool_use", "max_tokens", "stop_sequence", "guardrail_intervened"),
    *("content_filtered", "malformed_model_output", "malformed_tool_use"),
    "model_context_window_exceeded",
)

EVENTS = {
    wire.MESSAGE_START: object_of({"role": word("assistant")}),
    wire.BLOCK_START: object_of({wire.INDEX: COUNT, "start": START}),
    wire.BLOCK_DELTA: object_of({wire.INDEX: COUNT, "delta": union_of(DELTAS)}),
    wire.BLOCK_STOP: object_of({wire.INDEX: COUNT}),
    wire.MESSAGE_STOP: object_of({"stopReason": word(*STOP_REASONS)}),
    wire.METADATA: object_of(
        {"usage": _USAGE, "metrics": object_of({"latencyMs": COUNT})},
        {
            "trace": OBJECT,
            "performanceConfig": object_of({"latency": TEXT}),
            "serviceTier": object_of({"type": word("priority", "default", "flex", "reserved")}),
        },
    ),
}
"""Events by name."""
