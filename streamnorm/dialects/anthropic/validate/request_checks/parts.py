"""The parts of a request that several checks visit, each with its path and its location.

A path is written as in `validate_request` (`messages[2].content[0]`), a location as the vendor
writes it in its errors (`messages.2.content.0.thinking`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from streamnorm._core.codec import RequestFacts
from streamnorm._core.json import is_array, is_object

__all__ = [
    "Block",
    "Message",
    "betas_of",
    "blocks_of",
    "has_beta",
    "kind_of",
    "messages_of",
    "tools_of",
]


class Message(NamedTuple):
    """A message of a request.

    Attributes:
        number: Its position.
        role: Its role; "" if it has none.
        blocks: Its content blocks; those of text content are one text block.
        value: The JSON object.
    """

    number: int
    role: str
    blocks: tuple[dict[str, Any], ...]
    value: dict[str, Any]


class Block(NamedTuple):
    """A content block of a request.

    Attributes:
        path: Its path.
        location: Its location, without its type.
        type: Its type; "" if it has none.
        value: The JSON object.
        role: Role of its message; `system` in the system prompt.
        in_result: Whether it stands in the content of a `tool_result`.
    """

    path: str
    location: str
    type: str
    value: dict[str, Any]
    role: str
    in_result: bool = False

    @property
    def typed_location(self) -> str:
        """The location with the type, as the vendor writes it before a field."""
        return f"{self.location}.{self.type}"


def kind_of(block: dict[str, Any]) -> str:
    """Return the type of a block; "" if it has none."""
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def messages_of(body: dict[str, Any]) -> list[Message]:
    """Return the messages of a request; what is no object is left out."""
    found: list[Message] = []
    values = body.get("messages")
    for number, value in enumerate(values if is_array(values) else ()):
        if is_object(value):
            role, content = value.get("role"), value.get("content")
            blocks: tuple[dict[str, Any], ...] = ()
            if isinstance(content, str):
                blocks = ({"type": "text", "text": content},)
            elif is_array(content):
                blocks = tuple(block for block in content if is_object(block))
            found.append(Message(number, role if isinstance(role, str) else "", blocks, value))
    return found


def blocks_of(body: dict[str, Any]) -> Iterator[Block]:
    """Yield the content blocks of a request in the order in which the vendor reads them."""
    yield from _blocks(body.get("system"), "system", "system", "system")
    messages = body.get("messages")
    for number, message in enumerate(messages if is_array(messages) else ()):
        if is_object(message):
            role = message.get("role")
            yield from _blocks(
                message.get("content"),
                f"messages[{number}].content",
                f"messages.{number}.content",
                role if isinstance(role, str) else "",
            )


def _blocks(content: Any, path: str, location: str, role: str) -> Iterator[Block]:
    for number, value in enumerate(content if is_array(content) else ()):
        if not is_object(value):
            continue
        place = f"{path}[{number}]", f"{location}.{number}"
        block = Block(*place, kind_of(value), value, role)
        yield block
        if block.type == "tool_result":
            path_within = f"{block.path}.content"
            for inner in _blocks(
                value.get("content"), path_within, f"{block.typed_location}.content", role
            ):
                yield inner._replace(in_result=True)


def tools_of(body: dict[str, Any]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield the position, the type and the value of each tool; without a type it is `custom`."""
    tools = body.get("tools")
    for number, value in enumerate(tools if is_array(tools) else ()):
        if is_object(value):
            yield number, kind_of(value) or "custom", value


def betas_of(facts: RequestFacts) -> frozenset[str]:
    """Return the names of the betas that a request enables, in its header or its body."""
    names = facts.headers.get("anthropic-beta", "").split(",")
    listed = facts.body.get("anthropic_beta")
    if is_array(listed):
        names += [name for name in listed if isinstance(name, str)]
    return frozenset(name.strip() for name in names)


def has_beta(facts: RequestFacts, *prefixes: str) -> bool:
    """Return whether a request enables a beta whose name begins with one of the prefixes."""
    return any(name.startswith(prefixes) for name in betas_of(facts))
