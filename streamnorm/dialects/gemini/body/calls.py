"""Calls of a request's contents: `functionCall`, both directions.

https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-23).  Gemini 3 refuses
a turn whose first call is unsigned; a documented placeholder takes the place of the signature
where the call is not Google's.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from streamnorm._core.blocks import InputBlock, OpaqueBlock, ToolCall
from streamnorm._core.bodies.fields import object_of, text_in, unmapped
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError
from streamnorm._core.failures import Fatal
from streamnorm._core.ids import Signed
from streamnorm._core.json import compact, objects_of
from streamnorm._core.limits import Limits, StoredBytes
from streamnorm.dialects.gemini.body.fields import add_extra, camel, extra_of
from streamnorm.dialects.gemini.body.media import ISSUER
from streamnorm.dialects.gemini.reasoning import is_decodable
from streamnorm.dialects.gemini.tool_calls.partial_arguments import PartialArguments
from streamnorm.dialects.gemini.wire import DIALECT

__all__ = ["call_from_wire", "call_to_wire", "count_inexact_numbers"]

_MAPPED = frozenset({"id", "name", "args", "partialArgs"})


def call_from_wire(
    value: dict[str, Any], signed: Signed | None, modifiers: dict[str, Any]
) -> InputBlock:
    """Return a `functionCall` as a call; opaque if it is a fragment of one.

    Args:
        value: The `functionCall`.
        signed: Its signature; None if it has none.
        modifiers: The other fields of its part, for the call to keep.

    Raises:
        DecodeError: A field has another type than the vendor's.
    """
    is_plain = len(value) == 3 and "id" in value and "name" in value and "args" in value
    wire = value if is_plain else camel(value)
    id, name = text_in(wire, "id") or "", text_in(wire, "name")
    if not name or wire.get("willContinue"):
        return OpaqueBlock(DIALECT, "functionCall", compact(value), extra=extra_of(modifiers))
    args = object_of(wire, "args")
    arguments = "" if args is None else compact(args)
    if args is None and wire.get("partialArgs"):
        arguments = _joined(objects_of(wire["partialArgs"]))
    own = {} if is_plain else unmapped(wire, _MAPPED)
    if own:
        modifiers = {f"functionCall.{key}": item for key, item in own.items()} | modifiers
    signature, issuer, _ = signed or (None, None, None)
    extra = extra_of(modifiers)
    return ToolCall(id, name, arguments, signature=signature, issuer=issuer, extra=extra)


def _joined(entries: list[dict[str, Any]]) -> str:
    """Return the arguments that came in fragments."""
    arguments = PartialArguments(Limits(), StoredBytes())
    try:
        text = "".join([arguments.write(entry) for entry in entries]) + arguments.finish()
    except Fatal as fatal:
        raise DecodeError(
            f"{fatal.error.message}, expected arguments", path="$.partialArgs"
        ) from None
    if not arguments.is_whole:
        raise DecodeError("arguments that were cut, expected whole ones", path="$.partialArgs")
    return text


def call_to_wire(call: ToolCall, context: WriteContext) -> dict[str, Any]:
    """Return a call as a part.

    Args:
        call: The call.
        context: Reads the arguments, and counts what a double cannot hold.

    Raises:
        EncodeError: The arguments are no JSON object.
    """
    args = context.arguments_of(call, "")
    count_inexact_numbers(call.arguments, context)
    wire: dict[str, Any] = {}
    if call.id and context.capabilities.call_ids:
        wire["id"] = call.id
    wire["name"] = call.name
    wire["args"] = args
    part: dict[str, Any] = {"functionCall": wire}
    if call.signature is not None:
        if call.issuer == ISSUER and is_decodable(call.signature):
            part["thoughtSignature"] = call.signature
        else:
            context.losses.add("signature_dropped", "messages", "dropped")
    return part if call.extra is None else add_extra(part, call.extra)


# A double holds any number of fifteen digits.  To search for many digits, or for an exponent,
# among bytes that are either costs a tenth of what the expression does.
_KINDS = bytes(
    ord("0") if chr(byte) in "0123456789." else ord("e") if chr(byte) in "eE" else ord(" ")
    for byte in range(256)
)
_MANY_DIGITS = b"0" * 16
_EXPONENT = b"0e"
_SUSPECT = re.compile(r"[0-9.]{16}|[0-9][eE][+-]?[0-9]{3}")
_MAX_DIGITS = 400


def count_inexact_numbers(arguments: str, context: WriteContext) -> None:
    """Count the numbers of a JSON text that change as doubles, as Google stores them."""
    kinds = arguments.encode("utf-8", "replace").translate(_KINDS)
    if _MANY_DIGITS not in kinds and _EXPONENT not in kinds:
        return
    if _SUSPECT.search(arguments) is None:
        return

    inexact: list[str] = []

    def check(text: str) -> None:
        if not _is_exact(text):
            inexact.append(text[:1])

    try:
        json.loads(arguments, parse_int=check, parse_float=check)
    except (ValueError, RecursionError):
        return  # broken arguments are an error, or have been repaired
    for _ in inexact:
        context.losses.add("number_precision", "messages", "stored as a double")


def _is_exact(text: str) -> bool:
    if len(text) > _MAX_DIGITS:
        return False
    exact, double = Decimal(text), float(text)
    is_integer = text.lstrip("-").isdecimal()
    return exact == (Decimal(double) if is_integer else Decimal(repr(double)))
