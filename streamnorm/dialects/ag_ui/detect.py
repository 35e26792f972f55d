"""Detection of AG-UI's frames, and of the terminal frames."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.json import FAST_ERRORS
from streamnorm.dialects.ag_ui.wire import EVENT_TYPES, RUN_ERROR, RUN_FINISHED
from streamnorm.sse import Frame


class _TypeOnly(Struct):
    type: str | None = None


_TYPE: msgspec.json.Decoder[_TypeOnly] = msgspec.json.Decoder(_TypeOnly)


def recognises(frame: Frame) -> bool:
    """Return whether the `type` of a frame's payload is one of AG-UI's events."""
    return _type_of(frame) in EVENT_TYPES


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame is `RUN_FINISHED` or `RUN_ERROR`."""
    return _type_of(frame) in (RUN_FINISHED, RUN_ERROR)


def _type_of(frame: Frame) -> str | None:
    try:
        return _TYPE.decode(frame.data).type
    except FAST_ERRORS:
        return None


def is_request(body: dict[str, Any]) -> bool:
    """Return whether a JSON object can only be a `RunAgentInput`: it names thread and run."""
    return {"threadId", "runId", "messages"} <= body.keys()
