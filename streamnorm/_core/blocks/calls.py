"""Calls of tools, and their results."""

from __future__ import annotations

from typing import Any, Literal

from streamnorm._core.blocks.content import BaseBlock, ResultBlock
from streamnorm._core.errors import ArgumentsError
from streamnorm._core.partial_json import decode_arguments

__all__ = ["ServerToolCall", "ServerToolResult", "ToolCall", "ToolResult"]


class ToolCall(BaseBlock, frozen=True, tag="tool_call"):
    """A call that the client is asked to execute.

    Attributes:
        id: The provider's id, or a minted one where it sent none.
        name: Name of the tool.
        arguments: JSON text (`function`) or free text (`custom`), byte for byte as sent.
        kind: What the arguments are.
        signature: Opaque value that must come back with the call, byte for byte.
        issuer: Vendor that can verify the signature.
        namespace: Namespace of the tool; None where names stand alone.
        is_unfinished: Whether free text ended before it was complete; JSON text shows it itself.
    """

    id: str
    name: str
    arguments: str = ""
    kind: Literal["function", "custom"] = "function"
    signature: str | None = None
    issuer: str | None = None
    namespace: str | None = None
    is_unfinished: bool = False

    def input(self) -> dict[str, object]:
        """Return the JSON object that the arguments are, decoded anew each time.

        No text, or white space alone, is the empty object.  Half of a character becomes
        U+FFFD, and of two members with one key the later counts.

        Raises:
            ArgumentsError: The arguments are no JSON object, or nest deeper than the default
                `max_json_depth`; those of a custom call never are one.
        """
        if self.kind == "custom":
            raise ArgumentsError("custom call with free text, expected JSON", position=0)
        return decode_arguments(self.arguments)


class ServerToolCall(BaseBlock, frozen=True, tag="server_tool_call"):
    """A call that the provider executes itself; nobody else ever should.

    Attributes:
        id: The provider's id.
        name: Name of the provider's tool.
        arguments: JSON text as sent.
        kind: The vendor's word for this form of call, such as `mcp_tool_use`.
    """

    id: str
    name: str
    arguments: str = ""
    kind: str = ""

    def input(self) -> dict[str, object]:
        """Return the JSON object that the arguments are, as `ToolCall.input` does.

        Raises:
            ArgumentsError: The arguments are no JSON object, or nest deeper than the default
                `max_json_depth`.
        """
        return decode_arguments(self.arguments)


class ServerToolResult(BaseBlock, frozen=True, tag="server_tool_result"):
    """Result of a tool call that the provider executed.

    Attributes:
        tool_call_id: Id of the `ServerToolCall`.
        kind: The vendor's word for this form of result.
        content: The vendor's JSON value.
    """

    tool_call_id: str
    kind: str
    content: Any = None


class ToolResult(BaseBlock, frozen=True, tag="tool_result"):
    """Result of a `ToolCall` that the client executed.

    Attributes:
        tool_call_id: Id of the call.
        content: Text, images and other files.
        is_error: Whether the execution failed.
        name: Name of the tool; "" where only the id says which call it answers.
        value: JSON text of a result that is one JSON object, whose text form is `content`.
    """

    tool_call_id: str
    content: tuple[ResultBlock, ...] = ()
    is_error: bool = False
    name: str = ""
    value: str | None = None
