"""Fragments of tool calls on the wire, in one shape for all servers.

https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21).  The legacy
`function_call` is read as fragment of call 0; an object as arguments becomes its text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from streamnorm._core.blocks import ToolCall
from streamnorm._core.ids import Signed, tag_signature, untag_signature
from streamnorm._core.json import compact, is_object
from streamnorm.dialects.openai_chat import wire

__all__ = [
    "CallFragment",
    "arguments_frame",
    "call_fragment_from_wire",
    "call_signature_to_wire",
    "call_start_to_wire",
    "call_to_wire",
    "signature_from_wire",
    "signature_to_wire",
]


class CallFragment(Struct):
    """An entry of `delta.tool_calls`, or the legacy `function_call`.

    The name may be a further part of the tool's name; the arguments of a custom tool are
    its input.
    """

    index: int | None
    id: str | None
    name: str
    arguments: str
    is_custom: bool = False
    signature: Signed | None = None


def call_fragment_from_wire(
    delta: wire.ToolCallDelta, check_depth: Callable[[object], None]
) -> CallFragment | None:
    """Return the fragment of a call; None for an entry without any content.

    `check_depth` raises `Fatal` if a value nests too deep.
    """
    function = delta.function or delta.custom or wire.Function()
    arguments = function.arguments
    if arguments is not None and not isinstance(arguments, str):
        check_depth(arguments)
        arguments = compact(arguments)
    arguments = arguments or function.input or ""
    id = str(delta.id) if delta.id not in (None, "", "null") else None
    if not (id or function.name or arguments or delta.extra_content):
        return None  # would be a call that never gets a name
    index = delta.index
    if index is not None and index < 0:  # GLM-4.5 and Bedrock gateways send -1
        index = None
    signed = signature_from_wire(delta.extra_content)
    is_custom = delta.custom is not None or delta.type == "custom"
    return CallFragment(index, id, function.name or "", arguments, is_custom, signed)


def signature_from_wire(extra_content: dict[str, Any] | None) -> Signed | None:
    """Return the signature of a call, which Gemini's compatible endpoint sends here."""
    google = extra_content.get("google") if extra_content else None
    signature = google.get("thought_signature") if is_object(google) else None
    if isinstance(signature, str) and signature:
        return untag_signature(signature) or Signed(signature, "google")
    return None


def signature_to_wire(signature: str, issuer: str | None) -> dict[str, Any]:
    """Return the `extra_content` that carries the signature of a call.

    The field is that of Gemini's compatible endpoint; signatures of other vendors are sealed.
    """
    if issuer != "google":
        signature = tag_signature(signature, issuer)
    return {"google": {"thought_signature": signature}}


def call_start_to_wire(number: int, id: str, name: str, kind: str) -> dict[str, Any]:
    """Return the first fragment of a call, without arguments."""
    start = {"index": number, "id": id, "type": kind}
    if kind == "function":
        return {**start, "function": {"name": name, "arguments": ""}}
    return {**start, "custom": {"name": name, "input": ""}}


def call_to_wire(call: ToolCall) -> dict[str, Any]:
    """Return a whole call; arguments that are missing are `{}`, which every client can parse."""
    if call.kind == "custom":
        owner = {"name": call.name, "input": call.arguments}
    else:
        owner = {"name": call.name, "arguments": call.arguments or "{}"}
    value: dict[str, Any] = {"id": call.id, "type": call.kind, call.kind: owner}
    if call.signature is not None:
        value["extra_content"] = signature_to_wire(call.signature, call.issuer)
    return value


def arguments_frame(number: int, kind: str) -> tuple[bytes, bytes]:
    """Return the bytes of a delta before and after a fragment of a call's arguments."""
    owner = b'"function":{"arguments":' if kind == "function" else b'"custom":{"input":'
    return b'"tool_calls":[{"index":%d,%b' % (number, owner), b"}}]"


def call_signature_to_wire(
    number: int, kind: str, signature: str, issuer: str | None
) -> dict[str, Any]:
    """Return a fragment of a call that carries its signature."""
    # The python SDK and LangChain fail at a fragment without `function`.
    empty = {"custom": {"input": ""}} if kind == "custom" else {"function": {"arguments": ""}}
    return {"index": number, **empty, "extra_content": signature_to_wire(signature, issuer)}
