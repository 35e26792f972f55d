"""Types of requests that a program builds.

Structs do not check their fields, so a mistake such as `InputMessage("user", "Hi")` would be found
deep inside an encoder, or by the provider.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

import msgspec
from msgspec import Struct, structs

from streamnorm._core.blocks import ToolResult
from streamnorm._core.bodies.request import InputMessage, Request, Source
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import is_array
from streamnorm._core.tools import AnyTool

_TOOLS = get_args(AnyTool)
_STRUCTS = ("tool_choice", "output", "reasoning", "cache")  # fields of a request


def check_request_types(request: Request) -> Request:
    """Check the types of all fields of a request; return it with tuples in place of lists.

    Raises:
        EncodeError: A value is of another type, or has no JSON form.
    """
    values = {name: getattr(request, name) for name in request.__struct_fields__}
    if lists := {name: tuple(value) for name, value in values.items() if is_array(value)}:
        request = structs.replace(request, **lists)
    for name in ("messages", "tools"):
        if not isinstance(parts := getattr(request, name), tuple):
            raise _unexpected(parts, "a tuple", name)
    _check_fields(structs.replace(request, messages=(), tools=(), source=None), "")
    for name in _STRUCTS:
        if (value := getattr(request, name)) is not None:
            _check_struct(value, name)
    check_message_types(request.messages)
    for number, tool in enumerate(request.tools):
        if not isinstance(tool, _TOOLS):
            raise _unexpected(tool, "a Tool", f"tools[{number}]")
        _check_fields(structs.replace(tool, source=None), f"tools[{number}]")
    return request


def check_result_types(result: ToolResult) -> None:
    """Check the types of all fields of a tool's result.

    Raises:
        EncodeError: A value is of another type, or has no JSON form.
    """
    _check_fields(result, "")
    for index, part in enumerate(result.content):
        _check_struct(part, f"content[{index}]")


def check_message_types(messages: Iterable[object], first: int = 0) -> None:
    """Check the types of all fields of messages.

    Args:
        messages: The messages.
        first: Position of the first one in its request.

    Raises:
        EncodeError: A value is of another type, or has no JSON form.
    """
    for position, message in enumerate(messages, first):
        path = f"messages[{position}]"
        if not isinstance(message, InputMessage):
            raise _unexpected(message, "an InputMessage", path)
        source = message.source
        if isinstance(source, Source) and source.part.blocks is message.blocks:
            continue  # decoded
        _check_fields(structs.replace(message, source=None), path)
        for number, block in enumerate(message.blocks):
            _check_struct(block, f"{path}.blocks[{number}]")
            if isinstance(block, ToolResult):
                for index, part in enumerate(block.content):
                    _check_struct(part, f"{path}.blocks[{number}].content[{index}]")


def _check_fields(part: Struct, path: str) -> None:
    try:
        # Bytes are no Base64 text, which `to_builtins` would make of them.
        plain = msgspec.to_builtins(part, builtin_types=(bytes, bytearray, memoryview))
        msgspec.convert(plain, type(part))
    except msgspec.ValidationError as exc:
        problem, _, at = str(exc).partition(" - at `$")
        at = at.removesuffix("`")
        path = f"{path}{at}" if path else at.removeprefix(".")
        raise EncodeError(problem[:1].lower() + problem[1:], path=path) from None
    except (TypeError, RecursionError) as exc:
        problem = "a value that JSON does not have, expected one of JSON"
        raise EncodeError(problem, path=path) from exc


def _check_struct(value: object, path: str) -> None:
    """Raise `EncodeError` for a dict in place of a struct."""
    if not isinstance(value, Struct):
        raise _unexpected(value, "an object of streamnorm", path)


def _unexpected(value: object, expected: str, path: str) -> EncodeError:
    return EncodeError(f"a value of type {type(value).__name__}, expected {expected}", path=path)
