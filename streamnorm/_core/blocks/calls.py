"""Tool calls and their results."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from streamnorm._core.blocks.content import BaseBlock, ResultBlock, Text
from streamnorm._core.blocks.mcp import content_from_mcp, content_to_mcp
from streamnorm._core.errors import ArgumentsError, DecodeError, UpstreamError
from streamnorm._core.json import clean, compact, is_object, json_value, object_in
from streamnorm._core.mcp import MCP, mcp_object, mcp_struct, unmapped_fields
from streamnorm.partial_json import decode_arguments


class ToolCall(BaseBlock, frozen=True, tag="tool_call"):
    """A call that the client is asked to execute.

    Attributes:
        id: The provider's id, or a minted one where it sent none.
        name: Name of the tool.
        arguments: JSON text (`function`) or free text (`custom`), byte for byte as sent.
        kind: Form of the arguments.
        signature: Opaque value that must come back with the call, byte for byte.
        issuer: Vendor that can verify the signature.
        namespace: Namespace of the tool; None if it has none.
        is_unfinished: Whether free text ended before it was complete; incomplete JSON text shows
            that itself.
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
        """Decode the arguments, a JSON object; each call decodes anew.

        No text, or only white space, is the empty object.  A lone surrogate becomes U+FFFD, and
        of two members with one key the later wins.

        Raises:
            ArgumentsError: The arguments are no JSON object, or nest deeper than the default
                `max_json_depth`; or the call is a custom call.
        """
        if self.kind == "custom":
            raise ArgumentsError("custom call with free text, expected JSON", position=0)
        return decode_arguments(self.arguments)


class ServerToolCall(BaseBlock, frozen=True, tag="server_tool_call"):
    """A call that the provider executes itself; clients must not execute it.

    Attributes:
        id: The provider's id.
        name: Name of the provider's tool.
        arguments: JSON text as sent.
        kind: The vendor's type of the call, such as `mcp_tool_use`.
    """

    id: str
    name: str
    arguments: str = ""
    kind: str = ""

    def input(self) -> dict[str, object]:
        """Decode the arguments, as `ToolCall.input` does.

        Raises:
            ArgumentsError: The arguments are no JSON object, or nest deeper than the default
                `max_json_depth`.
        """
        return decode_arguments(self.arguments)


class ServerToolResult(BaseBlock, frozen=True, tag="server_tool_result"):
    """Result of a tool call that the provider executed.

    Attributes:
        tool_call_id: Id of the `ServerToolCall`.
        kind: The vendor's type of the result.
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
        name: Name of the tool; "" if the result names only the id of its call.
        value: JSON text of a result that is a JSON object; `content` has it as text.
    """

    tool_call_id: str
    content: tuple[ResultBlock, ...] = ()
    is_error: bool = False
    name: str = ""
    value: str | None = None

    @classmethod
    def from_mcp(cls, value: object, tool_call_id: str = "", name: str = "") -> ToolResult:
        """Return the result of a tool of an MCP server.

        An object in `structuredContent` becomes `value` if the text is its JSON, or if there is
        no text.  Any other text is what the server wants the model to read; the object is then
        in `extra["mcp"]`, with the other fields of MCP.

        Args:
            value: A `CallToolResult`: a dictionary, or the object of the `mcp` package.
            tool_call_id: Id of the call; `run_tools` sets it.
            name: Name of the tool.

        Raises:
            UpstreamError: The value is a JSON-RPC response with a protocol error.
            DecodeError: The value is no result of MCP.
        """
        fields = mcp_object(value)
        if "content" not in fields and is_object(fields.get("error")):
            error = mcp_struct(fields["error"], _MCPError, "$.error")
            raise UpstreamError(clean(error.message), code=str(error.code))
        result = mcp_struct(fields, _MCPResult)
        if result.resultType not in (None, "complete"):
            raise DecodeError("no complete result, expected one", path="$.resultType")
        content = tuple(
            [content_from_mcp(item, f"$.content[{at}]") for at, item in enumerate(result.content)]
        )
        is_error, structured = bool(result.isError), result.structuredContent
        extra, original = unmapped_fields(fields, _MCPResult), None
        if structured is not None:
            text = compact(structured)
            texts = [block.text for block in content if isinstance(block, Text)]
            if not texts:
                content, texts = (Text(text), *content), [text]
            is_same = len(texts) == 1 and _is_json_of(texts[0], structured)
            if is_same and is_object(structured) and not is_error:
                original = text
            else:
                extra = {MCP: {**(extra or {}).get(MCP, {}), _STRUCTURED: structured}}
        return cls(tool_call_id, content, is_error, name, original, extra=extra)

    def to_mcp(self) -> dict[str, Any]:
        """Return the result as an MCP server sends it: a `CallToolResult`.

        Raises:
            EncodeError: MCP has no form for a block of the content, or the value is no JSON.
        """
        content = [content_to_mcp(block, index) for index, block in enumerate(self.content)]
        value: dict[str, Any] = {"content": content, "isError": self.is_error}
        if self.value is not None:
            value[_STRUCTURED] = json_value(self.value, "value")
        return {**value, **(self.extra or {}).get(MCP, {})}


_STRUCTURED = "structuredContent"


class _MCPResult(Struct):
    content: list[dict[str, Any]]
    isError: bool | None = None  # noqa: N815 - the protocol's
    structuredContent: Any = None  # noqa: N815 - the protocol's
    resultType: str | None = None  # noqa: N815 - the protocol's


class _MCPError(Struct):
    code: int
    message: str


def _is_json_of(text: str, value: object) -> bool:
    return is_object(value) and object_in(text) == value
