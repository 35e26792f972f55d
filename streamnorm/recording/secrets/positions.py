"""The positions of credentials in a file that holds exchanges: a companion, a cassette, a HAR."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from streamnorm._core.json import is_array, is_object
from streamnorm.recording.secrets.credentials import (
    in_header,
    in_json,
    is_secret_field,
    is_secret_header,
    json_in,
)
from streamnorm.recording.secrets.urls import in_url

__all__ = ["Position", "is_replaced", "positions_in"]

_URL_FIELDS = frozenset({"uri", "url"})
_TEXT_FIELDS = frozenset({"body", "content", "string", "text"})
_PARAMETER_FIELDS = frozenset({"params", "querystring"})

_SHORTEST = 6
# What people and tools write instead of a secret.
_REPLACED = re.compile(
    r"[xX*•.]+|.*(?:\$\{|\{\{|<|(?i:censored|dummy|example|fake|filtered|hidden|masked|not-needed"
    r"|placeholder|redacted|removed|sanitized|scrubbed|test-?(?:api-?)?key|x{8}|your[_-])).*",
    re.DOTALL,
)
# A longer name with digits might be a key.
_NAME = re.compile("[A-Za-z_-]{1,40}|[A-Za-z_][A-Za-z0-9_-]{0,14}")


class Position(NamedTuple):
    """A credential at a position that is known to hold one.

    Attributes:
        path: The position, as `request.headers.x-api-key`.
        kind: What stands there.
        value: The credential.
    """

    path: str
    kind: str
    value: str


def positions_in(value: Any) -> Iterator[Position]:
    """Yield the credentials in the decoded JSON or YAML of a file, in its order."""
    for position in _positions(value, ""):
        if len(position.value) >= _SHORTEST and not is_replaced(position.value):
            yield position


def is_replaced(value: str) -> bool:
    """Return whether a value stands in place of a secret, such as `xxxxxxxx` or `REDACTED`."""
    return _REPLACED.fullmatch(value) is not None


def _positions(value: Any, path: str) -> Iterator[Position]:
    if is_array(value):
        for number, item in enumerate(value):
            yield from _positions(item, f"{path}[{number}]")
    elif is_object(value):
        for number, (name, item) in enumerate(value.items()):
            where = _joined(path, name, number)
            # Other URLs are those of pictures and citations.
            if "method" in value and name.lower() in _URL_FIELDS and isinstance(item, str):
                found = in_url(item, is_secret=_is_secret_parameter)
                yield from _all(where, "credential in a URL", found)
            else:
                yield from _in_field(name, item, where)


def _in_field(name: str, value: Any, path: str) -> Iterator[Position]:
    lower = name.lower()
    if is_secret_field(name):
        yield from _all(path, "secret field", in_json({name: value}))
    elif lower.endswith("headers"):
        for where, header, text in _pairs(value, path):
            if not is_replaced(text):
                yield from _all(where, "credential in a header", in_header(header, text))
    elif lower == "cookies":
        for where, _, text in _pairs(value, path):
            yield Position(where, "cookie", text)
    elif lower in _PARAMETER_FIELDS:
        for where, parameter, text in _pairs(value, path):
            if _is_secret_parameter(parameter):
                yield Position(where, "credential in a URL", text)
    elif lower in _TEXT_FIELDS and isinstance(value, str):
        # A text may be JSON, such as a body in a cassette.
        yield from _all(path, "secret field", in_json(json_in(value)))
    else:
        yield from _positions(value, path)


def _pairs(value: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield position, name and value of headers or the like, as each tool stores them."""
    if is_object(value):
        for number, (name, item) in enumerate(value.items()):
            for text in item if is_array(item) else [item]:
                if isinstance(text, str):
                    yield _joined(path, name, number), name, text
    elif is_array(value):
        for number, item in enumerate(value):
            pair = (item.get("name"), item.get("value")) if is_object(item) else ()
            match pair:
                case (str(name), str(text)):
                    yield f"{path}[{number}]", name, text
                case _:
                    pass


def _all(path: str, kind: str, values: Iterable[str]) -> Iterator[Position]:
    """Yield the credentials of one position; a longer one is what shorter ones are parts of."""
    for value in sorted(dict.fromkeys(values), key=len, reverse=True):
        yield Position(path, kind, value)


def _is_secret_parameter(name: str) -> bool:
    return is_secret_header(name) or name.lower() in ("sig", "x-amz-signature")


def _joined(path: str, name: str, number: int) -> str:
    """Return the path of a field; by its number if its name might be a secret."""
    if not _NAME.fullmatch(name):
        return f"{path}[{number}]"
    return f"{path}.{name}" if path else name
