"""Standalone functions for tools: decoding, encoding, checking, and schema simplification."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, structs

from streamnorm._bodies import Encoded, codec_of, encode_request, reader_of, target_of
from streamnorm._core.blocks import Text
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.fields import body_object
from streamnorm._core.bodies.request import InputMessage, Request
from streamnorm._core.errors import EncodeError
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss, Losses
from streamnorm._core.schemas.simplify import simplify_schema as simplified
from streamnorm._core.tools import (
    AnyTool,
    CustomTool,
    Grammar,
    MCPServer,
    Namespace,
    ServerTool,
    Tool,
    qualified_name,
)
from streamnorm._registry import lookup
from streamnorm.profiles import Profiles, shipped_profiles

__all__ = [
    "CustomTool",
    "Grammar",
    "MCPServer",
    "Namespace",
    "ServerTool",
    "SimplifiedSchema",
    "check_tools",
    "decode_tools",
    "encode_tools",
    "simplify_schema",
]

_MAX_SHOWN_CHARS = 80


class SimplifiedSchema(Struct, frozen=True):
    """A JSON Schema that all servers accept, and its losses.

    Attributes:
        schema: The schema; the same object if nothing had to change.
        losses: Each keyword that was changed, as `schema.` and its name.
    """

    schema: dict[str, Any]
    losses: tuple[Loss, ...] = ()


def simplify_schema(schema: dict[str, Any], *, strict: bool = False) -> SimplifiedSchema:
    """Simplify a JSON Schema of tool arguments to keywords that all servers accept.

    References are inlined; nullable types become unions; what only some servers know is
    dropped, so that arguments that were valid stay valid.  The result depends on the schema
    alone.  `encode_request` does this where a profile says `schema = "simple"`.

    Args:
        schema: The schema, which is not changed.
        strict: Whether to raise `LossyEncoding` at the first change.

    Raises:
        EncodeError: A `$ref` leads nowhere, the extra `schemas` that reads it is missing, or the
            schema exceeds a bound once its references are inlined.
        LossyEncoding: Something would change, and `strict` is set.
    """
    losses = Losses(strict=strict)
    return SimplifiedSchema(simplified(schema, losses, path="schema"), losses.list())


def decode_tools(values: Sequence[dict[str, Any]], dialect: str) -> tuple[AnyTool, ...]:
    """Decode the tools of a request.

    Args:
        values: The JSON objects.
        dialect: Their dialect.

    Raises:
        DecodeError: One is no tool of the dialect, or nests too deep.
        UnknownDialect: There is no such dialect, or it has no whole bodies.
    """
    read_tools = reader_of(lookup(dialect)).read_tools
    return (*read_tools(body_object({"tools": [*values]}, Limits())),)


def encode_tools(
    tools: Iterable[AnyTool],
    dialect: str,
    *,
    model: str = "",
    server: str | None = None,
    version: str | None = None,
    profiles: Profiles | None = None,
    strict: bool = False,
) -> Encoded:
    """Encode tools as fields of a request.

    `body["tools"]` are the tools; other fields belong to them, such as Anthropic's
    `mcp_servers`.

    Args:
        tools: The tools.
        dialect: Dialect to write.
        model: Model that the request goes to; "" = any.
        server: Server that it goes to, as for `encode_request`.
        version: Version of the vendor's API; None = the one that its SDK sends.
        profiles: What models, servers and versions refuse; None = what streamnorm ships.
        strict: Whether to raise `LossyEncoding` at the first loss.

    Raises:
        EncodeError: A tool has no legal form in the dialect, or there are too many.
        LossyEncoding: Something would be lost, and `strict` is set.
        UnknownDialect: There is no such dialect, or it has no whole bodies.
    """
    # Every dialect wants a message; what the request has without tools is left out again.
    empty = Request(model=model, messages=(InputMessage("user", (Text("."),)),))
    offering = structs.replace(empty, tools=(*tools,))
    without, encoded = (
        encode_request(
            request,
            dialect,
            server=server,
            version=version,
            profiles=profiles,
            missing_tools="drop",
        )
        for request in (empty, offering)
    )
    losses = tuple([loss for loss in encoded.losses if loss not in without.losses])
    if strict and losses:
        Losses(strict=True).add(losses[0].feature, losses[0].where, losses[0].detail)
    return Encoded(
        {name: item for name, item in encoded.body.items() if without.body.get(name) != item},
        headers={
            name: text
            for name, text in encoded.headers.items()
            if without.headers.get(name) != text
        },
        losses=losses,
        reply=encoded.reply,
    )


def check_tools(
    tools: Iterable[AnyTool],
    dialect: str,
    *,
    model: str = "",
    server: str | None = None,
    version: str | None = None,
    profiles: Profiles | None = None,
) -> None:
    """Raise an error for the first tool that a target would refuse.

    Checked are the number of tools, that their names are legal and different, and that each
    schema is one of an object and can be read.  `encode_tools` changes a name that is not legal
    and says so in a loss; this is for those who want to know before.

    Args:
        tools: The tools.
        dialect: Dialect of the target.
        model: Model that the request goes to; "" = any.
        server: Server that it goes to, as for `encode_request`.
        version: Version of the vendor's API; None = the one that its SDK sends.
        profiles: What models, servers and versions refuse; None = what streamnorm ships.

    Raises:
        EncodeError: A tool is refused; its path and text say which, and why.
        UnknownDialect: There is no such dialect, or it has no whole bodies.
    """
    offered = (*tools,)
    request, base = Request(model=model, tools=offered), codec_of(lookup(dialect)).capabilities
    target = target_of(request, base, profiles or shipped_profiles(), server, version)
    if target.max_tools is not None and len(offered) > target.max_tools:
        raise EncodeError(
            f"{len(offered)} tools, expected at most {target.max_tools}", path="tools"
        )
    numbers: dict[str, int] = {}
    for number, tool in enumerate(offered):
        if not isinstance(tool, Tool | CustomTool):
            continue
        path = f"tools[{number}]"
        name = _check_name(tool, target, f"{path}.name")
        if name in numbers:
            raise EncodeError(
                f"name {_quote(name)} of tools[{numbers[name]}], expected one of its own",
                path=f"{path}.name",
            )
        numbers[name] = number
        if isinstance(tool, Tool) and tool.input_schema is not None:
            _check_schema(tool.input_schema, f"{path}.input_schema")


def _check_name(tool: Tool | CustomTool, target: BodyCapabilities, path: str) -> str:
    """Return a tool's qualified name; raise an error if the target does not allow the name."""
    name = qualified_name(tool.name, tool.namespace)
    written = tool.name if target.namespaces else name
    if target.name_pattern is not None and not re.fullmatch(target.name_pattern, written):
        raise EncodeError(
            f"name {_quote(written)}, expected one of {target.name_pattern}", path=path
        )
    return name


def _check_schema(schema: dict[str, Any], path: str) -> None:
    if schema.get("type", "object") != "object":
        raise EncodeError("no schema of an object, expected one", path=path)
    simplified(schema, Losses(), path=path)


def _quote(name: str) -> str:
    more = f" … ({len(name)} characters)" if len(name) > _MAX_SHOWN_CHARS else ""
    return f"{name[:_MAX_SHOWN_CHARS]!a}{more}"
