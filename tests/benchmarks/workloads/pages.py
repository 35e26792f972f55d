"""Streams for pages, as the AI SDK's writer and AG-UI's encoder produce them."""

from __future__ import annotations

from workloads.text import argument_pieces, dumps, text_pieces

__all__ = ["DIALECTS", "ag_ui_call", "ag_ui_text", "frames", "ui_call", "ui_frames", "ui_text"]

DIALECTS = ("ui_message_stream", "ag_ui")
"""The dialects of pages."""

_TOOL = "get_weather"
_RUN = {"threadId": "thread_01JD8Q", "runId": "run_01JD8R7WZK"}
_MESSAGE, _CALL = "msg_01JD8R9T4M", "toolu_01A09q90qw90lq917835lq9"


def frames(payloads: list[bytes]) -> list[bytes]:
    """Return payloads as frames, the terminal last."""
    return [b"data: %b\n\n" % payload for payload in payloads]


def ui_frames(payloads: list[bytes]) -> list[bytes]:
    """Return chunks as frames, `[DONE]` last."""
    *begun, last = frames(payloads)
    return [*begun, last + b"data: [DONE]\n\n"]


def ui_text(deltas: int) -> list[bytes]:
    """Return a UI message stream of text only."""
    pieces = text_pieces(deltas, least=1, most=5, seed="ui")
    part = {"id": "0"}
    chunks = [{"type": "text-delta", **part, "delta": piece} for piece in pieces]
    return _ui([{"type": "text-start", **part}, *chunks, {"type": "text-end", **part}], "stop")


def ui_call(deltas: int) -> list[bytes]:
    """Return a UI message stream of one call."""
    pieces = argument_pieces(deltas)
    call = {"toolCallId": _CALL, "toolName": _TOOL}
    chunks: list[dict[str, object]] = [
        {"type": "tool-input-delta", "toolCallId": _CALL, "inputTextDelta": piece}
        for piece in pieces
    ]
    whole = b'{"type":"tool-input-available",%b,"input":%b}' % (
        dumps(call)[1:-1],
        "".join(pieces).encode(),
    )
    payloads = _ui([{"type": "tool-input-start", **call}, *chunks], "tool-calls")
    return [*payloads[:-2], whole, *payloads[-2:]]


def _ui(chunks: list[dict[str, object]], reason: str) -> list[bytes]:
    start = [{"type": "start", "messageId": _MESSAGE}, {"type": "start-step"}]
    end = [{"type": "finish-step"}, {"type": "finish", "finishReason": reason}]
    return [dumps(chunk) for chunk in (*start, *chunks, *end)]


def ag_ui_text(deltas: int) -> list[bytes]:
    """Return an AG-UI run with text only."""
    pieces = text_pieces(deltas, least=1, most=5, seed="ag-ui")
    message = {"messageId": _MESSAGE}
    return _ag_ui(
        [
            {"type": "TEXT_MESSAGE_START", **message, "role": "assistant"},
            *({"type": "TEXT_MESSAGE_CONTENT", **message, "delta": each} for each in pieces),
            {"type": "TEXT_MESSAGE_END", **message},
        ]
    )


def ag_ui_call(deltas: int) -> list[bytes]:
    """Return an AG-UI run with one call."""
    call = {"toolCallId": _CALL}
    pieces = argument_pieces(deltas)
    return _ag_ui(
        [
            {"type": "TOOL_CALL_START", **call, "toolCallName": _TOOL, "parentMessageId": _MESSAGE},
            *({"type": "TOOL_CALL_ARGS", **call, "delta": piece} for piece in pieces),
            {"type": "TOOL_CALL_END", **call},
        ]
    )


def _ag_ui(events: list[dict[str, str]]) -> list[bytes]:
    start, end = {"type": "RUN_STARTED", **_RUN}, {"type": "RUN_FINISHED", **_RUN}
    return [dumps(event) for event in (start, *events, end)]
