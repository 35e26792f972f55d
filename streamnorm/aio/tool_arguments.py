"""The arguments of a tool call, as far as the call may be executed."""

from __future__ import annotations

from importlib import import_module
from typing import Literal, TypeAlias

from streamnorm._core.blocks import ToolCall
from streamnorm._core.bodies.tool_calls import arguments_object
from streamnorm._core.errors import ArgumentsError, EncodeError, StreamnormError
from streamnorm._core.losses import Losses
from streamnorm._core.partial_json import PartialJSON

__all__ = ["BrokenArguments", "RefusedCall", "check_policy", "read_arguments"]

BrokenArguments: TypeAlias = Literal["error", "repair"]
"""What becomes of arguments that are no JSON object: a result that says so, or the object that
json-repair finds in them (extra `repair`)."""


class RefusedCall(StreamnormError):
    """A call that is not executed; the text is for the model."""


def check_policy(policy: BrokenArguments) -> None:
    """Raise an error if the library that a policy needs is missing.

    Raises:
        ImportError: It is.
    """
    if policy == "error":
        return
    try:
        import_module("json_repair")
    except ImportError as exc:
        raise ImportError(
            "no json-repair, expected the extra `repair`: pip install '.[repair]' in a clone"
        ) from exc


def read_arguments(call: ToolCall, policy: BrokenArguments) -> dict[str, object]:
    """Return the arguments of a function call.

    Raises:
        RefusedCall: They are cut off, which nothing repairs, or no JSON object.
    """
    try:
        return call.input()
    except ArgumentsError as exc:
        if _is_cut_off(call.arguments):
            raise RefusedCall(
                "Not executed: the arguments of the call were cut off before their end."
            ) from exc
        if policy == "error":
            raise RefusedCall(f"Not executed: the arguments are no JSON object: {exc}") from exc
    try:
        repaired: dict[str, object] = arguments_object(call, policy, Losses(), call.name)
    except EncodeError as exc:
        raise RefusedCall("Not executed: the arguments are no JSON object.") from exc
    return repaired


def _is_cut_off(text: str) -> bool:
    """Return whether text is the beginning of an object, in JSON or nearly, and not all of it."""
    parser = PartialJSON()
    parser.feed(text)
    if parser.error is None:
        return not parser.complete
    return text.count("{") > text.count("}")
