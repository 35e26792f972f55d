"""Tool calls in bodies: arguments as an object, wrapped custom input, and marked error results.

Some dialects have the arguments of a call as a JSON object, have no custom tools, or have no
field for the failure of a tool.  The three parts of this module bridge these gaps.
"""

from __future__ import annotations

from json import JSONDecoder
from math import isfinite
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import structs

from streamnorm._core.blocks import ResultBlock, Text, ToolCall, ToolResult
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import FAST_ERRORS, InvalidJSON, clean, decode_any, is_object
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Losses
from streamnorm.partial_json import PartialJSON

ArgumentsPolicy: TypeAlias = Literal["error", "raw", "repair"]
"""Policy for arguments that are no JSON object: an error, `{"_raw": text}`, or the object that
json-repair finds in the text (extra `repair`)."""

_decode = msgspec.json.Decoder[Any]().decode

INPUT = "input"
"""Property that holds the text of a custom tool that a provider has as a function."""
_Content: TypeAlias = tuple[ResultBlock, ...]


def arguments_object(call: ToolCall, policy: ArgumentsPolicy, losses: Losses, path: str) -> Any:
    """Return the arguments of a call as an object.

    Raises:
        EncodeError: The arguments are no JSON object, and the policy is `error`; or json-repair
            is missing or finds no object.
    """
    text = call.arguments
    if not text.strip():
        return {}
    try:
        value = _decode(text)
    except FAST_ERRORS:
        value = _decode_leniently(text)
    if is_object(value):
        return value
    if policy == "error":
        raise EncodeError(
            f"arguments of {len(text)} characters are no JSON object, expected one", path=path
        )
    if policy == "raw":
        losses.add("arguments_raw", "tool call", 'written as {"_raw": text}')
        return {"_raw": clean(text)}
    losses.add("arguments_repaired", "tool call", "written as the object that repair found")
    return _repair(text, path)


def _decode_leniently(text: str) -> Any:
    """Decode JSON with a lone surrogate, which msgspec refuses; None for any other error."""
    try:
        _STANDARD.decode(text)
        return decode_any(text, max_depth=Limits().max_json_depth)
    except (InvalidJSON, ValueError, RecursionError):
        return None


def _refuse_number(number: str) -> float:
    raise ValueError(f"number of {len(number)} characters that no double is near to")


def _parse_float(number: str) -> float:
    value = float(number)
    return value if isfinite(value) else _refuse_number(number)


# `decode_any` reads NaN and numbers beyond a double as null, which would change the arguments.
_STANDARD = JSONDecoder(parse_constant=_refuse_number, parse_float=_parse_float)


def _repair(text: str, path: str) -> dict[str, object]:
    try:
        from json_repair import repair_json
    except ImportError as exc:
        raise EncodeError(
            "no json-repair, expected the extra `repair`: pip install '.[repair]' in a clone",
            path=path,
        ) from exc
    value = repair_json(text, return_objects=True)
    if not is_object(value):
        raise EncodeError(
            f"arguments of {len(text)} characters cannot be repaired, expected a JSON object",
            path=path,
        )
    return value


class CustomToolInputDecoder:
    """Decode the text of a custom tool call from the arguments of the function that wraps it.

    Wrapped arguments are a JSON object with a string member `input`, at any position among
    other members.  Arguments of another form (plain text, another JSON value, an object without
    that string) are returned unchanged as the text: a model that sends its patch without the
    object must not lose it.  The form is known at the first character of the string, or where
    the arguments can no longer be such an object; no text is returned before.

    Once text of the string was returned, the form is fixed: if the arguments then turn out to
    be no JSON, name `input` again, or end too early, the text is unfinished.

    Args:
        max_json_depth: Bound on the nesting of other members; deeper arguments are plain text.

    Attributes:
        is_plain: Whether the arguments are not wrapped, and are themselves the text.
        has_other_members: Whether the object has members besides `input`.
        problem: Why the text is unfinished; None if it is complete or the call is open.
    """

    def __init__(self, *, max_json_depth: int) -> None:
        self.is_plain = False
        self.has_other_members = False
        self.problem: str | None = None
        self._parser = PartialJSON(max_depth=max_json_depth)
        self._parser.deltas()  # the first call starts the parser's log
        self._is_object = False
        self._is_found = False  # whether the string has begun
        self._held: list[str] = []  # the arguments before the string

    def feed(self, arguments: str) -> str:
        """Return the text that the next fragment of the arguments adds."""
        if self.is_plain:
            return arguments
        if not self._is_found:
            self._held.append(arguments)
        if self.problem is not None:
            return ""
        parser, text = self._parser, ""
        parser.feed(arguments)
        for delta in parser.deltas():
            if not delta.path:
                self._is_object = delta.value == {}
                if not self._is_object:
                    return self._read_as_plain()
            elif delta.path[0] != INPUT:
                self.has_other_members = True
            elif delta.appends:
                text += str(delta.value)
            elif self._is_found:
                self.problem = f"second member `{INPUT}`, expected one"
                return text
            elif isinstance(delta.value, str):
                self._is_found = True
                self._held.clear()
                text = delta.value
            else:
                return self._read_as_plain()
        if parser.error is not None:
            if not self._is_found:
                return self._read_as_plain()
            self.problem = str(parser.error)
        return text

    def close(self) -> str:
        """Return the rest of the text at the end of the arguments."""
        if self.is_plain or self.problem is not None:
            return ""
        parser = self._parser
        parser.close()
        if not parser.complete and (self._is_object or self._is_found):
            self.problem = str(parser.error)
            return self._take_held()
        if self._is_found or not (self.has_other_members or self._has_scalar):
            return ""  # no arguments and an empty object mean no text
        return self._read_as_plain()

    @property
    def _has_scalar(self) -> bool:
        """Whether the arguments are a JSON value that is no object."""
        return not self._is_object and any(map(str.strip, self._held))

    def _read_as_plain(self) -> str:
        self.is_plain = True
        return self._take_held()

    def _take_held(self) -> str:
        held = "".join(self._held)
        self._held.clear()
        return held


_START, _END = "<tool_error>", "</tool_error>"


def mark_error(result: ToolResult) -> _Content:
    """Return the content of a result; the text of an error comes first, in `<tool_error>` tags.

    For dialects that have no field for the failure of a tool.
    """
    if not result.is_error:
        return result.content
    texts = [item for item in result.content if isinstance(item, Text)]
    marked = Text(f"{_START}{''.join(item.text for item in texts)}{_END}")
    if len(texts) == 1:
        marked = structs.replace(texts[0], text=marked.text)
    return (marked, *(item for item in result.content if not isinstance(item, Text)))


def unmark_error(content: _Content) -> tuple[bool, _Content]:
    """Undo `mark_error`: return whether the content was marked, and the content without marks."""
    first = content[0] if content else None
    if not isinstance(first, Text) or any(isinstance(item, Text) for item in content[1:]):
        return False, content
    text = first.text
    if not (text.startswith(_START) and text.endswith(_END)):
        return False, content
    return True, (structs.replace(first, text=text[len(_START) : -len(_END)]), *content[1:])
