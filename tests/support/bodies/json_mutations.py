"""Mutations of JSON text in one member, element or spelling."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

__all__ = ["json_mutations"]

_Path: TypeAlias = tuple[int, ...]
_Change: TypeAlias = Callable[[Any], Any]


class _Members(list[tuple[str, Any]]):
    """The members of an object in order, including repeated keys."""


class _Spelt(str):
    """JSON text to be written unchanged."""

    __slots__ = ()


_DEEP = _Spelt("[" * 200 + "]" * 200)
_VALUES: tuple[Any, ...] = (
    *(None, True, 0, 1, 2, -1, 99, 1.5, 10**20, "", "0", "x", "a b", [], ["x"], _Members(), _DEEP),
    *map(_Spelt, ("1e0", "0.0", "-0", "01", "+1", "nul", "1e999", '"\\ud83d"', '"\\u0000"', "'x'")),
)
_EXTRAS: tuple[tuple[str, Any], ...] = (
    ("error", None),
    ("error", _Members()),
    ("error", _Members([("message", "boom"), ("code", 500)])),
    ("usage", None),
    ("usage", _Members([("prompt_tokens", 3), ("output_tokens", 2)])),
    ("usageMetadata", _Members([("promptTokenCount", 3)])),
    ("logprobs", None),
    ("logprobs", []),
    ("logprobs", [_Members([("token", "a")])]),
    ("finish_reason", None),
    ("finish_reason", "stop"),
    ("finishReason", "STOP"),
    ("stop_reason", "end_turn"),
    ("type", "error"),
    ("delta", "x"),
    ("text", "x"),
    ("content", "x"),
    ("thought", True),
    ("signature", "c2ln"),
    ("thoughtSignature", "c2ln"),
    ("annotations", []),
    ("citations", ["https://u"]),
    ("obfuscation", "x" * 40),
    ("p", "abcdefghijklm"),
    ("odd", _DEEP),
    ("", "x"),
)


def json_mutations(text: str) -> Iterator[tuple[str, str]]:
    """Yield each mutation's name and the mutated JSON text."""
    root = json.loads(text, object_pairs_hook=_Members)
    for path, value in _containers(root, ()):
        changes = _of_members(value) if isinstance(value, _Members) else _of_elements(value)
        for name, change in changes:
            yield f"{_name(root, path)}: {name}", _dump(_change_container(root, path, change))
    yield "spaces", _dump(root, ", ", ": ")
    yield "many spaces", _dump(root, " \t ,  ", " : ")
    yield "not ASCII escaped", json.dumps(json.loads(text))


def _containers(value: Any, path: _Path) -> Iterator[tuple[_Path, Any]]:
    inner = [each for _, each in value] if isinstance(value, _Members) else value
    if isinstance(inner, list):
        yield path, value
        for at, each in enumerate(inner):
            yield from _containers(each, (*path, at))


def _of_members(members: _Members) -> Iterator[tuple[str, _Change]]:
    for at, (key, value) in enumerate(members):
        for other in _VALUES:
            yield f"{key} is {_dump(other)[:20]}", _put(at, (key, other))
        yield f"{key} is missing", _put(at)
        yield f"{key} twice", _put(at, (key, value), (key, value))
        yield f"{key} twice, another first", _put(at, (key, "x"), (key, value))
        yield f"{key} twice, another last", _put(at, (key, value), (key, "x"))
        yield f"{key} twice, null last", _put(at, (key, value), (key, None))
        yield f"{key} in capitals", _put(at, (key.upper(), value))
        yield f"{key} with an escape", _put(at, (_Spelt(f'"\\u{ord(key[0]):04x}{key[1:]}"'), value))
    for key, value in _EXTRAS:
        told = f"{key} {_dump(value)[:30]}"
        yield f"first {told}", lambda old, new=(key, value): _Members([new, *old])
        yield f"last {told}", lambda old, new=(key, value): _Members([*old, new])
    yield "reversed", lambda old: _Members(reversed(old))
    yield "a trailing comma", lambda old: _Spelt(_dump(old)[:-1] + ",}")


def _of_elements(elements: list[Any]) -> Iterator[tuple[str, _Change]]:
    yield "empty", lambda old: []
    yield "null first", lambda old: [None, *old]
    yield "null last", lambda old: [*old, None]
    yield "an empty object last", lambda old: [*old, _Members()]
    if elements:
        yield "twice", lambda old: [*old, *old]


def _put(at: int, *new: tuple[str, Any]) -> _Change:
    return lambda old: _Members([*old[:at], *new, *old[at + 1 :]])


def _change_container(value: Any, path: _Path, change: _Change) -> Any:
    """Return a value with one changed container."""
    if not path:
        return change(value)
    at, *rest = path
    copy = type(value)(value)
    if isinstance(value, _Members):
        key, inner = value[at]
        copy[at] = (key, _change_container(inner, tuple(rest), change))
    else:
        copy[at] = _change_container(value[at], tuple(rest), change)
    return copy


def _name(value: Any, path: _Path) -> str:
    names = ["$"]
    for at in path:
        key, value = value[at] if isinstance(value, _Members) else (str(at), value[at])
        names.append(key)
    return ".".join(names)


def _dump(value: Any, comma: str = ",", colon: str = ":") -> str:
    if isinstance(value, _Spelt):
        return str(value)
    if isinstance(value, _Members):
        members = (
            _dump(key, comma, colon) + colon + _dump(inner, comma, colon) for key, inner in value
        )
        return "{" + comma.join(members) + "}"
    if isinstance(value, list):
        return "[" + comma.join(_dump(inner, comma, colon) for inner in value) + "]"
    return json.dumps(value, ensure_ascii=False)
