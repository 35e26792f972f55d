"""Required and optional fields of each chunk.

npm `ai` 7.0.173, `src/ui-message-stream/ui-message-chunks.ts` (read 2026-11-23): the schema by
which the client refuses a whole stream.  A `null` in an optional field is refused, too; fields
that the schema does not name are legal since 5.0.217, 6.0.231 and 7.0.32.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamnorm._core.json import is_object
from streamnorm._core.shapes import (
    ANYTHING,
    BOOLEAN,
    OBJECT,
    TEXT,
    Shape,
    array,
    found,
    object_of,
    word,
)


def _objects(value: dict[str, object], where: str) -> Iterator[str]:
    for item in value.values():
        if not is_object(item):
            # The key is the name of a provider, or any text.
            yield f"{where} has {found(item)}, expected an object for each provider"


_METADATA = {"providerMetadata": Shape("an object", is_object, _objects)}
_ID = {"id": TEXT}
_CALL = {"toolCallId": TEXT, "toolName": TEXT}
_CALL_OPTIONS = {
    "providerExecuted": BOOLEAN,
    "dynamic": BOOLEAN,
    "title": TEXT,
    "toolMetadata": OBJECT,
    **_METADATA,
}
_RESULT_OPTIONS = {
    "providerExecuted": BOOLEAN,
    "dynamic": BOOLEAN,
    "preliminary": BOOLEAN,
    "toolMetadata": OBJECT,
    **_METADATA,
}
_EMPTY = object_of({})
_FILE = object_of({"url": TEXT, "mediaType": TEXT}, _METADATA)
_MESSAGE_METADATA = {"messageMetadata": ANYTHING}

DATA = object_of({"data": ANYTHING}, {"id": TEXT, "transient": BOOLEAN})
"""A chunk of the application: `data-` and its name."""

CHUNKS: dict[str, Shape] = {
    "start": object_of({}, {"messageId": TEXT, **_MESSAGE_METADATA}),
    **dict.fromkeys(("start-step", "finish-step", "reset-step"), _EMPTY),
    **dict.fromkeys(("text-start", "text-end"), object_of(_ID, _METADATA)),
    **dict.fromkeys(("reasoning-start", "reasoning-end"), object_of(_ID, _METADATA)),
    **dict.fromkeys(
        ("text-delta", "reasoning-delta"), object_of({**_ID, "delta": TEXT}, _METADATA)
    ),
    "tool-input-start": object_of(_CALL, {**_CALL_OPTIONS, "inputEncoding": word("json", "text")}),
    "tool-input-delta": object_of({"toolCallId": TEXT, "inputTextDelta": TEXT}),
    "tool-input-available": object_of({**_CALL, "input": ANYTHING}, _CALL_OPTIONS),
    "tool-input-error": object_of({**_CALL, "input": ANYTHING, "errorText": TEXT}, _CALL_OPTIONS),
    "tool-output-available": object_of({"toolCallId": TEXT, "output": ANYTHING}, _RESULT_OPTIONS),
    "tool-output-error": object_of({"toolCallId": TEXT, "errorText": TEXT}, _RESULT_OPTIONS),
    "tool-output-denied": object_of({"toolCallId": TEXT}),
    "tool-approval-request": object_of({"approvalId": TEXT, "toolCallId": TEXT}),
    "tool-approval-response": object_of(
        {"approvalId": TEXT, "approved": BOOLEAN}, {"reason": TEXT, **_METADATA}
    ),
    "source-url": object_of({"sourceId": TEXT, "url": TEXT}, {"title": TEXT, **_METADATA}),
    "source-document": object_of(
        {"sourceId": TEXT, "mediaType": TEXT, "title": TEXT}, {"filename": TEXT, **_METADATA}
    ),
    **dict.fromkeys(("file", "reasoning-file"), _FILE),
    "custom": object_of({"kind": TEXT}, _METADATA),
    "message-metadata": object_of(_MESSAGE_METADATA),
    "steering-message": object_of({"id": TEXT, "parts": array(OBJECT)}),
    "error": object_of({"errorText": TEXT}),
    "abort": object_of({}, {"reason": TEXT}),
    "finish": object_of(
        {},
        {
            "finishReason": word(
                *("stop", "length", "content-filter", "tool-calls", "error", "other"),
                "interrupted",
            ),
            **_MESSAGE_METADATA,
        },
    ),
}
