"""The parts of a request that several checks visit, each with its path and its location.

A path is written as in `validate_request` (`contents[2].parts[0].functionCall`), a location as
the vendor writes it in its errors (`contents[2].parts[0].function_call`).  Fields may be spelt in
`lowerCamelCase` or in the `snake_case` of the protocol buffers; null is no value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from streamnorm._core.json import is_array, is_object

__all__ = [
    "MODEL",
    "Content",
    "Field",
    "Part",
    "all_parts_of",
    "contents_of",
    "declarations_of",
    "elements_of",
    "field_of",
    "option_of",
    "snake_case",
    "tools_of",
]

MODEL = "model"
"""The role of the model."""

_UPPER = re.compile("[A-Z]")
_DATA = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
"""The fields of a part of which it has one."""


class Field(NamedTuple):
    """A field of a request.

    Attributes:
        path: Path as the client wrote it.
        location: Path in the vendor's spelling, for messages.
        value: Value of the field; None if it is missing.
    """

    path: str
    location: str
    value: Any


class Part(NamedTuple):
    """A part of a content.

    Attributes:
        path: Path as the client wrote it.
        location: Path in the vendor's spelling, for messages.
        value: The JSON object.
        data: Data fields of the part, by `lowerCamelCase` name.
    """

    path: str
    location: str
    value: dict[str, Any]
    data: dict[str, Field]


class Content(NamedTuple):
    """A content of the conversation.

    Attributes:
        number: Position in `contents`.
        path: Path of the content.
        role: Its role; the user's if it has none.
        parts: Its parts.
        value: The JSON object.
    """

    number: int
    path: str
    role: str
    parts: tuple[Part, ...]
    value: dict[str, Any]

    def with_data(self, name: str) -> list[Part]:
        """Return the parts that have a data field."""
        return [part for part in self.parts if name in part.data]


def snake_case(name: str) -> str:
    """Return the name of a field as the protocol buffers spell it."""
    return _UPPER.sub(lambda upper: f"_{upper[0].lower()}", name)


def field_of(holder: dict[str, Any], name: str, path: str = "", location: str = "") -> Field:
    """Return a field of an object, in either spelling.

    Args:
        holder: The object.
        name: Name of the field in `lowerCamelCase`.
        path: Path of the object; "" for the body.
        location: Location of the object.
    """
    spelt = snake_case(name)
    found = spelt if holder.get(name) is None and spelt in holder else name
    return Field(_within(path, found), _within(location, spelt), holder.get(found))


def _within(holder: str, name: str) -> str:
    return f"{holder}.{name}" if holder else name


def option_of(body: dict[str, Any], *names: str) -> Field:
    """Return a field that objects lead to, in either spelling; its value is None without them."""
    field = Field("", "", body)
    for name in names:
        holder: dict[str, Any] = field.value if is_object(field.value) else {}
        field = field_of(holder, name, field.path, field.location)
    return field


def elements_of(field: Field) -> Iterator[Field]:
    """Yield the elements of a repeated field; the vendor takes one object for such an array."""
    if is_object(field.value):
        yield field
    for number, value in enumerate(field.value if is_array(field.value) else ()):
        yield Field(f"{field.path}[{number}]", f"{field.location}[{number}]", value)


def contents_of(body: dict[str, Any]) -> list[Content]:
    """Return the contents of a request; what is no object is left out."""
    found: list[Content] = []
    for number, element in enumerate(elements_of(field_of(body, "contents"))):
        if is_object(element.value):
            role = element.value.get("role")
            parts = _parts(field_of(element.value, "parts", element.path, element.location))
            word = role if isinstance(role, str) and role else "user"
            found.append(Content(number, element.path, word, tuple(parts), element.value))
    return found


def _parts(field: Field) -> Iterator[Part]:
    for element in elements_of(field):
        value = element.value
        if is_object(value):
            data = {
                name: found
                for name in _DATA
                if (found := field_of(value, name, element.path, element.location)).value
                is not None
            }
            yield Part(element.path, element.location, value, data)


def all_parts_of(body: dict[str, Any]) -> Iterator[Part]:
    """Yield the parts of the system instruction and of all contents."""
    system = field_of(body, "systemInstruction")
    if is_object(system.value):
        yield from _parts(field_of(system.value, "parts", system.path, system.location))
    for content in contents_of(body):
        yield from content.parts


def tools_of(body: dict[str, Any]) -> Iterator[Field]:
    """Yield the tools of a request, each an object."""
    for tool in elements_of(field_of(body, "tools")):
        if is_object(tool.value):
            yield tool


def declarations_of(body: dict[str, Any]) -> Iterator[Field]:
    """Yield the declarations of functions, each an object."""
    for tool in tools_of(body):
        declared = field_of(tool.value, "functionDeclarations", tool.path, tool.location)
        for declaration in elements_of(declared):
            if is_object(declaration.value):
                yield declaration
